//! Scenarios of a service that may end by itself.
#![cfg(test)]

use super::*;

fn is_idle(world: &World) -> bool {
    world.controller.is_idle(|agent| agent.as_str() != "foreign")
}

#[test]
fn every_task_that_is_left_keeps_the_service() {
    let mut world = World::new();
    assert!(is_idle(&world));
    let held = world.task();
    world.do_to(TASK_HOLD, held);
    assert!(!is_idle(&world), "a held task");
    world.kill(held);
    assert!(is_idle(&world));
    let later = world.submitted(&Fields::new().with(words::START_AFTER, world.moment(1e6)));
    assert!(!is_idle(&world), "a task of later");
    world.kill(later);
    let task = world.task();
    world.apply("a");
    assert!(!is_idle(&world), "a task that an agent has");
    world.exits("a", task, 0, 0);
    assert!(is_idle(&world));
}

#[test]
fn an_agent_of_another_machine_keeps_the_service_while_it_is_there() {
    let mut world = World::new();
    world.park("own");
    assert!(is_idle(&world));
    world.park("foreign");
    assert!(!is_idle(&world));
    world.pass(seconds(60.0));
    assert!(is_idle(&world), "it is lost");
}
