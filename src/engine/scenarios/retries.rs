//! Scenarios of rounds: three budgets, the pause between two rounds, and runs that ask to be run again later.
#![cfg(test)]

use super::*;

fn with_budgets(fails: u32, timeouts: u32, losses: u32) -> Fields {
    Fields::new()
        .with(words::MAX_FAILS, fails)
        .with(words::MAX_TIMEOUTS, timeouts)
        .with(words::MAX_LOSSES, losses)
        .with(words::TIMEOUT, 2u32)
}

fn deferred(retry_after: Option<f64>, gates: &str) -> RunResult {
    let defer =
        Defer { retry_after: retry_after.map(seconds), until_released: false, gates: Labels::parse(gates).unwrap() };
    RunResult { defer: Some(Box::new(defer)), ..result(75) }
}

/// A budget is exceeded when its counter after the increment is greater.
#[test]
fn a_task_may_fail_as_often_as_its_budget_says() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_FAILS, 2u32));
    for round in 0..2 {
        world.exits("a", task, round, 1);
        let record = world.record(task);
        assert_eq!((record.phase(), record.round, record.counts.fails), (Phase::Waiting, Round(round + 1), round + 1));
    }
    world.exits("a", task, 2, 7);
    assert_eq!(world.outcome(task), Outcome::Failed);
    let told = world.told(TASK_QUERY, task);
    assert_eq!((text(&told, words::FAILS), text(&told, words::EXIT_CODE)), ("3".to_owned(), "7".to_owned()));
    assert!(text(&told, words::REASON).contains("__MAX_FAILS__"), "{told:?}");
    assert_eq!(world.apply("a"), None);
}

#[test]
fn a_failure_that_is_followed_by_a_success_is_a_success() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32));
    world.exits("a", task, 0, 3);
    world.exits("b", task, 1, 0);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
    let told = world.told(TASK_QUERY, task);
    for (name, value) in
        [("0:__EXIT_CODE__", "3"), ("0:__AGENT_ID__", "a"), ("0:__ROUND_END__", "FAILED"), ("__EXIT_CODE__", "0")]
    {
        assert_eq!(text(&told, name), value, "{name} in {told:?}");
    }
    assert_eq!(text(&told, "0:__REPORT_LOG__"), "report");
}

/// An event that one budget covers does not draw on another one.
#[test]
fn the_three_budgets_are_separate() {
    let mut world = World::new();
    let task = world.submitted(&with_budgets(1, 1, 1));
    world.exits("a", task, 0, 1);
    world.runs("a", task, Round(1));
    world.pass(seconds(2.0));
    assert_eq!(world.ends("a", task, Round(1), result(-15)), None);
    world.apply("a");
    world.pass(INTERVAL * 2);
    world.exits("b", task, 3, 1);
    let record = world.record(task);
    let counts = (record.counts.fails, record.counts.timeouts, record.counts.losses);
    assert_eq!((record.round, counts), (Round(3), (2, 1, 1)));
    assert_eq!(world.outcome(task), Outcome::Failed);
    assert_eq!(world.record(task).counts.fails, 2);
}

#[test]
fn output_on_stderr_is_a_failure_if_the_task_says_so() {
    let mut world = World::new();
    let strict = world.submitted(&Fields::new().with(words::FAIL_ON_STDERR, true));
    let lenient = world.task();
    let noisy = || RunResult { stderr_tail: "warning".to_owned(), ..result(0) };
    for task in [strict, lenient] {
        world.runs("a", task, Round(0));
        world.ends("a", task, Round(0), noisy());
    }
    assert_eq!((world.outcome(strict), world.outcome(lenient)), (Outcome::Failed, Outcome::Succeeded));
    assert!(text(&world.told(TASK_QUERY, strict), words::REASON).contains("stderr"));
}

/// The pause doubles from the first one on, whatever ended the rounds; at most a quarter is added at random.
#[test]
fn the_pause_before_the_next_round_doubles_up_to_a_cap() {
    let mut world = World::new();
    let fields = with_budgets(100, 100, 100).with(words::RETRY_DELAY, 10u32);
    let task = world.submitted(&fields);
    // The cap is a minute.
    for (round, base) in [(0, 10.0), (1, 20.0), (2, 40.0), (3, 60.0), (4, 60.0)] {
        world.exits("a", task, round, 1);
        let TaskState::Waiting { not_before: Some(at) } = world.record(task).state else { panic!("round {round}") };
        let pause = at.since(world.now.wall);
        assert!((seconds(base)..=seconds(base * 1.25)).contains(&pause), "{pause:?} after round {round}");
        assert_eq!(world.apply("a"), None, "not before its time");
        world.pass_with(pause - seconds(0.001), &[("a", None)]);
        assert_eq!(world.apply("a"), None, "not before its time");
        world.pass(seconds(0.001));
    }
}

