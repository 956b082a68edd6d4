//! The distribution of sockets when there are more receivers than sockets.

use super::*;

#[test]
fn the_living_of_a_thousand_receivers_get_everything_in_time() {
    let mut world = World::new(PushConfig { connect_timeout: 10 * SECOND, ..config() });
    for port in 1..=500 {
        world.listen(port, Listener::Reads);
        // A dead address never answers, so that each holds its socket until it must make room.
        world.listen(10_000 + port, Listener::Vanishes);
    }
    for frame in 0..2 {
        for port in 1..=500 {
            world.push(10_000 + port, [frame]);
            world.push(port, [frame]);
        }
        // Dead addresses hold three quarters of the sockets for a second at a time.
        world.run(3 * SECOND);
        for port in 1..=500 {
            world.expect(port, 0..=frame);
        }
    }
    world.run_until(|world| world.counts().dropped() == 1000);
    assert_eq!((world.counts().sent, world.counts().open_sockets <= 512), (1000, true));
}

/// The exact order in which sockets change hands.
#[test]
fn the_longest_unused_socket_makes_room_after_the_grace_time() {
    let mut world = World::new(PushConfig { sockets_max: 2, connect_timeout: 4 * SECOND, ..config() });
    for port in 1..=3 {
        world.listen(port, Listener::Reads);
    }
    world.push(1, ["a"]);
    world.run(millis(10));
    world.push(2, ["a"]);
    world.run(millis(10));
    world.push(3, ["a"]);
    world.run_to(millis(399));
    world.expect(3, [""; 0]);
    world.run_to(millis(401));
    world.expect(3, ["a"]);
    assert_eq!(world.holders(), [2, 3], "the first was unused for the grace time of 400 ms");
    // A socket that is used often is taken as well, when the newcomer has waited for the grace time.
    for step in 0..8 {
        world.push(2, [step]);
        world.push(3, [step]);
        if step == 0 {
            world.push(1, ["b"]);
        }
        world.run(millis(70));
    }
    world.expect(1, ["a", "b"]);
    assert_eq!(world.port(1).connected_at[1..], [millis(801)]);
    world.run(2 * SECOND);
    world.expect(2, ["a".to_owned()].into_iter().chain((0..8).map(|step| step.to_string())));
    assert_eq!(world.counts().dropped(), 0);
}

/// A socket whose queued frames have all been sent may be taken.
#[test]
fn a_newcomer_is_looked_at_again_when_a_frame_has_moved() {
    let mut world = World::new(PushConfig { sockets_max: 1, connect_timeout: 4 * SECOND, ..config() });
    for port in 1..=2 {
        world.listen(port, Listener::Reads);
    }
    world.push(1, [0]);
    world.run(Duration::ZERO);
    world.queue(&address(1), millis(8), "1");
    world.push(2, [0]);
    world.run_to(millis(399));
    world.expect(1, 0..2);
    world.expect(2, 0..0);
    world.run_to(millis(400));
    world.expect(2, [0]);
}

#[test]
fn a_socket_that_is_closed_is_given_to_the_first_in_the_line_at_once() {
    let mut world = World::new(PushConfig { sockets_max: 1, connect_timeout: 4 * SECOND, ..config() });
    for port in 1..=2 {
        world.listen(port, Listener::Reads);
        world.push(port, [0]);
    }
    world.run_to(millis(100));
    world.expect(2, 0..0);
    world.disconnect(1);
    world.run(Duration::ZERO);
    world.expect(2, [0]);
}

#[test]
fn a_dead_receiver_and_a_living_one_take_turns() {
    let mut world = World::new(PushConfig { sockets_max: 1, connect_timeout: 10 * SECOND, ..config() });
    world.listen(1, Listener::Vanishes);
    world.listen(2, Listener::Reads);
    world.push(1, 0..3);
    world.push(2, 0..3);
    world.run_to(millis(999));
    world.expect(2, [0; 0]);
    world.run_to(millis(1000));
    world.expect(2, 0..3);
    assert_eq!(world.counts().dropped(), 0, "the frames of the dead one keep their time");
    // It has the socket again when the live one has not used it for the grace time, and its time limit continues.
    world.run_to(millis(9_999));
    assert_eq!((world.holders(), world.counts().dropped()), (vec![1], 0));
    assert_eq!(world.port(1).connected_at, [Duration::ZERO, 2 * SECOND]);
    world.run_to(10 * SECOND);
    assert_eq!(world.counts().dropped_unreachable, 3);
    assert_eq!(world.log, ["push: 3 messages for tcp://127.0.0.1:1 dropped: it cannot be reached"]);
}

