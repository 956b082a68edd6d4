//! Connections that are made again whenever they are lost.
//!
//! | a line is | until | then |
//! |---|---|---|
//! | dialled | the handshake is done | open |
//! | open | it is lost | dialled after the first pause |
//! | resting | its pause, which doubles each time, is over | dialled |

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::accept::Places;
use super::address::Address;
use super::denial::Denial;
use super::reactor::{Arrival, Endpoint, PeerId, Tag, What};
use crate::engine::zmtp::{Cut, Event, Kind, Limits, Security, Settings};
use crate::shell::clock;
use crate::shell::transport::SocketError;
use crate::types::Mono;

/// The pause before the second attempt to connect; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// What the other side may cost, and how it is looked for.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// The connection.
    pub limits: Limits,
    /// How it is secured.
    pub security: Security,
    /// The longest pause between two attempts to connect.
    pub reconnect_interval_max: Duration,
}

/// All lines of one loop, by the numbers of their targets.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) endpoint: Endpoint,
    lines: Vec<Line>,
    settings: LinkSettings,
    /// Why the last attempt was turned away, until it is asked for or an attempt succeeds.
    denial: Option<Denial>,
}

/// How often in a row the other side must close without an answer before that means something. One that is crowded does it, too.
const UNANSWERED_MIN: u32 = 2;

#[derive(Debug)]
struct Line {
    address: Address,
    kind: Kind,
    state: LineState,
    pause: Duration,
    /// Attempts in a row that ended without an answer to our first command.
    unanswered: u32,
}

#[derive(Clone, Copy, Debug)]
enum LineState {
    Resting { until: Mono },
    Dialled(PeerId),
    Open(PeerId),
}

impl Line {
    fn rest(&mut self, now: Mono, longest: Duration) {
        self.state = LineState::Resting { until: now + self.pause };
        self.pause = (self.pause * 2).min(longest.max(FIRST_PAUSE));
    }
}

impl Lines {
    /// Begins to connect to each target.
    ///
    /// # Errors
    /// When an endpoint is malformed, or descriptors have run out.
    pub(super) fn dial_all(targets: &[(&str, Kind)], settings: LinkSettings) -> Result<Self, SocketError> {
        let now = clock::now().mono;
        let line = |(text, kind): &(&str, Kind)| {
            let address = Address::parse(text).map_err(|source| SocketError::new("connect to", text, source))?;
            let state = LineState::Resting { until: now };
            Ok(Line { address, kind: *kind, state, pause: FIRST_PAUSE, unanswered: 0 })
        };
        let lines: Vec<Line> = targets.iter().map(line).collect::<Result<_, SocketError>>()?;
        let places = Places { connections_max: lines.len(), per_address_max: lines.len(), held_bytes_max: usize::MAX };
        let endpoint = Endpoint::new(places);
        let endpoint = endpoint.map_err(|source| SocketError::new("make a poller for", targets[0].0, source))?;
        let mut all = Self { endpoint, lines, settings, denial: None };
        all.dial(now);
        Ok(all)
    }

    fn dial(&mut self, now: Mono) {
        for (tag, line) in self.lines.iter_mut().enumerate() {
            let LineState::Resting { until } = line.state else { continue };
            if until > now {
                continue;
            }
            let LinkSettings { limits, security, reconnect_interval_max } = self.settings.clone();
            let settings = Settings { kind: line.kind, limits, security };
            match self.endpoint.connect(&line.address, settings, tag) {
                Ok(peer) => line.state = LineState::Dialled(peer),
                Err(error) => {
                    log::debug!("cannot connect to {}: {error}", line.address);
                    line.rest(now, reconnect_interval_max);
                }
            }
        }
    }

    /// Waits, and dials who is due. Says which of `fds` are readable, and what has come of lines that are in use.
    pub(super) fn wait(
        &mut self,
        now: Mono,
        deadline: Option<Mono>,
        fds: &[BorrowedFd<'_>],
    ) -> (Vec<bool>, Vec<(Tag, Event)>) {
        let dial_at = self.lines.iter().filter_map(|line| match line.state {
            LineState::Resting { until } => Some(until),
            LineState::Dialled(_) | LineState::Open(_) => None,
        });
        let ready = self.endpoint.wait(now, deadline.into_iter().chain(dial_at).min(), fds);
        let now = clock::now().mono;
        let mut events = Vec::new();
        while let Some(arrival) = self.endpoint.poll_event() {
            events.extend(self.take(now, arrival));
        }
        self.dial(now);
        (ready, events)
    }

    fn take(&mut self, now: Mono, Arrival { peer, tag, what }: Arrival) -> Option<(Tag, Event)> {
        let line = &mut self.lines[tag];
        let is_ours = matches!(line.state, LineState::Dialled(of) | LineState::Open(of) if of == peer);
        match what {
            // A connection that was given up before does not matter any more.
            _ if !is_ours => None,
            What::Closed(why) => {
                let was_open = matches!(line.state, LineState::Open(_));
                line.rest(now, self.settings.reconnect_interval_max);
                line.unanswered = if why == Some(Cut::Unanswered) { line.unanswered + 1 } else { 0 };
                let says_why = line.unanswered == 0 || line.unanswered >= UNANSWERED_MIN;
                if let Some(cut) = why.filter(|_| says_why && !was_open) {
                    self.denial = Denial::of(&cut, &self.settings.security).or(self.denial);
                }
                None
            }
            What::Event(event) => {
                if let Event::Opened(_) = event {
                    line.state = LineState::Open(peer);
                    line.pause = FIRST_PAUSE;
                    line.unanswered = 0;
                    self.denial = None;
                }
                Some((tag, event))
            }
        }
    }

    /// The peer of a line that is open.
    pub(super) fn open(&self, tag: Tag) -> Option<PeerId> {
        match self.lines[tag].state {
            LineState::Open(peer) => Some(peer),
            LineState::Resting { .. } | LineState::Dialled(_) => None,
        }
    }

    /// Why the other side turned us away, once for each attempt.
    pub(super) const fn take_denial(&mut self) -> Option<Denial> {
        self.denial.take()
    }

    /// Gives up all connections and makes new ones.
    pub(super) fn redial(&mut self) {
        let now = clock::now().mono;
        for line in &mut self.lines {
            if let LineState::Dialled(peer) | LineState::Open(peer) = line.state {
                self.endpoint.close(peer);
            }
            line.state = LineState::Resting { until: now };
            line.pause = FIRST_PAUSE;
        }
        self.dial(now);
    }

    /// Messages that may wait for one of them.
    pub(super) const fn queue_max(&self) -> usize {
        self.settings.limits.queue_messages_max
    }
}
