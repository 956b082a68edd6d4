//! The history of a controller that is killed again and again: each ended round is there once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::crash::killer::kill_and_see_another;
use crate::crash::sandbox::eventually;
use crate::crash::service::{Service, UNFINISHED};

const TASKS: usize = 1_000;
const KILLS: usize = 6;

/// Every third task fails in its first round, and succeeds in the next.
const TOOL: &str = "[ \"$__ROUND__\" -gt 0 ] || [ $((n % 3)) -ne 0 ]";

fn rounds(service: &Service) -> Vec<Value> {
    let said = service.sandbox.ok("list --since 1h --limit 100000 --output wire").json();
    let rounds = said["rounds"].as_array().cloned().expect("rounds");
    assert_eq!(said["total"].as_u64(), Some(rounds.len() as u64));
    rounds
}

/// The first round of a task that its record knows of.
fn first_known(task: &Value) -> u64 {
    let present = task["__ROUND__"].as_u64().expect("a number");
    let is_known = |round: &u64| task.get(format!("{round}:__ROUND_END__")).is_some();
    (0..present).find(is_known).unwrap_or(present)
}

fn each_round_is_there_once(config: &str, are_kept: bool) {
    let service = Service::with(config);
    service.sandbox.tool("third", TOOL);
    service.sandbox.ok("up 4");
    let client = service.client();
    let mut accepted = BTreeSet::new();
    for number in 0..TASKS {
        accepted.insert(client.submit("third", json!({"__MAX_FAILS__": 1, "n": number.to_string()})));
    }
    for _ in 0..KILLS {
        kill_and_see_another(&service, " controller");
        let before = client.count(&UNFINISHED);
        eventually("some tasks have ended", || client.count(&UNFINISHED) <= before.saturating_sub(30));
    }
    // The counts do not wait for the disk, and the history has only what is stored.
    let mut rows = Vec::new();
    eventually("all tasks have ended, and are in the history", || {
        client.count(&UNFINISHED) == 0 && {
            rows = rounds(&service);
            let found: BTreeSet<_> = rows.iter().map(|round| round["__TASK_ID__"].as_str().expect("an id")).collect();
            found.into_iter().eq(accepted.iter())
        }
    });
    let mut found: BTreeMap<String, Vec<(u64, bool)>> = BTreeMap::new();
    for round in &rows {
        let task = round["__TASK_ID__"].as_str().expect("an id").to_owned();
        let number = round["__ROUND__"].as_u64().expect("a number");
        found.entry(task).or_default().push((number, round["__IS_LAST__"] == true));
    }
    for (task, rounds) in &mut found {
        rounds.sort_unstable();
        // A first round that was handed out before the disk knew of it may never be heard of again: its number is skipped.
        let first =
            if are_kept { first_known(&client.query(task)) } else { rounds.first().map_or(0, |(number, _)| *number) };
        let last = rounds.last().map_or(0, |(number, _)| *number);
        let expected: Vec<_> = (first..=last).map(|number| (number, number == last)).collect();
        assert_eq!(
            *rounds,
            expected,
            "{task}: {:?}",
            rows.iter().filter(|row| row["__TASK_ID__"] == task.as_str()).collect::<Vec<_>>()
        );
        assert!(last <= 2, "{task} has run too often: {rounds:?}");
    }
    let summary = service.sandbox.ok("history --group outcome --output wire").json();
    let counts: BTreeMap<_, _> = summary["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| (group["outcome"].as_str(), group["__COUNT__"].as_u64()))
        .collect();
    assert_eq!(counts[&Some("SUCCEEDED")], Some(TASKS as u64), "{summary}");
    let crashes = service.sandbox.ok("incidents --kind crashed --output wire").json();
    assert_eq!(crashes["total"], KILLS, "{crashes}");
    service.sandbox.ends_clean();
}

#[test]
fn each_round_of_1000_tasks_is_in_the_history_once() {
    each_round_is_there_once("", true);
}

/// The store cannot provide a round again: the history must have it before.
#[test]
fn a_round_of_a_task_that_is_forgotten_at_once_is_in_the_history() {
    each_round_is_there_once("TASK_KEEP_HOURS = 0", false);
}
