//! The commands around a folder: what they print, and what they refuse.

use std::fs;

use serde_json::json;

use crate::lists::sandbox::{Sandbox, Start as _, eventually};

#[test]
fn a_file_of_commands_is_worked_off_and_its_results_are_printed_in_order() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("new")).unwrap();
    let lines: String = (1..=40).map(|number| format!("echo $(({number} * 2))\n")).collect();
    let ids = sandbox.llts_with(&["add", "--each-line", "-"], format!("\n{lines}\r\n  \n").as_bytes()).ok().out;
    let ids: Vec<&str> = ids.lines().collect();
    assert!(ids.len() == 40 && ids.is_sorted(), "{ids:?}");
    let server = sandbox.server();
    let _workers = ["a", "b"].map(|name| sandbox.worker(name, &server));
    let watched = sandbox.llts(&["watch", "--until-done"]).ok();
    let last = watched.out.lines().last().unwrap_or_default();
    assert_eq!(last, "0 waiting, 0 in lists, 40 completed, 0 repeated, 0 failed by time, 0 failed by count, 0 invalid");
    let expected: String = (1..=40).map(|number| format!("{}\n", number * 2)).collect();
    assert_eq!(sandbox.llts(&["results"]).ok().out, expected);
    let json = sandbox.json(&["results"]);
    assert_eq!((&json["tasks"][0]["id"], &json["tasks"][39]["stdout"]), (&json!(ids[0]), &json!("80\n")));
    assert_eq!(sandbox.llts(&["results", "--failed"]).ok().out, "");
}

#[test]
fn what_cannot_be_a_command_is_refused_and_nothing_is_added() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("new")).unwrap();
    sandbox.llts(&["add", ""]).refused(2, "the command is empty");
    sandbox.llts(&["add", "a\nb"]).refused(2, "more than one line");
    sandbox.llts(&["add"]).code.filter(|code| *code == 2).expect("a usage error");
    let long = [b"echo ok\n".to_vec(), vec![b'x'; 2 << 20], b"\n".to_vec()].concat();
    for (stdin, why) in [
        (&b"echo ok\necho a\0b\n"[..], "line 2 of stdin cannot be a task: the command has a NUL byte"),
        (b"echo ok\n\necho \xff\n", "line 3 of stdin cannot be a task: it is not valid UTF-8"),
        (&long, "line 2 of stdin cannot be a task: it has more than 131071 bytes"),
    ] {
        sandbox.llts_with(&["add", "--each-line", "-"], stdin).refused(2, why);
    }
    sandbox.llts(&["add", "--each-line", "missing"]).refused(1, "cannot read missing");
    assert_eq!(sandbox.names("new"), [""; 0]);
    let longest = "x".repeat(131_071);
    sandbox.llts_with(&["add", "--each-line", "-"], longest.as_bytes()).ok();
    sandbox.command(&["add", "true", "--dir", "elsewhere"]).said().failed(2, "llts spool server elsewhere");
    sandbox.command(&["status"]).said().failed(2, "--dir DIR");
}

#[test]
fn two_processes_that_add_at_once_never_make_the_same_id() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("new")).unwrap();
    let lines = "true\n".repeat(300);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| sandbox.llts_with(&["add", "--each-line", "-"], lines.as_bytes()).ok());
        }
    });
    assert_eq!(sandbox.tasks("new").len(), 900);
}

#[test]
fn status_counts_tasks_and_lists() {
    let sandbox = Sandbox::new();
    (1..=2).for_each(|_| drop(sandbox.add(&["true"])));
    let status = sandbox.json(&["status"]);
    assert_eq!((&status["tasks"]["new"], &status["server"]), (&json!(2), &json!(null)), "{status}");
    let server = sandbox.server();
    // The folder of a list is made before its tasks are moved into it.
    eventually("a list", || sandbox.json(&["status"])["lists"]["open"] == 1);
    eventually("its tasks", || sandbox.json(&["status"])["tasks"]["open"] == 2);
    let status = sandbox.json(&["status"]);
    assert_eq!((&status["tasks"]["open"], &status["server"]), (&json!(2), &json!(server.id())), "{status}");
    let text = sandbox.llts(&["status"]).ok().out;
    assert!(text.lines().any(|line| line.split_whitespace().eq(["open", "2", "1"])), "{text}");
    assert!(text.contains(&format!("the server is process {}", server.id())), "{text}");
}

