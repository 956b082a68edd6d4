//! What a tool that stays can do wrong: each ends its task with a sentence, and no slot hangs.

use serde_json::Value;

use super::{make, query, run, serving, submit, text, tools, value};
use crate::cli::sandbox::{Sandbox, eventually};

/// A task, its exit code, and a part of the reason.
const TASKS: [(&str, i64, &str); 20] = [
    ("mode=dies", -9, ""),
    ("mode=exits code=3", 3, ""),
    ("mode=exits code=0", -136, "tool tool has ended without an answer"),
    ("mode=closes", -136, "has closed its connection without an answer"),
    ("mode=shuts", -136, "has closed its connection without an answer"),
    ("mode=other", -136, "has answered round 0 of task \"TASK_1.000000_aaaaa\", which it does not have"),
    ("mode=round", -136, "has answered round 1 of task"),
    ("mode=ready", -136, "has said twice that it is ready"),
    (
        "mode=garbage",
        -136,
        "has written a line that cannot be read: expected value at line 1 column 1: \"hello world\"",
    ),
    ("mode=binary", -136, "has written a line that cannot be read"),
    ("mode=list", -136, "has written a line that cannot be read"),
    ("mode=no-code", -136, "an \"exit_code\" from 0 to 255"),
    ("mode=big-code", -136, "an \"exit_code\" from 0 to 255"),
    ("mode=type", -136, "has written a line of the unknown type \"progress\"; known are ready and done"),
    ("mode=endless", -136, "has written a line of more than 16777216 bytes"),
    ("mode=twice", 0, ""),
    ("mode=flood", 0, ""),
    ("mode=exits-later", 0, ""),
    ("mode=exec --timeout 1", -15, ""),
    ("mode=stops --timeout 1", -15, ""),
];

#[test]
fn each_fault_in_a_task_is_named_and_the_next_task_runs() {
    let sandbox = serving("", "");
    for (task, code, named) in TASKS {
        let task_told = run(&sandbox, &format!("tool {task}"));
        let reason = text(&task_told, "__REASON__");
        let code_told = &task_told["__EXIT_CODE__"];
        assert!(*code_told == code && reason.contains(named), "{task}: {code_told}: {reason}");
        let next = run(&sandbox, "tool");
        assert_eq!((&next["__EXIT_CODE__"], &value(&next)["count"]), (&0.into(), &1.into()), "after {task}: {next}");
        assert_eq!(tools(&sandbox).len(), 1, "after {task}");
    }
    let dead = run(&sandbox, "tool mode=dies");
    assert_eq!(text(&dead, "__STDERR__"), "last words\n");
    let retried = run(&sandbox, "tool mode=dies --max-fails 2");
    assert_eq!((&retried["__ROUND__"], &retried["__FAILS__"]), (&2.into(), &3.into()), "{retried}");
    sandbox.ends_clean();
}

/// How a tool starts that never becomes ready, the exit code of its task, and a part of the reason.
const STARTS: [(&str, &str, i64, &str); 9] = [
    ("exits", "exit 4", 4, "tool exits has ended before it was ready"),
    ("stops", "exit 0", -136, "tool stops has ended before it was ready"),
    ("silent", "exec sleep 1000", -131, "was not ready after 1 s (start_timeout in its tool.toml)"),
    ("garbage", "echo ready >&3; exec sleep 1000", -131, "cannot be read"),
    (
        "old",
        "echo '{\"type\":\"ready\"}' >&3; exec sleep 1000",
        -131,
        "is ready in version none, and this agent knows 1",
    ),
    ("new", "echo '{\"type\":\"ready\",\"version\":9}' >&3; exec sleep 1000", -131, "is ready in version 9"),
    (
        "hasty",
        "echo '{\"type\":\"done\",\"id\":\"x\",\"round\":0,\"exit_code\":0}' >&3; exec sleep 1000",
        -131,
        "has answered before it was ready",
    ),
    ("closed", "exec 3>&-; exec sleep 1000", -131, "has closed its connection before it was ready"),
    ("loud", "echo trouble >&2; exit 1", 1, "has ended before it was ready"),
];

