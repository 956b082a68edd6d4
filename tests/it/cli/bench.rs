//! `llts-bench` with tiny numbers: every case gives rows, and nothing is left behind. How fast anything is does not matter here.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::cli::sandbox::{Said, Sandbox, eventually, signal};

/// Each case, as the help names it.
const CASES: [&str; 16] = [
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
];

fn command(sandbox: &Sandbox, line: &str) -> Command {
    // Cargo builds examples with the tests, into a folder beside the programs.
    let programs = Path::new(env!("CARGO_BIN_EXE_llts")).parent().expect("a folder");
    let mut command = sandbox.program(programs.join("examples/llts-bench").to_str().expect("UTF-8"));
    command.args(line.split_whitespace());
    command
}

fn bench(sandbox: &Sandbox, line: &str) -> Said {
    sandbox.said(sandbox.spawn(&mut command(sandbox, line)))
}

#[test]
fn every_case_gives_rows() {
    let sandbox = Sandbox::new();
    let said = bench(&sandbox, "--quick --json -");
    assert_eq!(said.code, Some(0), "{said:?}");
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
    sandbox.is_clean();
}

#[test]
fn the_rivals_stand_in_the_table() {
    let sandbox = Sandbox::new();
    let said = bench(&sandbox, "query path --quick --json found.json");
    for expected in ["TASK/QUERY by one REQ client", "libzmq echo", "messages only, p99"] {
        assert!(said.out.contains(expected), "{expected}: {said:?}");
    }
    let text = std::fs::read_to_string(sandbox.path("found.json")).expect("written");
    let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(1 + 4), "{found}");
}

#[test]
fn what_is_no_case_is_refused() {
    let sandbox = Sandbox::new();
    let said = bench(&sandbox, "speed");
    assert!(said.code == Some(2) && said.err.contains("throughput"), "{said:?}");
    assert_eq!(bench(&sandbox, "--rounds 0").code, Some(2));
}

#[test]
fn a_signal_ends_the_measurement_and_all_that_it_started() {
    let sandbox = Sandbox::new();
    // It would take a minute.
    let child = sandbox.spawn(&mut command(&sandbox, "agents --rounds 10"));
    let is_simulated = |(_, line): &(i32, String)| line.contains("serve-agents");
    eventually("the service is up and measured", || sandbox.processes().iter().any(is_simulated));
    signal(i32::try_from(child.id()).expect("a pid"), Signal::INT);
    let said = sandbox.said(child);
    assert_eq!(said.code, Some(130), "{said:?}");
    eventually("nothing is left", || sandbox.processes().is_empty());
    sandbox.is_clean();
}
