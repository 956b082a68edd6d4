//! The examples run as their READMEs say, and check their results themselves.

use std::path::Path;

use testkit::{Place, Start as _};

use crate::support::LLTS;

#[track_caller]
fn runs(script: &str, arguments: &[&str], last: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/tdf").join(script);
    let said = Place::new(LLTS).program(script).args(arguments).env("LLTS", LLTS).said().ok();
    assert_eq!(said.out.lines().last(), Some(last), "{said:?}");
}

#[test]
fn a_range_is_summed_in_rounds() {
    runs("sum/sum.sh", &["100", "10"], "1 + … + 100 = 5050");
}

#[test]
fn a_range_is_summed_by_four_workers_at_once() {
    runs("sum/sum.sh", &["200", "8", "4"], "1 + … + 200 = 20100");
}

#[test]
fn each_kind_of_source_works_and_a_bad_one_says_why() {
    runs("sources/sources.sh", &[], "17 good sources, 2 bad ones");
}

#[test]
fn each_kind_of_source_works_with_four_workers_in_one_folder() {
    runs("sources/sources.sh", &["4"], "17 good sources, 2 bad ones");
}
