//! An agent's two connections to its controller: a DEALER for requests and a SUB for broadcasts.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use super::peer::Tag;
use super::redialer::{LinkSettings, Redialer};
use crate::engine::{Event, Kind};
use crate::port::{Denial, SocketError};
use base::Mono;

const REQUESTS: Tag = 0;
const BROADCASTS: Tag = 1;

/// See the [module](self).
#[derive(Debug)]
pub struct Link {
    redialer: Redialer,
    prefixes: Vec<String>,
    answers: VecDeque<Vec<u8>>,
    broadcasts: VecDeque<Vec<u8>>,
    /// Whether a connection for requests was made since the last [`Self::take_connected`].
    has_connected: bool,
}

impl Link {
    /// Begins to connect, for requests and, if an endpoint is given, for broadcasts. The first answer shows whether the controller is
    /// there.
    ///
    /// # Errors
    /// When an endpoint is malformed, or descriptors have run out.
    pub fn connect(
        rep_endpoint: &str,
        pub_endpoint: Option<&str>,
        prefixes: &[String],
        settings: LinkSettings,
    ) -> Result<Self, SocketError> {
        let broadcasts = pub_endpoint.map(|endpoint| (endpoint, Kind::Sub));
        let targets: Vec<_> = [(rep_endpoint, Kind::Dealer)].into_iter().chain(broadcasts).collect();
        Ok(Self {
            redialer: Redialer::dial_all(&targets, settings)?,
            prefixes: prefixes.to_vec(),
            answers: VecDeque::new(),
            broadcasts: VecDeque::new(),
            has_connected: false,
        })
    }

    fn take(&mut self, tag: Tag, event: Event) {
        match event {
            Event::Opened(_) if tag == BROADCASTS => self.subscribe(),
            Event::Opened(_) => self.has_connected = true,
            Event::Message(mut parts) => match (tag, parts.pop(), parts.len()) {
                // A delimiter, then the body.
                (REQUESTS, Some(body), 1) => self.answers.push_back(body),
                (BROADCASTS, Some(frame), 0) => self.broadcasts.push_back(frame),
                _ => log::debug!("a message of the controller has too many or too few frames"),
            },
            Event::TooLong(..) | Event::Subscribed(_) | Event::Cancelled(_) => {}
        }
    }

    fn subscribe(&mut self) {
        let Some(peer) = self.redialer.open(BROADCASTS) else { return };
        for prefix in &self.prefixes {
            self.redialer.endpoint.subscribe(peer, prefix.as_bytes());
        }
    }

    /// As [`Ports::wait`](super::Ports::wait).
    pub fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool> {
        let (ready, events) = self.redialer.wait(now, deadline, fds);
        for (tag, event) in events {
            self.take(tag, event);
        }
        ready
    }

    /// Whether there is a connection for requests.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.redialer.open(REQUESTS).is_some()
    }

    /// Whether a connection for requests was made since the last call.
    pub fn take_connected(&mut self) -> bool {
        std::mem::take(&mut self.has_connected)
    }

    /// Sends one request in the envelope that a REQ socket would make. Without a connection it is dropped: the engine repeats everything
    /// that counts after connecting, so a kept request would arrive twice.
    pub fn send(&mut self, body: Vec<u8>) {
        let Some(peer) = self.redialer.open(REQUESTS) else { return };
        if let Err(why) = self.redialer.endpoint.send(peer, &[Vec::new(), body]) {
            log::debug!("a message to the controller is lost: {why:?}");
        }
        // Flushed at once, because the next action of the agent may take longer than a write.
        self.redialer.endpoint.flush();
    }

    /// The body of the next answer, if there is one.
    pub fn receive_answer(&mut self) -> Option<Vec<u8>> {
        self.answers.pop_front()
    }

    /// The next broadcast, if there is one.
    pub fn receive_broadcast(&mut self) -> Option<Vec<u8>> {
        self.broadcasts.pop_front()
    }

    /// Why the controller has rejected the connection, once for each attempt to connect.
    pub fn take_denial(&mut self) -> Option<Denial> {
        self.redialer.take_denial()
    }

    /// Connects again, because the old connection has been silent for too long.
    pub fn reconnect(&mut self) {
        self.redialer.redial();
    }
}
