//! The ZMTP door: the REP and PUB ports.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{Call, Change, Door};
use api::wire::{Code, Refusal};
use base::{AllowCommands, Caller, Mono};
use proc::background::Bell;
use zmtp::envelope;
use zmtp::envelope::{Received, ReplyTo};
use zmtp::port::{Suspension, Unsendable};
use zmtp::sockets::Ports;

/// The two ports as a [`Door`].
pub struct ZmtpDoor {
    ports: Ports,
    allow: AllowCommands,
    /// Number of messages without a return address.
    dropped: u64,
}

impl ZmtpDoor {
    /// A door for bound ports.
    #[must_use]
    pub const fn new(ports: Ports, allow: AllowCommands) -> Self {
        Self { ports, allow, dropped: 0 }
    }

    /// See [`Ports::suspend`].
    pub(super) fn suspend(self) -> Suspension {
        self.ports.suspend()
    }

    pub(super) fn connections(&self) -> usize {
        self.ports.connections()
    }

    pub(super) fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool> {
        self.ports.wait(now, deadline, fds)
    }
}

impl Door for ZmtpDoor {
    fn bell(&self) -> Option<&Bell> {
        None
    }

    fn receive(&mut self) -> Option<Call> {
        loop {
            let received = match self.ports.receive() {
                Some(frames) => envelope::open(frames),
                None => {
                    let (frames, too_long) = self.ports.poll_too_long()?;
                    envelope::open_envelope(frames, too_long)
                }
            };
            let (to, body) = match received {
                Received::Request(to, body) => (to, Ok(body)),
                Received::Refused(to, refusal) => (to, Err(refusal)),
                Received::Drop => {
                    self.dropped += 1;
                    continue;
                }
            };
            let (caller, body) = match self.ports.caller(to.peer()) {
                Ok(caller) => (caller, body),
                Err(why) => (Caller::UNKNOWN, Err(Refusal::new(Code::NotAllowed, why))),
            };
            return Some(Call { connection: connection(to.peer()), to, caller, body });
        }
    }

    fn poll_closed(&mut self) -> Option<u64> {
        self.ports.poll_closed().map(|peer| connection(&peer))
    }

    fn exempt(&mut self, to: &ReplyTo) {
        self.ports.exempt(to.peer());
    }

    fn send(&mut self, to: ReplyTo, body: Vec<u8>, delay_max: Duration) -> Result<(), Unsendable> {
        self.ports.send(&to.frames(body), delay_max)
    }

    fn publish(&mut self, message: &[u8]) {
        self.ports.publish(message);
    }

    fn show(&mut self, change: &Change<'_>) {
        if !self.ports.is_watched() {
            return;
        }
        match change.hidden_message() {
            Some(hidden) => self.ports.show(change.message(), &hidden, self.allow),
            None => self.publish(change.message()),
        }
    }

    fn has_guests(&self) -> bool {
        self.ports.has_guests()
    }

    fn flush(&mut self) {
        self.ports.flush();
    }

    fn close(self: Box<Self>) {
        self.ports.close();
        log::info!("{} messages had no return address", self.dropped);
    }
}

/// The ports name a peer by eight bytes.
fn connection(peer: &[u8]) -> u64 {
    peer.try_into().map_or(0, u64::from_be_bytes)
}
