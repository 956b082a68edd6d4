//! Scenarios of earliest starts and latest ends, across restarts and jumps of the wall clock.
#![cfg(test)]

use super::*;

fn until(world: &World, seconds: f64) -> Fields {
    Fields::new().with(words::END_BEFORE, world.moment(seconds))
}

#[test]
fn a_task_does_not_start_before_its_time() {
    let mut world = World::new();
    let later = world.submitted(&Fields::new().with(words::START_AFTER, world.moment(5.0)));
    assert_eq!(world.apply("a"), None);
    let ticket = world.park("a");
    world.pass(seconds(4.999));
    assert!(world.replies.is_empty());
    world.pass(seconds(0.001));
    assert!(matches!(&world.replies[..], [(t, Reply::Assigned(r, _))] if *t == ticket && r.id == later));
}

#[test]
fn a_task_that_starts_later_keeps_its_place_and_its_time_over_a_restart() {
    let mut world = World::new();
    let later = world.submitted(&Fields::new().with(words::START_AFTER, world.moment(10.0)));
    let other = world.task();
    world.restart();
    assert_eq!(world.apply("a"), Some((other, Round(1))));
    assert_eq!(world.apply("b"), None);
    let third = world.task();
    world.pass_with(seconds(10.0), &[("a", Some((other, Round(1))))]);
    assert_eq!(world.apply("b").map(|(task, _)| task), Some(later), "it is older than the third one");
    assert_eq!(world.apply("c").map(|(task, _)| task), Some(third));
}

#[test]
fn a_task_expires_while_it_waits() {
    let mut world = World::new();
    let fields = until(&world, 5.0);
    let task = world.submitted(&fields);
    let held = world.submitted(&fields);
    world.do_to(TASK_HOLD, held);
    let later = world.submitted(&fields.clone().with(words::START_AFTER, world.moment(4.0)));
    world.do_to(TASK_HOLD, later);
    world.set_gate("g", Fields::new().with(words::MAX_RUNNING, 0u32));
    let gated = world.submitted(&fields.with(words::GATE, "g"));
    world.pass(seconds(4.999));
    assert_eq!(world.phase(task), Phase::Waiting);
    world.pass(seconds(0.001));
    for task in [task, held, later, gated] {
        assert_eq!(world.outcome(task), Outcome::Expired);
        assert!(world.why(task).contains("the task had reached its end-before time"), "{}", world.why(task));
    }
    assert_eq!(world.apply("a"), None);
}

#[test]
fn a_task_expires_in_every_phase_of_its_run() {
    for phase in [Phase::Dispatched, Phase::Preparing, Phase::Running] {
        let mut world = World::new();
        let fields = until(&world, 5.0).with(words::MAX_FAILS, 9u32);
        let task = world.submitted(&fields);
        world.apply("a");
        if phase > Phase::Dispatched {
            world.report("a", task, Round(0), phase);
        }
        world.pass(seconds(5.0));
        assert_eq!(world.published.last(), Some(&Published::Kill(task, Round(0))), "{phase:?}");
        assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Kill));
        world.ends("a", task, Round(0), result(-15));
        assert_eq!(world.outcome(task), Outcome::Expired, "{phase:?}");
    }
}

