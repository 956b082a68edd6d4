//! The controller's two ports on one [`Endpoint`].

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use slotmap::SecondaryMap;

use super::address::{Address, absolute};
use super::peer::PeerId;
use super::reactor::{Arrival, Endpoint, What};
use crate::curve_keys::KeyFolder;
use crate::endpoint::{ConnectionLimits, SubscriptionQuota};
use crate::engine::{DisconnectReason, Event, Kind, Limits, Security, Settings, Subscriptions};
use crate::envelope::TooLong;
use crate::port::{LINGER, SocketError, SuspendedPorts, Suspension, Unsendable};
use base::{AllowCommands, Caller, Loopback, Mono, Right};
use proc::clock;

/// Maximum bytes of a message from a subscriber, which sends only subscriptions.
const SUBSCRIBER_MESSAGE_BYTES_MAX: usize = 4096;

/// The text for an endpoint that is not open.
const CLOSED: &str = "off";

/// Limits and security for peers.
#[derive(Clone, Debug)]
pub struct PortSettings {
    /// Limits of each connection.
    pub limits: Limits,
    /// Authentication.
    pub security: Security,
    /// Limits for all connections together.
    pub places: ConnectionLimits,
    /// A unix socket that also takes requests. The one for broadcasts is beside it.
    pub local: Option<Address>,
    /// Whether the unix socket is optional, because its users can also use the TCP address. It is then left out if the
    /// file system or the length of the path does not allow it.
    pub local_may_fail: bool,
    /// Maximum number of prefixes of all subscribers together. One subscriber may have a tenth.
    pub subscriptions_max: usize,
    /// The users of this machine that are served by TCP without a key.
    pub loopback: Loopback,
}

/// The listeners that are being opened.
struct Opening {
    endpoint: Endpoint,
    /// The ports of the previous program in this process.
    before: SuspendedPorts,
    /// For each listener: its socket type, its address, and its index in `before`, if it is from there.
    listeners: Vec<(Kind, String, Option<usize>)>,
}

/// A ROUTER for requests and an XPUB for broadcasts.
#[derive(Debug)]
pub struct Ports {
    endpoint: Endpoint,
    requests: String,
    broadcasts: String,
    /// For each listener, by its tag: its socket type, its address, and its index in `before`, if it is from there.
    listeners: Vec<(Kind, String, Option<usize>)>,
    /// The connections that can be continued.
    before: SuspendedPorts,
    subscribers: SecondaryMap<PeerId, Subscriptions>,
    quota: SubscriptionQuota,
    /// Prefix of the messages that are made only on demand.
    watchable: String,
    /// The kept parts of requests that were too long.
    too_long: VecDeque<(Vec<Vec<u8>>, TooLong)>,
    /// Closed request connections that the owner has not polled.
    closed: VecDeque<PeerId>,
    /// Number of subscribers that may want a message with the prefix `watchable`.
    watchers: usize,
}

impl Ports {
    /// Binds both. Messages with the prefix `watchable` are worth making only while [`Self::is_watched`] returns true.
    ///
    /// # Errors
    /// When an address is malformed, in use, or not local.
    pub fn bind(
        rep_endpoint: &str,
        pub_endpoint: &str,
        watchable: String,
        settings: &PortSettings,
    ) -> Result<Self, SocketError> {
        Self::open(Some(rep_endpoint), Some(pub_endpoint), watchable, settings)
    }

    /// As [`Self::bind`], with optional ports. The sockets of `settings.local` are added, or replace a missing port.
    ///
    /// # Errors
    /// See [`Self::bind`].
    pub fn open(
        rep_endpoint: Option<&str>,
        pub_endpoint: Option<&str>,
        watchable: String,
        settings: &PortSettings,
    ) -> Result<Self, SocketError> {
        Self::continue_with(SuspendedPorts::default(), rep_endpoint, pub_endpoint, watchable, settings)
    }

