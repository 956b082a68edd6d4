//! Who is let in: listeners, and how many places there are.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use super::crowd::{Crowds, Machine, machine};
use super::peer::Peer;
use super::reactor::{Endpoint, KEYS_KEY, PeerId};
use super::refusals::Refusals;
use super::stream::{Listener, Stream};
use crate::engine::zmtp::{Connection, Cut, Peer as OtherSide, Security, Settings};
use crate::shell::clock;
use crate::shell::curve_keys::KeyFolder;
use crate::types::Mono;

/// Connections taken in one turn, of each listener.
const ACCEPTS_PER_TURN: usize = 64;

/// Pause after the system had no descriptor for a connection.
const REST: Duration = Duration::from_millis(100);

/// How often the keys are looked at without news of them: what happens on another machine is no news here.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The part of all places that is kept for the unix socket, and for the first connection of each address.
const KEPT_SHARE: usize = 32;

/// How many connections there may be, and what they may cost together.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// In all; descriptors beyond it are for other purposes.
    pub connections_max: usize,
    /// Of one IP address; all loopback addresses are one.
    pub per_address_max: usize,
    /// Bytes that all of them make us hold: half messages, and what waits for those who do not read.
    pub held_bytes_max: usize,
}

/// What has become of connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// They had a place.
    pub accepted: u64,
    /// There was no place, or no descriptor.
    pub refused: u64,
    /// They were closed by us.
    pub cut: u64,
}

#[derive(Debug)]
pub(super) struct Accepting {
    places: Places,
    listeners: Vec<Listening>,
    pub(super) crowds: Crowds,
    pub(super) refusals: Refusals,
    /// Connections in the order in which they came, as long as their handshake may be under way.
    handshakes: VecDeque<PeerId>,
    resumes_at: Option<Mono>,
    /// Who may come in to the listeners with CURVE.
    keys: Option<KeyFolder>,
    /// Something has happened to the keys.
    keys_have_news: bool,
    /// When to look at the keys without news of them.
    look_at: Mono,
    pub(super) counts: Counts,
}

#[derive(Debug)]
struct Listening {
    listener: Listener,
    settings: Settings,
    /// Somebody may be waiting.
    has_callers: bool,
}

impl Accepting {
    pub(super) const fn new(places: Places) -> Self {
        let counts = Counts { accepted: 0, refused: 0, cut: 0 };
        Self {
            places,
            listeners: Vec::new(),
            crowds: Crowds::new(),
            refusals: Refusals::new(),
            handshakes: VecDeque::new(),
            resumes_at: None,
            keys: None,
            keys_have_news: false,
            look_at: Mono::from_nanos(0),
            counts,
        }
    }

    pub(super) const fn listeners(&self) -> usize {
        self.listeners.len()
    }

    pub(super) fn add(&mut self, listener: Listener, settings: Settings) {
        self.listeners.push(Listening { listener, settings, has_callers: true });
    }

    pub(super) fn called(&mut self, tag: usize) {
        if let Some(listening) = self.listeners.get_mut(tag) {
            listening.has_callers = true;
        }
    }

    pub(super) fn has_callers(&self, now: Mono) -> bool {
        self.resumes_at.is_none_or(|at| at <= now) && self.listeners.iter().any(|listening| listening.has_callers)
    }

    /// When there is something to do although there is no news.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        let look_at = self.keys.as_ref().map(|_| self.look_at);
        self.resumes_at.into_iter().chain(look_at).chain(self.refusals.poll_timeout()).min()
    }

    pub(super) const fn keys_changed(&mut self) {
        self.keys_have_news = true;
    }

    /// Whether the key of a peer is known, at this moment.
    pub(super) fn is_welcome(&self, other: &OtherSide) -> bool {
        let keys = self.keys.as_ref().map(KeyFolder::keys);
        keys.zip(other.key).is_none_or(|(keys, key)| keys.authorised.contains(&key))
    }

    /// Connections that there may be for a newcomer of this machine to have a place.
    fn places_for(&self, machine: Machine) -> usize {
        let is_first = machine.is_none() || self.crowds.len(machine) == 0;
        let kept = if is_first { 0 } else { self.places.connections_max / KEPT_SHARE };
        self.places.connections_max - kept
    }
}

impl Endpoint {
    /// Whether a connection more could be taken.
    pub(super) fn has_place(&mut self) -> bool {
        self.peers.len() < self.accepting.places.connections_max
            || self.oldest_handshake(None).is_some()
            || self.longest_idle().is_some()
    }

