//! Explanations: why a task waits, why it ended as it did, and its log.
#![cfg(test)]

use super::*;
use api::wire::requests::heartbeat::Beat;
use api::wire::version::Version;

fn lines(log: &str) -> Vec<String> {
    let text = |line: &str| line.split_once(' ').map(|(_, text)| text.to_owned()).unwrap_or_default();
    log.lines().map(text).collect()
}

#[test]
fn each_reason_to_wait_has_its_sentence() {
    let mut world = World::new();
    let later = world.submitted(&Fields::new().with(words::START_AFTER, world.moment(10.0)));
    assert!(world.why(later).contains("__START_AFTER__"), "{}", world.why(later));
    world.set_gate("full", Fields::new().with(words::MAX_RUNNING, 0u32));
    let gated = world.submitted(&Fields::new().with(words::GATE, "full"));
    assert!(world.why(gated).contains("gate full is full"), "{}", world.why(gated));
    let gone = world.task();
    assert!(world.why(gone).contains("no agent"), "{}", world.why(gone));
    world.kill(gone);
    let retried = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32).with(words::RETRY_DELAY, 10u32));
    world.exits("a", retried, 0, 1);
    assert!(world.why(retried).contains("the run failed"), "{}", world.why(retried));
    let busy = world.task();
    world.apply("a");
    assert!(world.why(busy).contains("agent a has it"), "{}", world.why(busy));
    let next = world.task();
    assert!(world.why(next).contains("it is next in the queue"), "{}", world.why(next));
}

#[test]
fn each_end_has_its_reason() {
    let mut world = World::new();
    let failed = world.task();
    world.exits("a", failed, 0, 3);
    assert!(world.why(failed).contains("FAILED: exit code 3"), "{}", world.why(failed));
    let killed = world.task();
    world.ask(Request::Kill(killed, Some("enough of it".into())));
    assert!(world.why(killed).contains("enough of it"), "{}", world.why(killed));
    let father = world.task();
    world.runs("a", father, Round(0));
    let child = world.child(father);
    world.report("a", father, Round(0), Phase::Finished);
    assert!(world.why(child).contains(&father.to_string()), "{}", world.why(child));
    let lost = world.submitted(&Fields::new().with(words::MAX_LOSSES, 0u32));
    world.runs("a", lost, Round(0));
    world.pass(INTERVAL * 2);
    assert!(world.why(lost).contains("lost"), "{}", world.why(lost));
    let done = world.task();
    world.exits("b", done, 0, 0);
    assert!(world.why(done).contains("SUCCEEDED"), "{}", world.why(done));
}

#[test]
fn a_task_is_explained_by_its_given_id() {
    let mut world = World::new();
    world.submitted(&Fields::new().with(words::GIVEN_ID, "mine"));
    let reply = world.send(TASK_EXPLAIN, &Fields::new().with(words::GIVEN_ID, "mine"));
    assert!(matches!(reply, Reply::Explained { .. }), "{reply:?}");
    let reply = world.send(TASK_EXPLAIN, &Fields::new().with(words::GIVEN_ID, "yours"));
    assert_eq!(refused(&reply), Code::InvalidTaskId);
    assert_eq!(refused(&world.send(TASK_EXPLAIN, &Fields::new())), Code::InvalidTaskId);
}

#[test]
fn the_log_has_a_line_for_each_transition() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32).with(words::TIMEOUT, 5u32));
    world.pass(seconds(1.0));
    world.exits("a", task, 0, 3);
    world.runs("b", task, Round(1));
    world.pass(seconds(5.0));
    world.ends("b", task, Round(1), result(-15));
    let log = world.log(task);
    let expected = [
        "WAITING: submitted",
        "DISPATCHED: to agent a",
        "PREPARING",
        "RUNNING",
        "ENDED: exit code 3",
        "WAITING: the run failed; round 1 follows",
        "DISPATCHED: to agent b",
        "PREPARING",
        "RUNNING",
        "to be ended: the run took too long",
        "ENDED: signal 15",
        "FINISHED: TIMED_OUT",
    ];
    assert_eq!(lines(&log), expected, "{log}");
    let times: Vec<f64> = log.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted(), "{log}");
}

/// Priority is a reason to wait, whatever the tasks before it require.
#[test]
fn whoever_is_before_it_counts_whatever_it_requires() {
    let mut world = World::new();
    world.beat("a", None);
    let low = world.submitted(&Fields::new().with(words::PRIORITY, -1i32));
    for number in 0..3u32 {
        world.submitted(&Fields::new().with(words::PRIORITY, number));
    }
    world.submitted(&Fields::new().with(words::GATE, "g"));
    assert!(world.why(low).contains("4 tasks are before it"), "{}", world.why(low));
}

/// The requester of the kill counts, not the words of the agent.
#[test]
fn a_task_that_is_killed_while_it_is_prepared_names_who_killed_it() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.report("a", task, Round(0), Phase::Preparing);
    world.ask(Request::Kill(task, Some("by the operator".into())));
    let killed = RunResult::of(ExitCode::KILLED_PREPARING, "killed during its preparation".to_owned());
    world.ends("a", task, Round(0), killed);
    let told = world.told(TASK_QUERY, task);
    assert!(text(&told, words::REASON).contains("by the operator"), "{told:?}");
    assert!(world.why(task).contains("by the operator"), "{}", world.why(task));
}