    /// As [`Self::open`], with the listeners of the previous program in this process, as far as the addresses are the same.
    /// [`Self::resume`] continues the connections.
    ///
    /// # Errors
    /// See [`Self::bind`].
    pub fn continue_with(
        before: SuspendedPorts,
        rep_endpoint: Option<&str>,
        pub_endpoint: Option<&str>,
        watchable: String,
        settings: &PortSettings,
    ) -> Result<Self, SocketError> {
        let endpoint = Endpoint::new(settings.places);
        let mut endpoint = endpoint
            .map_err(|source| SocketError::new("make a poller for", rep_endpoint.unwrap_or("the socket"), source))?;
        endpoint.accepting.loopback = settings.loopback;
        let mut opening = Opening { endpoint, before, listeners: Vec::new() };
        let requests = rep_endpoint.map(|text| opening.listen(text, Kind::Router, settings)).transpose()?;
        let broadcasts = pub_endpoint.map(|text| opening.listen(text, Kind::Xpub, settings)).transpose()?;
        let mut local = [None, None];
        if let Some(path) = &settings.local {
            // The socket for requests is made last. When it exists, so does the other one, and the agents use both.
            let of_broadcasts = opening.listen(&path.of_broadcasts().to_string(), Kind::Xpub, settings);
            let bound = of_broadcasts
                .and_then(|broadcasts| Ok([opening.listen(&path.to_string(), Kind::Router, settings)?, broadcasts]));
            match bound {
                Ok(bound) => {
                    let shown = bound.each_ref().map(|endpoint| absolute(endpoint));
                    log::info!("programs of this machine may use {} and {} as well", shown[0], shown[1]);
                    local = bound.map(Some);
                }
                // The socket stays out if the file system or the path does not allow it, as at the next start.
                Err(error) if settings.local_may_fail && !error.is_taken() => {
                    log::info!("{error}; all requests come by TCP");
                }
                Err(error) => return Err(error),
            }
        }
        let [local_requests, local_broadcasts] = local;
        let Opening { endpoint, before, listeners } = opening;
        Ok(Self {
            endpoint,
            before,
            listeners,
            requests: requests.or(local_requests).unwrap_or_else(|| CLOSED.to_owned()),
            broadcasts: broadcasts.or(local_broadcasts).unwrap_or_else(|| CLOSED.to_owned()),
            subscribers: SecondaryMap::new(),
            quota: SubscriptionQuota::new(settings.subscriptions_max),
            watchable,
            too_long: VecDeque::new(),
            closed: VecDeque::new(),
            watchers: 0,
        })
    }

    /// Accepts the keys that are currently in the folder: see [`Endpoint::watch_keys`].
    pub fn watch_keys(&mut self, keys: KeyFolder) {
        self.endpoint.watch_keys(keys);
    }

    /// Continues the connections of the previous program in this process. Call it after [`Self::watch_keys`], if there
    /// are keys.
    pub fn resume(&mut self) {
        for (number, peer) in self.before.take_peers() {
            let Some(tag) = self.listeners.iter().position(|(.., before)| *before == Some(number)) else { continue };
            if let Some((id, subscriptions)) = self.endpoint.resume(tag, peer)
                && self.is_of(tag, Kind::Xpub)
            {
                self.subscribers.insert(id, Subscriptions::default());
                self.change(id, |asked| *asked = subscriptions);
            }
        }
    }

    fn is_of(&self, tag: usize, kind: Kind) -> bool {
        self.listeners.get(tag).is_some_and(|(of, ..)| *of == kind)
    }

    fn take(&mut self, arrival: Arrival) -> Option<Vec<Vec<u8>>> {
        let Arrival { peer, tag, what } = arrival;
        match what {
            What::Event(Event::Message(parts)) if self.is_of(tag, Kind::Router) => {
                return Some(from(peer, parts));
            }
            What::Event(Event::TooLong(parts, too_long)) => self.too_long.push_back((from(peer, parts), too_long)),
            What::Event(Event::Subscribed(prefix)) => self.subscribe(peer, prefix),
            What::Event(Event::Cancelled(prefix)) => self.change(peer, |asked| asked.remove(&prefix)),
            What::Closed(_) if self.is_of(tag, Kind::Xpub) => {
                self.change(peer, |asked| *asked = Subscriptions::default());
                self.subscribers.remove(peer);
            }
            What::Closed(_) => self.closed.push_back(peer),
            What::Event(Event::Opened(_)) if self.is_of(tag, Kind::Xpub) => {
                self.endpoint.show_out(peer);
            }
            What::Event(Event::Opened(_) | Event::Message(_)) => {}
        }
        None
    }

