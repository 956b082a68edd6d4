//! The kit of these tests: nothing that a test starts outlives it, also when it fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use testkit::{Place, Start as _, eventually, processes};

use crate::support::LLTS;

#[test]
fn a_test_that_panics_leaves_neither_a_process_nor_a_folder() {
    let mut root = PathBuf::new();
    let test = || {
        let place = Place::new(LLTS);
        root = place.root().to_owned();
        // No group and no session of the first one holds the other one.
        let _program = place.program("sh").args(["-c", "setsid sleep 1000 & exec sleep 1000"]).start();
        eventually("both run", || place.processes().iter().filter(|(_, line)| line.starts_with("sleep ")).count() == 2);
        panic!("as a test that fails");
    };
    assert!(catch_unwind(AssertUnwindSafe(test)).is_err());
    assert_eq!(processes(&root), []);
    assert!(!root.exists());
}
