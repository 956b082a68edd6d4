//! An agent's two connections to its controller on one [`Endpoint`].
//!
//! | a line is | until | then |
//! |---|---|---|
//! | dialled | the handshake is done | open: what has waited leaves, the subscriptions are said |
//! | open | it is lost | dialled after the first pause |
//! | resting | its pause, which doubles each time, is over | dialled |

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::accept::Places;
use super::address::Address;
use super::reactor::{Arrival, Endpoint, PeerId, Tag, What};
use crate::engine::zmtp::{Event, Kind, Limits, Settings};
use crate::shell::clock;
use crate::shell::transport::{Link, SocketError};
use crate::types::Mono;

/// The pause before the second attempt to connect; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

const REQUESTS: Tag = 0;
const BROADCASTS: Tag = 1;

/// What the controller may cost, and how it is looked for.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// The connection.
    pub limits: Limits,
    /// The longest pause between two attempts to connect.
    pub reconnect_interval_max: Duration,
}

/// A DEALER for requests and a SUB for broadcasts.
#[derive(Debug)]
pub struct OwnLink {
    endpoint: Endpoint,
    lines: [Line; 2],
    prefixes: Vec<String>,
    settings: LinkSettings,
    /// What was sent while nobody was there.
    waiting: VecDeque<Vec<u8>>,
    answers: VecDeque<Vec<u8>>,
    broadcasts: VecDeque<Vec<u8>>,
}

#[derive(Debug)]
struct Line {
    address: Address,
    kind: Kind,
    state: LineState,
    pause: Duration,
}

#[derive(Clone, Copy, Debug)]
enum LineState {
    Resting { until: Mono },
    Dialled(PeerId),
    Open(PeerId),
}

impl OwnLink {
    /// Begins to connect; whether anybody is there shows when an answer comes.
    ///
    /// # Errors
    /// When an endpoint is malformed, or descriptors have run out.
    pub fn connect(
        rep_endpoint: &str,
        pub_endpoint: &str,
        prefixes: &[String],
        settings: LinkSettings,
    ) -> Result<Self, SocketError> {
        let now = clock::now().mono;
        let line = |text: &str, kind| {
            let address = Address::parse(text).map_err(|source| SocketError::new("connect to", text, source))?;
            Ok(Line { address, kind, state: LineState::Resting { until: now }, pause: FIRST_PAUSE })
        };
        let lines = [line(rep_endpoint, Kind::Dealer)?, line(pub_endpoint, Kind::Sub)?];
        let places = Places { connections_max: lines.len(), per_address_max: lines.len() };
        let endpoint =
            Endpoint::new(places).map_err(|source| SocketError::new("make a poller for", rep_endpoint, source))?;
        let mut link = Self {
            endpoint,
            lines,
            prefixes: prefixes.to_vec(),
            settings,
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            broadcasts: VecDeque::new(),
        };
        link.dial(now);
        Ok(link)
    }

    fn dial(&mut self, now: Mono) {
        for (tag, line) in self.lines.iter_mut().enumerate() {
            let LineState::Resting { until } = line.state else { continue };
            if until > now {
                continue;
            }
            let settings = Settings { kind: line.kind, limits: self.settings.limits.clone() };
            match self.endpoint.connect(&line.address, settings, tag) {
                Ok(peer) => line.state = LineState::Dialled(peer),
                Err(error) => {
                    log::debug!("cannot connect to {}: {error}", line.address);
                    line.rest(now, self.settings.reconnect_interval_max);
                }
            }
        }
    }

    fn take(&mut self, arrival: Arrival) {
        let Arrival { peer, tag, what } = arrival;
        match what {
            What::Event(Event::Opened(_)) => self.open(tag, peer),
            What::Event(Event::Message(mut parts)) => match (tag, parts.pop(), parts.len()) {
                // The delimiter, then the body.
                (REQUESTS, Some(body), 1) => self.answers.push_back(body),
                (BROADCASTS, Some(frame), 0) => self.broadcasts.push_back(frame),
                _ => log::debug!("a message of the controller has too many or too few frames"),
            },
            What::Closed => {
                // A connection that was given up before does not matter any more.
                let line = &mut self.lines[tag];
                if matches!(line.state, LineState::Dialled(of) | LineState::Open(of) if of == peer) {
                    line.rest(clock::now().mono, self.settings.reconnect_interval_max);
                }
            }
            What::Event(Event::Subscribed(_) | Event::Cancelled(_)) => {}
        }
    }

    fn open(&mut self, tag: Tag, peer: PeerId) {
        let line = &mut self.lines[tag];
        line.state = LineState::Open(peer);
        line.pause = FIRST_PAUSE;
        if tag == BROADCASTS {
            for prefix in &self.prefixes {
                self.endpoint.subscribe(peer, prefix.as_bytes());
            }
        } else {
            for body in std::mem::take(&mut self.waiting) {
                self.send(body);
            }
        }
    }
}

impl Line {
    fn rest(&mut self, now: Mono, longest: Duration) {
        self.state = LineState::Resting { until: now + self.pause };
        self.pause = (self.pause * 2).min(longest.max(FIRST_PAUSE));
    }
}

impl Link for OwnLink {
    fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool> {
        let dial_at = self.lines.iter().filter_map(|line| match line.state {
            LineState::Resting { until } => Some(until),
            LineState::Dialled(_) | LineState::Open(_) => None,
        });
        let ready = self.endpoint.wait(now, deadline.into_iter().chain(dial_at).min(), fds);
        while let Some(arrival) = self.endpoint.poll_event() {
            self.take(arrival);
        }
        self.dial(clock::now().mono);
        ready
    }

    fn send(&mut self, body: Vec<u8>) {
        let LineState::Open(peer) = self.lines[REQUESTS].state else {
            if self.waiting.len() >= self.settings.limits.queue_messages_max {
                self.waiting.pop_front();
            }
            self.waiting.push_back(body);
            return;
        };
        if let Err(why) = self.endpoint.send(peer, &[Vec::new(), body]) {
            log::debug!("a message to the controller is lost: {why:?}");
        }
        // At once: what the agent does next may take longer than a write.
        self.endpoint.flush();
    }

    fn receive_answer(&mut self) -> Option<Vec<u8>> {
        self.answers.pop_front()
    }

    fn receive_broadcast(&mut self) -> Option<Vec<u8>> {
        self.broadcasts.pop_front()
    }

    fn reconnect(&mut self) -> Result<(), SocketError> {
        let now = clock::now().mono;
        self.waiting.clear();
        for line in &mut self.lines {
            if let LineState::Dialled(peer) | LineState::Open(peer) = line.state {
                self.endpoint.close(peer);
            }
            line.state = LineState::Resting { until: now };
            line.pause = FIRST_PAUSE;
        }
        self.dial(now);
        Ok(())
    }
}
