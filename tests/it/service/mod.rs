//! The real binary, driven with raw JSON over a plain REQ socket and a bound DEALER: every table of the document.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod addresses;
mod commands;
mod graph_sources;
mod graphs;
mod jobs;
mod peers;
mod restart;
mod sandbox;
mod sources;
mod tools;

use serde_json::{Value, json};

use sandbox::{Receiver, Sandbox};

const HELLO: (&str, &str) = ("hello", "echo \"hello, $PARAM_name\" > report.log");
const PATIENT: (&str, &str) = ("patient", "until [ -e \"$PARAM_until\" ]; do sleep 0.05; done");

/// docs/sources/controller.md, 2.1, 2.3.
#[test]
fn a_task_is_submitted_pushed_and_queried() {
    let sandbox = Sandbox::start(1, &[HELLO]);
    let (client, receiver) = (sandbox.client(), Receiver::bind());
    let fields = json!({ "__ADDRESS__": receiver.address, "__GIVEN_ID__": "mine", "name": "Rust" });
    let id = client.submit("hello", fields);
    let phases = ["PREPARING", "RUNNING", "ENDED", "FINISHED"];
    for (seq, phase) in (1..).zip(phases) {
        let push = receiver.next();
        let head = (&push["__TYPE__"], &push["__TASK_ID__"], &push["__STATUS__"], &push["__SEQ__"]);
        let expected = (&json!("TASK/STATUS"), &json!(id), &json!(phase), &json!(seq));
        assert_eq!(head, expected, "{push}");
        let ended = phase >= "ENDED" && phase != "PREPARING" && phase != "RUNNING";
        assert_eq!(push["__REPORT_LOG__"], if ended { json!("hello, Rust\n") } else { Value::Null });
    }
    for query in [json!({ "__TASK_ID__": id }), json!({ "__GIVEN_ID__": "mine", "name": "Rust" })] {
        let task = client.ask("TASK/QUERY", query);
        assert_eq!((&task["__CODE__"], &task["__EXIT_CODE__"]), (&json!(0), &json!(0)), "{task}");
        assert_eq!(task["__OUTCOME__"], "SUCCEEDED");
    }
    assert_eq!(client.code("TASK/QUERY", json!({ "__GIVEN_ID__": "mine", "name": "Python" })), -1004);
}

/// docs/sources/controller.md, 2.2.
#[test]
fn a_task_is_killed_while_it_waits_and_while_it_runs() {
    let sandbox = Sandbox::start(1, &[PATIENT]);
    let (client, receiver) = (sandbox.client(), Receiver::bind());
    let never = json!({ "until": "/nonexistent", "__ADDRESS__": receiver.address });
    let running = client.submit("patient", never.clone());
    client.until("TASK/QUERY", &json!({ "__TASK_ID__": running }), |task| task["__STATUS__"] == "RUNNING");
    let waiting = client.submit("patient", never);
    assert_eq!(client.code("TASK/KILL", json!({ "__TASK_ID__": waiting })), 0);
    let task = client.end(&waiting);
    assert_eq!((&task["__KILLED__"], &task["__EXIT_CODE__"]), (&json!("TRUE"), &Value::Null), "{task}");
    assert_eq!(client.code("TASK/KILL", json!({ "__TASK_ID__": running })), 0);
    let task = client.end(&running);
    assert_eq!((&task["__OUTCOME__"], &task["__EXIT_CODE__"]), (&json!("KILLED"), &json!(-15)), "{task}");
    let finished: Vec<Value> = std::iter::from_fn(|| Some(receiver.next()))
        .filter(|push| push["__STATUS__"] == "FINISHED")
        .take(2)
        .map(|push| push["__TASK_ID__"].clone())
        .collect();
    assert_eq!(finished, [json!(waiting), json!(running)]);
    assert_eq!(client.code("TASK/KILL", json!({ "__TASK_ID__": running })), 0);
    assert_eq!(client.code("TASK/KILL", json!({ "__GIVEN_ID__": "x" })), -1004);
}

