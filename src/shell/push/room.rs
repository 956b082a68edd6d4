//! Who gets a socket when more addresses want one than may have one.
//!
//! 1. Addresses that have not answered yet hold three quarters of the sockets at the most, so that a flood of dead ones
//!    cannot close all the living.
//! 2. When there is no free socket, one goes: the longest unused one for which nothing waits, if it is unused for the grace
//!    time, a tenth of `connect_timeout`; else the one that has tried to connect longest, if for the grace time; else the
//!    one whose receiver has taken nothing longest, if for `connect_timeout`. Frames are dropped in the last case only; the
//!    second goes to the end of the line, where its frames keep their time limit.
//! 3. Else the newcomer waits in a line; when that is full, the first in it is dropped. A newcomer that has waited for the
//!    grace time takes the longest unused socket even if that was used a moment ago.
//!
//! A socket is not taken away between two frames if it can be helped: a receiver that reads slowly has the frames of the
//! old and of the new connection side by side, and would read them in turns.

use std::net::IpAddr;

use super::peer::{Link, Peer, PeerId, Reason};
use super::resolve::Lookup;
use super::table::{Limits, Table};
use super::wire::{Flow, Wire};
use crate::types::Host;
use crate::types::Mono;

impl Limits {
    /// How long an address may try to connect before it has to make room for others.
    pub(super) fn grace(&self) -> std::time::Duration {
        self.connect_timeout / 10
    }

    fn connecting_max(&self) -> usize {
        (self.sockets_max * 3 / 4).max(1)
    }
}

impl Table {
    /// Opens sockets for those in the line, as far as there is room.
    pub(super) fn admit(&mut self, now: Mono) {
        // Who has to make room is found by a look at everyone: not again until the answer may be another one.
        if !self.line_may_move && self.admit_at.is_none_or(|at| now < at) {
            return;
        }
        while let Some(&id) = self.line.front() {
            if !self.slice.take_admission() {
                self.line_may_move = true;
                return;
            }
            match self.ip_of_first(now, id) {
                First::Gone => drop(self.line.pop_front()),
                First::At(ip, port) => {
                    if !self.make_room(now, id) {
                        self.line_may_move = false;
                        return;
                    }
                    self.line.pop_front();
                    self.connect(now, id, (ip, port));
                }
            }
        }
        (self.line_may_move, self.admit_at) = (false, None);
    }

    fn ip_of_first(&mut self, now: Mono, id: PeerId) -> First {
        let Some(peer) = self.peers.get_mut(&id) else { return First::Gone };
        if !matches!(peer.link, Link::Line { .. }) {
            return First::Gone;
        }
        if peer.queue.is_empty() {
            self.remove(id);
            return First::Gone;
        }
        let port = peer.address.port;
        let lookup = match &peer.address.host {
            Host::Ip(ip) => Lookup::Found(*ip),
            Host::Name(name) => self.resolver.look_up(now, name, port),
        };
        match lookup {
            Lookup::Found(ip) => return First::At(ip, port),
            Lookup::Asked => peer.link = Link::Resolving,
            Lookup::Failed(why) => self.give_up(now, id, Reason::Unresolved(why)),
        }
        First::Gone
    }

    fn connect(&mut self, now: Mono, id: PeerId, target: (IpAddr, u16)) {
        let key = self.peers.get(&id).and_then(|peer| peer.address.key);
        match Wire::open(target, &self.keys, key, now) {
            Ok(wire) => self.open(now, id, Box::new(wire)),
            Err(error) => {
                // Descriptors come back when others close; the time limit of the frames ends this.
                if let Some(peer) = self.peers.get(&id) {
                    self.complaints.no_socket(now, &peer.address, &error);
                }
                self.rest(now, id);
            }
        }
    }

    /// Sees to it that one more socket may be opened; else says when to ask again.
    fn make_room(&mut self, now: Mono, newcomer: PeerId) -> bool {
        let too_many_connect = self.connecting >= self.limits.connecting_max();
        if !too_many_connect && self.open_sockets < self.limits.sockets_max {
            return true;
        }
        let newcomer_since = match self.peers.get(&newcomer).map(|peer| &peer.link) {
            Some(Link::Line { since }) => *since,
            Some(Link::Resolving | Link::Resting { .. } | Link::Open(_)) | None => now,
        };
        match self.victim(now, newcomer_since, too_many_connect) {
            Some((at, id)) if at <= now => {
                if self.is_connecting(id) {
                    // It may be alive behind a slow network, so its frames keep their time.
                    self.rejoin(now, id);
                } else {
                    self.give_up(now, id, Reason::Crowded);
                }
                true
            }
            soonest => {
                self.admit_at = soonest.map(|(at, _)| at);
                false
            }
        }
    }

    fn is_connecting(&self, id: PeerId) -> bool {
        self.peers.get(&id).and_then(connecting_since).is_some()
    }

    /// The peer that has to go, and from when on it has to.
    fn victim(&self, now: Mono, newcomer_since: Mono, only_connecting: bool) -> Option<(Mono, PeerId)> {
        let grace = self.limits.grace();
        let open = || self.peers.iter().filter(|(_, peer)| matches!(peer.link, Link::Open(_)));
        let connecting = open().filter_map(|(id, peer)| Some((connecting_since(peer)? + grace, *id))).min();
        if only_connecting {
            return connecting;
        }
        let idle = open().filter(|(_, peer)| peer.queue.is_empty()).min_by_key(|(_, peer)| peer.used);
        let idle = idle.map(|(id, peer)| (peer.used.min(newcomer_since) + grace, *id));
        let full = open().filter_map(|(id, peer)| Some((full_since(peer)? + self.limits.connect_timeout, *id))).min();
        let candidates = || [idle, connecting, full].into_iter().flatten();
        candidates().find(|(at, _)| *at <= now).or_else(|| candidates().min())
    }

    /// Makes room for one more address; `None` when nobody waits in the line.
    pub(super) fn drop_first_in_line(&mut self, now: Mono) -> Option<()> {
        while let Some(id) = self.line.pop_front() {
            if self.peers.get(&id).is_some_and(|peer| matches!(peer.link, Link::Line { .. })) {
                self.give_up(now, id, Reason::Crowded);
                return Some(());
            }
        }
        None
    }
}

/// What was found out about the first in the line.
enum First {
    /// It left the line, or waits for something else.
    Gone,
    /// It wants a socket to this target.
    At(IpAddr, u16),
}

fn connecting_since(peer: &Peer) -> Option<Mono> {
    match peer.flow()? {
        Flow::Connecting { since } => Some(since),
        Flow::Up { .. } | Flow::Full { .. } => None,
    }
}

fn full_since(peer: &Peer) -> Option<Mono> {
    match peer.flow()? {
        Flow::Full { since } => Some(since),
        Flow::Connecting { .. } | Flow::Up { .. } => None,
    }
}