    /// Sends each subscriber the frame chosen for it.
    fn publish_each<'a>(&mut self, frame_for: impl Fn(Caller) -> &'a [u8]) {
        for (peer, asked) in &self.subscribers {
            let Ok(caller) = self.endpoint.caller(peer) else { continue };
            let frame = frame_for(caller);
            if asked.matches(frame) && self.endpoint.offer(peer, &[frame]) != Ok(true) {
                log::debug!("a broadcast is lost");
            }
        }
    }

    fn subscribe(&mut self, peer: PeerId, prefix: Vec<u8>) {
        let max = self.quota.allowed(self.subscribers.get(peer).map_or(0, Subscriptions::len));
        if self.subscribers.get(peer).is_none() {
            self.subscribers.insert(peer, Subscriptions::default());
        }
        let mut outcome = Ok(());
        self.change(peer, |asked| outcome = asked.add(prefix, max));
        if outcome.is_err() {
            self.endpoint.disconnect(
                peer,
                &DisconnectReason::Protocol("it subscribes too often, or to a prefix that is too long"),
            );
        }
    }

    fn change(&mut self, peer: PeerId, change: impl FnOnce(&mut Subscriptions)) {
        let Some(asked) = self.subscribers.get_mut(peer) else { return };
        let watchable = self.watchable.as_bytes();
        let counts = |asked: &Subscriptions| (asked.len(), usize::from(asked.may_match(watchable)));
        // Any peer decides how often this runs, so its cost must not depend on the number of other subscriptions.
        let (len, watches) = counts(asked);
        change(asked);
        let (len_after, watches_after) = counts(asked);
        self.quota.changed(len, len_after);
        self.watchers = self.watchers - watches + watches_after;
    }
}

impl Opening {
    fn listen(&mut self, text: &str, kind: Kind, settings: &PortSettings) -> Result<String, SocketError> {
        let mut limits = settings.limits.clone();
        if kind == Kind::Xpub {
            limits.message_bytes_max = SUBSCRIBER_MESSAGE_BYTES_MAX;
            limits.long = None;
        }
        let address = Address::parse(text).map_err(|source| SocketError::new("bind", text, source))?;
        let settings = Settings { kind, limits, security: settings.security.clone() };
        let before = self.before.take_listener(kind, &address);
        let number = before.as_ref().map(|(number, _)| *number);
        let bound = match before {
            Some((_, adopted)) => adopted.and_then(|(listener, address)| {
                self.endpoint.listen_with(listener, settings)?;
                Ok(address)
            }),
            None => self.endpoint.listen(&address, settings),
        };
        let bound = bound.map_err(|source| SocketError::new("bind", text, source))?.to_string();
        self.listeners.push((kind, bound.clone(), number));
        Ok(bound)
    }
}

/// A message with the frame that identifies its peer.
fn from(peer: PeerId, parts: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut frames = Vec::with_capacity(parts.len() + 1);
    frames.push(peer.to_bytes());
    frames.extend(parts);
    frames
}

/// The peer in the first frame, and the frames for it.
fn addressed(frames: &[Vec<u8>]) -> Result<(PeerId, &[Vec<u8>]), Unsendable> {
    let (id, parts) = frames.split_first().ok_or(Unsendable::NoPeer)?;
    Ok((PeerId::from_bytes(id).ok_or(Unsendable::NoPeer)?, parts))
}

impl Ports {
    /// The endpoint for requests, with the port that the system chose if 0 was configured.
    #[must_use]
    pub fn requests(&self) -> &str {
        &self.requests
    }

    /// The endpoint for broadcasts.
    #[must_use]
    pub fn broadcasts(&self) -> &str {
        &self.broadcasts
    }

