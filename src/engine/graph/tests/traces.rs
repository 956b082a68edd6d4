//! The traces of the original, and those of its documented rules that it does not follow.

use super::*;

#[test]
fn a_chain_goes_step_after_step() {
    let mut world = World::new(&["scan", "fwd x scan", "emit 1 fwd", "fwd2 x emit"]);
    assert_eq!(world.seen(), "scan P; fwd P; scan R; emit P; fwd2 P");
    assert_eq!(world.end("scan"), "scan C; fwd R; fwd C; scan D; emit R");
    assert_eq!(world.end("emit"), "emit C; fwd2 R; fwd D; fwd2 C; emit D; fwd2 D");
    assert!(world.is_done);
}

/// The same with a task in each step.
#[test]
fn a_step_is_deactivated_when_the_next_one_has_completed() {
    let mut world = World::new(&["scan", "fwd 1 scan", "emit 1 fwd", "fwd2 1 emit"]);
    assert_eq!(world.seen(), "scan P; fwd P; scan R; emit P; fwd2 P");
    assert_eq!(world.end("scan"), "scan C; fwd R");
    assert_eq!(world.end("fwd"), "fwd C; scan D; emit R");
    assert_eq!(world.end("emit"), "emit C; fwd D; fwd2 R");
    assert_eq!(world.end("fwd2"), "fwd2 C; emit D; fwd2 D");
    assert!(world.is_done);
}

#[test]
fn a_join_is_prepared_before_it_runs() {
    let mut world = World::new(&["s1", "x1 x s1", "s2", "x2 x s2", "t 1 x1 | x2", "x3 x t", "e 1 x3", "d x e"]);
    assert_eq!(world.state("t"), StepState::Activated);
    world.seen();
    assert_eq!(world.end("s1"), "s1 C; x1 R; x1 C; s1 D");
    assert_eq!(world.end("s2"), "s2 C; x2 R; x2 C; s2 D; t ing");
    assert_eq!(world.tasks(), "t!");
    // The side behind the sub input is not needed any more.
    assert_eq!(world.end("t"), "t P; x2 D; t R");
    assert_eq!(world.end("t"), "t C; x3 R; x1 D; x3 C; t D; e R");
}

#[test]
fn both_sides_of_a_cogroup_complete_before_it_runs() {
    let mut world = World::new(&["s1", "x1 x s1", "s2", "x2 x s2", "c 1 x1 x2", "d x c"]);
    assert_eq!(world.state("c"), StepState::Prepared);
    world.end("s1");
    assert_eq!((world.state("c"), world.tasks()), (StepState::Prepared, "s2".into()));
    world.end("s2");
    assert_eq!((world.state("c"), world.tasks()), (StepState::Running, "c".into()));
}

/// The original waits for all of them, and for the main inputs too.
#[test]
fn each_sub_input_is_prepared_as_soon_as_it_is_completed() {
    let mut world = World::new(&["m", "a", "b", "t 1 m | a b"]);
    world.end("a");
    assert_eq!((world.state("t"), world.tasks()), (StepState::Preparing, "m b t!".into()));
    world.end("b");
    assert_eq!(world.tasks(), "m t! t!");
    world.end("t");
    assert_eq!(world.state("t"), StepState::Preparing);
    world.end("t");
    assert_eq!(world.state("t"), StepState::Prepared, "its main input is not completed");
    world.end("m");
    assert_eq!(world.state("t"), StepState::Running);
}

#[test]
fn the_activity_of_ports_follows_the_steps() {
    let mut world = World::new(&["a", "b", "c 1 a+b"]);
    let input = InputId { step: world.step("c"), input: 0 };
    let output = OutputId { step: world.step("c"), output: 0 };
    assert_eq!(world.scheduler.input_activity(input), PortActivity::Active);
    world.end("a");
    assert_eq!(world.scheduler.input_activity(input), PortActivity::Active, "one of two is completed");
    world.end("b");
    assert_eq!(world.scheduler.input_activity(input), PortActivity::Completed);
    assert_eq!(world.scheduler.output_activity(output), PortActivity::Inactive, "nothing takes it");
    let output = OutputId { step: world.step("a"), output: 0 };
    assert_eq!(world.scheduler.output_activity(output), PortActivity::Active);
    let waiting = World::new(&["a", "b 1 a", "c 1 b"]);
    let input = InputId { step: waiting.step("c"), input: 0 };
    assert_eq!(waiting.scheduler.input_activity(input), PortActivity::Inactive);
}