/// docs/sources/controller.md, 2.4, 2.5, 2.6.
#[test]
fn agents_and_tasks_are_counted_and_listed() {
    let sandbox = Sandbox::start(2, &[PATIENT]);
    let client = sandbox.client();
    let until = sandbox.path("until");
    let tasks: Vec<String> = (0..3).map(|_| client.submit("patient", json!({ "until": until }))).collect();
    client.until("TASK/STATISTIC", &json!({}), |counts| counts["RUNNING"] == 2 && counts["WAITING"] == 1);
    let agents = client.ask("AGENT/QUERY", json!({}));
    let numbers = ["__TOTAL__", "__FREE__", "__BUSY__", "__LOST__"].map(|name| agents[name].as_u64().unwrap());
    assert_eq!(numbers, [2, 0, 2, 0]);
    let agents = client.ask("AGENT/DETAILS", json!({}));
    assert_eq!(agents["agent-2"]["__AGENT_STATUS__"], "BUSY", "{agents}");
    let page = client.ask("TASK/DETAILS", json!({ "__STATUS__": "WAITING" }));
    assert_eq!((&page["__TOTAL__"], &page[&tasks[2]]["__STATUS__"]), (&json!(1), &json!("WAITING")), "{page}");
    let page = client.ask("TASK/DETAILS", json!({ "__OFFSET__": 1, "__LIMIT__": 1 }));
    assert_eq!((&page["__TOTAL__"], page[&tasks[1]].is_object()), (&json!(3), true), "{page}");
    std::fs::write(until, "").unwrap();
    for task in &tasks {
        client.end(task);
    }
    let counts = client.ask("TASK/STATISTIC", json!({}));
    let numbers = ["WAITING", "DISPATCHED", "PREPARING", "RUNNING", "ENDED", "FINISHED"].map(|name| &counts[name]);
    assert_eq!(numbers, [&json!(0), &json!(0), &json!(0), &json!(0), &json!(0), &json!(3)]);
}

/// `__CODE__` (docs/sources/controller.md, 2.7).
#[test]
fn every_code_comes_with_a_sentence() {
    let sandbox = Sandbox::start(0, &[]);
    let client = sandbox.client();
    assert_eq!(client.raw(b"{")["__CODE__"], -1001);
    assert_eq!(client.raw(b"{}")["__CODE__"], -1002);
    for (kind, fields, code) in [
        ("TASK/DANCE", json!({}), -1003),
        ("TASK/KILL", json!({ "__TASK_ID__": "TASK_1480000000.120000_AZazA" }), -1004),
        ("AGENT/HEARTBEAT", json!({}), -1005),
        ("TASK/SUBMIT", json!({}), -1006),
        ("TASK/SUBMIT", json!({ "__OPERATION__": "../x" }), -1006),
        ("TASK/SUBMIT", json!({ "__OPERATION__": "x", "__ADDRESS__": "ipc:///tmp/x" }), -1007),
        ("TASK/SUBMIT", json!({ "__OPERATION__": "x", "nested": {} }), -1007),
        ("TASK/INTERNAL/APPLY", json!({ "__AGENT_ID__": "a" }), -1010),
        ("TASK/STATISTIC", json!({}), 0),
    ] {
        assert_eq!(client.code(kind, fields.clone()), code, "{kind} {fields}");
    }
}

/// `__EXIT_CODE__`; for -129 see `tools.rs` (docs/sources/controller.md, 2.7).
#[test]
fn every_exit_code_is_told() {
    let sandbox = Sandbox::start(1, &[("seven", "exit 7"), ("signal", "kill -9 $$"), ("broken", "exit 0")]);
    std::fs::write(sandbox.path("testTools/broken.tar.gz"), "no archive").unwrap();
    let client = sandbox.client();
    for (tool, code) in [("seven", 7), ("signal", -9), ("broken", -130)] {
        let task = client.end(&client.submit(tool, json!({})));
        assert_eq!((&task["__EXIT_CODE__"], &task["__OUTCOME__"]), (&json!(code), &json!("FAILED")), "{task}");
    }
}

/// An error of one client does not affect another one.
#[test]
fn a_client_that_asks_nonsense_goes_on() {
    let sandbox = Sandbox::start(1, &[HELLO]);
    let client = sandbox.client();
    for body in [&b"\xff\xfe"[..], b"[]", b"null", b"\"x\"", b"{\"a\":1}{\"a\":2}", b"{\"a\":1,\"a\":2}", b""] {
        assert_eq!(client.raw(body)["__CODE__"], -1001, "{body:?}");
    }
    let task = client.end(&client.submit("hello", json!({ "name": "again" })));
    assert_eq!(task["__REPORT_LOG__"], "hello, again\n");
}