/// A success that was known in time stays a success.
#[test]
fn a_run_that_ended_in_time_is_no_expiry() {
    let mut world = World::new();
    let fields = until(&world, 5.0);
    let task = world.submitted(&fields);
    world.runs("a", task, Round(0));
    world.report("a", task, Round(0), Phase::Ended);
    world.pass(seconds(5.5));
    world.ends("a", task, Round(0), result(0));
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

#[test]
fn the_end_of_a_life_holds_over_a_restart() {
    let mut world = World::new();
    let fields = until(&world, 10.0);
    let (waits, runs) = (world.submitted(&fields), world.submitted(&fields));
    world.kill(waits);
    let waits = world.submitted(&fields);
    world.runs("a", runs, Round(0));
    world.pass(seconds(4.0));
    world.restart();
    world.beat("a", Some((runs, Round(0))));
    world.pass_with(seconds(5.9), &[("a", Some((runs, Round(0))))]);
    assert_eq!((world.phase(waits), world.record(runs).kill), (Phase::Waiting, None));
    world.pass(seconds(0.1));
    assert_eq!(world.outcome(waits), Outcome::Expired);
    assert_eq!(world.beat("a", Some((runs, Round(0)))), Some(Directive::Kill));
}

/// The controller was not running when the time passed.
#[test]
fn a_life_that_ended_while_no_controller_ran_ends_at_once() {
    let mut world = World::new();
    let fields = until(&world, 10.0);
    let task = world.submitted(&fields);
    world.now.wall = world.now.wall + seconds(100.0);
    world.restart();
    world.pass(Duration::ZERO);
    assert_eq!(world.outcome(task), Outcome::Expired);
}

/// A moment is that of the wall clock, wherever it jumps; it is noticed within a minute (docs/design/hazards.md, D7).
#[test]
fn moments_follow_a_clock_that_jumps() {
    let mut world = World::new();
    let start = world.submitted(&Fields::new().with(words::START_AFTER, world.moment(3600.0)));
    let end = until(&world, 3600.0);
    let end = world.submitted(&end.with(words::TAGS, "none"));
    world.jump(-86_400);
    world.pass(seconds(3700.0));
    assert_eq!(world.apply("a"), None);
    assert_eq!((world.phase(start), world.phase(end)), (Phase::Waiting, Phase::Waiting));
    world.jump(86_400);
    world.pass(seconds(60.0));
    assert_eq!(world.apply("a"), Some((start, Round(0))));
    assert_eq!(world.outcome(end), Outcome::Expired);
}

/// A task without an end does not end by a jump, and a task that waits for a moment keeps waiting for it (docs/design/hazards.md, D7).
#[test]
fn a_jump_is_no_mass_expiry() {
    for jump in [-86_400, 86_400] {
        let mut world = World::new();
        let task = world.task();
        let fields = until(&world, 200_000.0);
        let far = world.submitted(&fields);
        world.runs("a", task, Round(0));
        world.jump(jump);
        world.pass_with(seconds(120.0), &[("a", Some((task, Round(0))))]);
        assert_eq!(
            (world.phase(task), world.record(task).kill, world.phase(far)),
            (Phase::Running, None, Phase::Waiting)
        );
    }
}

#[test]
fn a_time_that_is_over_is_refused() {
    let mut world = World::new();
    let fields = until(&world, 0.0);
    assert_eq!(refused(&world.submit(&fields)), Code::BadField);
    let both = until(&world, 5.0).with(words::START_AFTER, world.moment(6.0));
    assert_eq!(refused(&world.submit(&both)), Code::BadField);
    let past = Fields::new().with(words::START_AFTER, world.moment(-5.0));
    let task = world.submitted(&past);
    assert_eq!(world.apply("a"), Some((task, Round(0))), "a past start time means at once");
}

/// The family of an expiring task ends with it.
#[test]
fn the_children_of_a_task_that_expires_end_too() {
    let mut world = World::new();
    let fields = until(&world, 5.0);
    let father = world.submitted(&fields);
    let child = world.child(father);
    world.pass(seconds(5.0));
    assert_eq!((world.outcome(father), world.outcome(child)), (Outcome::Expired, Outcome::Killed));
}

/// Higher first, and inside one priority the older one.
#[test]
fn priorities_go_before_age() {
    let mut world = World::new();
    let task = |world: &mut World, priority: i32| world.submitted(&Fields::new().with(words::PRIORITY, priority));
    let (low, first) = (task(&mut world, -100), task(&mut world, 0));
    let (second, high) = (world.task(), task(&mut world, 100));
    let other = world.submitted(&Fields::new().with(words::PRIORITY, 7u32).with(words::TAGS, "gpu"));
    world.tagged("z", "gpu");
    assert_eq!(world.apply("a"), Some((high, Round(0))));
    assert_eq!(world.apply("b"), Some((first, Round(0))));
    assert_eq!(world.apply("z"), Some((other, Round(0))), "across lines, too");
    assert_eq!(world.apply("c"), Some((second, Round(0))));
    assert_eq!(world.apply("d"), Some((low, Round(0))));
}

/// The jump has not been noticed yet (docs/design/hazards.md, D7).
#[test]
fn nothing_starts_after_its_end_wherever_the_clock_has_jumped() {
    let mut world = World::new();
    let fields = until(&world, 3600.0);
    let task = world.submitted(&fields);
    world.now.wall = world.now.wall + seconds(7200.0);
    assert_eq!(world.apply("a"), None);
    assert_eq!(world.outcome(task), Outcome::Expired);
}

/// The run has ended in time, but too late for another one.
#[test]
fn a_task_whose_time_is_over_while_its_agent_cleans_up_has_no_next_round() {
    let mut world = World::new();
    let fields = until(&world, 5.0).with(words::MAX_FAILS, 9u32);
    let task = world.submitted(&fields);
    world.runs("a", task, Round(0));
    let report = report_of(task, Round(0), Phase::Ended, Some(result(1)));
    let _ = world.say("a", FromAgent::Report(Box::new(report)));
    world.pass(seconds(5.5));
    world.ends("a", task, Round(0), result(1));
    world.pass(seconds(1.0));
    assert_eq!(world.apply("b"), None, "nothing starts after the end");
    assert_eq!(world.phase(task), Phase::Finished);
}
