//! A real master and real workers: limits without a wrapper, reports at the end, and retries of failed prompts.

use std::fs;

use serde_json::{Value, json};

use crate::prompt_worker::master::Master;
use crate::prompt_worker::sandbox::{Program, Sandbox, eventually, names};

/// A port on an address of our own.
pub(crate) const PORT: &str = "34567";

pub(crate) fn host() -> String {
    testkit::own_ip().to_string()
}

pub(crate) fn master(sandbox: &Sandbox, options: &[&str]) -> Program {
    sandbox.start_with(&[("LLTS_PROMPT_BIND", &host())], &[&["master", PORT], options].concat())
}

pub(crate) fn worker(sandbox: &Sandbox, options: &[&str], script: &str) -> Program {
    sandbox.start(&[&["worker", &host(), PORT], options, &["--", "sh", "-c", script]].concat())
}

pub(crate) fn prompts(sandbox: &Sandbox, names: &[&str]) {
    fs::create_dir_all(sandbox.path(".tasks/pending")).expect("a folder of ours");
    for name in names {
        fs::write(sandbox.path(".tasks/pending").join(name), format!("do {name}")).expect("a file of ours");
    }
}

#[test]
fn a_limit_in_the_output_of_a_failed_run_gives_the_prompt_back() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let script = "echo part of an answer; echo 'Claude AI usage limit reached|9999999999'; exit 1";
    let _worker = sandbox.worker(master.address(), &["--gate", "claude"], script);
    let mut peer = master.accept();
    assert_eq!(peer.hears("JOIN")["gate"], "claude");
    peer.say(&json!({ "type": "JOIN_ACK", "msg": "" }));
    peer.request("a.txt", "x");
    let limited = peer.hears("USAGE_LIMITED");
    // A reset time beyond a week is reduced to a week.
    assert_eq!((&limited["retry_after"], &limited["scope"]), (&json!(604_800), &Value::Null), "{limited}");
    let output = || fs::read_to_string(sandbox.path(".tasks/attempts/a.txt.out"));
    eventually("the output of the attempt", || output().is_ok_and(|text| text.starts_with("part of an answer\n")));
}

#[test]
fn an_answer_about_limits_is_done() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], "echo 'Claude AI usage limit reached|9999999999'");
    let mut peer = master.join();
    peer.request("a.txt", "x");
    peer.hears("DONE");
}

#[test]
fn failed_prompts_are_told_listed_and_tried_again() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt", "b.txt"]);
    let script = "cat; grep -q b $PROMPT_FILE || test -e repaired || { echo broken >&2; exit 3; }";
    let told = ["--on-fail", "echo $PROMPT_PROMPT >>failures", "--on-end", "echo $PROMPT_FAILED of $PROMPT_ALL >>ends"];
    let first = master(&sandbox, &told);
    worker(&sandbox, &["--jobs", "2"], script).said().ended(1);
    assert_eq!(first.said().code, Some(1));
    assert_eq!((sandbox.text("failures"), sandbox.text("ends")), ("a.txt\n".to_owned(), "1 of 2\n".to_owned()));
    let summary: Value = serde_json::from_str(&sandbox.text(".tasks/summary.json")).unwrap();
    assert_eq!((&summary["succeeded"], &summary["failed"]), (&json!(1), &json!(1)));
    let failed = sandbox.start(&["failed", "--output", "wire"]).said().ok().json();
    assert_eq!(failed.as_array().map(Vec::len), Some(1), "{failed}");
    let (name, code, line) = (&failed[0]["name"], &failed[0]["exit_code"], &failed[0]["last_line"]);
    assert_eq!((name, code, line), (&json!("a.txt"), &json!(3), &json!("broken")));
    assert_eq!(sandbox.start(&["retry", "b.txt"]).said().code, Some(1), "it has not failed");
    ["failed", "pending"]
        .iter()
        .for_each(|folder| fs::create_dir(sandbox.path(".tasks").join(folder).join("sub")).unwrap());
    fs::write(sandbox.path(".tasks/failed/sub/x"), "").unwrap();
    assert_eq!(sandbox.start(&["retry", "sub/x"]).said().code, Some(1), "it is no name");
    fs::remove_file(sandbox.path(".tasks/failed/sub/x")).unwrap();
    ["failed", "pending"]
        .iter()
        .for_each(|folder| fs::remove_dir(sandbox.path(".tasks").join(folder).join("sub")).unwrap());
    assert_eq!(sandbox.start(&["retry", "--failed"]).said().code, Some(0));
    fs::write(sandbox.path("repaired"), "").unwrap();
    let second = master(&sandbox, &[]);
    assert_eq!(worker(&sandbox, &[], script).said().code, Some(0));
    assert_eq!(second.said().code, Some(0));
    let results = sandbox.start(&["results", "--jsonl"]).said();
    let lines: Vec<Value> = results.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outs: Vec<_> =
        lines.iter().map(|line| (line["name"].as_str().unwrap(), line["out"].as_str().unwrap())).collect();
    assert_eq!(outs, [("a.txt", "do a.txt"), ("b.txt", "do b.txt")]);
}