/// Tasks that failed together do not return together.
#[test]
fn pauses_differ() {
    let mut world = World::new();
    let fields = Fields::new().with(words::MAX_FAILS, 1u32).with(words::RETRY_DELAY, 10u32);
    let pauses: BTreeSet<_> = (0..5)
        .map(|_| {
            let task = world.submitted(&fields);
            world.exits("a", task, 0, 1);
            let TaskState::Waiting { not_before } = world.record(task).state else { panic!() };
            not_before
        })
        .collect();
    assert_eq!(pauses.len(), 5);
}

#[test]
fn the_next_round_keeps_its_place_in_the_queue() {
    let mut world = World::new();
    let first = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32));
    let second = world.task();
    world.exits("a", first, 0, 1);
    assert_eq!(world.apply("a"), Some((first, Round(1))));
    assert_eq!(world.apply("b"), Some((second, Round(0))));
}

/// Exit 75 draws on no budget, and the task waits as long as run.sh asked for.
#[test]
fn a_run_that_defers_comes_back_when_it_said() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    assert_eq!(world.ends("a", task, Round(0), deferred(Some(2.5), "")), None);
    let record = world.record(task);
    assert_eq!(
        (record.phase(), record.round, record.counts.defers, record.counts.fails),
        (Phase::Waiting, Round(1), 1, 0)
    );
    world.pass(seconds(2.499));
    assert_eq!(world.apply("a"), None);
    world.pass(seconds(0.001));
    world.runs("a", task, Round(1));
    // Without a request it is DEFER_DELAY, ten seconds here.
    world.ends("a", task, Round(1), result(75));
    world.pass_with(seconds(9.999), &[("a", None)]);
    assert_eq!(world.apply("a"), None);
    world.pass(seconds(0.001));
    world.exits("a", task, 2, 0);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

/// The settings of this world allow two.
#[test]
fn one_defer_too_many_is_a_failure() {
    let mut world = World::new();
    let plain = world.task();
    let patient = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32).with(words::MAX_DEFERS, 0u32));
    for round in 0..3 {
        world.runs("a", plain, Round(round));
        world.ends("a", plain, Round(round), deferred(Some(0.0), ""));
    }
    let told = world.told(TASK_QUERY, plain);
    assert_eq!(world.outcome(plain), Outcome::Failed);
    assert!(text(&told, words::REASON).contains("__MAX_DEFERS__"), "{told:?}");
    world.runs("a", patient, Round(0));
    world.ends("a", patient, Round(0), result(75));
    let record = world.record(patient);
    assert_eq!((record.round, record.counts.fails, record.counts.defers), (Round(1), 1, 0), "a failure like any other");
}

/// A defer may not take longer than the task lives.
#[test]
fn a_task_that_waits_for_its_next_round_expires() {
    let mut world = World::new();
    let fields = Fields::new().with(words::MAX_FAILS, 1u32).with(words::END_BEFORE, world.moment(5.0));
    let task = world.submitted(&fields);
    world.runs("a", task, Round(0));
    world.ends("a", task, Round(0), deferred(Some(3600.0), ""));
    world.pass(seconds(5.0));
    assert_eq!(world.outcome(task), Outcome::Expired);
    let told = world.told(TASK_QUERY, task);
    assert_eq!(text(&told, "0:__EXIT_CODE__"), "75");
    assert_eq!(told.get(words::EXIT_CODE), Some(&base::Scalar::Null), "the round that has not begun has no result");
}

#[test]
fn rounds_and_budgets_survive_a_restart() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32).with(words::RETRY_DELAY, 10u32));
    world.exits("a", task, 0, 1);
    let before = world.record(task);
    world.restart();
    assert_eq!(world.record(task), before);
    assert_eq!(world.apply("a"), None, "the pause goes on");
    world.pass_with(seconds(12.5), &[("a", None)]);
    world.exits("a", task, 1, 1);
    assert_eq!(world.outcome(task), Outcome::Failed);
}

/// The children of a run belong to that run.
#[test]
fn the_children_of_a_failed_run_end_with_it() {
    let mut world = World::new();
    let father = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32));
    world.runs("a", father, Round(0));
    let child = world.child(father);
    world.ends("a", father, Round(0), result(1));
    assert_eq!(world.outcome(child), Outcome::Killed);
    assert_eq!(world.phase(father), Phase::Waiting);
    world.runs("a", father, Round(1));
    let next = world.child(father);
    assert_eq!(world.phase(next), Phase::Waiting);
}

/// Only the latest rounds are kept, however many there were.
#[test]
fn a_task_does_not_grow_with_its_rounds() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_FAILS, 100u32));
    for round in 0..50 {
        world.runs("a", task, Round(round));
        let long = RunResult { stdout_tail: "ü".repeat(5000), ..result(1) };
        world.ends("a", task, Round(round), long);
    }
    let record = world.record(task);
    assert_eq!((record.past.len(), record.past[0].round), (TaskRecord::PAST_ROUNDS_MAX, Round(30)));
    assert!(record.bytes() < 20 * 8000, "{}", record.bytes());
    world.restart();
    assert_eq!(world.record(task), record);
}

