//! What other programs put into the folders: links, folders and pipes, ids that exist already, names that no list has.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use crate::lists::sandbox::{Sandbox, eventually};

fn content(id: &str, max_fails: u32, cmd: &str) -> String {
    let fails = id.rsplit_once('_').unwrap().1;
    format!("{id}\n1448978609\n99999999999\n0\n{max_fails}\n{fails}\n{cmd}\n")
}

fn pipe(path: &std::path::Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn links_folders_and_pipes_are_invalid_at_once_and_hold_nothing_up() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    let elsewhere = sandbox.root().join("1_0.task");
    fs::write(&elsewhere, content("1_0", 1, "echo never >>never")).unwrap();
    symlink(&elsewhere, sandbox.path("new/1_0.task")).unwrap();
    fs::create_dir(sandbox.path("new/2_0.task")).unwrap();
    pipe(&sandbox.path("new/3_0.task"));
    fs::create_dir(sandbox.path("new/folder")).unwrap();
    // Nothing of it waits for the server's look.
    let status = sandbox.json(&["status"]);
    assert_eq!((&status["tasks"]["new"], &status["invalid"]), (&json!(0), &json!(4)), "{status}");
    let reasons = |said: &str| said.matches("it is not a regular file").count();
    eventually("four reasons", || reasons(&sandbox.llts(&["status"]).err) == 4);
    sandbox.llts(&["show", "3_0"]).refused(5, "new/3_0.task is not a task: it is not a regular file");
    sandbox.llts(&["show", "2"]).refused(5, "new/2_0.task is not a task: it is not a regular file");
    sandbox.llts(&["watch", "--until-done"]).ok();
    // A second name of a whole file is never closed after a write.
    fs::write(sandbox.root().join("linked"), content("4_0", 1, "echo 4")).unwrap();
    fs::hard_link(sandbox.root().join("linked"), sandbox.path("new/4_0.task")).unwrap();
    let _worker = sandbox.worker("w", &server);
    assert_eq!(sandbox.ended("4_0"), "completed_archive");
    let said = server.stop();
    assert_eq!((said.code, reasons(&said.err)), (Some(0), 4), "logged once each: {said:?}");
    assert!(!sandbox.root().join("never").exists());
}

/// The next id is taken by a task in the same list, by one that has run, and by a file that never becomes a task.
#[test]
fn the_repeat_of_a_task_runs_although_another_task_has_its_id() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    let put = |id: &str, max: u32, cmd: &str| {
        fs::write(sandbox.path(&format!("new/{id}.task")), content(id, max, cmd)).unwrap();
    };
    put("10_1", 3, "echo other");
    assert_eq!(sandbox.ended("10_1"), "completed_archive");
    fs::create_dir(sandbox.path("new/20_1.task")).unwrap();
    put("30_1", 3, "echo other; while [ ! -e go ]; do sleep 0.01; done");
    for id in ["10_0", "20_0", "30_0"] {
        put(id, 2, "echo bad >&2");
    }
    fs::write(sandbox.root().join("go"), "").unwrap();
    for (id, again) in [("10_0", "11_1"), ("20_0", "21_1"), ("30_0", "31_1")] {
        assert_eq!(sandbox.ended(again), "failed_count");
        assert_eq!(sandbox.ended(id), "failed_archive");
    }
    assert_eq!(sandbox.text("completed_archive/10_1.out"), "other\n");
    assert_eq!(sandbox.ended("30_1"), "completed_archive");
    // The same for a retry: 11_2 exists.
    put("11_2", 3, "echo other");
    assert_eq!(sandbox.ended("11_2"), "completed_archive");
    assert_eq!(sandbox.llts(&["retry", "11_1"]).ok().out, "12_2\n");
    assert_eq!(sandbox.ended("12_2"), "failed_count");
    assert_eq!(sandbox.json(&["status"])["tasks"]["new"], 0);
}

/// A server was killed after it had made a duplicate, beside a task of the same id and without one.
#[test]
fn a_restart_knows_a_duplicate_with_a_neighbouring_id() {
    let sandbox = Sandbox::new();
    for state in ["new", "failed"] {
        fs::create_dir_all(sandbox.path(state)).unwrap();
    }
    let put = |name: &str, text: &str| fs::write(sandbox.path(name), text).unwrap();
    for (id, has_duplicate) in [("10_0", true), ("20_0", false)] {
        let text = content(id, 2, "echo bad >&2");
        put(&format!("failed/{id}.task"), &format!("{text}w\n1448978619\n1448978622\n"));
        put(&format!("failed/{id}.out"), "");
        put(&format!("failed/{id}.err"), "bad\n");
        let other = id.replace("_0", "_1");
        put(&format!("new/{other}.task"), &content(&other, 2, "echo other"));
        if has_duplicate {
            put("new/11_1.task", &content("11_1", 2, "echo bad >&2"));
        }
    }
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    for (id, state) in [
        ("10_0", "failed_archive"),
        ("10_1", "completed_archive"),
        ("11_1", "failed_count"),
        ("20_0", "failed_archive"),
        ("20_1", "completed_archive"),
        ("21_1", "failed_count"),
    ] {
        assert_eq!(sandbox.ended(id), state, "{id}");
    }
    assert_eq!(sandbox.tasks("failed_count"), ["11_1", "21_1"], "no third form");
}

#[test]
fn a_folder_that_is_moved_away_ends_the_server_with_a_sentence() {
    for moved in ["", "new"] {
        let sandbox = Sandbox::new();
        let server = sandbox.server();
        // It has looked through the folder, and the next one is a minute away.
        sandbox.add(&["true"]);
        eventually("a list", || sandbox.names("open").len() == 1);
        fs::rename(sandbox.path(moved), sandbox.root().join("elsewhere")).unwrap();
        server.said().failed(1, "tasks/new has vanished");
    }
}

#[test]
fn a_folder_that_is_no_list_is_not_counted_as_one() {
    let sandbox = Sandbox::new();
    let _server = sandbox.server();
    for folder in ["open/abc", "open/1_w_2", "running/7", "closed/1_w_2", "closed/abc"] {
        fs::create_dir(sandbox.path(folder)).unwrap();
        fs::write(sandbox.path(&format!("{folder}/1_0.task")), content("1_0", 1, "true")).unwrap();
    }
    symlink(sandbox.path("open/abc"), sandbox.path("open/5")).unwrap();
    let status = sandbox.json(&["status"]);
    assert_eq!(status["lists"], json!({ "open": 0, "running": 0, "closed": 0 }));
    assert_eq!((&status["tasks"]["open"], &status["tasks"]["closed"]), (&json!(0), &json!(0)), "{status}");
    sandbox.llts(&["watch", "--until-done"]).ok();
}
