//! Scenarios of the history: each ended round goes there once, and the log tells of tasks that end without success.
#![cfg(test)]

use std::borrow::Cow;

use super::*;
use api::wire::rounds::of_record::ended_rounds;
use base::{IncidentKind, RoundOutcome};

const SUCCEEDED: RoundOutcome = RoundOutcome::Ended(Outcome::Succeeded);
const FAILED: RoundOutcome = RoundOutcome::Ended(Outcome::Failed);

fn ends(world: &World) -> Vec<(u32, RoundOutcome, bool)> {
    world.ended.iter().map(|row| (row.round.0, row.outcome, row.is_last)).collect()
}

fn lines(world: &mut World) -> Vec<String> {
    let lines = world.controller.take_log().into_iter().map(|line| line.text);
    lines.filter(|line| line.starts_with("task ") || line.starts_with("and more")).collect()
}

#[test]
fn each_ended_round_is_a_row() {
    let mut world = World::new();
    let fields =
        Fields::new().with(words::MAX_FAILS, 1u32).with(words::GIVEN_ID, "a \"b\"").with(words::JOB, "nightly");
    let task = world.submitted(&fields);
    world.pass(seconds(2.0));
    world.runs("a", task, Round(0));
    world.pass(seconds(1.0));
    let failure = RunResult { stderr_tail: "x\ncorrupt header\n\n".to_owned(), ..result(3) };
    world.ends("a", task, Round(0), failure);
    world.pass(seconds(0.5));
    world.exits("b", task, 1, 0);
    assert_eq!(ends(&world), [(0, FAILED, false), (1, SUCCEEDED, true)]);
    let [first, second] = world.ended.as_slice() else { panic!("{:?}", world.ended) };
    assert_eq!((first.exit_code, &*first.line, &*first.agent), (Some(3), "corrupt header", "a"));
    assert_eq!((&*first.given_id, &*first.job, first.waited), ("a \"b\"", "nightly", seconds(2.0)));
    assert_eq!((second.exit_code, &*second.line, &*second.agent), (Some(0), "", "b"));
    assert_eq!((second.waited, second.submitted_at), (seconds(0.5), Wall::from_micros(START)));
    assert_eq!(lines(&mut world), [""; 0], "it has succeeded");
}

/// A confirmation, a hold and a retry change the record of a finished task, and end no round.
#[test]
fn a_retried_task_has_a_row_for_each_end_and_no_other() {
    let mut world = World::new();
    let task = world.task();
    for round in 0..2 {
        world.exits("a", task, round, 1);
        world.do_to(TASK_RETRY, task);
    }
    world.kill(task);
    let killed = RoundOutcome::Ended(Outcome::Killed);
    assert_eq!(ends(&world), [(0, FAILED, true), (1, FAILED, true), (2, killed, true)]);
    // What a start finds in the store is the same.
    let record = world.record(task);
    let stored: Vec<_> = ended_rounds(&record).filter_map(|(round, _)| finished_round(&record, round)).collect();
    assert_eq!(stored, world.ended);
}

#[test]
fn a_lost_run_and_one_that_the_agent_does_not_have_are_rows() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_LOSSES, 1u32));
    for agent in ["a", "b"] {
        assert!(world.apply(agent).is_some());
        world.pass(INTERVAL * 2);
    }
    let lost = RoundOutcome::Ended(Outcome::Lost);
    assert_eq!(ends(&world), [(0, lost, false), (1, lost, true)]);
    let kinds: Vec<_> = world.controller.take_incidents().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [IncidentKind::AgentLost; 2]);
    assert!(lines(&mut world).iter().any(|line| line.contains(&task.to_string()) && line.contains("is LOST")));
}

#[test]
fn a_restart_writes_no_row_again() {
    let mut world = World::new();
    let task = world.task();
    world.exits("a", task, 0, 1);
    let before = world.ended.len();
    world.restart();
    world.pass(INTERVAL * 4);
    assert_eq!(world.ended.len(), before);
}

#[test]
fn a_controller_without_a_history_makes_no_rows() {
    let mut world = World::with(|settings| settings.keeps_history = false);
    let task = world.task();
    world.exits("a", task, 0, 1);
    assert_eq!(world.ended, []);
    assert_eq!(lines(&mut world).len(), 1, "the log has its line");
}

#[test]
fn many_failures_are_some_lines_and_one_for_the_others() {
    let mut world = World::new();
    for number in 0..50 {
        let task = world.task();
        world.apply("a");
        let said = Cow::Owned::<str>(format!("e{number}"));
        world.ends("a", task, Round(0), RunResult { stderr_tail: said.into_owned(), ..result(9) });
    }
    let written = lines(&mut world);
    assert_eq!(written.len(), 20, "{written:?}");
    assert!(written[0].contains("is FAILED (") && written[0].ends_with("exit code 9, agent a): e0"), "{}", written[0]);
    world.pass_with(seconds(10.0), &[("a", None)]);
    let more = lines(&mut world);
    assert_eq!(more, ["and more tasks in these 10 seconds: 30 FAILED; `llts list --since` shows them"]);
    let task = world.task();
    world.exits("a", task, 0, 1);
    assert_eq!(lines(&mut world).len(), 1, "the next seconds have lines of their own");
}
