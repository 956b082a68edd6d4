//! Numbers of tasks, and partitions.

use super::*;

#[test]
fn a_step_without_tasks_passes_all_states() {
    let mut world = World::new(&["a 0", "b 1 a"]);
    assert_eq!(world.seen(), "a P; b P; a R; a C; b R");
    assert_eq!(world.end("b"), "b C; a D; b D");
}

#[test]
fn a_sub_input_without_tasks_is_prepared_when_it_is_completed() {
    let text = lines(&["m", "a", "t 1 m | a"]).replace("\"sub_inputs\"", "\"prepare\":{\"s0\":0},\"sub_inputs\"");
    let mut world = World::of(&text);
    world.end("m");
    assert_eq!(world.state("t"), StepState::Activated);
    assert_eq!(world.end("a"), "a C; t ing; t P; a D; t R");
}

#[test]
fn two_ports_on_one_output_start_the_tasks_once() {
    let mut world = World::new(&["a", "b 3 a a"]);
    world.end("a");
    assert_eq!(world.tasks(), "b b b");
}

#[test]
fn a_step_with_several_tasks_completes_with_the_last_one() {
    let mut world = World::new(&["a 3", "b 1 a"]);
    assert_eq!(world.tasks(), "a a a");
    world.end("a");
    world.end("a");
    assert_eq!(world.state("a"), StepState::Running);
    assert_eq!(world.end("a"), "a C; b R");
}

#[test]
fn an_event_that_comes_twice_changes_nothing() {
    let mut world = World::new(&["a 2", "b 1 a"]);
    let (slot, _) = world.running[0];
    assert!(world.scheduler.handle_ended(slot, true));
    assert!(!world.scheduler.handle_ended(slot, true));
    world.drain();
    assert_eq!(world.state("a"), StepState::Running);
}

#[test]
fn a_provision_starts_a_task_while_the_upstream_step_runs() {
    let mut world = World::new(&["a 2", "b each a", "c 1 b"]);
    world.seen();
    assert_eq!(world.provide("a", 1, 0, 2), "b R");
    assert_eq!(world.tasks(), "a a b b");
    let of = world.started[2].1.unwrap();
    assert_eq!((of.task, of.number), (1, 0));
    assert_eq!(world.provide("a", 0, 0, 1), "", "b is RUNNING already");
    assert_eq!(world.tasks(), "a a b b b");
    for _ in 0..3 {
        assert_eq!(world.end("b"), "", "its input is not completed");
    }
    world.end("a");
    assert_eq!(world.end("a"), "a C; b C; a D; c R");
}

#[test]
fn a_provision_before_its_step_is_prepared_is_kept() {
    let mut world = World::new(&["s", "m 1 s", "o", "b each m o"]);
    world.end("s");
    world.provide("m", 0, 0, 1);
    assert_eq!(world.state("b"), StepState::Prepared, "its other input is not completed");
    world.end("o");
    assert_eq!(world.tasks(), "m b");
}

#[test]
fn without_provision_each_task_that_ended_has_an_empty_partition() {
    let mut world = World::new(&["a 3", "b each a"]);
    for _ in 0..3 {
        assert_eq!(world.tasks().matches('b').count(), 0);
        world.end("a");
    }
    assert_eq!(world.tasks(), "b b b");
    let tasks: Vec<u32> = world.started[3..].iter().map(|(_, partition)| partition.unwrap().task).collect();
    assert_eq!(tasks, [0, 1, 2]);
}

/// A file without lines says that there is no partition.
#[test]
fn a_provision_of_nothing_is_one() {
    let mut world = World::new(&["a", "b each a", "c 1 b"]);
    world.provide("a", 0, 0, 0);
    assert_eq!(world.end("a"), "a C; b R; b C; a D; c R");
}

#[test]
fn an_exchange_hands_each_partition_on_at_once() {
    let mut world = World::new(&["a", "x x a", "y x x", "b each y", "c each x"]);
    world.seen();
    assert_eq!(world.provide("a", 0, 0, 2), "x R; y R; c R; b R");
    assert_eq!(world.tasks(), "a b b c c");
}

#[test]
fn a_union_starts_for_what_one_of_it_provides() {
    let mut world = World::new(&["a", "b", "c each a+b"]);
    world.provide("a", 0, 0, 1);
    assert_eq!(world.tasks(), "a b c");
    world.end("a");
    world.end("c");
    assert_eq!(world.state("c"), StepState::Running);
    world.end("b");
    assert_eq!(world.tasks(), "c", "b has one empty partition");
}

/// Thirty exchanges that double what they get would make a thousand million partitions.
#[test]
fn partitions_that_multiply_end_the_graph() {
    let mut steps = vec!["a".to_owned(), "x0 x a a".to_owned()];
    steps.extend((1..30).map(|at| format!("x{at} x x{} x{}", at - 1, at - 1)));
    steps.push("b each x29".to_owned());
    let mut world = World::new(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    world.seen();
    let seen = world.provide("a", 0, 0, 1);
    assert!(seen.contains("excess"), "{seen}");
    assert_eq!(world.told.len(), 1);
    world.running.pop();
    assert!(world.scheduler.handle_ended(world.told[0], true) && world.scheduler.is_idle());
}

#[test]
fn a_document_whose_steps_do_not_fit_is_refused_with_its_step() {
    for (steps, expected) in [
        (
            &["a 1 c", "b 1 a", "c 1 b"][..],
            "the steps a -> b -> c -> a form a circle, so none of them could start; remove a connection",
        ),
        (&["a 1 a"], "the steps a -> a form a circle, so none of them could start; remove a connection"),
        (
            &["start", "b 1 strat"],
            "step b: its input i0 takes strat.out, but there is no step strat; the nearest is start",
        ),
    ] {
        let refusal = graph(&lines(steps)).unwrap_err();
        assert_eq!((refusal.code.number(), refusal.message.as_str()), (-1007, expected));
    }
    let text = lines(&["a", "b 1 a"]).replace("a.out", "a.oup");
    let expected = "step b: its input i0 takes a.oup, but step a has no output oup; the nearest is out";
    assert_eq!(graph(&text).unwrap_err().message, expected);
}

/// What is behind a circle is not in it.
#[test]
fn only_the_steps_of_the_circle_are_named() {
    let refusal = graph(&lines(&["z 1 y", "s", "a 1 s+b", "b 1 a", "y 1 b"])).unwrap_err();
    assert!(refusal.message.starts_with("the steps a -> b -> a form a circle"), "{refusal}");
}
