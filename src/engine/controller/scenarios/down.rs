//! Scenarios of a service that hands out no task while a client waits for the running ones.
#![cfg(test)]

use super::*;
use crate::protocol::requests::down::SERVICE_PAUSE;

#[test]
fn a_paused_service_hands_out_nothing_until_the_pause_ends() {
    let mut world = World::new();
    let running = world.task();
    world.runs("a", running, Round(0));
    let waiting = world.task();
    let pause = |world: &mut World| {
        let reply = world.send(SERVICE_PAUSE, &Fields::new().with(words::INTERVAL, 2u32));
        let Reply::Statistic(counts) = reply else { panic!("{reply:?}") };
        (counts.0[Phase::Waiting as usize], counts.0[Phase::Running as usize])
    };
    assert_eq!(pause(&mut world), (1, 1));
    world.ends("a", running, Round(0), result(0));
    let ticket = world.park("a");
    assert_eq!(world.apply("b"), None);
    world.pass(seconds(1.5));
    assert_eq!(pause(&mut world), (1, 0), "it is asked for again");
    world.pass(seconds(1.5));
    assert_eq!(world.phase(waiting), Phase::Waiting);
    assert!(!world.replies.iter().any(|(to, _)| *to == ticket));
    world.pass(seconds(0.5));
    assert_eq!(world.phase(waiting), Phase::Dispatched, "the client has gone");
}
