//! Effects of time alone: pauses, time limits, and the log lines at their end.

use super::*;
use base::words;

/// Seconds at which a port was connected to.
fn attempts(world: &mut World, port: u16) -> Vec<f64> {
    world.port(port).connected_at.iter().map(Duration::as_secs_f64).collect()
}

#[test]
fn pauses_between_refusals_double_up_to_two_seconds_until_the_frames_are_too_old() {
    let mut world = World::new(PushConfig { connect_timeout: 8 * SECOND, ..config() });
    world.listen(1, Listener::Refuses);
    world.push(1, 0..2);
    world.run_to(millis(7_999));
    assert_eq!(attempts(&mut world, 1), [0.0, 0.1, 0.3, 0.7, 1.5, 3.1, 5.1, 7.1]);
    assert_eq!(world.counts().dropped(), 0);
    world.run_to(8 * SECOND);
    assert_eq!((world.counts().dropped_unreachable, world.counts().open_sockets), (2, 0));
    assert_eq!(world.log, ["push: 2 messages for tcp://127.0.0.1:1 dropped: it cannot be reached"]);
    assert_eq!(world.delivery.poll_timeout(world.now).map(|(_, timer)| timer), None, "it is forgotten");
}

#[test]
fn a_receiver_that_listens_late_gets_everything_at_the_next_attempt() {
    let mut world = World::new(config());
    world.listen(1, Listener::Refuses);
    world.push(1, 0..300);
    world.run_to(2 * SECOND);
    world.listen(1, Listener::Reads);
    world.run_to(millis(3_099));
    world.expect(1, 0..0);
    world.run_to(millis(3_100));
    world.expect(1, 0..300);
    assert_eq!(world.waits, [millis(3_100); 300], "each wait is reported for its frame");
    // Without frames it is forgotten when the connection is lost, and a push starts anew.
    world.disconnect(1);
    world.run(Duration::ZERO);
    assert_eq!((world.counts().open_sockets, world.delivery.poll_timeout(world.now)), (0, None));
    world.push(1, [300]);
    world.run(Duration::ZERO);
    world.expect(1, 0..=300);
}

#[test]
fn a_connection_that_is_lost_keeps_its_frames_and_begins_their_time_and_its_pauses_anew() {
    let mut world = World::new(PushConfig { connect_timeout: 5 * SECOND, ..config() });
    world.listen(1, Listener::Refuses);
    world.push(1, 0..10);
    world.run_to(SECOND);
    world.listen(1, Listener::Reads);
    world.port(1).room = 1;
    world.run_to(4 * SECOND);
    world.listen(1, Listener::Refuses);
    world.run_to(millis(8_999));
    assert_eq!(world.counts().dropped(), 0);
    assert_eq!(attempts(&mut world, 1), [0.0, 0.1, 0.3, 0.7, 1.5, 4.1, 4.2, 4.4, 4.8, 5.6, 7.2]);
    world.listen(1, Listener::Reads);
    world.push(1, [10]);
    world.run_to(9 * SECOND);
    assert_eq!(world.counts().dropped_unreachable, 10, "five seconds after the loss");
    world.expect(1, [0]);
}

#[test]
fn a_listener_that_never_answers_is_given_up_in_time_and_tried_again_for_a_new_frame() {
    let mut world = World::new(PushConfig { connect_timeout: 2 * SECOND, ..config() });
    world.listen(1, Listener::Silent);
    for round in 0..2 {
        world.push(1, 0..3);
        let pushed_at = world.time();
        let given_up = world.run_until(|world| world.counts().open_sockets == 0);
        assert_eq!((given_up - pushed_at, world.counts().dropped_unreachable), (2 * SECOND, 3 * (round + 1)));
        world.run(60 * SECOND);
    }
    let why = "it does not complete the handshake; if it requires CURVE, submit with its public key as";
    assert_eq!(world.log[0], format!("push: 3 messages for tcp://127.0.0.1:1 dropped: {why} {}", words::ADDRESS_KEY));
    assert_eq!(world.log.len(), 2, "once a minute");
}

#[test]
fn a_handshake_that_fails_is_what_the_log_names() {
    let mut world = World::new(PushConfig { connect_timeout: SECOND, ..config() });
    world.listen(1, Listener::Rude);
    let keyed = Arc::new(PushAddress::clone(&address(1)).with_key(PublicKey::from_bytes([9; 32])));
    world.push_to(&keyed, [0]);
    world.run(SECOND);
    assert_eq!(world.counts().dropped_unreachable, 1);
    assert!(world.log[0].contains("it must admit the key of this controller"), "{:?}", world.log);
}

