//! Step graphs whose steps run programs that the agents fetch: `__SOURCE__`, `__SOURCE_SHA256__` and `__INPUT__` in a `policy`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::service::graphs::{end, submit};
use crate::service::sandbox::{Client, Sandbox, eventually};
use crate::service::sources::{Server, digits, start};

/// A step with this program, `p`.
fn step(policy: &Value) -> Value {
    json!({ "operation": "p", "policy": policy })
}

/// The answer to the submit of a graph with this step `s`.
fn answer(client: &Client, step: &Value) -> Value {
    client.ask("GRAPH/SUBMIT", json!({ "__GRAPH__": json!({ "steps": { "s": step } }).to_string() }))
}

#[track_caller]
fn refused(client: &Client, step: &Value, code: i32, sentence: &str) {
    let reply = answer(client, step);
    assert_eq!((&reply["__CODE__"], &reply["__ERROR_MSG__"]), (&json!(code), &json!(sentence)), "{step}");
}

#[test]
fn the_program_of_a_step_is_fetched_and_finds_what_a_task_of_a_step_finds() {
    let (sandbox, server) = (start(2, "600000"), Server::start());
    let client = sandbox.client();
    let script = "#!/bin/sh\necho \"$1 $PARAM_x $__STEP__\" >report.log\nsed s,^,$1, ../inputs/in >../provide/out\n";
    server.says("200 OK", script.as_bytes());
    let document = json!({ "policy": { "__MAX_FAILS__": 1 }, "steps": {
        "list": { "command": ["sh", "-c", "printf '1\\n2\\n' >../provide/out"] },
        "mark": {
            "operation": "p", "inputs": { "in": ["list.out"] }, "tasks": "in", "parameters": { "x": 7 },
            "policy": {
                "__SOURCE__": server.url("run.sh"), "__SOURCE_SHA256__": digits(script.as_bytes()),
                "__INPUT__": "\"/a$((1 + 1))\"",
            },
        },
        "merge": { "command": ["cp", "../inputs/in", "report.log"], "inputs": { "in": ["mark.out"] } },
    } });
    let graph = submit(&client, &document, &json!({}));
    let shown = end(&client, &graph);
    assert_eq!(shown["__STATUS__"], "SUCCEEDED", "{shown}");
    let tasks = client.ask("TASK/DETAILS", json!({ "__GRAPH_ID__": graph }));
    let reports = |step: &str| -> Vec<&str> {
        let rows = tasks.as_object().unwrap().values().filter(|row| row["__STEP__"] == step);
        rows.map(|row| row["__REPORT_LOG__"].as_str().unwrap()).collect()
    };
    assert_eq!(reports("mark"), ["/a2 7 mark\n", "/a2 7 mark\n"]);
    assert_eq!(reports("merge"), ["/a21\n/a22\n"]);
    let steps = client.ask("GRAPH/DETAILS", json!({ "__GRAPH_ID__": graph }));
    assert_eq!(steps["mark"]["__OPERATION__"], "p", "people read the name of the program: {steps}");
    assert_eq!(server.asked(), 1, "once per machine");
}

#[test]
fn a_step_with_another_checksum_fails_the_graph() {
    let (sandbox, server) = (start(1, "0"), Server::start());
    let client = sandbox.client();
    server.says("200 OK", b"#!/bin/sh\n");
    let policy = json!({ "__SOURCE__": server.url("run.sh"), "__SOURCE_SHA256__": "0".repeat(64) });
    let graph = submit(&client, &json!({ "steps": { "s": step(&policy) } }), &json!({}));
    let shown = end(&client, &graph);
    assert_eq!(shown["__STATUS__"], "FAILED");
    let reason = shown["__REASON__"].as_str().unwrap();
    let is_named = ["step s: task TASK_", "__SOURCE_SHA256__", &digits(b"#!/bin/sh\n"), &server.url("run.sh")];
    assert!(is_named.iter().all(|part| reason.contains(part)), "{reason}");
    let tasks = client.ask("TASK/DETAILS", json!({ "__GRAPH_ID__": graph }));
    let task = tasks.as_object().unwrap().values().find(|row| row.is_object()).unwrap();
    assert_eq!(task["__EXIT_CODE__"], -130, "{task}");
}