/// A run without a result is also listed with its agent and the phases that it reached.
#[test]
fn the_log_of_a_lost_task_names_its_agent() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_LOSSES, 0u32));
    world.runs("a", task, Round(0));
    world.pass(INTERVAL * 2);
    let expected = ["WAITING: submitted", "DISPATCHED: to agent a", "PREPARING", "RUNNING", "FINISHED: LOST"];
    assert_eq!(lines(&world.log(task)), expected, "{}", world.log(task));
    let told = world.told(TASK_QUERY, task);
    assert_eq!(text(&told, words::AGENT_ID), "a", "{told:?}");
    assert_eq!(told.get(words::EXIT_CODE), Some(&base::Scalar::Null));
    let before = world.record(task);
    world.restart();
    assert_eq!(world.record(task), before);
    world.do_to(TASK_RETRY, task);
    assert_eq!(text(&world.told(TASK_QUERY, task), "0:__AGENT_ID__"), "a");
}

/// A kill that comes after the end of a run ends nothing. The agent knows the order.
#[test]
fn a_run_that_had_succeeded_before_its_kill_has_succeeded() {
    for (by_itself, exit_code, outcome) in
        [(true, 0, Outcome::Succeeded), (false, 0, Outcome::Killed), (true, 1, Outcome::Killed)]
    {
        let mut world = World::new();
        let task = world.submitted(&Fields::new().with(words::MAX_FAILS, 5u32));
        world.runs("a", task, Round(0));
        let ended_at = world.now.wall + seconds(1.0);
        world.pass(seconds(1.001));
        world.kill(task);
        world.pass(seconds(0.001));
        let times = PhaseTimes { end: Some(ended_at), ..PhaseTimes::default() };
        let result = Some(RunResult { by_itself, ..result(exit_code) });
        let report = Report { times, ..report_of(task, Round(0), Phase::Finished, result) };
        let _ = world.say("a", FromAgent::Report(Box::new(report)));
        assert_eq!(world.outcome(task), outcome, "by itself: {by_itself}, exit code {exit_code}");
        let told = world.told(TASK_QUERY, task);
        assert_eq!(told.get(words::KILLED).is_some(), outcome == Outcome::Killed, "{told:?}");
        let log = world.log(task);
        let times: Vec<f64> = log.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
        assert!(times.is_sorted(), "{log}");
        assert!(log.contains("to be ended"), "{log}");
    }
}

/// An agent may learn only after the end of run.sh that it may not end the remains of the run.
#[test]
fn what_an_agent_tells_of_an_end_later_counts() {
    for (kill, exclusive) in [(false, false), (true, false), (true, true)] {
        let mut world = World::new();
        let fields = if exclusive { Fields::new().with(words::EXCLUSIVE, true) } else { Fields::new() };
        let beat = Some(Beat { number: 1, kill_budget: None });
        let _ = world
            .say("a", FromAgent::Heartbeat(Heartbeat { beat, version: Some(Version::ours()), ..Heartbeat::default() }));
        let task = world.submitted(&fields);
        world.runs("a", task, Round(0));
        if kill {
            world.kill(task);
        }
        let foreign = RunResult { error: "process 7 of user 0".to_owned(), ..result(0) };
        for (result, is_named) in [(result(0), false), (foreign, true)] {
            let report = report_of(task, Round(0), Phase::Ended, Some(result));
            let _ = world.say("a", FromAgent::Report(Box::new(report)));
            assert_eq!(world.why(task).contains("process 7 of user 0"), is_named, "{}", world.why(task));
        }
        let told = world.told(TASK_QUERY, task);
        assert!(text(&told, words::REASON).contains("process 7 of user 0"), "{told:?}");
        world.restart();
        assert_eq!(text(&world.told(TASK_QUERY, task), words::REASON), text(&told, words::REASON));
    }
}

/// It holds from the end of the run on, and after its result, until the agent is free.
#[test]
fn what_keeps_an_agent_from_the_next_task_is_named() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    let next = world.task();
    let foreign = RunResult { error: "process 7 of user 0".to_owned(), ..result(0) };
    let named = format!("agent a is kept busy by the remains of task {task}: process 7 of user 0");
    for phase in [Phase::Ended, Phase::Finished] {
        assert_eq!(world.why(next).contains(&named), phase == Phase::Finished, "{}", world.why(next));
        let times = PhaseTimes { run: Some(world.now.wall), ..PhaseTimes::default() };
        let report = Report { times, ..report_of(task, Round(0), phase, Some(foreign.clone())) };
        let _ = world.say("a", FromAgent::Report(Box::new(report)));
    }
    world.busy("a");
    assert!(world.why(next).contains(&named), "{}", world.why(next));
    world.runs("a", next, Round(0));
    world.report("a", next, Round(0), Phase::Finished);
    world.busy("a");
    let third = world.task();
    assert!(!world.why(third).contains("kept busy"), "{}", world.why(third));
}
