//! A client's connection with many requests in flight, whose answers are matched by number. Optionally also broadcasts
//! with one prefix.
//!
//! Requests are sent again on each new connection until they are answered, so each must be one that may arrive twice.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use super::peer::Tag;
use super::redialer::{LinkSettings, Redialer};
use crate::engine::{Event, Kind};
use crate::port::{Denial, SocketError};
use base::Mono;
use proc::clock;

const REQUESTS: Tag = 0;
const BROADCASTS: Tag = 1;

/// A message from the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piped {
    /// The answer to the request with this number: the frames after the delimiter.
    Answer(u32, Vec<Vec<u8>>),
    /// A broadcast.
    Broadcast(Vec<u8>),
}

/// See the [module](self).
#[derive(Debug)]
pub struct Pipe {
    redialer: Redialer,
    prefix: String,
    last: u32,
    unanswered: BTreeMap<u32, Vec<u8>>,
}

impl Pipe {
    /// Begins to connect, for requests and, if an endpoint and a prefix are given, for broadcasts.
    ///
    /// # Errors
    /// When an endpoint is malformed, or descriptors have run out.
    pub fn connect(
        requests: &str,
        broadcasts: Option<(&str, &str)>,
        settings: LinkSettings,
    ) -> Result<Self, SocketError> {
        let (endpoint, prefix) = broadcasts.unzip();
        let broadcasts = endpoint.map(|endpoint| (endpoint, Kind::Sub));
        let targets: Vec<_> = [(requests, Kind::Dealer)].into_iter().chain(broadcasts).collect();
        let redialer = Redialer::dial_all(&targets, settings)?;
        let prefix = prefix.unwrap_or_default().to_owned();
        Ok(Self { redialer, prefix, last: 0, unanswered: BTreeMap::new() })
    }

    /// Sends a request, during the next wait at the latest, and returns its number.
    pub fn send(&mut self, body: Vec<u8>) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.transmit(self.last, &body);
        self.unanswered.insert(self.last, body);
        self.last
    }

    /// The number of requests without an answer.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Waits until a message has arrived, one of `fds` is readable, or the deadline has passed. Returns which of `fds`
    /// are readable, and the messages.
    pub fn wait(&mut self, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> (Vec<bool>, Vec<Piped>) {
        let (ready, events) = self.redialer.wait(clock::now().mono, deadline, fds);
        (ready, events.into_iter().filter_map(|(tag, event)| self.take(tag, event)).collect())
    }

    /// Gives up the connections and makes new ones.
    pub fn redial(&mut self) {
        self.redialer.redial();
    }

    /// Why the controller has rejected the connection, once for each attempt.
    pub const fn take_denial(&mut self) -> Option<Denial> {
        self.redialer.take_denial()
    }

    fn take(&mut self, tag: Tag, event: Event) -> Option<Piped> {
        match (tag, event) {
            (REQUESTS, Event::Opened(_)) => {
                let unanswered = std::mem::take(&mut self.unanswered);
                unanswered.iter().for_each(|(number, body)| self.transmit(*number, body));
                self.unanswered = unanswered;
                None
            }
            (REQUESTS, Event::Message(parts)) => self.answer(parts),
            (_, Event::Opened(_)) => {
                if let Some(peer) = self.redialer.open(BROADCASTS) {
                    self.redialer.endpoint.subscribe(peer, self.prefix.as_bytes());
                }
                None
            }
            (_, Event::Message(mut parts)) => parts.pop().map(Piped::Broadcast),
            (_, Event::TooLong(..) | Event::Subscribed(_) | Event::Cancelled(_)) => None,
        }
    }

    fn answer(&mut self, mut parts: Vec<Vec<u8>>) -> Option<Piped> {
        let number = u32::from_be_bytes(parts.first()?.as_slice().try_into().ok()?);
        let is_ours = parts.len() > 2 && parts[1].is_empty() && self.unanswered.remove(&number).is_some();
        is_ours.then(|| Piped::Answer(number, parts.split_off(2)))
    }

    /// Sends a request if there is a connection. Otherwise it is sent on the next one.
    fn transmit(&mut self, number: u32, body: &[u8]) {
        let Some(peer) = self.redialer.open(REQUESTS) else { return };
        let parts = [number.to_be_bytes().to_vec(), Vec::new(), body.to_vec()];
        if let Err(why) = self.redialer.endpoint.send(peer, &parts) {
            log::debug!("a request waits for the next connection: {why:?}");
        }
    }
}
