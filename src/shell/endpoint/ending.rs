//! What is due when for a peer, and its end.

use super::reactor::{Arrival, Endpoint, PeerId, What};
use crate::engine::zmtp::DisconnectReason;

impl Endpoint {
    /// Closes a connection for a reason of ours, after a last word.
    pub fn disconnect(&mut self, id: PeerId, reason: &DisconnectReason) {
        if let Some(peer) = self.peers.get_mut(id) {
            self.accepting.counts.disconnected += 1;
            let from = peer.origin();
            log::debug!("a peer {from} is cut: {reason}");
            let at_the_door = self.accepting.listeners() > 0 && !peer.info.is_open();
            if at_the_door {
                let line = format!("a connection {from} is refused: {reason}{}", remedy(reason));
                if let Some(line) = self.accepting.refusals.turned_away(self.now, line) {
                    log::warn!("{line}");
                }
            }
            // If it does not take it now, it never gets it.
            let _ = peer.write(self.now);
            self.remove(id, Some(reason.clone()));
        }
    }

    /// From here on, a connection gives way to no newcomer.
    pub fn exempt(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.info.exempt();
        }
    }

    /// Closes a connection that is not needed any more.
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

    /// Puts the deadline of a peer into the table of timers. One that has moved back is found when the old one comes.
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
                // What it has sent may be what is waited for.
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

/// What may be wrong at the other side, for the most common mistakes.
const fn remedy(reason: &DisconnectReason) -> &'static str {
    match reason {
        DisconnectReason::Unauthorised(_) => "; a file with it in CURVE_AUTHORISED_KEYS_DIR lets it in",
        DisconnectReason::Keys(_) => {
            "; it may have another CURVE_SERVER_PUBLIC_KEY_FILE than the key of this controller"
        }
        DisconnectReason::Mechanism { .. } => {
            "; either both sides have the CURVE keys of the configuration, or neither"
        }
        _ => "",
    }
}
