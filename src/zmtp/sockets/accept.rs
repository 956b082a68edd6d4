//! Accepts connections, and closes those whose key was removed.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use super::peer::{Peer, PeerId};
use super::reactor::{Endpoint, KEYS_KEY};
use super::stream::Stream;
use crate::curve_keys::{KeyFolder, LOOK_INTERVAL};
use crate::endpoint::Decision;
use crate::engine::{Connection, DisconnectReason, Peer as OtherSide, Security};
use base::{CallerPlace, Neighbourhood, span};
use proc::clock;

/// Maximum connections accepted per turn and listener. Each takes up to 0.2 ms, including the look-up of its owner,
/// while others wait.
const ACCEPTS_PER_TURN: usize = 8;

/// Pause after a failure to accept, such as a lack of descriptors.
const REST: Duration = Duration::from_millis(100);

/// Maximum bytes of a message from a peer that is not served.
const STRANGER_BYTES_MAX: usize = 65_536;

impl Endpoint {
    /// Whether one more connection could be accepted.
    pub(super) fn has_place(&mut self) -> bool {
        self.accepting.admission.has_place(self.now, &mut self.peers)
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
                    // It was gone before it was accepted, but the next one may be there.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        log::warn!("cannot take a connection: {error}; trying again in {}", span(REST));
                        self.accepting.counts.refused += 1;
                        self.accepting.resumes_at = Some(self.now + REST);
                        return;
                    }
                }
            }
        }
    }

    /// Accepts the authorised keys of the folder. A change takes effect within a second, and closes the connections of
    /// removed keys.
    pub fn watch_keys(&mut self, keys: KeyFolder) {
        let watched = keys.news().map(|news| self.poller.add(news, KEYS_KEY, false));
        if let Some(Err(error)) = watched {
            log::info!("cannot wait for news of the keys: {error}; they are looked at every {}", span(LOOK_INTERVAL));
        }
        self.accepting.keys = Some(keys);
    }

    /// Closes the connections whose key is no longer authorised.
    pub(super) fn look_at_keys(&mut self) {
        let Some(folder) = &mut self.accepting.keys else { return };
        if !folder.take_due(self.now) || !folder.look(clock::now().wall) {
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
            self.revoke(id, other);
        }
    }

    /// Closes a connection whose key has been removed.
    pub(super) fn revoke(&mut self, id: PeerId, other: OtherSide) {
        let key = other.key.map(|key| key.to_string()).unwrap_or_default();
        let from = self.peers.get(id).map(Peer::origin).unwrap_or_default();
        log::info!("closing a connection {from}: its key {key} has been removed");
        self.disconnect(id, &DisconnectReason::Unauthorised(key));
    }

    /// The place of the peer of an accepted stream, and why it is not served, if it is not. A listener with keys
    /// ignores the user.
    pub(super) fn place_of(&self, tag: usize, stream: &Stream) -> (CallerPlace, Option<String>) {
        let Some(visitor) = stream.visitor() else { return (CallerPlace::Socket, None) };
        let has_keys = matches!(self.accepting.listeners[tag].settings.security, Security::CurveServer(_));
        let refusal = if has_keys { None } else { visitor.refusal(self.accepting.loopback) };
        (visitor.place, refusal)
    }

    fn admit(&mut self, tag: usize, stream: Stream, address: Option<IpAddr>) {
        match self.accepting.admission.decide(self.now, address.map(Neighbourhood::of), &mut self.peers) {
            Decision::Admit => {}
            Decision::ReplaceHandshake(oldest) => self.disconnect(oldest, &DisconnectReason::SlowHandshake),
            Decision::ReplaceIdle(idle) => self.disconnect(idle, &DisconnectReason::Idle),
            Decision::Refuse(count) => {
                self.accepting.counts.refused += 1;
                return log::debug!(
                    "a connection of {address:?} is refused: it has {count} already, and none of them gives way"
                );
            }
        }
        let (place, refusal) = self.place_of(tag, &stream);
        let mut settings = self.accepting.listeners[tag].settings.clone();
        if let Some(why) = &refusal {
            // Its messages are only answered with the reason.
            settings.limits.message_bytes_max = settings.limits.message_bytes_max.min(STRANGER_BYTES_MAX);
            settings.limits.long = None;
            let from = address.map(|ip| ip.to_string()).unwrap_or_default();
            self.turn_away(format!("a connection of {from} is refused: {why}"));
        }
        let connection = Connection::accepted(self.now, settings, rand::random());
        let peer = Peer { place, refusal, ..Peer::new(self.now, stream, connection, tag, address) };
        match self.insert(peer) {
            Ok(id) => {
                self.accepting.admission.enter(id, &self.peers[id].info);
                self.accepting.counts.accepted += 1;
            }
            Err(error) => log::warn!("cannot watch a connection: {error}"),
        }
    }
}
