//! The cost that outputs tell: with each prompt, in the progress, in the summary, and as a brake. And failures by time-out.

use std::fs;

use serde_json::{Value, json};

use crate::prompt_worker::after::{PORT, host, master, prompts, worker};
use crate::prompt_worker::master::Master;
use crate::prompt_worker::sandbox::{Sandbox, eventually, names};

/// Answers as claude does, for a quarter of a dollar.
const ANSWER: &str = r#"echo '{"type":"result","is_error":false,"result":"yes","total_cost_usd":0.25}'"#;

fn status(sandbox: &Sandbox, options: &[&str]) -> Value {
    sandbox.start(&[&[options[0], &host(), PORT, "--output", "wire"], &options[1..]].concat()).said().ok().json()
}

fn count_done(sandbox: &Sandbox) -> usize {
    names(&sandbox.path(".tasks/done")).iter().filter(|name| name.ends_with(".txt")).count()
}

#[test]
fn no_prompt_is_handed_out_beyond_the_bound_until_it_is_raised() {
    let (sandbox, workers) = (Sandbox::new(), Sandbox::new());
    prompts(&sandbox, &["a.txt", "b.txt", "c.txt", "d.txt", "e.txt"]);
    let mut first = master(&sandbox, &["--max-cost", "0.5"]);
    let worker = worker(&workers, &[], ANSWER);
    let is_paused = || status(&sandbox, &["status"])["paused"].as_str().is_some_and(|why| why.contains("--max-cost"));
    eventually("a pause", || count_done(&sandbox) == 2 && is_paused());
    let told = status(&sandbox, &["status"]);
    assert_eq!((&told["cost_usd"], &told["max_cost_usd"], &told["pending"]), (&json!(0.5), &json!(0.5), &json!(3)));
    let text = sandbox.start(&["status", &host(), PORT]).said().out;
    assert!(text.contains("the prompts have cost 0.50 USD of 0.50 USD\n"), "{text}");
    let result: Value = serde_json::from_str(&sandbox.text(".tasks/done/a.txt.json")).unwrap();
    assert_eq!(result["cost_usd"], 0.25, "{result}");
    // A restart changes neither the sum nor the brake, and an order without a higher bound does not end it.
    first.kill();
    let second = master(&sandbox, &["--max-cost", "0.5"]);
    // Without a master, the folder is the answer, which has no bound.
    let ask = ["status", &host(), PORT, "--output", "wire"];
    eventually("a master", || sandbox.start(&ask).said().out.contains("\"max_cost_usd\":0.5"));
    assert!(is_paused());
    assert!(status(&sandbox, &["resume"])["paused"].is_string());
    status(&sandbox, &["resume", "--max-cost", "0.75"]);
    eventually("one more", || count_done(&sandbox) == 3 && is_paused());
    status(&sandbox, &["resume", "--max-cost", "10"]);
    let said = second.said();
    assert!(said.code == Some(0) && said.out.contains("5 succeeded, 0 failed, 0 left; 1.25 USD"), "{said:?}");
    assert_eq!(worker.said().code, Some(0));
    let summary: Value = serde_json::from_str(&sandbox.text(".tasks/summary.json")).unwrap();
    assert_eq!(summary["cost_usd"], 1.25, "{summary}");
    // The next prompts have a budget of their own.
    prompts(&sandbox, &["f.txt"]);
    let third = master(&sandbox, &["--max-cost", "0.5"]);
    let _worker = crate::prompt_worker::after::worker(&workers, &[], ANSWER);
    let said = third.said();
    assert!(said.out.contains("1 succeeded, 0 failed, 0 left; 0.25 USD"), "{said:?}");
}

#[test]
fn an_original_master_hears_no_cost() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], ANSWER);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    assert_eq!(peer.hears("DONE"), json!({ "type": "DONE", "msg": "a.txt" }));
}

#[test]
fn a_time_out_is_told_in_the_list_of_failures_and_in_the_summary() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt"]);
    // However slow the machine is, the second one has the time to fail by itself.
    fs::write(sandbox.path(".tasks/pending/b.txt"), "---\ntimeout: 600\n---\ndo b.txt").unwrap();
    fs::create_dir_all(sandbox.path(".tasks/failed")).unwrap();
    fs::write(sandbox.path(".tasks/failed/gone.txt.reason"), "it is not UTF-8\n").unwrap();
    // The other run must be over within the limit, also where the disk is slow to sync its results.
    let master = master(&sandbox, &["--timeout", "3"]);
    let script = "echo begun; case $PROMPT_NAME in b.txt) echo oh >&2; exit 3;; esac; sleep 1000";
    let _worker = worker(&sandbox, &[], script);
    let said = master.said();
    assert!(said.out.contains("2 failed (1 by time-out), 0 left"), "{said:?}");
    let failed = sandbox.start(&["failed", "--output", "wire"]).said().ok().json();
    let told: Vec<_> = failed.as_array().unwrap().iter().map(|one| (&one["name"], &one["timed_out"])).collect();
    assert_eq!(told, [(&json!("a.txt"), &json!(true)), (&json!("b.txt"), &json!(false))]);
    let text = sandbox.start(&["failed"]).said().out;
    assert!(text.contains("time-out") && text.contains("exit 3") && !text.contains("reason"), "{text}");
}