#[test]
fn each_fault_at_the_start_is_named_and_no_process_is_left() {
    let sandbox = Sandbox::new();
    for (name, script, ..) in STARTS {
        make(&sandbox, name, &format!("#!/bin/sh\n{script}\n"), "start_timeout = 1");
    }
    sandbox.ok("up 1");
    for (name, _, code, named) in STARTS {
        let task = run(&sandbox, name);
        let (told, reason) = (&task["__EXIT_CODE__"], text(&task, "__REASON__"));
        assert!(*told == code && reason.contains(named), "{name}: {told}: {reason}");
        assert_eq!(tools(&sandbox), [0; 0], "{name}");
    }
    assert_eq!(text(&run(&sandbox, "loud"), "__STDERR__"), "trouble\n");
    let id = submit(&sandbox, "silent");
    eventually("it is being started", || tools(&sandbox).len() == 1);
    sandbox.ok(&format!("kill {id}"));
    sandbox.llts(&format!("wait {id}"));
    assert_eq!(text(&query(&sandbox, &id), "__OUTCOME__"), "KILLED");
    assert_eq!(tools(&sandbox), [0; 0]);
    sandbox.ends_clean();
}

/// A tool that ends between two tasks, at any moment of them: no task fails for that.
#[test]
fn a_tool_that_ends_between_tasks_costs_no_task() {
    let sandbox = serving("", "");
    let mut pids: Vec<Value> = Vec::new();
    for _ in 0..30 {
        let task = run(&sandbox, "tool mode=exits-later");
        assert_eq!(task["__EXIT_CODE__"], 0, "{task}");
        let next = run(&sandbox, "tool");
        assert_eq!((&next["__EXIT_CODE__"], &next["__ROUND__"]), (&0.into(), &0.into()), "{next}");
        pids.push(value(&next)["pid"].clone());
    }
    pids.dedup();
    assert_eq!(pids.len(), 30);
    sandbox.ends_clean();
}

/// The first process ends without having read its task, by itself or by a signal.
#[test]
fn a_task_that_was_not_read_gets_another_process_in_the_same_round() {
    let sandbox = Sandbox::new();
    let ready = r#"echo '{"type":"ready","version":1}' >&3"#;
    for (name, end) in [("exits", "exit 0"), ("dies", "kill -9 $$")] {
        let first = format!("if mkdir {}/{name}; then {ready}; sleep 0.3; {end}; fi", sandbox.root().display());
        let answers = r#"read line <&3; id=${line#*\"id\":\"}; id=${id%%\"*}"#;
        let done = r#"echo '{"type":"done","id":"'$id'","round":0,"exit_code":0}' >&3; exec sleep 1000"#;
        make(&sandbox, name, &format!("#!/bin/bash\n{first}\n{ready}\n{answers}\n{done}\n"), "");
    }
    sandbox.ok("up 1");
    for name in ["exits", "dies"] {
        let task = run(&sandbox, name);
        assert_eq!((text(&task, "__OUTCOME__"), &task["__ROUND__"]), ("SUCCEEDED", &0.into()), "{name}: {task}");
    }
    sandbox.ends_clean();
}

#[test]
fn a_tool_without_the_table_does_not_stay() {
    let sandbox = serving("", "");
    sandbox.tool("plain", "echo plain");
    sandbox.write("tools/plain/tool.toml", "description = \"plain\"\n");
    sandbox.ok("tool pack tools/plain");
    let task = run(&sandbox, "plain");
    assert_eq!(
        (&task["__EXIT_CODE__"], task.get("__WARM__"), task.get("__VALUE__")),
        (&0.into(), None, None),
        "{task}"
    );
    sandbox.ends_clean();
}
