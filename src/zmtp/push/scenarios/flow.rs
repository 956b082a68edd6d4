//! Queues, the budget of a turn, and frames from receivers.

use super::*;
use crate::push::delivery::FRAMES_PER_SERVICE;
use crate::push::pace::{FRAMES_PER_WINDOW, WINDOW};

#[test]
fn a_receiver_that_does_not_read_loses_the_oldest_and_costs_no_other() {
    let mut world = World::new(PushConfig { queue_max: 50, ..config() });
    for port in 1..=2 {
        world.listen(port, Listener::Reads);
    }
    world.port(1).room = 10;
    for frame in 0..1000 {
        world.push(1, [frame]);
        world.push(2, [frame]);
        world.run(Duration::ZERO);
        world.expect(2, 0..=frame);
    }
    assert_eq!((world.counts().sent, world.counts().dropped_full), (1010, 940));
    // It starts to read.
    world.read(1, usize::MAX);
    world.run(Duration::ZERO);
    world.expect(1, (0..10).chain(950..1000));
}

/// A sender that asks for room before each push loses nothing, however slowly its receiver reads, and leaves half of the queue to
/// others.
#[test]
fn a_sender_that_waits_for_room_loses_nothing() {
    let mut world = World::new(PushConfig { queue_max: 50, ..config() });
    world.listen(1, Listener::Reads);
    world.port(1).room = 0;
    let (mut next, mut rounds) = (0..1000, 0);
    while !next.is_empty() || world.delivery.room(&address(1)) < 25 {
        let room = world.delivery.room(&address(1));
        assert!(room <= 25, "half of the queue stays free");
        world.push(1, next.by_ref().take(room));
        world.run(Duration::ZERO);
        world.read(1, 10);
        world.run(Duration::ZERO);
        rounds += 1;
        assert!(rounds < 1000, "it never gets room");
    }
    world.read(1, usize::MAX);
    world.run(Duration::ZERO);
    world.expect(1, 0..1000);
    assert_eq!(world.counts().dropped_full, 0);
    let small = World::new(PushConfig { queue_max: 1, ..config() });
    assert_eq!(small.delivery.room(&address(1)), 1, "however short a queue is, a frame at a time goes through");
}

#[test]
fn all_queues_together_are_bounded_by_the_longest() {
    let mut world = World::new(PushConfig { queue_bytes_max: 100_000, ..config() });
    world.listen(500, Listener::Reads);
    let mut queued = 0;
    for port in 1..=40 {
        world.listen(port, Listener::Refuses);
        world.push(port, std::iter::repeat_n("x".repeat(10_000 - 64), 9));
        queued += 90_000;
        let bound: usize = queued.min(1_600_000);
        let frames = 9 * u64::from(port) - world.counts().dropped_full;
        assert!(frames as usize * 10_000 <= bound, "{frames} frames");
        assert!(frames as usize * 10_000 >= bound - 90_000, "no more than needed is dropped: {frames} frames");
    }
    world.push(500, 0..100);
    world.run(Duration::ZERO);
    world.expect(500, 0..100);
}

/// A queue that loses its only frame leaves an unused socket, which is closed sooner than a socket that connects in vain.
#[test]
fn a_socket_whose_frame_gave_way_to_others_is_closed_when_it_is_unused() {
    let mut world = World::new(PushConfig { queue_bytes_max: 100_000, idle_timeout: 10 * SECOND, ..config() });
    for port in 1..=17 {
        world.listen(port, Listener::Vanishes);
    }
    world.push(1, ["x".repeat(99_000)]);
    world.run(SECOND);
    for port in 2..=17 {
        world.push(port, ["x".repeat(95_000)]);
        world.turn();
    }
    assert_eq!((world.counts().open_sockets, world.counts().dropped_full), (17, 1));
    world.run_to(millis(9_999));
    assert_eq!(world.counts().open_sockets, 17);
    world.run_to(10 * SECOND);
    assert_eq!((world.counts().open_sockets, world.counts().dropped_unreachable), (16, 0));
}

#[test]
fn more_frames_than_may_wait_can_be_pushed_in_one_turn() {
    let mut world = World::new(PushConfig { queue_max: FRAMES_PER_SERVICE, ..config() });
    world.listen(1, Listener::Reads);
    world.push(1, [0]);
    world.run(Duration::ZERO);
    for frame in 1..=5000 {
        world.queue(&address(1), Duration::ZERO, &frame.to_string());
    }
    let full_services = 5000 / FRAMES_PER_SERVICE * FRAMES_PER_SERVICE;
    assert_eq!(world.counts().sent as usize, 1 + full_services);
    world.flush();
    world.expect(1, 0..=5000);
    assert_eq!(world.counts().dropped(), 0);
}

