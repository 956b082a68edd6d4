//! Connections that are made again whenever they are lost ([`Redial`]).

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::peer::{PeerId, Tag};
use super::reactor::{Arrival, Endpoint, What};
use super::route::{Next, Route};
use crate::endpoint::{ConnectionLimits, Redial};
use crate::engine::{DisconnectReason, Event, Kind, Limits, Security, Settings};
use crate::port::{Denial, SocketError};
use base::Mono;
use proc::clock;

/// How long one of several ways is tried before the next: one to a machine that is gone or frozen says nothing, and a command waits for
/// three seconds. A handshake takes four ways there and back.
const WAY_MAX: Duration = Duration::from_millis(1200);

/// Limits of the peer, and how to connect to it.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// Limits of the connection.
    pub limits: Limits,
    /// Security of the connection.
    pub security: Security,
    /// The longest pause between two attempts to connect.
    pub reconnect_interval_max: Duration,
}

/// All targets of one loop, by number.
#[derive(Debug)]
pub(super) struct Redialer {
    pub(super) endpoint: Endpoint,
    targets: Vec<Target>,
    settings: LinkSettings,
    /// The reason of the last refusal, until it is taken or an attempt succeeds.
    denial: Option<Denial>,
}

#[derive(Debug)]
struct Target {
    route: Route,
    kind: Kind,
    redial: Redial<PeerId>,
}

impl Redialer {
    /// Begins to connect to each target.
    ///
    /// # Errors
    /// When an endpoint is malformed, or descriptors have run out.
    pub(super) fn dial_all(addresses: &[(&str, Kind)], settings: LinkSettings) -> Result<Self, SocketError> {
        let now = clock::now().mono;
        let target = |(text, kind): &(&str, Kind)| {
            let route = Route::parse(text).map_err(|source| SocketError::new("connect to", text, source))?;
            Ok(Target { route, kind: *kind, redial: Redial::new(now, settings.reconnect_interval_max) })
        };
        let targets: Vec<Target> = addresses.iter().map(target).collect::<Result<_, SocketError>>()?;
        let limits = ConnectionLimits {
            connections_max: targets.len(),
            per_address_max: targets.len(),
            held_bytes_max: usize::MAX,
        };
        let endpoint = Endpoint::new(limits);
        let endpoint = endpoint.map_err(|source| SocketError::new("make a poller for", addresses[0].0, source))?;
        let mut all = Self { endpoint, targets, settings, denial: None };
        all.dial(now);
        Ok(all)
    }

    fn dial(&mut self, now: Mono) {
        for (tag, target) in self.targets.iter_mut().enumerate().filter(|(_, target)| target.redial.is_due(now)) {
            let dialled = match target.route.next() {
                Next::LooksUp => continue,
                Next::Address(address) => {
                    let LinkSettings { mut limits, security, .. } = self.settings.clone();
                    if target.route.is_a_choice() {
                        limits.handshake_timeout = limits.handshake_timeout.min(WAY_MAX);
                    }
                    self.endpoint.connect(&address, Settings { kind: target.kind, limits, security }, tag)
                }
                Next::Unknown(error) => Err(error),
            };
            match dialled {
                Ok(peer) => target.redial.handle_dialled(peer),
                Err(error) => {
                    log::debug!("cannot connect to {}: {error}", target.route.text());
                    target.redial.handle_failed(now, target.route.has_more());
                }
            }
        }
    }

    /// Waits, and dials due targets. Returns which of `fds` are readable, and the events of current connections.
    pub(super) fn wait(
        &mut self,
        now: Mono,
        deadline: Option<Mono>,
        fds: &[BorrowedFd<'_>],
    ) -> (Vec<bool>, Vec<(Tag, Event)>) {
        // A look-up of a name has no deadline.
        let to_dial = self.targets.iter().filter(|target| target.route.fd().is_none());
        let dial_at = to_dial.filter_map(|target| target.redial.poll_timeout());
        let looked_up = self.targets.iter().filter_map(|target| target.route.fd());
        let all: Vec<BorrowedFd<'_>> = fds.iter().copied().chain(looked_up).collect();
        let mut ready = self.endpoint.wait(now, deadline.into_iter().chain(dial_at).min(), &all);
        ready.truncate(fds.len());
        let now = clock::now().mono;
        let mut events = Vec::new();
        while let Some(arrival) = self.endpoint.poll_event() {
            events.extend(self.take(now, arrival));
        }
        self.dial(now);
        (ready, events)
    }

    fn take(&mut self, now: Mono, Arrival { peer, tag, what }: Arrival) -> Option<(Tag, Event)> {
        let target = &mut self.targets[tag];
        let redial = &mut target.redial;
        match what {
            // A connection that was given up earlier no longer matters.
            _ if redial.current() != Some(peer) => None,
            What::Closed(why) => {
                let was_unanswered = why == Some(DisconnectReason::Unanswered);
                let says_why = redial.handle_closed(now, was_unanswered, target.route.has_more());
                if let Some(reason) = why.filter(|_| says_why) {
                    self.denial = Denial::of(&reason, &self.settings.security).or(self.denial);
                }
                None
            }
            What::Event(event) => {
                if let Event::Opened(_) = event {
                    redial.handle_opened(peer);
                    target.route.has_led_there();
                    self.denial = None;
                }
                Some((tag, event))
            }
        }
    }

    /// The peer of a target with an open connection.
    pub(super) fn open(&self, tag: Tag) -> Option<PeerId> {
        self.targets[tag].redial.open()
    }

    /// The reason of the last refusal, once per attempt.
    pub(super) const fn take_denial(&mut self) -> Option<Denial> {
        self.denial.take()
    }

    /// Gives up all connections and makes new ones.
    pub(super) fn redial(&mut self) {
        let now = clock::now().mono;
        for target in &mut self.targets {
            if let Some(peer) = target.redial.handle_given_up(now) {
                self.endpoint.close(peer);
            }
        }
        self.dial(now);
    }
}
