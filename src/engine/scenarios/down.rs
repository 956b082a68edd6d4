//! Scenarios of a service that hands out no task while a client waits for the running ones.
#![cfg(test)]

use super::*;
use api::wire::requests::down::SERVICE_PAUSE;
use base::{Scalar, UNTIL_OPENED};

#[test]
fn a_paused_service_hands_out_nothing_until_the_pause_ends() {
    let mut world = World::new();
    let running = world.task();
    world.runs("a", running, Round(0));
    let waiting = world.task();
    let pause = |world: &mut World| {
        let reply = world.send(SERVICE_PAUSE, &Fields::new().with(words::INTERVAL, 2u32));
        let Reply::Statistic(counts, _) = reply else { panic!("{reply:?}") };
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

#[test]
fn a_pause_is_told_bounded_and_lifted() {
    let mut world = World::new();
    let _ = world.say("a", FromAgent::Heartbeat(Heartbeat::default()));
    let waiting = world.task();
    let pause = |world: &mut World, seconds: u32| {
        let reply = world.send(SERVICE_PAUSE, &Fields::new().with(words::INTERVAL, seconds));
        let Reply::Statistic(_, until) = reply else { panic!("{reply:?}") };
        until.map(|until| until.since(world.now.wall).as_secs())
    };
    let paused = |world: &mut World| {
        let incidents = world.controller.take_incidents();
        incidents
            .into_iter()
            .filter(|(kind, _)| *kind == IncidentKind::Paused)
            .map(|(_, line)| line)
            .collect::<Vec<_>>()
    };
    assert_eq!(pause(&mut world, 86_400), Some(60), "a minute at most");
    assert!(world.why(waiting).contains("a client has paused the service"), "{}", world.why(waiting));
    assert!(matches!(&paused(&mut world)[..], [line] if line.contains("1 min")));
    assert_eq!(pause(&mut world, 60), Some(60));
    assert_eq!(paused(&mut world), [""; 0], "a repeated one is the same");
    assert!(world.controller.take_log().iter().any(|line| format!("{line:?}").contains("paused the service")));
    assert_eq!(pause(&mut world, 0), None);
    assert!(matches!(&paused(&mut world)[..], [line] if line.contains("has ended")));
    assert!(!world.why(waiting).contains("paused"), "{}", world.why(waiting));
    assert_eq!(world.apply("a"), Some((waiting, Round(0))));
    assert_eq!(pause(&mut world, 0), None);
    assert_eq!(paused(&mut world), [""; 0]);
}

#[test]
fn a_paused_service_stays_so_for_agents_that_come_and_for_the_next_controller() {
    let mut world = World::new();
    let _ = world.say("a", FromAgent::Heartbeat(Heartbeat::default()));
    let waiting = world.task();
    let set = |world: &mut World, until: Scalar| {
        let fields = Fields::new().with(words::GATE, Label::SERVICE).with(words::CLOSED_UNTIL, until);
        assert_eq!(world.send(GATE_SET, &fields), Reply::Done);
    };
    set(&mut world, UNTIL_OPENED.unix_seconds().into());
    assert!(world.why(waiting).contains("`llts resume --service` lets tasks start"), "{}", world.why(waiting));
    assert_eq!(world.apply("a"), None);
    world.restart();
    assert_eq!(world.apply("late"), None);
    let Reply::Statistic(_, until) = world.send(SERVICE_PAUSE, &Fields::new().with(words::INTERVAL, 0u32)) else {
        panic!("no counts")
    };
    assert_eq!(until, Some(UNTIL_OPENED), "a client that stops to wait ends its own pause only");
    world.park("a");
    set(&mut world, Scalar::Null);
    assert_eq!(world.phase(waiting), Phase::Dispatched, "an agent that waits gets it at once");
}

#[test]
fn a_pause_of_the_service_ends_at_its_moment() {
    let mut world = World::new();
    let waiting = world.task();
    let until = (world.now.wall + seconds(3.0)).unix_seconds();
    let fields = Fields::new().with(words::GATE, Label::SERVICE).with(words::CLOSED_UNTIL, until);
    assert_eq!(world.send(GATE_SET, &fields), Reply::Done);
    world.park("a");
    world.pass(seconds(2.0));
    assert_eq!(world.phase(waiting), Phase::Waiting);
    world.pass(seconds(1.5));
    assert_eq!(world.phase(waiting), Phase::Dispatched);
    let told: Vec<_> = world.controller.take_incidents().into_iter().map(|(_, line)| line).collect();
    assert!(matches!(&told[..], [began, ended] if began.contains("until") && ended.contains("has ended")), "{told:?}");
}
