//! Scenarios of finished tasks that are forgotten before their time.
#![cfg(test)]

use super::*;
use api::wire::requests::forget::TASK_FORGET;

#[test]
fn a_finished_task_is_forgotten_and_stays_in_the_history() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::SUBMIT_KEY, "k"));
    let refused_while = |world: &mut World| {
        let reply = world.do_to(TASK_FORGET, task);
        assert_eq!(refused(&reply), Code::NotAllowed, "{reply:?}");
    };
    refused_while(&mut world);
    world.runs("a", task, Round(0));
    refused_while(&mut world);
    world.ends("a", task, Round(0), result(0));
    assert_eq!(world.do_to(TASK_FORGET, task), Reply::Done);
    world.pass(Duration::ZERO);
    assert_eq!(refused(&world.do_to(TASK_FORGET, task)), Code::InvalidTaskId);
    assert!(world.stored.is_empty(), "{:?}", world.stored);
    assert_eq!(world.ended.len(), 1);
    let again = world.submitted(&Fields::new().with(words::SUBMIT_KEY, "k"));
    assert_ne!(again, task, "its key is free");
}

#[test]
fn a_family_is_forgotten_as_a_whole() {
    let mut world = World::new();
    let parent = world.task();
    world.runs("a", parent, Round(0));
    let (child, other) = (world.child(parent), world.child(parent));
    world.exits("b", child, 0, 0);
    let reply = world.do_to(TASK_FORGET, child);
    assert_eq!(refused(&reply), Code::NotAllowed, "{reply:?}");
    world.exits("b", other, 0, 0);
    world.ends("a", parent, Round(0), result(0));
    assert_eq!(world.do_to(TASK_FORGET, child), Reply::Done);
    // Once more, before it has left.
    let _ = world.do_to(TASK_FORGET, parent);
    world.pass(Duration::ZERO);
    assert!(world.stored.is_empty(), "{:?}", world.stored);
    world.pass(Duration::from_secs(7200));
}

/// The waiting task knows the end of the one before it, whatever is forgotten.
#[test]
fn a_forgotten_task_has_still_let_its_dependant_start() {
    let mut world = World::new();
    let first = world.task();
    let second = world.submitted(&Fields::new().with(words::AFTER, first.to_string().as_str()));
    world.runs("a", first, Round(0));
    world.ends("a", first, Round(0), result(0));
    assert_eq!(world.do_to(TASK_FORGET, first), Reply::Done);
    world.pass(Duration::ZERO);
    world.restart();
    assert_eq!(world.apply("b").map(|(task, _)| task), Some(second));
}
