//! A client's connection: one request at a time, and its answer.
//!
//! Each request begins with a number in a frame of its own, which comes back with the answer: so a late answer to an
//! earlier request is not mistaken for the answer to the present one. A request without a connection waits for one.

use std::os::fd::BorrowedFd;

use super::redialer::{LinkSettings, Redialer};
use crate::engine::zmtp::{Event, Kind};
use crate::shell::clock;
use crate::shell::port::{Denial, SocketError};
use crate::types::Mono;

/// The result of waiting for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The frames after the delimiter.
    Answer(Vec<Vec<u8>>),
    /// The other side will never answer.
    Denied(Denial),
    /// The deadline has passed.
    Silence,
    /// The interrupt is readable.
    Interrupted,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Requester {
    redialer: Redialer,
    number: u32,
    /// The present request, until it has been sent.
    waiting: Option<Vec<u8>>,
}

impl Requester {
    /// Begins to connect.
    ///
    /// # Errors
    /// When the endpoint is malformed, or descriptors have run out.
    pub fn connect(endpoint: &str, settings: LinkSettings) -> Result<Self, SocketError> {
        Ok(Self { redialer: Redialer::dial_all(&[(endpoint, Kind::Dealer)], settings)?, number: 0, waiting: None })
    }

    /// Sends a request and waits for its answer, until the deadline or until `interrupt` is readable. An earlier request
    /// without an answer is dropped.
    pub fn exchange(&mut self, body: Vec<u8>, until: Mono, interrupt: Option<BorrowedFd<'_>>) -> Outcome {
        self.ask(body, until, interrupt, false)
    }

    /// The same with a request that may be carried out more than once: a connection that opens while the answer is awaited gets it
    /// again, because the one before has taken the request or its answer with it.
    pub fn exchange_repeatable(&mut self, body: Vec<u8>, until: Mono, interrupt: Option<BorrowedFd<'_>>) -> Outcome {
        self.ask(body, until, interrupt, true)
    }

    /// Whether a connection has taken the last request.
    pub const fn has_sent(&self) -> bool {
        self.waiting.is_none()
    }

    fn ask(&mut self, body: Vec<u8>, until: Mono, interrupt: Option<BorrowedFd<'_>>, is_repeatable: bool) -> Outcome {
        let again = is_repeatable.then(|| body.clone());
        self.number = self.number.wrapping_add(1);
        self.waiting = Some(body);
        self.send();
        let interrupts: Vec<BorrowedFd<'_>> = interrupt.into_iter().collect();
        loop {
            let now = clock::now().mono;
            let (ready, events) = self.redialer.wait(now, Some(until), &interrupts);
            for (_, event) in events {
                match event {
                    Event::Opened(_) => {
                        self.waiting = self.waiting.take().or_else(|| again.clone());
                        self.send();
                    }
                    Event::Message(parts) => {
                        if let Some(answer) = self.answer(parts) {
                            return Outcome::Answer(answer);
                        }
                    }
                    Event::Subscribed(_) | Event::Cancelled(_) => {}
                }
            }
            if let Some(denial) = self.redialer.take_denial() {
                return Outcome::Denied(denial);
            }
            if ready.contains(&true) {
                return Outcome::Interrupted;
            }
            if until <= clock::now().mono {
                return Outcome::Silence;
            }
        }
    }

    fn send(&mut self) {
        let Some(peer) = self.redialer.open(0) else { return };
        let Some(body) = self.waiting.take() else { return };
        let parts = [self.number.to_be_bytes().to_vec(), Vec::new(), body];
        if let Err(why) = self.redialer.endpoint.send(peer, &parts) {
            log::debug!("a request is lost: {why:?}");
        }
        self.redialer.endpoint.flush();
    }

    fn answer(&self, mut parts: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
        let is_ours = parts.len() > 2 && parts[0] == self.number.to_be_bytes() && parts[1].is_empty();
        is_ours.then(|| parts.split_off(2))
    }
}