    /// Waits until a message has arrived, one of `fds` is readable, or the deadline has passed. Returns for each of
    /// `fds` whether it is readable.
    pub fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool> {
        self.endpoint.wait(now, deadline, fds)
    }

    /// The next request, if there is one: a frame that identifies the peer, then the frames that it sent.
    pub fn receive(&mut self) -> Option<Vec<Vec<u8>>> {
        while let Some(arrival) = self.endpoint.poll_event() {
            let request = self.take(arrival);
            if request.is_some() {
                return request;
            }
        }
        None
    }

    /// The next request that was too long: what [`Self::receive`] would return, without the frame that was too long.
    pub fn poll_too_long(&mut self) -> Option<(Vec<Vec<u8>>, TooLong)> {
        self.too_long.pop_front()
    }

    /// The next peer that has disconnected. It sends nothing more and accepts no answer, and all its requests have been
    /// received.
    pub fn poll_closed(&mut self) -> Option<Vec<u8>> {
        self.closed.pop_front().map(PeerId::to_bytes)
    }

    /// Marks a connection as an agent's: it is not closed in favour of a new connection, however long it is silent.
    pub fn exempt(&mut self, peer: &[u8]) {
        if let Some(peer) = PeerId::from_bytes(peer) {
            self.endpoint.exempt(peer);
        }
    }

    /// The sender at the other end of a connection.
    ///
    /// # Errors
    /// A sentence, if it is not served.
    pub fn caller(&self, peer: &[u8]) -> Result<Caller, String> {
        PeerId::from_bytes(peer).map_or(Ok(Caller::UNKNOWN), |peer| self.endpoint.caller(peer))
    }

    /// Sends an answer: the frames of a request up to its delimiter, then the body. The answer may be held back for
    /// `delay_max` to share a write with another message to the same peer.
    ///
    /// # Errors
    /// When the peer has disconnected or does not read.
    pub fn send(&mut self, frames: &[Vec<u8>], delay_max: Duration) -> Result<(), Unsendable> {
        let (peer, parts) = addressed(frames)?;
        if delay_max.is_zero() {
            self.endpoint.send(peer, parts)
        } else {
            self.endpoint.send_within(delay_max, peer, parts)
        }
    }

    /// Sends a message to every subscriber that reads. It may be lost.
    pub fn publish(&mut self, frame: &[u8]) {
        self.publish_each(|_| frame);
    }

    /// Publishes the state of a task with a command. Subscribers that may not see commands get `hidden`.
    pub fn show(&mut self, frame: &[u8], hidden: &[u8], allow: AllowCommands) {
        self.publish_each(|caller| if allow.admits(caller, Right::Commands) { frame } else { hidden });
    }

    /// Whether there is a subscriber to the messages that are made on demand.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.watchers > 0
    }

    /// The number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.endpoint.connections()
    }

    /// Whether there is a connection that is not an agent's. Each agent has one for its requests, and at most one for
    /// broadcasts.
    #[must_use]
    pub fn has_guests(&self) -> bool {
        let agents = self.endpoint.exempted();
        self.endpoint.connections() > agents + self.subscribers.len() || self.subscribers.len() > agents
    }

    /// Passes all sent messages to the kernel.
    pub fn flush(&mut self) {
        self.endpoint.flush();
    }

    /// Ends without closing the connections of clients, so that another program can continue them.
    #[must_use]
    pub fn suspend(self) -> Suspension {
        let Self { endpoint, listeners, mut subscribers, .. } = self;
        let listeners: Vec<_> = listeners.into_iter().map(|(kind, address, _)| (kind, address)).collect();
        endpoint.suspend(&listeners, |peer| subscribers.remove(peer))
    }

    /// Delivers the messages that were sent, for at most a second.
    pub fn close(mut self) {
        let end = clock::now().mono + LINGER;
        self.endpoint.flush();
        while self.endpoint.has_unsent() {
            let now = clock::now().mono;
            if now >= end {
                break;
            }
            self.endpoint.wait(now, Some(end), &[]);
            while self.endpoint.poll_event().is_some() {}
        }
        log::debug!("connections: {:?}", self.endpoint.counts());
    }
}