#[test]
fn a_source_that_is_not_allowed_is_refused_with_its_step() {
    let off = Sandbox::start(0, &[]);
    refused(
        &off.client(),
        &step(&json!({ "__SOURCE__": "https://example.org/p.zip" })),
        -1011,
        "step s: __SOURCE__: this service fetches no programs: list the schemes and the hosts in source.ALLOW_SCHEMES and \
         source.ALLOW_HOSTS of its configuration",
    );
    let sandbox = start(0, "0");
    let client = sandbox.client();
    for (source, sentence) in [
        (
            "https://127.0.0.1/p.zip",
            "https is not in source.ALLOW_SCHEMES, so that \"https://127.0.0.1/p.zip\" is not fetched",
        ),
        (
            "http://127.0.0.2/p.zip",
            "the host \"127.0.0.2\" is not in source.ALLOW_HOSTS, so that \"http://127.0.0.2/p.zip\" is not fetched",
        ),
        (
            "rsync:/etc/p.zip",
            "\"rsync:/etc/p.zip\" names no host in a form that can be checked; write http://HOST/…, https://HOST/… or \
             rsync:HOST:…",
        ),
    ] {
        refused(&client, &step(&json!({ "__SOURCE__": source })), -1011, &format!("step s: __SOURCE__: {sentence}"));
    }
    assert_eq!(answer(&client, &step(&json!({ "__SOURCE__": "http://127.0.0.1/p.zip" })))["__CODE__"], 0);
    // The controller alone may leave a source unchecked, and the service alone says what is allowed.
    let unchecked = json!({ "__SOURCE__": "http://127.0.0.2/p.zip", "__SOURCE_UNCHECKED__": true });
    let sentence = "__SOURCE_UNCHECKED__ is for the tasks of the controller itself: leave it out";
    refused(&client, &step(&unchecked), -1011, sentence);
    let second = json!({ "steps": { "a": { "operation": "installed" }, "b": step(&unchecked) } }).to_string();
    assert_eq!(client.code("GRAPH/SUBMIT", json!({ "__GRAPH__": second })), -1011);
    let common = json!({ "policy": { "__SOURCE_UNCHECKED__": true }, "steps": { "a": { "operation": "installed" } } });
    assert_eq!(client.code("GRAPH/SUBMIT", json!({ "__GRAPH__": common.to_string() })), -1007);
    let allowed = json!({ "__SOURCE__": "http://127.0.0.2/p.zip", "__ALLOWED_SOURCES__": "any" });
    let reply = answer(&client, &step(&allowed));
    assert_eq!(reply["__CODE__"], -1007, "{reply}");
    assert!(reply["__ERROR_MSG__"].as_str().unwrap().contains("is not a field of a submit"), "{reply}");
    let hidden = json!({ "operation": "p", "parameters": unchecked });
    assert_eq!(answer(&client, &hidden)["__CODE__"], -1007);
}

/// The input of a program is text for a shell, as a command is.
#[test]
fn the_input_of_a_step_is_taken_from_those_alone_that_may_send_commands() {
    let config = [
        ("LLTS_SOURCE_ALLOW_SCHEMES", "http".to_owned()),
        ("LLTS_SOURCE_ALLOW_HOSTS", "127.0.0.1".to_owned()),
        ("LLTS_ALLOW_COMMANDS", "no".to_owned()),
    ];
    let sandbox = Sandbox::start_with(0, &[], &config);
    let client = sandbox.client();
    let policy = json!({ "__SOURCE__": "http://127.0.0.1/p.zip" });
    assert_eq!(answer(&client, &step(&policy))["__CODE__"], 0);
    for (name, input) in [("__INPUT__", "; id"), ("__INPUT_HEX__", "6964")] {
        let mut policy = policy.clone();
        policy[name] = input.into();
        let reply = answer(&client, &step(&policy));
        assert_eq!(reply["__CODE__"], -1011, "{name}: {reply}");
        assert!(reply["__ERROR_MSG__"].as_str().unwrap().contains("ALLOW_COMMANDS"), "{reply}");
        let later =
            json!({ "steps": { "a": step(&json!({ "__SOURCE__": "http://127.0.0.1/p.zip" })), "b": step(&policy) } });
        assert_eq!(client.code("GRAPH/SUBMIT", json!({ "__GRAPH__": later.to_string() })), -1011, "{name}");
    }
}

