//! Scenarios of tasks that are retried.
#![cfg(test)]

use super::*;

#[test]
fn only_what_has_finished_can_be_retried() {
    let mut world = World::new();
    let task = world.task();
    assert_eq!(refused(&world.do_to(TASK_RETRY, task)), Code::NotAllowed);
    world.runs("a", task, Round(0));
    assert_eq!(refused(&world.do_to(TASK_RETRY, task)), Code::NotAllowed);
    let unknown = Fields::new().with(words::TASK_ID, "TASK_1480000000.120000_AZazA");
    for kind in [TASK_RETRY, TASK_HOLD, TASK_RELEASE] {
        assert_eq!(refused(&world.send(kind, &unknown)), Code::InvalidTaskId);
    }
}

/// Its budgets are fresh, and its earlier results are kept.
#[test]
fn a_task_is_retried_with_new_budgets() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32));
    world.exits("a", task, 0, 1);
    world.exits("a", task, 1, 2);
    assert_eq!(world.outcome(task), Outcome::Failed);
    assert_eq!(world.do_to(TASK_RETRY, task), Reply::Done);
    let record = world.record(task);
    assert_eq!((record.phase(), record.round, record.counts.fails), (Phase::Waiting, Round(2), 0));
    world.exits("a", task, 2, 3);
    assert_eq!(world.phase(task), Phase::Waiting, "one failure is allowed again");
    world.exits("a", task, 3, 0);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
    let told = world.told(TASK_QUERY, task);
    let codes: Vec<_> = (0..3).map(|round| text(&told, &format!("{round}:__EXIT_CODE__"))).collect();
    assert_eq!(codes, ["1", "2", "3"]);
    assert_eq!(text(&told, "1:__ROUND_END__"), "RETRIED");
    let seqs: Vec<_> = world.pushes.iter().map(|record| record.pushes).collect();
    assert!(seqs.is_sorted_by(|one, next| one < next), "{seqs:?}");
}

#[test]
fn whatever_has_finished_can_be_retried_again_and_again() {
    let mut world = World::new();
    let killed = world.task();
    world.kill(killed);
    let lost = world.submitted(&Fields::new().with(words::MAX_LOSSES, 0u32));
    world.apply("z");
    world.pass(INTERVAL * 2);
    let expired = world.submitted(&Fields::new().with(words::END_BEFORE, world.moment(1.0)));
    let done = world.task();
    world.do_to(TASK_HOLD, expired);
    world.exits("a", done, 0, 0);
    world.pass(seconds(1.0));
    let refusal = world.do_to(TASK_RETRY, expired);
    assert_eq!((refused(&refusal), world.outcome(expired)), (Code::NotAllowed, Outcome::Expired));
    for round in 1..4 {
        for task in [killed, lost, done] {
            assert_eq!(world.do_to(TASK_RETRY, task), Reply::Done);
            let record = world.record(task);
            assert_eq!((record.phase(), record.round, record.kill), (Phase::Waiting, Round(round), None));
            world.exits("a", task, round, 0);
            assert_eq!(world.outcome(task), Outcome::Succeeded);
        }
    }
}

#[test]
fn a_child_whose_father_has_ended_cannot_be_retried() {
    let mut world = World::new();
    let father = world.task();
    world.runs("a", father, Round(0));
    let child = world.child(father);
    world.kill(child);
    assert_eq!(world.do_to(TASK_RETRY, child), Reply::Done, "its father runs");
    world.kill(child);
    world.report("a", father, Round(0), Phase::Finished);
    assert_eq!(refused(&world.do_to(TASK_RETRY, child)), Code::NotAllowed);
    assert_eq!(world.do_to(TASK_RETRY, father), Reply::Done);
    assert_eq!(world.do_to(TASK_RETRY, child), Reply::Done, "it waits with its father");
    world.runs("a", father, Round(1));
    world.ends("a", father, Round(1), result(0));
    assert_eq!(world.outcome(child), Outcome::Killed);
}

