//! Connections that are made again whenever they are lost ([`Redial`]).

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::address::Address;
use super::peer::{PeerId, Tag};
use super::reactor::{Arrival, Endpoint, What};
use crate::engine::endpoint::{ConnectionLimits, Redial};
use crate::engine::zmtp::{DisconnectReason, Event, Kind, Limits, Security, Settings};
use crate::shell::clock;
use crate::shell::port::{Denial, SocketError};
use crate::types::Mono;

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
    /// The reason of the last refusal, until it is queried or an attempt succeeds.
    denial: Option<Denial>,
}

#[derive(Debug)]
struct Target {
    address: Address,
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
            let address = Address::parse(text).map_err(|source| SocketError::new("connect to", text, source))?;
            Ok(Target { address, kind: *kind, redial: Redial::new(now, settings.reconnect_interval_max) })
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
            let LinkSettings { limits, security, .. } = self.settings.clone();
            let settings = Settings { kind: target.kind, limits, security };
            match self.endpoint.connect(&target.address, settings, tag) {
                Ok(peer) => target.redial.handle_dialled(peer),
                Err(error) => {
                    log::debug!("cannot connect to {}: {error}", target.address);
                    target.redial.handle_failed(now);
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
        let dial_at = self.targets.iter().filter_map(|target| target.redial.poll_timeout());
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
        let redial = &mut self.targets[tag].redial;
        match what {
            // A connection that was given up before does not matter any more.
            _ if redial.current() != Some(peer) => None,
            What::Closed(why) => {
                let says_why = redial.handle_closed(now, why == Some(DisconnectReason::Unanswered));
                if let Some(reason) = why.filter(|_| says_why) {
                    self.denial = Denial::of(&reason, &self.settings.security).or(self.denial);
                }
                None
            }
            What::Event(event) => {
                if let Event::Opened(_) = event {
                    redial.handle_opened(peer);
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

    /// Maximum number of messages that may be queued for one target.
    pub(super) const fn queue_max(&self) -> usize {
        self.settings.limits.queue_messages_max
    }
}
