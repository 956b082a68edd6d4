//! Random pushes, failures and waits, with the properties that hold for all of them.

use proptest::prelude::*;

use super::*;

const PORTS: u16 = 12;

#[derive(Clone, Debug)]
enum Step {
    Push { port: u16, count: u16, by: u64 },
    Name { port: u16 },
    Answer { is_found: bool },
    Listen { port: u16, listener: Listener },
    Disconnect { port: u16 },
    Room { port: u16, frames: usize },
    Say { port: u16, frames: usize },
    Descriptors { are_out: bool },
    Run { millis: u64 },
}

fn listener() -> impl Strategy<Value = Listener> {
    prop_oneof![
        Just(Listener::Refuses),
        Just(Listener::Vanishes),
        Just(Listener::Silent),
        Just(Listener::Rude),
        Just(Listener::Reads),
        Just(Listener::Reads),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let port = || 1..=PORTS;
    prop_oneof![
        6 => (port(), 1..30_u16, 0..20_u64).prop_map(|(port, count, by)| Step::Push { port, count, by }),
        1 => port().prop_map(|port| Step::Name { port }),
        1 => any::<bool>().prop_map(|is_found| Step::Answer { is_found }),
        2 => (port(), listener()).prop_map(|(port, listener)| Step::Listen { port, listener }),
        1 => port().prop_map(|port| Step::Disconnect { port }),
        2 => (port(), 0..20_usize).prop_map(|(port, frames)| Step::Room { port, frames }),
        1 => (port(), 1..600_usize).prop_map(|(port, frames)| Step::Say { port, frames }),
        1 => prop::bool::weighted(0.2).prop_map(|are_out| Step::Descriptors { are_out }),
        6 => prop_oneof![0..20_u64, 0..3000_u64].prop_map(|millis| Step::Run { millis }),
    ]
}

fn small() -> PushConfig {
    PushConfig {
        sockets_max: 3,
        queue_max: 20,
        queue_bytes_max: 1_500,
        connect_timeout: 2 * SECOND,
        idle_timeout: SECOND,
        linger: SECOND,
        acknowledgements_max: 5,
        ..config()
    }
}

/// Takes the steps; returns the number of pushed frames.
fn take(world: &mut World, steps: &[Step]) -> u64 {
    let mut pushed = 0;
    for port in 1..=PORTS {
        world.listen(port, Listener::Reads);
        // Each takes some frames and then stops until it gets room.
        world.port(port).room = usize::from(port) * 4;
        world.port(port).per_service = 1 + usize::from(port);
    }
    for step in steps {
        match *step {
            Step::Push { port, count, by } => {
                for _ in 0..count {
                    pushed += 1;
                    world.queue(&address(port), millis(by), &format!("{pushed:08}"));
                }
                world.flush();
            }
            Step::Name { port } => {
                pushed += 1;
                world.push_to(&named(&format!("host.example:{port}")), [format!("{pushed:08}")]);
            }
            Step::Answer { is_found } => {
                if let Some(name) = world.asked.first().cloned() {
                    world.resolve(&name, if is_found { &["10.0.0.1"] } else { &[] });
                }
            }
            Step::Listen { port, listener } => world.listen(port, listener),
            Step::Disconnect { port } => world.disconnect(port),
            Step::Room { port, frames } => world.read(port, frames),
            Step::Say { port, frames } => world.say(port, vec![b"ack".to_vec(); frames]),
            Step::Descriptors { are_out } => world.is_out_of_descriptors = are_out,
            Step::Run { millis: time } => world.run(millis(time)),
        }
        let waiting: usize = world.delivery.life.receivers.iter().map(|(_, receiver)| receiver.queue.len()).sum();
        let counts = world.counts();
        assert_eq!(pushed, counts.sent + counts.dropped() + waiting as u64, "every frame is accounted for");
        assert!(world.sockets.len() <= 3);
    }
    pushed
}

/// The observable result of a run.
fn observed(world: &World) -> impl PartialEq + std::fmt::Debug + use<> {
    let ports: Vec<_> = world.ports.values().map(|port| (port.got.clone(), port.connected_at.clone())).collect();
    (world.counts(), world.log.clone(), world.waits.clone(), ports)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariants are checked after every effect. Beyond them: every frame is delivered once, in the order of the pushes,
    /// or counted as dropped; when the network has recovered, every waiting frame is delivered; and the same steps lead to
    /// the same end.
    #[test]
    fn frames_arrive_in_order_or_are_counted_whatever_happens(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new(small());
        let pushed = take(&mut world, &steps);
        let mut again = World::new(small());
        take(&mut again, &steps);
        prop_assert_eq!(observed(&world), observed(&again));

        world.is_out_of_descriptors = false;
        for port in 1..=PORTS {
            if world.port(port).listener != Listener::Reads {
                world.listen(port, Listener::Reads);
            }
            world.read(port, usize::MAX);
        }
        for name in world.asked.clone() {
            world.resolve(&name, &["10.0.0.1"]);
        }
        // No pause is longer than two seconds; a receiver in the line for three sockets gets one in time or is dropped.
        world.run(10 * SECOND);
        let counts = world.counts();
        prop_assert_eq!(pushed, counts.sent + counts.dropped());
        prop_assert_eq!(counts.open_sockets, 0, "unused sockets are closed");
        prop_assert_eq!(world.delivery.poll_timeout(world.now).filter(|(_, timer)| *timer != Timer::Admission), None);
        prop_assert_eq!(world.waits.len() as u64, counts.sent);
        for port in world.ports.values() {
            // A name and a number are two receivers, which take turns at a port.
            prop_assert!(port.got.iter().collect::<std::collections::BTreeSet<_>>().len() == port.got.len(), "twice");
        }
        // Once more, without a loss.
        for port in 1..=PORTS {
            world.push(port, ["last"]);
        }
        world.run(5 * SECOND);
        prop_assert_eq!(world.counts().dropped(), counts.dropped());
        for port in world.ports.values() {
            prop_assert_eq!(port.got.last().map(String::as_str), Some("last"));
        }
    }

    /// Without names every port is one receiver.
    #[test]
    fn the_frames_of_one_receiver_never_overtake_one_another(steps in prop::collection::vec(step(), 1..60)) {
        let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Name { .. })).collect();
        let mut world = World::new(small());
        take(&mut world, &steps);
        for port in world.ports.values() {
            prop_assert!(port.got.is_sorted(), "{:?}", port.got);
        }
    }

    /// A stop ends in time, whatever the network does.
    #[test]
    fn a_stop_takes_no_longer_than_the_linger_time(steps in prop::collection::vec(step(), 1..40)) {
        let mut world = World::new(small());
        let pushed = take(&mut world, &steps);
        world.delivery.handle_stop(world.now);
        world.perform();
        world.run(SECOND);
        prop_assert!(world.delivery.is_stopped());
        let counts = world.counts();
        prop_assert_eq!((counts.open_sockets, pushed), (0, counts.sent + counts.dropped()));
    }
}