#[test]
fn close_forms_a_list_at_once_and_needs_a_server() {
    let mut sandbox = Sandbox::new();
    sandbox.set("LIST_AGE_MAX", "3600000");
    sandbox.add(&["true"]);
    sandbox.llts(&["close"]).refused(3, "start one with `llts spool server");
    let _server = sandbox.server();
    assert_eq!(sandbox.tasks("new").len(), 1);
    sandbox.llts(&["close"]).ok();
    assert_eq!((sandbox.tasks("new").len(), sandbox.names("open").len()), (0, 1));
}

#[test]
fn show_tells_every_attempt_of_a_task_and_retry_gives_it_one_more() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    let id = sandbox.add(&["[ -e good ] && echo fine || echo bad >&2", "--max-fails", "2"]);
    let nanos = id.strip_suffix("_0").unwrap();
    let form = |fails: u32| format!("{nanos}_{fails}");
    assert_eq!(sandbox.ended(&form(1)), "failed_count");
    let failed = sandbox.llts(&["results", "--failed"]).ok().out;
    assert_eq!(failed, format!("{} failed_count by w: [ -e good ] && echo fine || echo bad >&2\nbad\n", form(1)));
    sandbox.llts(&["retry", &id]).refused(1, "it is in failed_archive");
    sandbox.llts(&["retry", "1_0"]).refused(5, "there is no such task");
    fs::write(sandbox.root().join("good"), "").unwrap();
    assert_eq!(sandbox.llts(&["retry", "--failed"]).ok().out, format!("{}\n", form(2)));
    assert_eq!(sandbox.ended(&form(2)), "completed_archive");
    assert_eq!(sandbox.ended(&form(1)), "failed_archive");
    let tasks = sandbox.json(&["show", nanos])["tasks"].clone();
    let states: Vec<&str> = tasks.as_array().unwrap().iter().map(|task| task["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed_archive", "failed_archive", "completed_archive"]);
    assert_eq!((&tasks[0]["fails"], &tasks[2]["worker"], &tasks[2]["err"]), (&json!(0), &json!("w"), &json!(null)));
    let text = sandbox.llts(&["show", &form(2)]).ok().out;
    assert!(text.lines().any(|line| line.split_whitespace().eq(["state", "completed_archive"])), "{text}");
    sandbox.llts(&["show", "1_0"]).refused(5, "there is no task 1_0");
    assert_eq!(sandbox.llts(&["show", "x"]).code, Some(2));
}

#[test]
fn clean_removes_finished_tasks_and_asks_before() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    let (good, bad) = (sandbox.add(&["true"]), sandbox.add(&["echo no >&2"]));
    sandbox.ended(&good);
    sandbox.ended(&bad);
    sandbox.llts(&["clean"]).refused(2, "repeat with --yes");
    let removed = sandbox.json(&["clean", "--yes"])["removed"].clone();
    assert_eq!(removed, json!({ "completed_archive": 1, "failed_archive": 0 }));
    assert_eq!(sandbox.names("completed_archive"), [""; 0]);
    assert_eq!(sandbox.names("failed_count").len(), 3);
    sandbox.llts(&["clean", "--failed", "--yes"]).ok();
    assert_eq!(sandbox.names("failed_count"), [""; 0]);
}

#[test]
fn retry_gives_a_task_whose_time_has_passed_as_much_time_as_before() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    let id = "1448978609000000000_0";
    let text = format!("{id}\n1448978609\n1448985809\n0\n5\n0\necho fine\n");
    fs::write(sandbox.path(&format!("new/{id}.task")), text).unwrap();
    assert_eq!(sandbox.ended(id), "failed_time");
    let again = sandbox.llts(&["retry", id]).ok().out;
    assert_eq!(sandbox.ended(again.trim()), "completed_archive");
    let task = sandbox.json(&["show", again.trim()])["tasks"][0].clone();
    let now = proc::clock::now().wall.micros() / 1_000_000;
    let until = task["until"].as_u64().unwrap();
    assert!((now + 7000..=now + 7200).contains(&until), "{task}");
}