/// A family is kept from its last end on, also when that end is repeated.
#[test]
fn a_retried_task_is_kept_from_its_new_end_on() {
    let mut world = World::new();
    let father = world.task();
    world.runs("a", father, Round(0));
    let child = world.child(father);
    world.report("a", father, Round(0), Phase::Finished);
    world.pass(seconds(3000.0));
    world.do_to(TASK_RETRY, father);
    // TASK_KEEP_HOURS is one hour here; an unfinished task is never forgotten.
    world.pass(seconds(3000.0));
    assert_eq!((world.phase(father), world.phase(child)), (Phase::Waiting, Phase::Finished));
    world.restart();
    world.exits("b", father, 1, 0);
    world.pass(seconds(3500.0));
    assert_eq!(world.phase(father), Phase::Finished);
    world.pass(seconds(200.0));
    assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic(TaskCounts([0; 6]), None));
    assert!(world.stored.is_empty());
}

/// A retained task is counted once, however often it was retried.
#[test]
fn retries_do_not_fill_the_room_for_results() {
    let mut world = World::with(|settings| settings.keep_bytes_max = 100_000);
    let task = world.task();
    world.exits("a", task, 0, 0);
    for round in 1..200 {
        assert_eq!(world.do_to(TASK_RETRY, task), Reply::Done);
        world.exits("a", task, round, 0);
    }
    world.pass_with(seconds(120.0), &[("a", None)]);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

/// A client that waits for the end of a task waits for the next end.
#[test]
fn a_retried_task_can_be_awaited_again() {
    let mut world = World::new();
    let task = world.task();
    world.exits("a", task, 0, 1);
    world.do_to(TASK_RETRY, task);
    let query = Request::Query(filter(words::TASK_ID, &task.to_string()), Some(INTERVAL));
    let (ticket, answer) = world.ask_later(query);
    assert_eq!(answer, Answer::Later);
    world.exits("a", task, 1, 0);
    assert!(world.replies.iter().any(|(t, reply)| *t == ticket && matches!(reply, Reply::Task { .. })));
}

#[test]
fn a_retry_of_a_task_with_a_start_and_an_end() {
    let mut world = World::new();
    let fields = Fields::new().with(words::START_AFTER, world.moment(10.0)).with(words::END_BEFORE, world.moment(20.0));
    let task = world.submitted(&fields);
    world.kill(task);
    world.do_to(TASK_RETRY, task);
    assert_eq!(world.apply("a"), None, "not before");
    world.pass(seconds(10.0));
    world.runs("a", task, Round(1));
    world.pass_with(seconds(10.0), &[("a", Some((task, Round(1))))]);
    assert_eq!(world.beat("a", Some((task, Round(1)))), Some(Directive::Kill));
}

/// A father that is being ended gets no more children, new or old.
#[test]
fn a_child_whose_father_is_ending_cannot_be_retried() {
    let mut world = World::new();
    let father = world.task();
    world.runs("a", father, Round(0));
    let child = world.child(father);
    world.kill(child);
    world.kill(father);
    assert_eq!(refused(&world.do_to(TASK_RETRY, child)), Code::NotAllowed);
}

/// The limit also applies to a task that comes back.
#[test]
fn a_retry_counts_among_those_that_wait() {
    let mut world = World::with(|settings| settings.waiting_max = 2);
    let done = world.task();
    world.exits("a", done, 0, 1);
    world.task();
    world.task();
    assert_eq!(refused(&world.do_to(TASK_RETRY, done)), Code::LimitReached);
    assert_eq!(world.outcome(done), Outcome::Failed, "and it is as it was");
}

/// In order, also when the end and the retry come in one turn and the end must be stored first.
#[test]
fn the_push_of_a_retry_does_not_overtake_that_of_the_end() {
    let mut world = World::new();
    let task = world.task();
    world.kill(task);
    world.do_to(TASK_RETRY, task);
    let again = Effect::Push(Box::new(world.pushes[1].clone()));
    assert_eq!((world.pushes[0].phase(), world.pushes[1].phase()), (Phase::Finished, Phase::Waiting));
    assert_eq!(again.claim(), Claim::Promise);
}