#[test]
fn the_first_loss_and_the_first_timeout_wait_as_long_as_the_first_failure() {
    let mut world = World::new();
    let late = world.submitted(&with_budgets(0, 5, 0).with(words::RETRY_DELAY, 10u32));
    world.runs("b", late, Round(0));
    world.pass(seconds(2.0));
    world.ends("b", late, Round(0), result(-15));
    let lost = world.submitted(&Fields::new().with(words::RETRY_DELAY, 10u32));
    assert!(world.apply("c").is_some_and(|(task, _)| task == lost));
    world.pass(INTERVAL * 2);
    for task in [late, lost] {
        let record = world.record(task);
        let pause = match &record.state {
            TaskState::Waiting { not_before: Some(at) } => at.since(record.past[0].at),
            TaskState::OutOfContact { not_before: Some(at), since, .. } => at.since(*since),
            other => panic!("{other:?}"),
        };
        assert!((seconds(10.0)..=seconds(12.5)).contains(&pause), "{pause:?}: {record:?}");
    }
}

/// Also where runs take too long and take their agents with them (docs/design/hazards.md, A9).
#[test]
fn no_budget_is_overspent_by_an_agent_that_is_lost_while_it_ends_a_run() {
    let mut world = World::new();
    let task = world.submitted(&with_budgets(0, 9, 1).with(words::TIMEOUT, 1u32));
    for round in 0..2 {
        let agent = format!("agent-{round}");
        world.runs(&agent, task, Round(round));
        world.pass(INTERVAL * 2);
    }
    assert_eq!(world.outcome(task), Outcome::Lost, "two losses, and one is allowed");
    assert_eq!(world.apply("c"), None);
}

/// A loss after the end of a run is not a loss of the run.
#[test]
fn an_agent_that_is_lost_after_the_end_of_a_run_spends_no_budget() {
    let mut world = World::new();
    let task = world.submitted(&with_budgets(1, 0, 0));
    world.runs("a", task, Round(0));
    let report = report_of(task, Round(0), Phase::Ended, Some(result(1)));
    let _ = world.say("a", FromAgent::Report(Box::new(report)));
    world.pass(INTERVAL * 2);
    let record = world.record(task);
    assert_eq!((record.phase(), record.counts.fails, record.counts.losses), (Phase::Waiting, 1, 0));
}

/// A client that was told of the kill does not want another round, even though no process was left to end.
#[test]
fn a_kill_after_the_end_of_a_run_is_the_end_of_the_task() {
    for (exit_code, outcome) in [(1, Outcome::Killed), (75, Outcome::Killed), (0, Outcome::Succeeded)] {
        let mut world = World::new();
        let father = world.task();
        world.runs("a", father, Round(0));
        let fields = Fields::new().with(words::MAX_FAILS, 1u32);
        let (task, child) =
            (world.submitted(&fields), world.submitted(&fields.with(words::FATHER_ID, father.to_string())));
        for (agent, task) in [("b", task), ("c", child)] {
            world.runs(agent, task, Round(0));
            let report = report_of(task, Round(0), Phase::Ended, Some(result(exit_code)));
            let _ = world.say(agent, FromAgent::Report(Box::new(report)));
        }
        assert_eq!(world.kill(task), Reply::Done);
        world.report("a", father, Round(0), Phase::Finished);
        world.ends("b", task, Round(0), result(exit_code));
        world.ends("c", child, Round(0), result(exit_code));
        assert_eq!((world.outcome(task), world.outcome(child)), (outcome, outcome), "exit code {exit_code}");
    }
}

/// The document of step graphs: a task is suspended by its own decision, and started again by an instruction.
#[test]
fn a_suspended_task_waits_until_it_is_released() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new());
    world.runs("a", task, Round(0));
    let suspended = Defer { until_released: true, ..Defer::default() };
    world.ends("a", task, Round(0), RunResult { defer: Some(Box::new(suspended)), ..result(75) });
    let record = world.record(task);
    assert_eq!((record.phase(), record.round, record.held.is_some()), (Phase::Waiting, Round(1), true));
    world.pass(seconds(3600.0));
    assert_eq!(world.apply("a"), None);
    world.do_to(TASK_RELEASE, task);
    assert_eq!(world.apply("a"), Some((task, Round(1))));
}

/// The user wants it to run.
#[test]
fn a_retry_releases_a_task_that_was_held_when_it_ended() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new());
    world.do_to(TASK_HOLD, task);
    world.kill(task);
    assert_eq!(world.record(task).phase(), Phase::Finished);
    world.do_to(TASK_RETRY, task);
    assert!(world.record(task).held.is_none());
    assert!(world.apply("a").is_some());
}
