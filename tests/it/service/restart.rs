//! A controller that is killed and started again: agents are there again as soon as they are connected, whenever their next
//! heartbeat is due.

use std::fs;

use serde_json::json;

use crate::service::sandbox::{Sandbox, eventually};

/// Milliseconds: no test waits for a heartbeat.
const INTERVAL: (&str, &str) = ("LLTS_AGENT_HEARTBEAT_INTERVAL", "600000");

fn start(tools: &[(&str, &str)]) -> Sandbox {
    let interval = [(INTERVAL.0, INTERVAL.1.to_owned())];
    let mut sandbox = Sandbox::start_with(0, tools, &interval);
    sandbox.agent("agent-1", &interval);
    sandbox
}

#[test]
fn a_free_agent_gets_a_task_as_soon_as_the_controller_is_back() {
    let mut sandbox = start(&[("hello", "echo hello > report.log")]);
    for _ in 0..2 {
        let client = sandbox.client();
        let task = client.end(&client.submit("hello", json!({})));
        assert_eq!(task["__REPORT_LOG__"], "hello\n", "{task}");
        sandbox.restart_controller(&[(INTERVAL.0, INTERVAL.1.to_owned())]);
    }
}

#[test]
fn a_result_that_the_controller_was_not_there_for_is_told_as_soon_as_it_is_back() {
    let script =
        "until [ -e \"$PARAM_until\" ]; do sleep 0.05; done; echo seen > report.log; touch \"$PARAM_until.seen\"";
    let mut sandbox = start(&[("patient", script)]);
    let client = sandbox.client();
    let until = sandbox.path("until");
    let task = client.submit("patient", json!({ "until": until }));
    client.until("TASK/QUERY", &json!({ "__TASK_ID__": task }), |task| task["__STATUS__"] == "RUNNING");
    sandbox.kill_controller();
    fs::write(&until, "").unwrap();
    eventually("run.sh ends", || sandbox.path("until.seen").exists());
    sandbox.restart_controller(&[(INTERVAL.0, INTERVAL.1.to_owned())]);
    let client = sandbox.client();
    let ended = client.end(&task);
    assert_eq!((&ended["__OUTCOME__"], &ended["__REPORT_LOG__"]), (&json!("SUCCEEDED"), &json!("seen\n")), "{ended}");
    client.end(&client.submit("patient", json!({ "until": until })));
}
