//! A client's connection: one request at a time, and its answer.
//!
//! Each request begins with a number in a separate frame, which the answer returns. So a late answer to an earlier
//! request is not mistaken for the answer to the current one. Without a connection, a request waits for one.

use std::os::fd::BorrowedFd;

use super::redialer::{LinkSettings, Redialer};
use crate::engine::{Event, Kind};
use crate::port::{Denial, SocketError};
use base::Mono;
use proc::clock;

/// The result of waiting for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The frames after the delimiter.
    Answer(Vec<Vec<u8>>),
    /// The peer will never answer.
    Denied(Denial),
    /// The deadline has passed.
    Silence,
    /// The connection has ended with the request, which is not repeated.
    Lost,
    /// The interrupt is readable.
    Interrupted,
}

/// What happens to a request when its connection ends.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The wait for an answer continues.
    Ignore,
    /// The next connection gets the request again.
    Repeat,
    /// The request is lost. It is also lost if there is no connection by this moment.
    Tell(Mono),
}

/// See the [module](self).
#[derive(Debug)]
pub struct Requester {
    redialer: Redialer,
    number: u32,
    /// The current request, until it has been sent.
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

    /// Sends a request and waits for its answer, until the deadline or until `interrupt` is readable. An earlier
    /// unanswered request is dropped.
    pub fn exchange(&mut self, body: Vec<u8>, until: Mono, interrupt: Option<BorrowedFd<'_>>) -> Outcome {
        self.ask(body, until, interrupt, Ending::Ignore)
    }

    /// As [`Self::exchange`], for a request that may be carried out more than once. It is sent again on each connection
    /// that opens during the wait, because the previous one may have lost the request or its answer.
    pub fn exchange_repeatable(&mut self, body: Vec<u8>, until: Mono, interrupt: Option<BorrowedFd<'_>>) -> Outcome {
        self.ask(body, until, interrupt, Ending::Repeat)
    }

    /// As [`Self::exchange`], for a request that is sent once, to a peer that keeps its connection until it answers.
    /// There must be a connection by `connect_by`.
    pub fn exchange_once(
        &mut self,
        body: Vec<u8>,
        connect_by: Mono,
        until: Mono,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Outcome {
        self.ask(body, until, interrupt, Ending::Tell(connect_by))
    }

    /// Whether a connection has taken the last request.
    pub const fn has_sent(&self) -> bool {
        self.waiting.is_none()
    }

    fn ask(&mut self, body: Vec<u8>, until: Mono, interrupt: Option<BorrowedFd<'_>>, ending: Ending) -> Outcome {
        let again = matches!(ending, Ending::Repeat).then(|| body.clone());
        self.number = self.number.wrapping_add(1);
        self.waiting = Some(body);
        // The connection may have ended since the last request, and would take this one with it.
        let now = clock::now().mono;
        let _late = self.redialer.wait(now, Some(now), &[]);
        self.send();
        let interrupts: Vec<BorrowedFd<'_>> = interrupt.into_iter().collect();
        loop {
            let now = clock::now().mono;
            let wake_at = match ending {
                Ending::Tell(connect_by) if self.waiting.is_some() => connect_by.min(until),
                Ending::Tell(_) | Ending::Ignore | Ending::Repeat => until,
            };
            let (ready, events) = self.redialer.wait(now, Some(wake_at), &interrupts);
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
                    Event::TooLong(..) | Event::Subscribed(_) | Event::Cancelled(_) => {}
                }
            }
            if let Some(denial) = self.redialer.take_denial() {
                return Outcome::Denied(denial);
            }
            if ready.contains(&true) {
                return Outcome::Interrupted;
            }
            let now = clock::now().mono;
            if let Ending::Tell(connect_by) = ending {
                match &self.waiting {
                    None if self.redialer.open(0).is_none() => return Outcome::Lost,
                    Some(_) if connect_by <= now => return Outcome::Lost,
                    None | Some(_) => {}
                }
            }
            if until <= now {
                return Outcome::Silence;
            }
        }
    }

    fn send(&mut self) {
        let Some(peer) = self.redialer.open(0) else { return };
        let Some(body) = self.waiting.take() else { return };
        let parts: [&[u8]; 3] = [&self.number.to_be_bytes(), &[], &body];
        if let Err(why) = self.redialer.endpoint.send(peer, &parts) {
            log::debug!("a request waits for the next connection: {why:?}");
            self.waiting = Some(body);
        }
        self.redialer.endpoint.flush();
    }

    fn answer(&self, mut parts: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
        let is_ours = parts.len() > 2 && parts[0] == self.number.to_be_bytes() && parts[1].is_empty();
        is_ours.then(|| parts.split_off(2))
    }
}
