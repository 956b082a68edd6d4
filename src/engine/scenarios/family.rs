//! Scenarios of kills, and of fathers and children.
#![cfg(test)]

use super::*;

/// docs/design/hazards.md, A13.
#[test]
fn a_kill_is_answered_at_once_in_every_phase() {
    let mut world = World::new();
    let waiting = world.task();
    assert_eq!(world.kill(waiting), Reply::Done);
    let record = world.record(waiting);
    assert_eq!((record.phase(), record.result()), (Phase::Finished, None));
    assert_eq!(world.pushes.last().map(TaskRecord::phase), Some(Phase::Finished));

    let task = world.task();
    world.apply("a");
    for phase in [Phase::Preparing, Phase::Running] {
        world.report("a", task, Round(0), phase);
        assert_eq!(world.kill(task), Reply::Done);
    }
    assert_eq!(world.published, [Published::Inform, Published::Inform, Published::Kill(task, Round(0))]);
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Kill), "PUB may lose");
    world.report("a", task, Round(0), Phase::Finished);
    assert_eq!(world.outcome(task), Outcome::Killed);
    assert_eq!(world.kill(task), Reply::Done);

    let unknown = TaskId::new(Wall::from_micros(5), [0; 5]);
    assert_eq!(refused(&world.kill(unknown)), Code::InvalidTaskId);
}

#[test]
fn a_killed_task_whose_agent_is_lost_does_not_run_again() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.kill(task);
    world.pass(INTERVAL * 2);
    assert_eq!(world.outcome(task), Outcome::Killed);
}

/// No task outlives its father (docs/design/hazards.md, A12).
#[test]
fn the_end_of_a_father_ends_all_descendants() {
    let mut world = World::new();
    let father = world.task();
    world.apply("a");
    world.report("a", father, Round(0), Phase::Running);
    let child = world.child(father);
    world.apply("b");
    let grandchild = world.child(child);
    world.report("a", father, Round(0), Phase::Ended);
    assert_eq!(world.outcome(grandchild), Outcome::Killed);
    assert_eq!(world.beat("b", Some((child, Round(0)))), Some(Directive::Kill));
    let late = world.submit(&Fields::new().with(words::FATHER_ID, father.to_string()));
    assert_eq!(refused(&late), Code::NotAllowed);
    let late = world.submit(&Fields::new().with(words::FATHER_ID, child.to_string()));
    assert_eq!(refused(&late), Code::NotAllowed, "a child that is ending gets no children either");
}

#[test]
fn killing_a_waiting_father_ends_a_long_chain() {
    let mut world = World::with(|settings| settings.waiting_max = 1_000);
    let eldest = world.task();
    let mut youngest = eldest;
    for _ in 0..500 {
        youngest = world.child(youngest);
    }
    world.kill(eldest);
    assert_eq!(world.outcome(youngest), Outcome::Killed);
    assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic(TaskCounts([0, 0, 0, 0, 0, 501]), None));
}

#[test]
fn the_children_of_a_lost_run_are_ended() {
    let mut world = World::new();
    let father = world.task();
    world.apply("a");
    let child = world.child(father);
    world.pass(INTERVAL * 2);
    assert_eq!(world.phase(child), Phase::Waiting, "the run may go on");
    assert_eq!(world.apply("b"), Some((father, Round(1))));
    assert_eq!(world.outcome(child), Outcome::Killed);
}

#[test]
fn an_unknown_father_is_dropped_with_a_warning() {
    let mut world = World::new();
    for father in ["TASK_1480000000.120000_AZazA", "nonsense"] {
        let Reply::Submitted { task, warning: Some(warning), duplicate: false } =
            world.submit(&Fields::new().with(words::FATHER_ID, father))
        else {
            panic!()
        };
        assert!(warning.contains(father), "{warning}");
        let record = world.record(task);
        assert!(!record.submitted.contains(words::FATHER_ID) && record.parent.is_none());
    }
}

/// Nothing goes on until another agent comes.
#[test]
fn parents_that_have_every_agent_that_their_children_need_are_told() {
    let mut world = World::new();
    let parents = ["a", "b"].map(|agent| {
        let parent = world.task();
        world.apply(agent);
        world.report(agent, parent, Round(0), Phase::Running);
        parent
    });
    let runs = [("a", Some((parents[0], Round(0)))), ("b", Some((parents[1], Round(0))))];
    let first = world.child(parents[0]);
    world.pass_with(INTERVAL * 4, &runs);
    assert!(world.why(first).contains("are busy"), "one of them ends: {}", world.why(first));
    assert_eq!(world.controller.take_incidents(), []);
    world.child(parents[1]);
    world.pass_with(INTERVAL * 4, &runs);
    let incidents = world.controller.take_incidents();
    let told = "the agents a, b run tasks that wait for children of theirs, and no other agent can run these";
    assert_eq!(incidents, [(IncidentKind::SlotsHeld, told.to_owned())], "once");
    for (task, says) in [(first, "so that none becomes free"), (parents[0], "children of it wait")] {
        let why = world.why(task);
        assert!(
            why.contains("(a, b) run tasks that wait") && why.contains(says) && why.contains("AGENT_LEND_MAX"),
            "{why}"
        );
    }
    // Another agent solves it.
    world.apply("c");
    world.pass_with(INTERVAL * 4, &[runs[0], runs[1], ("c", Some((first, Round(0))))]);
    assert_eq!(world.controller.take_incidents(), []);
    assert!(!world.why(parents[1]).contains("children"), "{}", world.why(parents[1]));
}
