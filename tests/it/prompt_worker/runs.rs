//! A prompt on its way through a worker: what its command finds, what is reported, what is kept.

use std::fs;

use serde_json::json;

use crate::prompt_worker::master::Master;
use crate::prompt_worker::sandbox::{SECRET, Sandbox, eventually, names};

#[test]
fn a_command_finds_its_prompt_and_its_results_are_there_when_it_is_done() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let script = "cat; cat \"$PROMPT_FILE\"; echo \"$PROMPT_NAME\"; pwd; echo oh >&2";
    let _worker = sandbox.worker(master.address(), &[], script);
    let mut peer = master.join();
    peer.request("a.txt", "Grüße\n");
    assert_eq!(peer.hears("DONE")["msg"], "a.txt");
    let root = sandbox.path("").canonicalize().unwrap();
    assert_eq!(sandbox.text(".tasks/done/a.txt.out"), format!("Grüße\nGrüße\na.txt\n{}\n", root.display()));
    assert_eq!(sandbox.text(".tasks/done/a.txt.err"), "oh\n");
    let result: serde_json::Value = serde_json::from_str(&sandbox.text(".tasks/done/a.txt.json")).unwrap();
    assert_eq!((&result["exit_code"], &result["signal"]), (&json!(0), &json!(null)), "{result}");
    assert_eq!((&result["file"], &result["outcome"]), (&json!("a.txt"), &json!("done")), "{result}");
    assert_eq!(result["command"], json!(["sh", "-c", script]), "{result}");
    assert!(result["seconds"].as_f64().unwrap() >= 0.0 && result["end"].as_f64() >= result["start"].as_f64());
    sandbox.is_clean();
}

#[test]
fn the_master_gets_the_secret_and_the_command_does_not() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], "env");
    let mut peer = master.accept();
    assert_eq!(peer.hears("JOIN")["secret"], SECRET);
    peer.say(&json!({ "type": "JOIN_ACK", "msg": "" }));
    peer.request("a.txt", "x");
    peer.hears("DONE");
    let found = sandbox.text(".tasks/done/a.txt.out");
    assert!(found.contains("PROMPT_NAME=a.txt\n") && !found.contains(SECRET), "{found}");
    let ours: Vec<_> = found.lines().filter(|line| line.starts_with("LLTS_")).collect();
    assert!(matches!(ours[..], [mark] if mark.starts_with("LLTS_RUN_PROMPT=")), "{ours:?}");
}

#[test]
fn what_is_not_a_success_has_failed() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], "sh -c \"$(cat)\"; code=$?; echo $code; exit $code");
    let mut peer = master.join();
    peer.request("a.txt", "exit 3");
    assert_eq!(peer.hears("FAILED")["msg"], "exit code 3");
    assert_eq!(sandbox.text(".tasks/failed/a.txt.out"), "3\n");
    peer.request("b.txt", "kill -9 $PPID");
    assert_eq!(peer.hears("FAILED")["msg"], "ended by signal 9");
    assert!(sandbox.text(".tasks/failed/b.txt.json").contains("\"signal\": 9"));
    peer.request("c.txt", "exit 0");
    peer.hears("DONE");
    assert_eq!(names(&sandbox.path(".tasks/done")), ["c.txt.err", "c.txt.json", "c.txt.out"]);
}

#[test]
fn a_check_is_answered_while_a_command_reads_nothing_ignores_signals_and_forks() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let script = "trap '' TERM INT HUP; touch running; (while :; do sleep 1000; done) & \
                  while [ ! -e go ]; do sleep 0.02; done";
    let _worker = sandbox.worker(master.address(), &[], script);
    let mut peer = master.join();
    // More than any pipe holds.
    peer.request("a.txt", &"long ".repeat(1_000_000));
    eventually("a running command", || sandbox.path("running").exists());
    for _ in 0..100 {
        peer.check();
    }
    fs::write(sandbox.path("go"), "").unwrap();
    // The loop in the background ignores SIGTERM, too.
    peer.hears("DONE");
    sandbox.is_clean();
}

#[test]
fn a_worker_that_is_limited_goes_and_comes_back() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let script = "[ -e twice ] && exit; touch twice; echo retry_after=0.2 > $PROMPT_DEFER_FILE; exit 75";
    let _worker = sandbox.worker(master.address(), &[], script);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    assert_eq!(peer.hears("USAGE_LIMITED")["retry_after"], 0.2);
    assert!(!sandbox.path(".tasks/failed").exists());
    drop(peer);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    peer.hears("DONE");
}

#[test]
fn messages_are_found_however_they_come() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], "cat");
    let mut peer = master.accept();
    peer.hears("JOIN");
    // Three at once, without anything between them, and one of a later version.
    peer.write(
        b"{\"type\":\"JOIN_ACK\",\"msg\":\"\"}{\"type\":\"NEWS\",\"msg\":{}}{\"type\":\"CHECK\",\"req_id\":\"c\"}",
    );
    peer.hears("CHECK_ACK");
    for byte in b"{\"type\":\"REQUEST\",\"msg\":\"} { \\\" \\u00e9\",\"req_id\":\"../r\"}" {
        peer.write(&[*byte]);
    }
    assert_eq!(peer.hears("REQUEST_ACK")["req_id"], "../r");
    // A master of the document tells no name.
    peer.hears("DONE");
    assert_eq!(sandbox.text(".tasks/done/task_..r.out"), "} { \" é");
}

#[test]
fn a_master_that_cannot_be_understood_is_left_and_tried_again() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], "cat");
    let mut peer = master.join();
    peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    peer.hears_the_end();
    master.join().check();
}

#[test]
fn a_worker_goes_on_when_its_folders_are_removed_between_two_prompts() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], "cat");
    let mut peer = master.join();
    for text in ["one", "two"] {
        peer.request("a.txt", text);
        peer.hears("DONE");
        assert_eq!(sandbox.text(".tasks/done/a.txt.out"), text);
        fs::remove_dir_all(sandbox.path(".tasks")).unwrap();
    }
}

#[test]
fn a_prompt_that_takes_too_long_has_failed() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], "sleep 1000");
    let mut peer = master.join();
    peer.say(&json!({ "type": "REQUEST", "msg": "x", "req_id": "r", "file": "a", "timeout": 0.1 }));
    peer.hears("REQUEST_ACK");
    assert_eq!(peer.hears("FAILED")["msg"], "it took longer than 0.1 s");
    sandbox.is_clean();
}