    pub(super) fn accept(&mut self) {
        if !self.accepting.has_callers(self.now) {
            return;
        }
        self.accepting.resumes_at = None;
        for tag in 0..self.accepting.listeners.len() {
            for _ in 0..ACCEPTS_PER_TURN {
                if !self.accepting.listeners[tag].has_callers || !self.has_place() {
                    break;
                }
                match self.accepting.listeners[tag].listener.accept() {
                    Ok((stream, address)) => self.admit(tag, stream, address),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.accepting.listeners[tag].has_callers = false;
                    }
                    // One that has gone while it waited; the next one may be there.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        log::warn!("cannot take a connection: {error}; trying again in {REST:?}");
                        self.accepting.counts.refused += 1;
                        self.accepting.resumes_at = Some(self.now + REST);
                        return;
                    }
                }
            }
        }
    }

    /// Lets in whose key is there, and nobody whose key has gone, from a second after it came or went at the latest.
    pub fn watch_keys(&mut self, keys: KeyFolder) {
        let watched = keys.news().map(|news| self.poller.add(news, KEYS_KEY, false));
        if let Some(Err(error)) = watched {
            log::info!("cannot wait for news of the keys: {error}; they are looked at every {LOOK_INTERVAL:?}");
        }
        self.accepting.keys = Some(keys);
    }

    /// Ends the connections of those whose key is not there any more.
    pub(super) fn look_at_keys(&mut self) {
        let now = self.now;
        let Some(folder) = &mut self.accepting.keys else { return };
        if !std::mem::take(&mut self.accepting.keys_have_news) && now < self.accepting.look_at {
            return;
        }
        self.accepting.look_at = now + LOOK_INTERVAL;
        if !folder.look(clock::now().wall) {
            return;
        }
        let keys = folder.keys();
        for listening in &mut self.accepting.listeners {
            if let Security::CurveServer(_) = listening.settings.security {
                listening.settings.security = Security::CurveServer(keys.clone());
            }
        }
        let is_out = |other: OtherSide| !self.accepting.is_welcome(&other);
        let is_out = |(id, peer): (PeerId, &Peer)| peer.connection.peer().filter(|it| is_out(*it)).map(|it| (id, it));
        let out: Vec<(PeerId, OtherSide)> = self.peers.iter().filter_map(is_out).collect();
        for (id, other) in out {
            self.turn_out(id, other);
        }
    }

    /// Ends a connection whose key has been taken away.
    pub(super) fn turn_out(&mut self, id: PeerId, other: OtherSide) {
        let key = other.key.map(|key| key.to_string()).unwrap_or_default();
        let from = self.peers.get(id).map(Peer::place).unwrap_or_default();
        log::info!("a connection {from} ends: its key {key} has been taken away");
        self.cut(id, &Cut::Unauthorised(key));
    }

    fn admit(&mut self, tag: usize, stream: Stream, address: Option<IpAddr>) {
        let machine = machine(address);
        if !self.make_place(machine) {
            self.accepting.counts.refused += 1;
            let count = self.accepting.crowds.len(machine);
            log::debug!("a connection of {address:?} is refused: it has {count} already, and none of them gives way");
            return;
        }
        let connection = Connection::accepted(self.now, self.accepting.listeners[tag].settings.clone(), rand::random());
        let peer = Peer::new(self.now, stream, connection, tag, address);
        let standing = peer.standing;
        match self.insert(peer) {
            Ok(id) => {
                self.accepting.crowds.join(machine, standing, id);
                self.accepting.counts.accepted += 1;
                self.accepting.handshakes.push_back(id);
            }
            Err(error) => log::warn!("cannot watch a connection: {error}"),
        }
    }

    /// Sees to a place for a newcomer of this machine; false when none can be had.
    fn make_place(&mut self, machine: Machine) -> bool {
        let of_machine =
            machine.is_some() && self.accepting.crowds.len(machine) >= self.accepting.places.per_address_max;
        if !of_machine && self.peers.len() < self.accepting.places_for(machine) {
            return true;
        }
        if let Some(oldest) = self.oldest_handshake(of_machine.then_some(machine)) {
            self.cut(oldest, &Cut::SlowHandshake);
            return true;
        }
        let idle = if of_machine { self.longest_idle_of(machine) } else { self.longest_idle() };
        if let Some(idle) = idle {
            self.cut(idle, &Cut::Idle);
        }
        idle.is_some()
    }

    /// The connection that has been longest in its handshake, of one machine or of all.
    fn oldest_handshake(&mut self, machine: Option<Machine>) -> Option<PeerId> {
        let in_handshake =
            |endpoint: &Self, id: PeerId| endpoint.peers.get(id).is_some_and(|peer| peer.connection.peer().is_none());
        while let Some(first) = self.accepting.handshakes.front().copied()
            && !in_handshake(self, first)
        {
            self.accepting.handshakes.pop_front();
        }
        let matches =
            |id: &PeerId| in_handshake(self, *id) && machine.is_none_or(|machine| self.peers[*id].machine == machine);
        self.accepting.handshakes.iter().copied().find(matches)
    }
}
