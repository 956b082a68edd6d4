//! Each arrow of a worker, and what it leaves in Redis and on the disk.

use std::fs;

use super::place::Place;
use crate::tdf::original::Order;
use testkit::eventually;

/// Ignores SIGTERM, and has a child in a session of its own whose parent is gone. Both are running when the file is there.
pub(crate) const STUBBORN: &str = "trap '' TERM INT HUP; echo begun; echo bad >&2; echo run >>../runs; \
    setsid sh -c 'trap \"\" TERM; (while :; do sleep 1000; done) & touch ../running; wait' & \
    while :; do sleep 1000; done";

#[track_caller]
pub(crate) fn is_running(place: &Place) {
    eventually("a running program", || place.path("running").exists());
    assert!(place.commands().len() >= 3, "{:?}", place.commands());
}

#[test]
fn a_task_that_writes_nothing_to_stderr_is_executed_whatever_it_exits_with() {
    let place = Place::new();
    place.program("p", "echo \"$1-$2\"; exit 7");
    let _worker = place.worker("w");
    let id = place.open_input("a b");
    assert_eq!(place.result(id), ("a-b\n".into(), String::new()));
    assert_eq!(place.field(id, "state"), "executed");
    assert_eq!([place.field(id, "round"), place.field(id, "fails")], ["0", "0"]);
    assert_eq!(place.field(id, "0:worker"), "w");
    for name in ["0:running", "0:executed"] {
        assert!(place.field(id, name).parse::<f64>().is_ok_and(|time| time > 1.7e9), "{name}");
    }
    let log = place.field(id, "log");
    let messages: Vec<&str> = log.lines().filter_map(|line| line.split_once(" - ")).map(|(_, text)| text).collect();
    let running = format!("moving task {id}: open -> running");
    let executed = format!("moving task {id}: running -> executed");
    assert_eq!(messages, [&running, "executing task: cd ./p/; ./run.sh a b", &executed], "{log}");
    let file = |ending: &str| fs::read_to_string(place.path(&format!("p/results/w-{id}-0.{ending}"))).unwrap();
    assert_eq!([file("out"), file("err")], ["a-b\n", ""]);
    let fields: usize = place.redis.ask(&format!("HLEN ns:task:{id}"));
    assert_eq!(fields, 16 + 5, "nothing but what an original writes");
}

#[test]
fn what_is_written_to_stderr_is_the_error_of_the_round() {
    let place = Place::new();
    place.program("p", "echo out; echo bad >&2; printf last");
    let _worker = place.worker("w");
    let id = place.open_input("");
    assert_eq!(place.result(id), ("out\nlast".into(), "bad\n".into()));
}

/// The input is the rest of a line of a shell.
#[test]
fn an_input_means_what_it_means_to_a_shell() {
    let place = Place::new();
    place.program("p", "for word; do echo \"[$word]\"; done");
    let _worker = place.worker("w");
    for (input, output) in [
        ("a \"b c\" 'd e'", "[a]\n[b c]\n[d e]\n"),
        ("$((1 + 2)) $(echo x)", "[3]\n[x]\n"),
        ("a # b", "[a]\n"),
        ("a; echo b", "[a]\nb\n"),
        ("a\necho b", "[a]\nb\n"),
        ("*.sh", "[run.sh]\n"),
        ("2>/dev/null", ""),
    ] {
        assert_eq!(place.result(place.open_input(input)), (output.into(), String::new()), "{input:?}");
    }
    let (output, error) = place.result(place.open_input("'"));
    assert!(output.is_empty() && error.contains("yntax error"), "{error}");
    let (_, error) = place.result(place.open(&Order { input: b"a\0b", ..Order::default() }));
    assert!(error.contains("NUL byte"), "{error}");
    let long = "x".repeat(200_000);
    let (_, error) = place.result(place.open_input(&long));
    assert!(error.contains("rgument list too long"), "{error}");
}

