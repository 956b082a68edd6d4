//! The deadlines of a peer, and its end.

use super::peer::PeerId;
use super::reactor::{Arrival, Endpoint, What};
use crate::engine::DisconnectReason;
use base::{Caller, IncidentKind};
use proc::incidents;

impl Endpoint {
    /// Disconnects a peer, flushing pending output first.
    pub fn disconnect(&mut self, id: PeerId, reason: &DisconnectReason) {
        if let Some(peer) = self.peers.get_mut(id) {
            self.accepting.counts.disconnected += 1;
            let from = peer.origin();
            log::debug!("disconnecting a peer {from}: {reason}");
            let at_the_door = self.accepting.listeners() > 0 && !peer.info.is_open() && peer.refusal.is_none();
            let is_closed = self.accepting.listeners() > 0
                && matches!(reason, DisconnectReason::TooManyParts(_) | DisconnectReason::TooLong { .. });
            // Otherwise the peer's program would wait for an answer forever, and its user could not find out why.
            let is_told = at_the_door || is_closed;
            let remedy = match reason {
                DisconnectReason::TooLong { .. } if peer.info.is_open() && !peer.connection.subscribes() => {
                    " (MESSAGE_BYTES_MAX)"
                }
                reason => reason.remedy(),
            };
            // Output that the stream does not take at once is lost.
            let _ = peer.write(self.now);
            if is_told {
                self.turn_away(format!("a connection {from} is refused: {reason}{remedy}"));
            }
            self.remove(id, Some(reason.clone()));
        }
    }

    /// Logs a refused connection, unless there are many.
    pub(super) fn turn_away(&mut self, line: String) {
        if let Some(line) = self.accepting.refusals.turned_away(self.now, line) {
            log::warn!("{line}");
            incidents::note(IncidentKind::Refused, line);
        }
    }

    /// If a peer is not served, tells it the reason and disconnects it. Returns false for any other peer.
    pub(super) fn show_out(&mut self, id: PeerId) -> bool {
        let Some(peer) = self.peers.get_mut(id) else { return false };
        let Some(why) = &peer.refusal else { return false };
        peer.connection.refuse(self.now, why);
        self.disconnect(id, &DisconnectReason::Stranger);
        true
    }

    /// Makes sure that a connection never gives way to a newcomer.
    pub fn exempt(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.info.exempt();
        }
    }

    /// The sender at the other end of a connection. Nothing is known about a closed one.
    ///
    /// # Errors
    /// A sentence, if it is not served.
    pub fn caller(&self, id: PeerId) -> Result<Caller, String> {
        let Some(peer) = self.peers.get(id) else { return Ok(Caller::UNKNOWN) };
        match &peer.refusal {
            Some(why) => Err(why.clone()),
            None => {
                let key = peer.connection.peer().and_then(|other| other.key);
                Ok(Caller { key: self.accepting.standing_of(key), ..Caller::at(peer.place) })
            }
        }
    }

    /// Closes a connection that is no longer needed.
    pub fn close(&mut self, id: PeerId) {
        self.remove(id, None);
    }

    pub(super) fn remove(&mut self, id: PeerId, why: Option<DisconnectReason>) {
        let Some(mut peer) = self.peers.remove(id) else { return };
        self.budget.forget(&mut peer.share);
        self.accepting.admission.leave(id, &peer.info);
        if let Some(at) = peer.armed {
            self.timers.remove(&(at, id));
        }
        self.closed.push_back(Arrival { peer: id, tag: peer.tag, what: What::Closed(why) });
    }

    /// Puts the deadline of a peer into the table of timers. If the deadline was postponed, that is noticed when the
    /// old one is reached.
    pub(super) fn arm(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let of_connection = peer.connection.poll_timeout().map(|(at, _)| at);
        let Some(at) = of_connection.into_iter().chain(peer.write_by).min() else { return };
        if peer.armed.is_some_and(|armed| armed <= at) {
            return;
        }
        if let Some(armed) = peer.armed.replace(at) {
            self.timers.remove(&(armed, id));
        }
        self.timers.insert((at, id));
    }

    pub(super) fn handle_timeout(&mut self) {
        let mut unread = Vec::new();
        while let Some((at, id)) = self.timers.first().copied()
            && at <= self.now
        {
            self.timers.pop_first();
            let Some(peer) = self.peers.get_mut(id) else { continue };
            peer.armed = None;
            if peer.write_by.take_if(|by| *by <= self.now).is_some() {
                self.mark_unsent(id);
            }
            let Some(peer) = self.peers.get_mut(id) else { continue };
            if peer.is_ready && peer.connection.peer().is_some() {
                // Unread input may contain the awaited event.
                unread.push(id);
                continue;
            }
            match peer.connection.handle_timeout(self.now) {
                Ok(()) => {
                    self.mark_unsent(id);
                    self.arm(id);
                }
                Err(reason) => self.disconnect(id, &reason),
            }
        }
        for id in unread {
            self.arm(id);
        }
    }
}
