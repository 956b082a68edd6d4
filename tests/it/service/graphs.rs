//! Step graphs over the wire, also across kill -9 of the controller.

use std::fs;

use serde_json::{Value, json};

use crate::service::sandbox::{Client, Receiver, Sandbox};

const PATIENT: (&str, &str) = ("patient", "until [ -e \"$PARAM_until\" ]; do sleep 0.05; done");
const QUICK: (&str, &str) = ("quick", "exit ${PARAM_code:-0}");

pub(crate) fn submit(client: &Client, document: &Value, more: &Value) -> String {
    let mut request = json!({ "__TYPE__": "GRAPH/SUBMIT", "__GRAPH__": document.to_string() });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = client.raw(request.to_string().as_bytes());
    assert_eq!(answer["__CODE__"], 0, "{answer}");
    answer["__GRAPH_ID__"].as_str().unwrap().to_owned()
}

/// The end of a graph.
pub(crate) fn end(client: &Client, graph: &str) -> Value {
    client.until("GRAPH/QUERY", &json!({ "__GRAPH_ID__": graph, "__WAIT__": 10_000 }), |graph| {
        graph["__END_TIME__"].is_number()
    })
}

/// The changes of a graph until its end, each after the one before it.
fn changes(receiver: &Receiver, graph: &str) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    loop {
        let push = receiver.next();
        if push["__TYPE__"] != "GRAPH/STATUS" {
            continue;
        }
        assert_eq!((&push["__GRAPH_ID__"], &push["__SEQ__"]), (&json!(graph), &json!(found.len() + 1)), "{push}");
        let is_last = push.get("__STEP__").is_none();
        found.push(push);
        if is_last {
            return found;
        }
    }
}

#[test]
fn a_graph_runs_and_tells_of_each_step() {
    let sandbox = Sandbox::start(2, &[QUICK]);
    let (client, receiver) = (sandbox.client(), Receiver::bind());
    let document = json!({ "name": "two", "steps": {
        "a": { "operation": "quick", "tasks": 2 },
        "b": { "operation": "quick", "inputs": { "in": ["a.out"] } },
    } });
    let graph = submit(&client, &document, &json!({ "__ADDRESS__": receiver.address, "__GIVEN_ID__": "mine" }));
    let found = changes(&receiver, &graph);
    let of_b: Vec<&str> =
        found.iter().filter(|push| push["__STEP__"] == "b").map(|push| push["__STATE__"].as_str().unwrap()).collect();
    assert_eq!(of_b, ["PREPARED", "RUNNING", "COMPLETED", "DEACTIVATED"]);
    assert_eq!(found.last().unwrap()["__STATUS__"], "SUCCEEDED");
    let shown = end(&client, &graph);
    let head = ["__STATUS__", "__NAME__", "__GIVEN_ID__"].map(|name| shown[name].as_str().unwrap());
    assert_eq!(head, ["SUCCEEDED", "two", "mine"]);
    assert_eq!((&shown["DEACTIVATED"], &shown["CREATED"]), (&json!(2), &json!(0)), "{shown}");
    let steps = client.ask("GRAPH/DETAILS", json!({ "__GRAPH_ID__": graph }));
    assert_eq!(steps["a"]["__TASKS__"]["FINISHED"].as_array().map(Vec::len), Some(2), "{steps}");
    let graphs = client.ask("GRAPH/DETAILS", json!({}));
    assert_eq!((&graphs["__TOTAL__"], &graphs[&graph]["__STATUS__"]), (&json!(1), &json!("SUCCEEDED")), "{graphs}");
    let tasks = client.ask("TASK/DETAILS", json!({ "__GRAPH_ID__": graph, "__STEP__": "a" }));
    assert_eq!(tasks["__TOTAL__"], 2, "{tasks}");

    let failing = json!({ "steps": { "a": { "operation": "quick", "parameters": { "code": 3 } } } });
    let graph = submit(&client, &failing, &json!({}));
    let shown = end(&client, &graph);
    assert_eq!(shown["__STATUS__"], "FAILED");
    assert!(shown["__REASON__"].as_str().unwrap().starts_with("step a: task TASK_"), "{shown}");
}