#[test]
fn a_push_to_a_connected_receiver_is_one_service_of_one_socket() {
    let mut world = World::new(config());
    for port in 1..=50 {
        world.listen(port, Listener::Reads);
        world.push(port, [0]);
        world.run(Duration::ZERO);
    }
    world.served.clear();
    world.push(7, 1..10);
    assert_eq!(world.served, [7]);
    assert_eq!(world.delivery.poll_timeout(world.now).map(|(at, _)| at > world.now), Some(true));
}

#[test]
fn a_turn_serves_64_sockets_and_each_is_served_before_any_is_served_again() {
    let mut world = World::new(config());
    for port in 1..=200 {
        world.listen(port, Listener::Reads);
        world.push(port, [0]);
        world.run(Duration::ZERO);
        world.port(port).per_service = 1;
    }
    for port in 1..=200 {
        world.queue(&address(port), Duration::ZERO, "1");
        world.queue(&address(port), Duration::ZERO, "2");
    }
    let mut served = Vec::new();
    while served.len() < 400 {
        assert_eq!(world.delivery.poll_timeout(world.now), Some((world.now, Timer::Unfinished)));
        world.turn();
        assert!(!world.served.is_empty() && world.served.len() <= 64, "{:?}", world.served);
        served.append(&mut world.served);
    }
    assert!(served.iter().copied().eq((1..=200).chain(1..=200)), "{served:?}");
    assert!((1..=200).all(|port| world.got(port) == ["0", "1", "2"]));
}

#[test]
fn a_turn_moves_a_mebibyte_and_what_one_service_takes_over_it() {
    let mut world = World::new(config());
    for port in 1..=10 {
        world.listen(port, Listener::Reads);
        world.push(port, [0]);
        world.run(Duration::ZERO);
    }
    for port in 1..=10 {
        world.queue(&address(port), Duration::ZERO, &"x".repeat(300_000));
    }
    for expected in [4, 4, 2, 0] {
        world.turn();
        assert_eq!(world.served.len(), expected);
    }
}

#[test]
fn a_turn_opens_16_sockets() {
    let mut world = World::new(config());
    for port in 1..=40 {
        world.listen(port, Listener::Vanishes);
        world.queue(&address(port), Duration::ZERO, "0");
    }
    for expected in [16, 16, 8, 0] {
        world.turn();
        assert_eq!(world.opened, expected);
    }
}

#[test]
fn a_turn_acts_on_64_timers() {
    let mut world = World::new(PushConfig { connect_timeout: SECOND, ..config() });
    for port in 1..=150 {
        world.listen(port, Listener::Vanishes);
        world.push(port, [0]);
        world.turn();
    }
    assert_eq!(world.counts().open_sockets, 150);
    world.now = world.now + SECOND;
    for expected in [64, 64, 22, 0] {
        world.turn();
        assert_eq!(world.closed, expected);
    }
}

#[test]
fn what_comes_back_is_kept_as_far_as_there_is_room() {
    let mut world = World::new(PushConfig { acknowledgements_max: 10, ..config() });
    world.listen(1, Listener::Reads);
    world.push(1, [0]);
    world.run(Duration::ZERO);
    // A delimiter is not a frame of its own, and 4 KiB is the longest frame that is kept.
    world.say(1, [vec![], b"ack".to_vec(), vec![0; 4096], vec![0; 4097]]);
    world.run(Duration::ZERO);
    assert_eq!((world.counts().received, world.counts().discarded), (2, 1));
    let first = world.delivery.poll_acknowledgement().unwrap();
    assert_eq!((first.from, first.frame), (address(1), b"ack".to_vec()));
    world.say(1, (0..19).map(|number| vec![number + 1]));
    world.run(Duration::ZERO);
    assert_eq!((world.counts().received, world.counts().discarded), (11, 11));
    let kept: Vec<Vec<u8>> =
        std::iter::from_fn(|| world.delivery.poll_acknowledgement()).map(|ack| ack.frame).collect();
    assert_eq!((kept.len(), &kept[1]), (10, &vec![1]), "the oldest are kept");
}

#[test]
fn a_chatty_receiver_is_read_at_its_pace_and_costs_no_other() {
    let mut world = World::new(config());
    for port in 1..=2 {
        world.listen(port, Listener::Reads);
        world.push(port, [0]);
    }
    world.run(millis(15));
    world.say(1, std::iter::repeat_n(b"{".to_vec(), 1000));
    for windows in 1..=3 {
        world.run(Duration::ZERO);
        assert_eq!(world.counts().discarded as usize, windows * FRAMES_PER_WINDOW);
        world.push(2, [windows]);
        world.expect(2, 0..=windows);
        world.run(WINDOW);
    }
    assert_eq!(world.counts().discarded, 1000);
    world.push(1, [1]);
    world.expect(1, 0..2);
}
