//! What is due when for the addresses of a [`Table`], and their end.

use super::peer::{Due, Link, Peer, PeerId, Reason};
use super::table::Table;
use super::wire::Flow;
use crate::types::Mono;

impl Table {
    /// Puts the deadline of a peer into the table of timers. One that has moved back is found when the old one comes.
    pub(super) fn arm(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some((at, _)) = peer.due(&self.limits) else { return };
        if peer.armed.is_some_and(|armed| armed <= at) {
            return;
        }
        if let Some(armed) = peer.armed.replace(at) {
            self.timers.remove(&(armed, id));
        }
        self.timers.insert((at, id));
    }

    /// Does what is due, for so many addresses at the most.
    pub(super) fn handle_timeout(&mut self, now: Mono, timers_max: usize) {
        for _ in 0..timers_max {
            let Some((at, id)) = self.timers.first().copied() else { return };
            if at > now {
                return;
            }
            self.timers.pop_first();
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            peer.armed = None;
            match peer.due(&self.limits) {
                Some((at, due)) if at <= now => self.act(now, id, due),
                Some(_) | None => self.arm(id),
            }
        }
    }

    fn act(&mut self, now: Mono, id: PeerId, due: Due) {
        match due {
            Due::Serve => self.mark(id),
            Due::CloseIdle => drop(self.remove(id)),
            Due::GiveUp(reason) => self.give_up(now, id, reason),
            Due::Rejoin => self.rejoin(now, id),
        }
    }

    /// The next deadline; `Some(now)` while there is work that no event announces.
    pub(super) fn poll_timeout(&self, now: Mono) -> Option<Mono> {
        if !self.marked.is_empty() || (self.line_may_move && !self.line.is_empty()) {
            return Some(now);
        }
        let timer = self.timers.first().map(|(at, _)| *at);
        timer.into_iter().chain(self.admit_at).min()
    }

    /// Says whether nothing waits for any address, in its queue or in its wire.
    pub(super) fn is_drained(&self) -> bool {
        let drained = |peer: &Peer| match &peer.link {
            Link::Open(wire) => wire.is_drained(),
            Link::Line { .. } | Link::Resolving | Link::Resting { .. } => true,
        };
        self.bytes == 0 && self.peers.values().all(drained)
    }

    /// Stops waiting for addresses that have had time enough to answer.
    pub(super) fn give_up_dead(&mut self, now: Mono) {
        let grace = self.limits.grace();
        let is_dead = |peer: &Peer| match peer.flow() {
            Some(Flow::Connecting { since }) => now.since(since) >= grace,
            Some(Flow::Up { .. } | Flow::Full { .. }) | None => false,
        };
        let dead: Vec<PeerId> = self.peers.iter().filter(|(_, peer)| is_dead(peer)).map(|(id, _)| *id).collect();
        for id in dead {
            self.give_up(now, id, Reason::Unreachable);
        }
    }

    /// Closes all sockets; the kernel delivers what it has taken.
    pub(super) fn close_all(&mut self, now: Mono) {
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        for id in ids {
            self.give_up(now, id, Reason::Unreachable);
        }
    }
}