#[test]
fn bytes_that_are_no_text_stay_as_they_are_and_a_long_output_is_cut_in_the_middle() {
    let place = Place::new();
    place.program("p", "eval \"$1\"");
    let _worker = place.worker("w");
    let id = place.open_input("'printf \"\\\\377\\\\000\"'");
    place.until(id, "executed");
    let bytes: Vec<u8> = place.redis.ask(&format!("HGET ns:task:{id} 0:output"));
    assert_eq!(bytes, [255, 0]);
    let id = place.open_input("'seq 1 10000'");
    let (output, error) = place.result(id);
    assert!(output.len() <= 4096 && output.starts_with("1\n2\n") && output.ends_with("\n10000\n"), "{}", output.len());
    assert!(output.contains("bytes are left out here]\n") && error.is_empty());
    let whole = fs::read_to_string(place.path(&format!("p/results/w-{id}-0.out"))).unwrap();
    assert_eq!(whole.lines().count(), 10_000);
}

#[test]
fn a_time_out_ends_the_whole_tree_and_keeps_what_was_written() {
    let place = Place::new();
    place.program("p", STUBBORN);
    let _worker = place.worker("w");
    let id = place.open(&Order { timeout: "10", ..Order::default() });
    is_running(&place);
    place.until(id, "timed_out");
    assert_eq!(place.commands(), []);
    assert_eq!([place.field(id, "0:output"), place.field(id, "0:error")], ["begun\n", "bad\n"]);
    assert_eq!([place.field(id, "timeouts"), place.field(id, "round")], ["1", "0"]);
    assert!(!place.field(id, "0:timeout").is_empty() && !place.field(id, "0:timed_out").is_empty());
    let log = place.field(id, "log");
    assert!(log.contains("running -> timeout") && log.contains("timeout -> timed_out"), "{log}");
}

#[test]
fn a_time_out_within_its_budget_begins_the_next_round() {
    let place = Place::new();
    place.program("p", "[ -e ../again ] && exit; touch ../again; while :; do sleep 1000; done");
    let _worker = place.worker("w");
    let id = place.open(&Order { timeout: "5", max_timeouts: "1", ..Order::default() });
    place.until(id, "executed");
    assert_eq!([place.field(id, "timeouts"), place.field(id, "round")], ["1", "1"]);
    assert!(!place.field(id, "1:open").is_empty() && !place.field(id, "1:executed").is_empty());
    assert_eq!(place.commands(), []);
}

#[test]
fn what_a_program_leaves_behind_is_ended_before_its_result_is_reported() {
    let place = Place::new();
    place.program("p", "setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done' & echo done");
    let _worker = place.worker("w");
    let id = place.open_input("");
    assert_eq!(place.result(id).0, "done\n");
    assert_eq!(place.commands(), []);
}

/// The server has found the task expired, or another worker has taken it.
#[test]
fn a_run_whose_task_is_gone_is_ended_and_leaves_no_trace() {
    for (moves, set) in [
        (&["ZREM ns:running 1", "HSET ns:task:1 state expired 0:expired 5.0", "ZADD ns:expired 5 1"][..], "expired"),
        (&["HSET ns:task:1 0:worker original 0:running 7.0", "ZADD ns:running 7 1"][..], "running"),
    ] {
        let place = Place::new();
        place.program("p", STUBBORN);
        let _worker = place.worker("w");
        let id = place.open_input("");
        is_running(&place);
        for command in moves {
            place.redis.ask::<i64>(command);
        }
        eventually("the end of the program", || place.commands().is_empty());
        // It goes on with the next one.
        place.program("q", "echo next");
        let next = place.open(&Order { program: "q", ..Order::default() });
        assert_eq!(place.result(next).0, "next\n");
        assert_eq!(place.sets(id), [set]);
        assert_eq!(place.field(id, "0:output"), "");
    }
}
