//! `llts prompt status`: the master's answer, and what the folders tell without one.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::prompt_worker::master::Master;
use crate::prompt_worker::sandbox::Sandbox;

fn answer(done: u64) -> Value {
    json!({
        "type": "STATUS_ACK", "msg": "", "pending": 2, "working": 1, "done": done, "failed": 0, "running_seconds": 90.5,
        "workers": [{ "id": "box-1", "state": "working", "file": "a.txt", "age_seconds": 2.0 }],
    })
}

#[test]
fn the_answer_of_a_master_is_shown() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let status = sandbox.start_at("status", master.address(), &["--output", "wire"]);
    let mut peer = master.accept();
    peer.hears("STATUS");
    peer.say(&answer(5));
    let said = status.said().ok();
    let value = said.json();
    assert_eq!((&value["done"], &value["master"]), (&json!(5), &json!(true)), "{value}");
    let worker = json!({
        "id": "box-1", "state": "working", "file": "a.txt", "age_seconds": 2.0, "resting_seconds": null, "reason": null,
    });
    assert_eq!(value["workers"][0], worker);
}

#[test]
fn without_a_master_the_folders_are_counted() {
    let sandbox = Sandbox::new();
    let nobody = Master::gone();
    sandbox.start_at("status", nobody, &[]).said().ended(3);
    for name in ["pending/b", "working/c", "done/a", "done/a.out", "done/a.err", "done/a.json"] {
        let path = sandbox.path(".tasks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let said = sandbox.start_at("status", nobody, &[]).said().ok();
    assert!(said.out.ends_with("33 % of 3\n1 pending, 1 working, 1 done, 0 failed\n"), "{said:?}");
    assert!(said.err.contains("no prompt master answers"), "{said:?}");
}

#[test]
fn a_watch_writes_what_is_new_and_ends_with_the_master() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    fs::create_dir_all(sandbox.path(".tasks/done")).unwrap();
    let status = sandbox.start_at("status", master.address(), &["--watch"]);
    for done in [5, 5, 6] {
        let mut peer = master.accept();
        peer.hears("STATUS");
        peer.say(&answer(done));
    }
    drop(master);
    let said = status.said().ok();
    let lines: Vec<_> = said.out.lines().collect();
    assert_eq!(lines[..2], ["2 pending, 1 working, 5 done, 0 failed", "2 pending, 1 working, 6 done, 0 failed"]);
    assert!(lines.last().unwrap().starts_with("0 pending"), "{said:?}");
}

#[test]
fn a_watch_ends_with_ctrl_c() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let status = sandbox.start_at("status", master.address(), &["--watch"]);
    let mut peer = master.accept();
    peer.hears("STATUS");
    status.signal(Signal::INT);
    peer.say(&answer(1));
    let said = status.said();
    assert_eq!((said.code, said.out.lines().count()), (Some(0), 1), "{said:?}");
}
