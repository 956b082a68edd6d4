//! Early completion, and the stop of a graph.

use super::*;

#[test]
fn a_running_step_ends_its_tasks_and_completes() {
    let mut world = World::new(&["a 2", "b 1 a"]);
    world.seen();
    assert_eq!(world.complete("a"), "a E");
    assert_eq!(world.told.len(), 2);
    assert_eq!(world.complete("a"), "", "it was told already");
    assert_eq!(world.end("a"), "");
    assert_eq!(world.end("a"), "a C; b R");
}

#[test]
fn a_step_whose_tasks_have_not_begun_completes_at_once() {
    let mut world = World::new(&["a 2", "b 1 a"]);
    world.seen();
    world.scheduler.handle_completion(world.step("a"));
    // The owner removes a task before it polls the next effect.
    while let Some(effect) = world.scheduler.poll_effect() {
        match effect {
            Effect::End(slot) => assert!(world.scheduler.handle_ended(slot, false)),
            Effect::Changed(step, state) => {
                world.changes.push(format!("{} {state:?}", world.scheduler.graph().step(step).name));
            }
            Effect::Start(slot, partition) => world.running.push((slot, partition)),
            Effect::Excess(_) | Effect::Done => panic!("{effect:?}"),
        }
    }
    assert_eq!(world.seen(), "a Completed; b Running");
}

#[test]
fn a_step_that_has_not_started_never_starts() {
    let mut world = World::new(&["a", "b 1 a", "c 1 b", "d 1 a"]);
    world.seen();
    assert_eq!(world.complete("b"), "b C; c R");
    assert_eq!(world.end("c"), "c C; c D");
    assert_eq!(world.end("a"), "a C; b D; d R");
    world.end("d");
    assert!(world.is_done);
    assert_eq!(world.started.len(), 3);
}

#[test]
fn a_step_that_is_being_prepared_completes_with_the_preparation() {
    let mut world = World::new(&["m", "a", "t 1 m | a", "e 1 t"]);
    world.end("a");
    world.seen();
    assert_eq!(world.complete("t"), "t E; m E; a D", "t was all that m was for");
    assert_eq!(world.end("t"), "t C; e R");
    assert_eq!(world.end("m"), "m C; m D");
    assert_eq!(world.end("e"), "e C; t D; e D");
}

/// LIMIT: the steps before it are of no use any more.
#[test]
fn the_end_goes_upstream() {
    let mut world = World::new(&["scan 2", "fwd each scan", "limit each fwd", "emit 1 limit"]);
    world.provide("scan", 0, 0, 1);
    world.provide("fwd", 0, 0, 1);
    world.seen();
    assert_eq!(world.complete("limit"), "limit E; fwd E; scan E");
    assert_eq!(world.told.len(), 4);
    for step in ["limit", "fwd", "scan", "scan"] {
        world.end(step);
    }
    assert_eq!(world.tasks(), "emit", "{}", world.seen());
}

#[test]
fn a_step_that_is_needed_elsewhere_goes_on() {
    let mut world = World::new(&["scan", "limit each scan", "other each scan"]);
    world.provide("scan", 0, 0, 1);
    world.complete("limit");
    assert_eq!(world.state("scan"), StepState::Running);
    world.complete("other");
    assert_eq!(world.state("scan"), StepState::Completing);
}

#[test]
fn a_step_that_does_not_propagate_goes_on() {
    let text = lines(&["scan", "limit each scan"]).replacen("\"operation\"", "\"propagate\":false,\"operation\"", 1);
    let mut world = World::of(&text);
    world.provide("scan", 0, 0, 1);
    world.seen();
    assert_eq!(world.complete("limit"), "limit E");
    assert_eq!(world.end("limit"), "", "its input is not completed");
    assert_eq!(world.end("scan"), "scan C; limit C; scan D; limit D");
}

#[test]
fn what_comes_after_the_end_starts_nothing() {
    let mut world = World::new(&["scan", "limit each scan", "other each scan"]);
    world.complete("limit");
    assert_eq!(world.state("limit"), StepState::Completed);
    world.provide("scan", 0, 0, 3);
    assert_eq!(world.tasks(), "scan other other other");
}

/// What a step provides while it ends counts.
#[test]
fn a_completing_step_still_provides() {
    let mut world = World::new(&["scan", "next each scan"]);
    world.complete("scan");
    world.provide("scan", 0, 0, 2);
    assert_eq!(world.tasks(), "scan next next");
    world.end("scan");
    assert!(!world.scheduler.handle_providing(OutputId { step: world.step("scan"), output: 0 }, 0, 2, 1));
}

#[test]
fn a_stopped_graph_keeps_its_states_and_starts_nothing() {
    let mut world = World::new(&["a 2", "b 1 a"]);
    world.scheduler.handle_stop();
    world.drain();
    assert_eq!(world.told.len(), 2);
    world.end("a");
    world.end("a");
    assert!(world.scheduler.is_idle() && !world.is_done);
    assert_eq!((world.state("a"), world.state("b")), (StepState::Running, StepState::Prepared));
    assert_eq!(world.complete("b"), "");
}
