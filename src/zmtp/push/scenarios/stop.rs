//! The end: which frames are still delivered, and for how long.

use super::*;

impl World {
    /// Stops, and returns the time that it took.
    fn stop(&mut self) -> Duration {
        let start = self.time();
        self.delivery.handle_stop(self.now);
        self.perform();
        let end = self.run_until(|world| world.delivery.is_stopped());
        assert_eq!((self.sockets.len(), self.counts().open_sockets), (0, 0));
        end - start
    }
}

#[test]
fn nothing_to_deliver_takes_no_time() {
    let mut world = World::new(config());
    assert_eq!(world.stop(), Duration::ZERO);
    world.listen(1, Listener::Reads);
    world.push(1, [0]);
    world.run(SECOND);
    assert_eq!(world.stop(), Duration::ZERO);
}

#[test]
fn stopping_delivers_what_waits_and_gives_up_the_dead() {
    let mut world = World::new(PushConfig { linger: 5 * SECOND, ..config() });
    world.listen(1, Listener::Reads);
    world.listen(2, Listener::Refuses);
    world.listen(3, Listener::Vanishes);
    world.push(3, [0]);
    // The dead address has had its grace time; the others have had no turn.
    world.run(6 * SECOND);
    world.queue(&address(1), Duration::ZERO, "a");
    world.queue(&address(2), Duration::ZERO, "a");
    world.delivery.handle_stop(world.now);
    world.perform();
    assert_eq!(world.counts().dropped_unreachable, 1);
    assert_eq!(world.stop(), 5 * SECOND, "one that refuses may be about to start");
    world.expect(1, ["a"]);
    assert_eq!((world.counts().sent, world.counts().dropped_unreachable), (1, 2));
}

#[test]
fn a_slow_reader_gets_everything_within_the_linger_time() {
    let mut world = World::new(PushConfig { linger: 5 * SECOND, ..config() });
    world.listen(1, Listener::Reads);
    world.port(1).room = 1;
    world.push(1, 0..10);
    world.run(SECOND);
    world.delivery.handle_stop(world.now);
    world.perform();
    for read in 2..=9 {
        world.run(millis(500));
        world.read(1, 1);
        world.run(Duration::ZERO);
        world.expect(1, 0..read);
    }
    assert!(!world.delivery.is_stopped());
    world.read(1, 1);
    world.run(Duration::ZERO);
    assert!(world.delivery.is_stopped(), "as soon as it has everything");
    assert_eq!(world.counts().dropped(), 0);
}

/// An empty queue is not enough: the connection may hold frames that the stream has not taken.
#[test]
fn what_a_connection_has_taken_is_written_before_it_is_closed() {
    let mut world = World::new(PushConfig { linger: 5 * SECOND, ..config() });
    world.listen(1, Listener::Reads);
    world.port(1).keeps_bytes = true;
    world.push(1, [0]);
    world.run(SECOND);
    world.delivery.handle_stop(world.now);
    world.perform();
    world.run(4 * SECOND);
    assert_eq!((world.delivery.is_stopped(), world.counts().open_sockets), (false, 1));
    world.port(1).keeps_bytes = false;
    world.announce(1, false);
    world.turn();
    assert!(world.delivery.is_stopped());
}

#[test]
fn a_receiver_that_reads_nothing_holds_the_end_up_for_the_linger_time() {
    let mut world = World::new(PushConfig { linger: 5 * SECOND, ..config() });
    world.listen(1, Listener::Reads);
    world.port(1).room = 3;
    world.push(1, 0..10);
    world.run(SECOND);
    assert_eq!(world.stop(), 5 * SECOND);
    assert_eq!((world.counts().sent, world.counts().dropped_unreachable), (3, 7));
}

/// Its first turn may end before everything is written; it still counts as connected.
#[test]
fn a_receiver_that_took_long_to_connect_gets_what_waits_at_the_stop() {
    let mut world = World::new(config());
    world.listen(1, Listener::Silent);
    world.push(1, 0..40);
    world.run(7 * SECOND);
    world.ports.get_mut(&1).unwrap().listener = Listener::Reads;
    world.port(1).per_service = 4;
    world.announce(1, true);
    world.turn();
    world.turn();
    assert_eq!(world.counts().sent, 4);
    assert_eq!(world.stop(), Duration::ZERO);
    world.expect(1, 0..40);
}
