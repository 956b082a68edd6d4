//! Scenarios of submits that wait for the end of their task.
#![cfg(test)]

use super::*;

fn call() -> Fields {
    Fields::new().with(words::OPERATION, "t").with(words::SUBMIT_KEY, "k").with(words::WAIT, 1000u32)
}

/// Submits, and returns the request that waits.
fn parked(world: &mut World, fields: &Fields) -> Ticket {
    let request = world.read(TASK_SUBMIT, fields).unwrap();
    let (ticket, answer) = world.ask_later(request);
    assert_eq!(answer, Answer::Later);
    ticket
}

/// The answer to it: the phase of the task, and whether it was accepted before.
fn answered(world: &World, ticket: Ticket) -> Option<(Phase, bool)> {
    let mut replies = world.replies.iter().filter(|(to, _)| *to == ticket);
    let (_, Reply::Called { record, duplicate, .. }) = replies.next()? else { panic!("{:?}", world.replies) };
    assert!(replies.next().is_none(), "one answer");
    Some((record.phase(), *duplicate))
}

#[test]
fn a_submit_is_answered_with_the_end_of_its_task() {
    let mut world = World::new();
    world.park("a");
    let ticket = parked(&mut world, &call().with("newer", 1u32).with("__NEWER__", true));
    let task = *world.stored.keys().next_back().unwrap();
    assert_eq!(answered(&world, ticket), None);
    world.report("a", task, Round(0), Phase::Finished);
    assert_eq!(answered(&world, ticket), Some((Phase::Finished, false)));
    let (_, reply) = world.replies.iter().find(|(to, _)| *to == ticket).cloned().unwrap();
    assert_eq!(Effect::Reply(ticket, reply.clone()).claim(), Claim::Promise, "its end is stored first");
    let told = fields_of(TASK_SUBMIT, &reply);
    assert_eq!(text(&told, words::TASK_ID), task.to_string());
    assert_eq!(text(&told, words::STATUS), "FINISHED");
    assert!(text(&told, words::WARNING).contains("__NEWER__"));
    assert!(!world.record(task).submitted.contains(words::WAIT), "it is no parameter");
}

/// What does not wait for the disk at its start does not wait for it at its end.
#[test]
fn the_end_of_an_eager_call_is_told_at_once_and_nothing_before_it_is() {
    let mut world = World::new();
    let ticket = parked(&mut world, &call().with("__EAGER__", true));
    world.pass(seconds(1.0));
    let claim = |world: &World, ticket| {
        let (_, reply) = world.replies.iter().find(|(to, _)| *to == ticket).cloned().unwrap();
        Effect::Reply(ticket, reply).claim()
    };
    assert_eq!(answered(&world, ticket), Some((Phase::Waiting, false)));
    assert_eq!(claim(&world, ticket), Claim::Promise, "it promises that the task is accepted");
    let again = parked(&mut world, &call().with("__EAGER__", true));
    let task = *world.stored.keys().next_back().unwrap();
    world.exits("a", task, 0, 0);
    assert_eq!(answered(&world, again), Some((Phase::Finished, true)), "the same submit again is the same task");
    assert_eq!(claim(&world, again), Claim::Nothing);
}

/// Its client does not wait for the disk, and subscribers are no reason for a commit of its own.
#[test]
fn the_news_of_an_eager_task_share_a_commit() {
    for (eager, delay) in [(true, 10), (false, 0)] {
        let mut world = World::new();
        world.park("a");
        parked(&mut world, &call().with("__EAGER__", eager));
        let task = *world.stored.keys().next_back().unwrap();
        world.report("a", task, Round(0), Phase::Finished);
        let news = Effect::Push(Box::new(world.record(task).clone()));
        assert_eq!(news.delay_max(), Duration::from_millis(delay), "eager: {eager}");
    }
}

#[test]
fn a_submit_that_cannot_wait_is_answered_at_once() {
    let mut world = World::with(|settings| settings.parked_max = 1);
    parked(&mut world, &call());
    let reply = world.submit(&call().with(words::SUBMIT_KEY, "other"));
    let Reply::Called { record, duplicate: false, .. } = reply else { panic!("{reply:?}") };
    assert_eq!(record.phase(), Phase::Waiting);
    let refused_at_once = world.submit(&call().with("a", 1u32));
    assert_eq!(refused(&refused_at_once), Code::BadField, "its key belongs to another task");
}

/// The store is in trouble: a submit that it does not have is not left to wait.
#[test]
fn the_wait_of_a_submit_ends_when_it_cannot_be_stored() {
    let mut world = World::with(|settings| settings.parked_max = 100);
    let stored = parked(&mut world, &call());
    world.controller.handle_committed(world.now, world.stored.keys().next_back().copied());
    let request = world.read(TASK_SUBMIT, &call().with(words::SUBMIT_KEY, "unstored")).unwrap();
    let unstored = world.ticket();
    // The commit of its turn fails.
    assert_eq!(world.controller.handle_request(world.now, unstored, request), Answer::Later);
    let ended = world.controller.end_unstored_calls();
    let [(ticket, Reply::Called { record, .. })] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(*ticket, unstored);
    assert!(world.controller.handle_unstored(world.now, record.id, false));
    world.settle();
    assert_eq!(answered(&world, stored), None, "the other one waits on");
}

/// It may not be stored, and with its key another leader may make it again.
#[test]
fn an_eager_call_whose_task_never_ran_is_answered_when_that_is_stored() {
    let mut world = World::new();
    let ticket = parked(&mut world, &call().with("__EAGER__", true));
    let task = *world.stored.keys().next_back().unwrap();
    world.kill(task);
    assert_eq!(answered(&world, ticket), Some((Phase::Finished, false)));
    let (_, reply) = world.replies.iter().find(|(to, _)| *to == ticket).cloned().unwrap();
    assert_eq!(Effect::Reply(ticket, reply).claim(), Claim::Promise);
}
