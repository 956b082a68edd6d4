//! Scenarios of tasks that are held and released.
#![cfg(test)]

use super::*;

#[test]
fn a_held_task_waits_until_it_is_released() {
    let mut world = World::new();
    let (held, other) = (world.task(), world.task());
    assert_eq!(world.do_to(TASK_HOLD, held), Reply::Done);
    assert_eq!(world.do_to(TASK_HOLD, held), Reply::Done, "twice is harmless");
    assert_eq!(world.apply("a"), Some((other, Round(0))));
    let ticket = world.park("b");
    world.restart();
    assert_eq!(world.apply("b"), None);
    let ticket = ticket.max(world.park("b"));
    assert!(world.why(held).contains("held"), "{}", world.why(held));
    assert_eq!(world.do_to(TASK_RELEASE, held), Reply::Done);
    let assigned =
        |(t, reply): &(Ticket, Reply)| *t == ticket && matches!(reply, Reply::Assigned(r, _) if r.id == held);
    assert!(world.replies.iter().any(assigned), "{:?}", world.replies);
    assert_eq!(world.do_to(TASK_RELEASE, held), Reply::Done);
}

#[test]
fn a_held_task_keeps_its_place() {
    let mut world = World::new();
    let (first, second) = (world.task(), world.task());
    world.do_to(TASK_HOLD, first);
    world.do_to(TASK_RELEASE, first);
    assert_eq!(world.apply("a"), Some((first, Round(0))));
    assert_eq!(world.apply("a2"), Some((second, Round(0))));
}

/// It does not shorten any other wait of the task.
#[test]
fn a_released_task_waits_for_its_time_and_its_gate() {
    let mut world = World::new();
    world.set_gate("g", Fields::new().with(words::MAX_RUNNING, 0u32));
    let later = world.submitted(&Fields::new().with(words::START_AFTER, world.moment(10.0)));
    let gated = world.submitted(&Fields::new().with(words::GATE, "g"));
    for task in [later, gated] {
        world.do_to(TASK_HOLD, task);
        world.do_to(TASK_RELEASE, task);
    }
    assert_eq!(world.apply("a"), None);
    world.do_to(TASK_HOLD, later);
    world.pass(seconds(10.0));
    assert_eq!(world.apply("a"), None);
    world.do_to(TASK_RELEASE, later);
    assert_eq!(world.apply("a"), Some((later, Round(0))));
}

/// A running task continues; its next round is held.
#[test]
fn a_task_is_held_in_each_phase() {
    for phase in [Phase::Dispatched, Phase::Preparing, Phase::Running, Phase::Ended] {
        let mut world = World::new();
        let task = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32));
        world.apply("a");
        if phase > Phase::Dispatched {
            let report = report_of(task, Round(0), phase, (phase == Phase::Ended).then(|| result(1)));
            let _ = world.say("a", FromAgent::Report(Box::new(report)));
        }
        assert_eq!(world.do_to(TASK_HOLD, task), Reply::Done);
        assert_eq!(world.phase(task), phase);
        assert_eq!(world.ends("a", task, Round(0), result(1)), None, "{phase:?}");
        assert_eq!((world.phase(task), world.record(task).round), (Phase::Waiting, Round(1)));
        assert_eq!(world.apply("a"), None, "{phase:?}");
        world.do_to(TASK_RELEASE, task);
        assert_eq!(world.apply("a"), Some((task, Round(1))));
    }
    let mut world = World::new();
    let task = world.task();
    world.exits("a", task, 0, 0);
    for kind in [TASK_HOLD, TASK_RELEASE] {
        assert_eq!(refused(&world.do_to(kind, task)), Code::NotAllowed);
    }
}

#[test]
fn a_held_task_can_be_killed_and_ends_with_its_father() {
    let mut world = World::new();
    let father = world.task();
    world.runs("a", father, Round(0));
    let (child, other) = (world.child(father), world.task());
    for task in [child, other] {
        world.do_to(TASK_HOLD, task);
    }
    world.kill(other);
    world.report("a", father, Round(0), Phase::Finished);
    assert_eq!((world.outcome(child), world.outcome(other)), (Outcome::Killed, Outcome::Killed));
}

/// A dispatch without a peer returns the task to the state in which it was held.
#[test]
fn a_held_task_that_was_not_delivered_waits() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.do_to(TASK_HOLD, task);
    world.controller.handle_undelivered(world.now, task, Round(0));
    world.settle();
    assert_eq!(world.apply("b"), None);
    world.do_to(TASK_RELEASE, task);
    assert_eq!(world.apply("b"), Some((task, Round(0))));
}