/// What the tasks of a step provide is what those of the next one find, through the files of the agents.
#[test]
fn locations_go_from_step_to_step() {
    let tools = [
        ("split", "printf '/x\n/y\n' > ../provide/out"),
        ("count", "cat ../inputs/in > report.log; echo \"/of$INPUT_in\" > ../provide/out"),
        ("merge", "cat ../inputs/in > report.log"),
    ];
    let sandbox = Sandbox::start(2, &tools);
    let client = sandbox.client();
    let document = json!({ "steps": {
        "split": { "operation": "split" },
        "count": { "operation": "count", "inputs": { "in": ["split.out"] }, "tasks": "in" },
        "merge": { "operation": "merge", "inputs": { "in": ["count.out"] } },
    } });
    let graph = submit(&client, &document, &json!({}));
    assert_eq!(end(&client, &graph)["__STATUS__"], "SUCCEEDED");
    let reports = |step: &str| -> Vec<String> {
        let tasks = client.ask("TASK/DETAILS", json!({ "__GRAPH_ID__": graph, "__STEP__": step }));
        let rows = tasks.as_object().unwrap().values().filter(|row| row.is_object());
        let mut found: Vec<String> = rows.map(|row| row["__REPORT_LOG__"].as_str().unwrap().to_owned()).collect();
        found.sort();
        found
    };
    assert_eq!(reports("count"), ["/x\n", "/y\n"], "each task its own partition");
    assert_eq!(reports("merge"), ["/of/x\n/of/y\n"], "all of them, in their order");
}

/// As a LIMIT does: the rest is not needed any more.
#[test]
fn a_step_that_is_completed_ends_its_run_with_what_it_has() {
    let endless = "trap 'echo /part > ../provide/out; exit 0' TERM; while :; do sleep 0.05; done";
    let sandbox = Sandbox::start(1, &[("endless", endless), ("merge", "cat ../inputs/in > report.log")]);
    let client = sandbox.client();
    let document = json!({ "steps": {
        "a": { "operation": "endless", "tasks": 3 },
        "b": { "operation": "merge", "inputs": { "in": ["a.out"] } },
    } });
    let graph = submit(&client, &document, &json!({}));
    client.until("GRAPH/DETAILS", &json!({ "__GRAPH_ID__": graph }), |steps| {
        steps["a"]["__TASKS__"]["RUNNING"].is_array()
    });
    assert_eq!(client.code("STEP/COMPLETE", json!({ "__GRAPH_ID__": graph, "__STEP__": "a" })), 0);
    assert_eq!(end(&client, &graph)["__STATUS__"], "SUCCEEDED");
    let tasks = client.ask("TASK/DETAILS", json!({ "__GRAPH_ID__": graph }));
    let outcomes =
        |wanted: &str| tasks.as_object().unwrap().values().filter(|row| row["__OUTCOME__"] == wanted).count();
    assert_eq!((outcomes("SUCCEEDED"), outcomes("SKIPPED")), (2, 2), "{tasks}");
    let merged = tasks.as_object().unwrap().values().find(|row| row["__STEP__"] == "b").unwrap();
    assert_eq!(merged["__REPORT_LOG__"], "/part\n");
}

