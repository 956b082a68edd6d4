//! Jobs, dependencies and submits of many tasks over the wire, also across kill -9 of the controller.

use std::fs;

use serde_json::{Value, json};

use crate::service::sandbox::{Receiver, Sandbox};

const PATIENT: (&str, &str) = ("patient", "until [ -e \"$PARAM_until\" ]; do sleep 0.05; done");
const QUICK: (&str, &str) = ("quick", "exit ${PARAM_code:-0}");

/// The next state of a job that is the wanted one; the numbers of all states until then grow.
fn status(receiver: &Receiver, seq: &mut u64, is_wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let push = receiver.next();
        if push["__TYPE__"] != "JOB/STATUS" {
            continue;
        }
        let number = push["__SEQ__"].as_u64().unwrap();
        assert!(number > *seq, "{number} comes after {seq}");
        *seq = number;
        if is_wanted(&push) {
            return push;
        }
    }
}

#[test]
fn a_chain_and_its_job_survive_a_killed_controller() {
    let mut sandbox = Sandbox::start(2, &[PATIENT, QUICK]);
    let (client, receiver) = (sandbox.client(), Receiver::bind());
    let until = sandbox.path("until");
    let first = json!({ "__OPERATION__": "patient", "until": until });
    let next = json!({ "__AFTER__": "job:chain" });
    let many = json!({
        "__TYPE__": "TASK/SUBMIT_MANY", "__OPERATION__": "quick", "__JOB__": "chain", "__ADDRESS__": receiver.address,
        "__JOB_PUSH__": true, "__TASKS__": [first, next, next, { "__AFTER__": "failed:job:chain" }],
    });
    let answer = client.raw(many.to_string().as_bytes());
    assert_eq!(answer["__CODE__"], 0, "{answer}");
    let ids: Vec<String> =
        answer["__TASK_IDS__"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    client.until("TASK/QUERY", &json!({ "__TASK_ID__": ids[0] }), |task| task["__STATUS__"] == "RUNNING");
    // Two connections are not read in the order of their messages, so the first one must be empty before the second is made.
    let mut seq = 0;
    status(&receiver, &mut seq, |status| status["RUNNING"] == 1);

    sandbox.kill_controller();
    sandbox.restart_controller(&[]);
    let client = sandbox.client();
    let why = client.ask("TASK/EXPLAIN", json!({ "__TASK_ID__": ids[2] }));
    assert_eq!(why["__WHY__"], "it waits for every older task of job chain to succeed (__AFTER__)");
    fs::write(&until, "").unwrap();
    let job = client.ask("JOB/QUERY", json!({ "__JOB__": "chain", "__WAIT__": 60_000 }));
    let counts = ["__TOTAL__", "FINISHED", "SUCCEEDED", "SKIPPED", "FAILED"].map(|name| job[name].as_u64().unwrap());
    assert_eq!(counts, [4, 4, 3, 1, 0], "{job}");
    assert!(job["__RUN_MAX__"].as_f64().unwrap() > 0.0, "{job}");
    let ends = ids.iter().map(|id| client.end(id)).collect::<Vec<_>>();
    let [begun, ended] = ["__RUN_TIME__", "__END_TIME__"].map(|time| ends.iter().map(move |task| task[time].as_f64()));
    assert!(begun.skip(1).zip(ended).take(2).all(|(next, before)| next >= before), "one after the other: {ends:?}");
    assert_eq!((&ends[3]["__OUTCOME__"], ends[3].get("__EXIT_CODE__")), (&json!("SKIPPED"), None));
    let status = status(&receiver, &mut seq, |status| status["__END_TIME__"].is_number());
    assert_eq!(status["SUCCEEDED"], 3, "{status}");
    let head = status.as_object().unwrap().keys().take(2).cloned().collect::<Vec<_>>();
    assert_eq!(head, ["__TYPE__", "__JOB__"]);
}

#[test]
fn a_submit_may_be_longer_than_other_messages() {
    let sandbox = Sandbox::start(0, &[]);
    let client = sandbox.client();
    let text = "x".repeat(4000);
    let tasks: Vec<Value> = (0..200).map(|n| json!({ "n": n, "text": text })).collect();
    let many = json!({ "__TYPE__": "TASK/SUBMIT_MANY", "__OPERATION__": "t", "__JOB__": "long", "__TASKS__": tasks });
    let answer = client.raw(many.to_string().as_bytes());
    assert_eq!((&answer["__CODE__"], answer["__TASK_IDS__"].as_array().map(Vec::len)), (&json!(0), Some(200)));
    let answer = client.ask("JOB/KILL", json!({ "__JOB__": "long" }));
    assert_eq!(answer["__COUNT__"], 200, "{answer}");
    let mut wrong = tasks;
    wrong[150] = json!({ "__PRIORITY__": 1000 });
    let many = json!({ "__TYPE__": "TASK/SUBMIT_MANY", "__OPERATION__": "t", "__TASKS__": wrong });
    let answer = client.raw(many.to_string().as_bytes());
    assert_eq!((&answer["__CODE__"], &answer["__INDEX__"]), (&json!(-1007), &json!(150)), "{answer}");
    assert_eq!(client.ask("TASK/STATISTIC", json!({}))["WAITING"], 0, "none of them is accepted");
}

#[test]
fn the_ends_of_a_job_are_read_from_cursor_to_cursor_until_the_controller_is_killed() {
    let mut sandbox = Sandbox::start(1, &[QUICK]);
    let client = sandbox.client();
    let read = |fields: Value| client.ask("JOB/RESULTS", fields);
    let begin = read(json!({ "__JOB__": "j" }));
    let submit = |code: u32| {
        let task = json!({ "__OPERATION__": "quick", "code": code, "__JOB__": "j" });
        client.ask("TASK/SUBMIT", task)["__TASK_ID__"].as_str().unwrap().to_owned()
    };
    let failed = submit(7);
    let next = read(json!({ "__JOB__": "j", "__CURSOR__": begin["__CURSOR__"], "__WAIT__": 60_000 }));
    let end = next.get(&failed).unwrap_or_else(|| panic!("{next}"));
    let shown = ["__STATUS__", "__OPERATION__", "__OUTCOME__", "__EXIT_CODE__", "__STDOUT_BYTES__"];
    assert_eq!(
        shown.map(|name| &end[name]),
        [&json!("FINISHED"), &json!("quick"), &json!("FAILED"), &json!(7), &json!(0)]
    );
    let other = submit(0);
    let last = read(json!({ "__JOB__": "j", "__CURSOR__": next["__CURSOR__"], "__WAIT__": 60_000 }));
    assert_eq!(last[&other]["__OUTCOME__"], "SUCCEEDED", "{last}");
    assert_eq!(last.get(&failed), None, "{last}");

    sandbox.kill_controller();
    sandbox.restart_controller(&[]);
    let stale = json!({ "__TYPE__": "JOB/RESULTS", "__JOB__": "j", "__CURSOR__": last["__CURSOR__"] });
    let refused = sandbox.client().raw(stale.to_string().as_bytes());
    assert_eq!(refused["__CODE__"], -1004, "{refused}");
}