#[test]
fn results_that_are_moved_with_their_prompt_are_not_handed_out() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt"]);
    let first = master(&sandbox, &[]);
    assert_eq!(worker(&sandbox, &[], "echo answer; exit 1").said().code, Some(1));
    assert_eq!(first.said().code, Some(1));
    assert_eq!(names(&sandbox.path(".tasks/failed")), ["a.txt", "a.txt.err", "a.txt.json", "a.txt.out"]);
    let second = master(&sandbox, &["--keep-alive"]);
    let _worker = worker(&sandbox, &["--patience", "forever"], "cat");
    // One by one, as mv does.
    for name in names(&sandbox.path(".tasks/failed")) {
        fs::rename(sandbox.path(".tasks/failed").join(&name), sandbox.path(".tasks/pending").join(&name)).unwrap();
    }
    eventually("the prompt", || sandbox.path(".tasks/done/a.txt").exists());
    fs::write(sandbox.path(".tasks/pending/z.txt"), "do z").unwrap();
    eventually("a prompt behind all results", || sandbox.path(".tasks/done/z.txt").exists());
    let done = names(&sandbox.path(".tasks/done"));
    let prompts: Vec<_> = done.iter().filter(|name| name.ends_with(".txt")).collect();
    assert_eq!(prompts, ["a.txt", "z.txt"]);
    assert_eq!(names(&sandbox.path(".tasks/pending")), ["a.txt.err", "a.txt.json", "a.txt.out"]);
    drop(second);
}

#[test]
fn a_person_pauses_resumes_and_drains_a_master() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt"]);
    let master = master(&sandbox, &[]);
    let order = |verb: &str| {
        let mut value = Value::Null;
        eventually("an answer of the master", || {
            let said = sandbox.start(&[verb, &host(), PORT, "--output", "wire"]).said();
            value = serde_json::from_str(&said.out).unwrap_or_default();
            said.code == Some(0)
        });
        value
    };
    assert!(order("pause")["paused"].is_string());
    let _worker = worker(&sandbox, &[], "cat");
    eventually("a worker", || order("status")["workers"].as_array().is_some_and(|workers| !workers.is_empty()));
    assert_eq!(order("status")["pending"], 1);
    assert_eq!(order("resume")["paused"], Value::Null);
    assert_eq!(master.said().code, Some(0));
    assert!(sandbox.path(".tasks/done/a.txt.out").exists());
}

/// A master ends with its last prompt, also before it has seen each of several workers.
#[test]
fn workers_that_have_not_reached_the_master_end_with_those_that_have() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let crew = sandbox.worker(master.address(), &["--jobs", "2"], "true");
    let mut first = master.join();
    let _second = master.accept();
    first.say(&json!({ "type": "COMPLETED", "msg": "" }));
    assert_eq!(crew.said().code, Some(0));
}