#[test]
fn a_graph_survives_a_killed_controller() {
    let mut sandbox = Sandbox::start(2, &[PATIENT, QUICK]);
    let client = sandbox.client();
    let until = sandbox.path("until");
    let document = json!({ "steps": {
        "a": { "operation": "patient", "parameters": { "until": until } },
        "b": { "operation": "quick", "inputs": { "in": ["a.out"] }, "tasks": "in" },
        "c": { "operation": "quick", "inputs": { "in": ["b.out"] }, "tasks": 3 },
    } });
    let key = json!({ "__SUBMIT_KEY__": "once" });
    let graph = submit(&client, &document, &key);
    let running = client.until("GRAPH/DETAILS", &json!({ "__GRAPH_ID__": graph }), |steps| {
        steps["a"]["__TASKS__"]["RUNNING"].is_array()
    });
    let task = running["a"]["__TASKS__"]["RUNNING"][0].clone();
    let early = json!({ "__TASK_ID__": task, "__PORT__": "out", "__LOCATION__": "/early" });
    assert_eq!(client.code("STEP/PROVIDING", early), 0);
    client.until("GRAPH/DETAILS", &json!({ "__GRAPH_ID__": graph }), |steps| {
        steps["b"]["__TASKS__"]["FINISHED"].is_array() && steps["a"]["__STATE__"] == "RUNNING"
    });
    sandbox.kill_controller();
    sandbox.restart_controller(&[]);
    let client = sandbox.client();
    assert_eq!(submit(&client, &document, &key), graph, "the same key is the same graph");
    fs::write(&until, "").unwrap();
    assert_eq!(end(&client, &graph)["__STATUS__"], "SUCCEEDED");
    let steps = client.ask("GRAPH/DETAILS", json!({ "__GRAPH_ID__": graph }));
    let counts = ["a", "b", "c"].map(|step| steps[step]["__TOTAL__"].as_u64().unwrap());
    assert_eq!(counts, [1, 1, 3], "{steps}");
    assert_eq!(client.ask("TASK/STATISTIC", json!({}))["FINISHED"], 5, "no task twice");
    assert_eq!(client.code("TASK/RETRY", json!({ "__TASK_ID__": task })), -1011);
}

#[test]
fn a_graph_is_killed_as_its_job_is() {
    let sandbox = Sandbox::start(1, &[PATIENT]);
    let client = sandbox.client();
    let document =
        json!({ "steps": { "a": { "operation": "patient", "parameters": { "until": "/nonexistent" }, "tasks": 2 } } });
    for (kind, word) in [("GRAPH/KILL", "__GRAPH_ID__"), ("JOB/KILL", "__JOB__")] {
        let graph = submit(&client, &document, &json!({}));
        client.until("GRAPH/DETAILS", &json!({ "__GRAPH_ID__": graph }), |steps| {
            steps["a"]["__TASKS__"]["RUNNING"].is_array()
        });
        assert_eq!(client.code(kind, json!({ word: graph, "__REASON__": "enough" })), 0);
        let shown = end(&client, &graph);
        assert_eq!(
            (&shown["__STATUS__"], &shown["__REASON__"]),
            (&json!("KILLED"), &json!("killed by a client: enough"))
        );
    }
    assert_eq!(client.code("GRAPH/KILL", json!({ "__GRAPH_ID__": "GRAPH_1480000000.120000_AZazA" })), -1004);
}

/// The document is longer than other messages, and its changes are more than a queue of pushes has room for.
#[test]
fn a_long_document_is_taken_and_every_change_of_it_is_pushed() {
    let sandbox = Sandbox::start(0, &[]);
    let (client, receiver) = (sandbox.client(), Receiver::bind());
    const STEPS: usize = 4_000;
    let step = |number: usize| {
        let step =
            json!({ "operation": "quick", "tasks": 0, "parameters": { "number": number, "text": "x".repeat(50) } });
        (format!("s{number}"), step)
    };
    let steps: serde_json::Map<String, Value> = (0..STEPS).map(step).collect();
    let graph = submit(&client, &json!({ "steps": steps }), &json!({ "__ADDRESS__": receiver.address }));
    let found = changes(&receiver, &graph);
    assert_eq!(found.len(), 4 * STEPS + 1);
    let page = client.ask("GRAPH/DETAILS", json!({ "__GRAPH_ID__": graph, "__LIMIT__": 10 }));
    assert_eq!(page["__TOTAL__"], STEPS, "{page}");
}