/// What was allowed at the submit is allowed to the end of the graph, also by a controller that allows nothing any more.
#[test]
fn a_graph_keeps_its_allowed_sources_when_the_controller_is_killed() {
    let (mut sandbox, server) = (start(1, "0"), Server::start());
    let client = sandbox.client();
    server.says("200 OK", b"#!/bin/sh\necho fetched >report.log\n");
    let until = sandbox.path("until");
    let wait = format!("until [ -e {} ]; do sleep 0.05; done", until.display());
    let document = json!({ "steps": {
        "a": { "command": ["sh", "-c", wait] },
        "b": {
            "operation": "p", "inputs": { "in": ["a.out"] },
            "policy": { "__SOURCE__": server.url("run.sh"), "__INPUT__": "x" },
        },
    } });
    let graph = submit(&client, &document, &json!({}));
    client.until("GRAPH/DETAILS", &json!({ "__GRAPH_ID__": graph }), |steps| {
        steps["a"]["__TASKS__"]["RUNNING"].is_array()
    });
    sandbox.kill_controller();
    sandbox.restart_controller(&[]);
    let client = sandbox.client();
    let reply = answer(&client, &step(&json!({ "__SOURCE__": server.url("run.sh") })));
    assert_eq!(reply["__CODE__"], -1011, "nothing new is allowed: {reply}");
    release(&until);
    let shown = end(&client, &graph);
    assert_eq!(shown["__STATUS__"], "SUCCEEDED", "{shown}");
    let tasks = client.ask("TASK/DETAILS", json!({ "__GRAPH_ID__": graph, "__STEP__": "b" }));
    let task = tasks.as_object().unwrap().values().find(|row| row.is_object()).unwrap();
    assert_eq!(task["__REPORT_LOG__"], "fetched\n");
    assert_eq!(client.ask("TASK/STATISTIC", json!({}))["FINISHED"], 2, "no task twice");
}

/// The program of a step that has begun is not begun again because the controller was killed.
#[test]
fn a_fetched_program_goes_on_while_the_controller_is_away() {
    let (mut sandbox, server) = (start(1, "600000"), Server::start());
    let client = sandbox.client();
    let until = sandbox.path("until");
    let begun = sandbox.path("begun");
    let script = "#!/bin/sh\necho x >>\"$PARAM_begun\"; until [ -e \"$PARAM_until\" ]; do sleep 0.05; done\n";
    server.says("200 OK", script.as_bytes());
    let document = json!({ "steps": { "s": {
        "operation": "p", "parameters": { "until": until, "begun": begun },
        "policy": { "__SOURCE__": server.url("run.sh") },
    } } });
    let graph = submit(&client, &document, &json!({}));
    eventually("the program runs", || begun.exists());
    client.until("GRAPH/DETAILS", &json!({ "__GRAPH_ID__": graph }), |steps| {
        steps["s"]["__TASKS__"]["RUNNING"].is_array()
    });
    sandbox.kill_controller();
    sandbox.restart_controller(&[]);
    let client = sandbox.client();
    release(&until);
    assert_eq!(end(&client, &graph)["__STATUS__"], "SUCCEEDED");
    assert_eq!(fs::read_to_string(&begun).unwrap(), "x\n", "one run");
}

fn release(until: &Path) {
    fs::write(until, "").unwrap();
}
