//! `llts-bench` with tiny numbers: every case gives rows, and nothing is left behind. How fast anything is does not matter here.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use testkit::{Place, Said, Start as _, eventually, names};

const BENCH: &str = env!("CARGO_BIN_EXE_llts-bench");

/// Each case, as the help names it.
const CASES: [&str; 17] = [
    "throughput",
    "start",
    "end",
    "query",
    "submit",
    "kill",
    "depth",
    "memory",
    "restart",
    "agents",
    "copy",
    "idle",
    "path",
    "echo",
    "clients",
    "tdf",
    "warm",
];

/// A home with the program of the service, which is built beside the benchmark.
fn place() -> Place {
    let llts = Path::new(BENCH).with_file_name("llts");
    assert!(llts.exists(), "{} is missing: cargo build --bin llts", llts.display());
    let mut place = Place::home(
        llts.to_str().expect("UTF-8"),
        "CONTROLLER_REP_PORT = 0\nCONTROLLER_PUB_PORT = 0\nLOG_DIR = \"log\"\n",
    );
    let tmp = place.path("tmp");
    std::fs::create_dir(&tmp).expect("a folder");
    place.set("TMPDIR", tmp);
    place
}

fn command(place: &Place, line: &str) -> Command {
    let mut command = place.program(BENCH);
    command.args(line.split_whitespace());
    command
}

/// Whether nothing that was started here is left: neither a process nor a folder.
#[track_caller]
fn is_clean(place: &Place) {
    assert_eq!(place.processes(), []);
    assert_eq!(names(&place.path("tmp")), [""; 0]);
    assert_eq!(names(&place.path("work/.trash")), [""; 0]);
}

fn bench(place: &Place, line: &str) -> Said {
    command(place, line).said()
}

#[test]
fn every_case_gives_rows() {
    let place = place();
    let said = bench(&place, "--quick --json -").ok();
    let found = said.json();
    let rows = found["rows"].as_array().expect("rows");
    let cases: BTreeSet<&str> = rows.iter().filter_map(|row| row["case"].as_str()).collect();
    assert_eq!(cases, BTreeSet::from(CASES), "{said:?}");
    for row in rows {
        let is_measured =
            row["numbers"]["median"].as_f64().is_some_and(|median| median >= 0.0) && row["unit"].is_string();
        assert!(is_measured || row["skipped"].is_string(), "{row}");
        assert_eq!(row["goal"].is_string(), row["met"].is_boolean(), "{row}");
    }
    assert!(found["machine"]["cores"].as_u64().is_some_and(|cores| cores > 0), "{found}");
    is_clean(&place);
}

#[test]
fn the_rivals_stand_in_the_table() {
    let place = place();
    let said = bench(&place, "query path --quick --json found.json");
    for expected in ["TASK/QUERY by one REQ client", "libzmq echo", "messages only, p99"] {
        assert!(said.out.contains(expected), "{expected}: {said:?}");
    }
    let text = std::fs::read_to_string(place.path("found.json")).expect("written");
    let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(1 + 4), "{found}");
}

#[test]
fn what_is_no_case_is_refused() {
    let place = place();
    bench(&place, "speed").failed(2, "throughput");
    assert_eq!(bench(&place, "--rounds 0").code, Some(2));
}

#[test]
fn a_signal_ends_the_measurement_and_all_that_it_started() {
    let place = place();
    // It would take a minute.
    let child = command(&place, "agents --rounds 10").start();
    let is_simulated = |(_, line): &(i32, String)| line.contains("serve-agents");
    eventually("the service is up and measured", || place.processes().iter().any(is_simulated));
    child.signal(Signal::INT);
    child.said().ended(130);
    eventually("nothing is left", || place.processes().is_empty());
    is_clean(&place);
}