#[test]
fn a_flood_for_a_dead_receiver_does_not_put_off_its_end() {
    let mut world = World::new(PushConfig { queue_max: 2, connect_timeout: millis(200), ..config() });
    world.listen(1, Listener::Refuses);
    // The oldest frame is always a new one; the receiver is still given up.
    for frame in 0..20 {
        assert_eq!(world.counts().dropped_unreachable, 0);
        world.push(1, [frame]);
        world.run(millis(10));
    }
    assert_eq!((world.counts().dropped_full, world.counts().dropped_unreachable), (18, 2));
}

#[test]
fn a_receiver_that_reads_nothing_is_given_up_and_one_that_reads_a_little_is_not() {
    let mut world = World::new(PushConfig { idle_timeout: 10 * SECOND, ..config() });
    world.listen(1, Listener::Reads);
    world.port(1).room = 5;
    world.push(1, 0..10);
    for read in 6..8 {
        world.run(millis(9_999));
        world.read(1, 1);
        world.run(Duration::ZERO);
        world.expect(1, 0..read);
    }
    let read_at = world.time();
    let given_up = world.run_until(|world| world.counts().open_sockets == 0);
    assert_eq!((given_up - read_at, world.counts().dropped_unreachable), (10 * SECOND, 3));
    assert_eq!(world.log, ["push: 3 messages for tcp://127.0.0.1:1 dropped: it does not read"]);
}

/// The services in which it reads need not be those that find it full.
#[test]
fn a_receiver_that_reads_in_several_services_is_not_given_up() {
    let mut world = World::new(PushConfig { idle_timeout: 10 * SECOND, ..config() });
    world.listen(1, Listener::Reads);
    (world.port(1).room, world.port(1).per_service) = (1, 1);
    world.push(1, 0..10);
    world.run_to(millis(9_999));
    world.read(1, 3);
    world.run_to(millis(19_998));
    world.expect(1, 0..4);
    assert_eq!(world.counts().dropped(), 0);
    world.run_to(millis(19_999));
    assert_eq!(world.counts().dropped_unreachable, 6);
}

/// An event that brings no room, such as a frame from the receiver, does not count as reading.
#[test]
fn a_receiver_that_talks_but_does_not_read_is_given_up() {
    let mut world = World::new(PushConfig { idle_timeout: 10 * SECOND, ..config() });
    world.listen(1, Listener::Reads);
    world.port(1).room = 1;
    world.push(1, 0..2);
    for _ in 0..9 {
        world.run(SECOND);
        world.say(1, [b"hello".to_vec()]);
    }
    world.run_to(10 * SECOND);
    assert_eq!((world.counts().dropped_unreachable, world.counts().discarded), (1, 9));
}

#[test]
fn an_unused_socket_is_closed_and_opened_again() {
    let mut world = World::new(PushConfig { idle_timeout: millis(100), ..config() });
    world.listen(1, Listener::Reads);
    for frame in 0..3 {
        world.push(1, [frame]);
        world.run(millis(60));
        world.say(1, [b"ack".to_vec()]);
        world.run(millis(99));
        assert_eq!(world.counts().open_sockets, 1, "an answer is use as well");
        world.run(millis(1));
        assert_eq!(world.counts().open_sockets, 0);
    }
    world.expect(1, 0..3);
    assert_eq!((world.port(1).connected_at.len(), world.counts().dropped()), (3, 0));
}

#[test]
fn what_may_wait_goes_with_the_next_frame_or_when_it_is_due() {
    let mut world = World::new(config());
    world.listen(1, Listener::Reads);
    world.push(1, [0]);
    world.run(Duration::ZERO);
    let wait = millis(8);
    world.queue(&address(1), wait, "1");
    world.flush();
    world.run(millis(5));
    world.expect(1, 0..1);
    world.push(1, [2]);
    world.expect(1, 0..3);
    world.queue(&address(1), wait, "3");
    world.queue(&address(1), 2 * wait, "4");
    world.flush();
    assert_eq!(world.delivery.poll_timeout(world.now).unwrap().0.since(world.now), millis(3), "an old timer");
    world.run(millis(7));
    world.expect(1, 0..3);
    world.run(millis(1));
    world.expect(1, 0..5);
    assert_eq!(world.waits[1..], [millis(5), millis(0), wait, wait]);
}
