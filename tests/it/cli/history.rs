//! `llts list --since`, `llts history`, `llts incidents`, `llts forget` and `llts down --wait`.

use std::io::{BufRead as _, BufReader};

use crate::cli::sandbox::{Sandbox, eventually};

/// A service with two tasks that have succeeded and one that has failed, of a job, with its sentence.
fn after_three_tasks() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.tool("check", "[ \"$PARAM_file\" != bad ] || { echo 'corrupt header' >&2; exit 3; }");
    sandbox.ok("up 2");
    for file in ["a", "b", "bad"] {
        sandbox.ok(&format!("submit check --job nightly file={file}"));
    }
    assert_eq!(sandbox.llts("wait --job nightly").code, Some(3));
    sandbox
}

#[test]
fn the_history_answers_after_its_tasks_are_forgotten() {
    let sandbox = after_three_tasks();
    let before = sandbox.ok("list --since 1h --output wire").json();
    let said = sandbox.ok("forget --job nightly");
    assert_eq!(said.line(), "forgot 3 tasks");
    eventually("they are gone", || sandbox.ok("list --output wire").json()["total"] == 0);
    assert_eq!(sandbox.ok("list --since 1h --output wire").json(), before);
    assert_eq!(before["total"], 3, "{before}");

    let failed = sandbox.ok("list --since yesterday --outcome failed --sort ran --job nightly --tool check").out;
    let lines: Vec<_> = failed.lines().collect();
    assert_eq!(lines.len(), 2, "{failed}");
    assert!(
        lines[1].contains(" check ") && lines[1].contains(" FAILED ") && lines[1].ends_with("corrupt header"),
        "{failed}"
    );
    for (outcomes, count) in [("failed,succeeded", 3), ("lost,failed", 1), ("killed,lost", 0)] {
        let total =
            |line: &str| sandbox.ok(&format!("{line} --outcome {outcomes} --output wire")).json()["total"].clone();
        assert_eq!(total("list --since 1h"), count, "{outcomes}");
    }
    let none = sandbox.ok("list --since 1h --tool other --output wire").json();
    assert_eq!(none["total"], 0);

    let groups = sandbox.ok("history --since today --group tool,outcome --output wire").json();
    let counts: Vec<_> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| (group["outcome"].clone(), group["__COUNT__"].clone()))
        .collect();
    assert_eq!(counts, [("FAILED".into(), 1.into()), ("SUCCEEDED".into(), 2.into())], "{groups}");
    assert!(groups["groups"][0]["__RUN_P99__"].is_number(), "{groups}");
    let shown = sandbox.ok("history").out;
    assert!(shown.lines().next().unwrap().starts_with("DAY ") && shown.contains(" check "), "{shown}");

    let log = std::fs::read_to_string(sandbox.path("log/controller.log")).unwrap();
    let line = log
        .lines()
        .find(|line| line.contains(" is FAILED (check, round 0, exit code 3, "))
        .unwrap_or_else(|| panic!("{log}"));
    assert!(line.ends_with("): corrupt header"), "{line}");
}

#[test]
fn what_the_history_does_not_have_is_refused_with_a_sentence() {
    let sandbox = Sandbox::new();
    for (line, word) in [
        ("list --since 1h --status running --output json", "--status"),
        ("list --since 1h --where a=b --output json", "--where"),
        ("list --since 1h last --output json", "by time"),
        ("list --since tomorrow", "not a time"),
        ("history --group colour", "colour"),
        ("forget", "name the tasks"),
    ] {
        let said = sandbox.llts(line);
        assert_eq!(said.code, Some(2), "{line}: {said:?}");
        assert!(said.err.contains(word), "{line}: {said:?}");
    }
}

/// It must not be the last question that is answered.
#[test]
fn a_time_that_ends_before_it_begins_has_no_rounds() {
    let sandbox = after_three_tasks();
    for question in ["history", "list", "incidents"] {
        let said = sandbox.ok(&format!("{question} --since 2020-01-02 --until 2020-01-01 --output wire")).json();
        assert!(said["total"] == 0 || said["groups"].as_array().is_some_and(Vec::is_empty), "{question}: {said}");
    }
    assert_ne!(sandbox.ok("incidents --output wire").json()["total"], 0);
    sandbox.ok("down");
}

#[test]
fn a_service_without_a_history_says_so() {
    let sandbox = Sandbox::new();
    sandbox.configure("HISTORY_KEEP_DAYS = 0\n");
    sandbox.ok("up 1");
    for line in ["list --since 1h", "history", "incidents"] {
        sandbox.llts(line).failed(4, "HISTORY_KEEP_DAYS");
    }
    assert!(!sandbox.path("state/history").exists());
}

#[test]
fn a_stop_and_a_start_are_incidents() {
    let sandbox = Sandbox::new();
    for _ in 0..2 {
        sandbox.ok("up 1");
        sandbox.ok("down");
    }
    sandbox.ok("up 1");
    let incidents = sandbox.ok("incidents --output wire").json();
    let kinds: Vec<_> =
        incidents["incidents"].as_array().unwrap().iter().map(|one| one["__INCIDENT__"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["STARTED", "STOPPED", "STARTED", "STOPPED", "STARTED"], "{incidents}");
}

/// Only the running task ends; the one behind it starts after the next start, in its first round.
#[test]
fn a_service_that_is_stopped_with_wait_lets_running_tasks_end() {
    let sandbox = Sandbox::serving(1, &[("gate", "touch $PLACE/began; while [ ! -e $PLACE/go ]; do sleep 0.05; done")]);
    let submit = || sandbox.ok(&format!("submit gate PLACE={}", sandbox.path("").display())).line().to_owned();
    let (first, second) = (submit(), submit());
    eventually("the first runs", || sandbox.path("began").exists());
    let mut down = sandbox.start("down --wait");
    let mut line = String::new();
    BufReader::new(down.stderr.take().expect("a pipe")).read_line(&mut line).unwrap();
    assert_eq!(line, "llts: waiting for 1 running task; no other task starts\n");
    down.signal(rustix::process::Signal::INT);
    assert_eq!(down.said().code, Some(130));
    let stats = sandbox.ok("info --output wire").json();
    assert!(stats["paused_until"].is_null(), "who leaves ends the pause: {stats}");
    let mut down = sandbox.start("down --wait");
    BufReader::new(down.stderr.take().expect("a pipe")).read_line(&mut line).unwrap();
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(down.said().code, Some(0));
    sandbox.ok("up 1");
    sandbox.ok(&format!("wait {first} {second}"));
    for task in [first, second] {
        let found = sandbox.ok(&format!("list --since 1h {task} --output wire")).json();
        assert_eq!(found["total"], 1, "{found}");
        assert_eq!(found["rounds"][0]["__OUTCOME__"], "SUCCEEDED", "{found}");
    }
}
