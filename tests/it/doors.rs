//! The doors of a controller: what one turn leaves, the next one takes.

use std::time::Duration;

use base::{AllowCommands, Caller};
use controller::door::{Call, Change, Door, Doors, ZmtpDoor};
use proc::background::Bell;
use proc::clock;
use zmtp::envelope::ReplyTo;
use zmtp::port::Unsendable;
use zmtp::sockets::Ports;

use crate::support::ports::settings;

const PATIENCE: Duration = Duration::from_secs(60);

/// A door with some requests, for which its bell has rung once.
struct Full {
    bell: Bell,
    calls: u64,
}

impl Door for Full {
    fn bell(&self) -> Option<&Bell> {
        Some(&self.bell)
    }

    fn receive(&mut self) -> Option<Call> {
        self.calls = self.calls.checked_sub(1)?;
        Some(Call { connection: 1, to: ReplyTo::of(Vec::new()), caller: Caller::UNKNOWN, body: Ok(Vec::new()) })
    }

    fn poll_closed(&mut self) -> Option<u64> {
        None
    }

    fn exempt(&mut self, _: &ReplyTo) {}

    fn send(&mut self, _: ReplyTo, _: Vec<u8>, _: Duration) -> Result<(), Unsendable> {
        Ok(())
    }

    fn publish(&mut self, _: &[u8]) {}

    fn show(&mut self, _: &Change<'_>) {}

    fn flush(&mut self) {}

    fn close(self: Box<Self>) {}
}

#[test]
fn requests_beyond_a_turn_are_taken_in_the_next_one_without_another_ring() {
    let ports = Ports::open(None, None, String::new(), &settings(PATIENCE)).unwrap();
    let full = Full { bell: Bell::new().unwrap(), calls: 2 };
    full.bell.ring();
    let allow = AllowCommands::SameUser;
    let mut doors = Doors::new(ZmtpDoor::new(ports, allow), vec![Box::new(full)], allow);
    let mut turn = || {
        let now = clock::now().mono;
        doors.wait(now, Some(now + PATIENCE), []);
        doors.receive(1).is_some()
    };
    assert!(turn(), "the bell has rung");
    assert!(turn(), "one request was left");
    assert!(doors.receive(1).is_none());
}
