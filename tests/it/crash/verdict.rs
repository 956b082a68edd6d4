//! The conditions that must hold after the storm.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::crash::killer::AGENTS;
use crate::crash::runs::Runs;
use crate::crash::sandbox::eventually;
use crate::crash::service::{Service, UNFINISHED};
use testkit::Client;

/// Waits until nothing is left to do, then asks for each task that was accepted.
pub(crate) fn check_answers(service: &Service, client: &Client, accepted: &BTreeMap<usize, String>) {
    eventually("every task is finished", || client.count(&UNFINISHED) == 0);
    for (number, id) in accepted {
        let task = client.query(id);
        assert_eq!((&task["__TASK_ID__"], &task["number"]), (&json!(id), &json!(number)), "{task}");
        check_success(&task);
    }
    let is_free = || {
        let agents = client.ask("AGENT/QUERY", json!({}));
        ["__TOTAL__", "__FREE__"].iter().all(|count| agents[*count] == AGENTS) && agents["__BUSY__"] == 0
    };
    eventually("all agents are free", is_free);
    service.is_swept();
}

/// Every task has enough losses to spare, so that each must succeed; its report is that of its final round.
fn check_success(task: &Value) {
    let end = (&task["__STATUS__"], &task["__OUTCOME__"], &task["__EXIT_CODE__"]);
    assert_eq!(end, (&json!("FINISHED"), &json!("SUCCEEDED"), &json!(0)), "{task}");
    assert_eq!(task["__REPORT_LOG__"], format!("{}\n", task["__ROUND__"]), "{task}");
}

/// Reads the store of a service that is down: each accepted task is in it, no submit made two, and the final round of each
/// task has run to its end.
pub(crate) fn check_store(store: &Path, runs: &Runs, accepted: &BTreeMap<usize, String>) {
    let stored = read(store);
    let mut of_number = BTreeMap::new();
    for (id, task) in &stored {
        let number = usize::try_from(task.number).expect("a number of ours");
        assert_eq!(of_number.insert(number, id), None, "one submit made two tasks: {task:?}");
        assert_eq!(task.status, "FINISHED", "{id}: {task:?}");
        let ended = runs.ended.get(id);
        assert!(ended.is_some_and(|rounds| rounds.contains(&task.round.into())), "{id}: {task:?}: {ended:?}");
        let last = runs.started.get(id).and_then(|rounds| rounds.last());
        assert!(
            last.is_some_and(|last| *last == u64::from(task.round)),
            "{id}: {task:?}: a run after the last one: {last:?}"
        );
    }
    for (number, id) in accepted {
        assert_eq!(of_number.get(number), Some(&id), "accepted, and not stored");
    }
    // Dispatch does not wait for the disk: a controller may be killed when a task runs already and is in no store. None of them
    // was accepted, as the loop above has shown, and none is handed out again.
    for (id, rounds) in runs.started.iter().filter(|(id, _)| !stored.contains_key(*id)) {
        assert!(rounds.iter().eq(&[0]), "{id} is in no store, and ran in the rounds {rounds:?}");
    }
}

#[derive(Debug)]
struct Stored {
    number: u64,
    status: String,
    round: u32,
}

fn read(store: &Path) -> BTreeMap<String, Stored> {
    let connection = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a store");
    let mut statement = connection.prepare("SELECT id, status, round, submitted FROM tasks").expect("its table");
    let rows = statement.query_map([], |row| {
        let submitted: Value = serde_json::from_str(&row.get::<_, String>(3)?).expect("an object");
        let number = submitted["number"].as_u64().expect("a number of ours");
        Ok((row.get(0)?, Stored { number, status: row.get(1)?, round: row.get(2)? }))
    });
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

/// The pushes about the end of a task never contradict each other, and match the store.
pub(crate) fn check_pushes(pushes: &zmq::Socket, client: &Client) {
    while let Ok(frame) = pushes.recv_bytes(zmq::DONTWAIT) {
        let pushed: Value = serde_json::from_slice(&frame).expect("a push in JSON");
        if pushed["__STATUS__"] == "FINISHED" {
            check_success(&pushed);
            let task = client.query(pushed["__TASK_ID__"].as_str().expect("an id"));
            for field in ["__ROUND__", "__AGENT_ID__", "__END_TIME__", "__FINISH_TIME__"] {
                assert_eq!(pushed[field], task[field], "{pushed}: {task}");
            }
        }
    }
}