#[test]
fn the_line_is_bounded_and_the_first_in_it_is_dropped() {
    let mut world = World::new(PushConfig { sockets_max: 1, ..config() });
    for port in 1..=100 {
        world.listen(port, Listener::Vanishes);
        world.push(port, 0..2);
    }
    // One receiver has the socket, three are in the line.
    assert_eq!(world.counts().dropped_evicted, 2 * 96);
    world.run(6 * SECOND);
    let tried = (1..=100).filter(|port| !world.port(*port).connected_at.is_empty());
    assert_eq!(tried.collect::<Vec<_>>(), [1, 98], "the first, and then the one that waits longest");
    assert!(world.log[0].ends_with("other addresses occupy all sockets"), "{:?}", world.log);
    assert_eq!(world.log.len(), 10, "a few lines a minute");
    world.run(60 * SECOND);
    assert_eq!((world.counts().dropped(), world.counts().open_sockets), (200, 0));
}

#[test]
fn receivers_that_do_not_answer_leave_a_quarter_of_the_sockets_to_others() {
    let mut world = World::new(PushConfig { sockets_max: 8, ..config() });
    for port in 1..=20 {
        world.listen(port, Listener::Vanishes);
        world.push(port, [0]);
    }
    assert_eq!(world.counts().open_sockets, 6);
    world.run(SECOND);
    assert_eq!(world.counts().open_sockets, 6);
    // After the grace time of 6 s they take turns; at most two at a time are connecting.
    world.run(6 * SECOND);
    assert_eq!(world.counts().open_sockets, 6);
    assert_eq!(world.holders(), [7, 8, 9, 10, 11, 12]);
}

#[test]
fn a_receiver_that_reads_nothing_gives_way_last_and_loses_its_frames() {
    let mut world = World::new(PushConfig { sockets_max: 1, connect_timeout: 2 * SECOND, ..config() });
    for port in 1..=2 {
        world.listen(port, Listener::Reads);
    }
    world.port(1).room = 1;
    world.push(1, 0..5);
    world.run(millis(500));
    world.push(2, [0]);
    world.run_to(millis(1999));
    assert_eq!(world.holders(), [1]);
    world.run_to(millis(2000));
    assert_eq!((world.holders(), world.counts().dropped_evicted), (vec![2], 4));
    world.expect(2, [0]);
}

#[test]
fn descriptors_that_have_run_out_cost_time_but_no_frames() {
    let mut world = World::new(PushConfig { connect_timeout: SECOND, ..config() });
    world.listen(1, Listener::Reads);
    world.is_out_of_descriptors = true;
    world.push(1, ["lost"]);
    world.run_to(millis(999));
    assert_eq!((world.counts().dropped(), world.counts().open_sockets), (0, 0));
    world.run_to(SECOND);
    assert_eq!(world.counts().dropped_unreachable, 1);
    world.push(1, ["kept"]);
    world.run(millis(50));
    world.is_out_of_descriptors = false;
    world.run(millis(50));
    world.expect(1, ["kept"]);
    assert_eq!(world.port(1).connected_at, [SECOND + millis(100)]);
    assert_eq!(world.log, ["push: cannot open a socket for tcp://127.0.0.1:1: too many open files"]);
}

/// No socket is opened for frames that have been dropped.
#[test]
fn a_receiver_whose_frames_are_gone_leaves_the_line() {
    let mut world = World::new(PushConfig { queue_bytes_max: 100, ..config() });
    world.listen(1, Listener::Reads);
    world.push(1, ["x".repeat(100)]);
    assert_eq!((world.counts().dropped_full, world.counts().open_sockets), (1, 0));
    assert_eq!(world.delivery.life.receivers.len(), 0);
}

impl World {
    /// The ports that have a socket.
    fn holders(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.sockets.values().map(|socket| socket.port).collect();
        ports.sort_unstable();
        ports
    }
}
