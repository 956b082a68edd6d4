//! A turn of a [`Table`]: who has news, what is due, who is marked, who gets a socket; each as far as the slice goes.
//!
//! Who is marked is served in the order of the marks. Whoever is not finished with is marked anew, behind the others.

use super::peer::PeerId;
use super::poller::Ready;
use super::table::Table;
use crate::types::Mono;

/// Timers that are acted on in one turn: each may close a socket.
const TIMERS_PER_TURN: usize = 64;

/// Host names whose answers are taken in one turn: each is a search for those who asked.
const ANSWERS_PER_TURN: usize = 16;

/// What a turn and the flushes that belong to it may still do.
#[derive(Debug)]
pub(super) struct Slice {
    /// Sockets that may be served.
    peers: usize,
    /// Bytes that sockets may move, in both directions.
    bytes: usize,
    /// Addresses that may leave the line, most of them for a socket of their own.
    admissions: usize,
}

impl Slice {
    pub(super) const WHOLE: Self = Self { peers: 64, bytes: 1 << 20, admissions: 16 };

    const fn take_peer(&mut self) -> bool {
        let may = self.peers > 0 && self.bytes > 0;
        if may {
            self.peers -= 1;
        }
        may
    }

    /// Notes what a socket has moved.
    pub(super) const fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Whether one more address may leave the line.
    pub(super) const fn take_admission(&mut self) -> bool {
        let may = self.admissions > 0;
        if may {
            self.admissions -= 1;
        }
        may
    }
}

impl Table {
    /// Does a slice of what there is to do; [`Table::poll_timeout`] says whether there is more.
    pub(super) fn turn(&mut self, now: Mono, ready: Ready) {
        self.slice = Slice::WHOLE;
        for (id, readable) in ready.news {
            self.note(id, readable);
        }
        if ready.answered {
            self.take_answers(now, ANSWERS_PER_TURN);
        }
        self.handle_timeout(now, TIMERS_PER_TURN);
        self.flush(now);
    }

    /// Sends what was pushed, one write for each address, and begins to connect, as far as the slice goes.
    pub(super) fn flush(&mut self, now: Mono) {
        self.serve_marked(now);
        self.admit(now);
    }

    fn note(&mut self, id: PeerId, readable: bool) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.has_news |= readable;
            self.mark(id);
        }
    }

    /// Lets a peer be served in its turn.
    pub(super) fn mark(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id)
            && !std::mem::replace(&mut peer.is_marked, true)
        {
            self.marked.push_back(id);
        }
    }

    fn serve_marked(&mut self, now: Mono) {
        // Those who are marked anew meanwhile stand behind them.
        for _ in 0..self.marked.len() {
            if !self.slice.take_peer() {
                return;
            }
            let Some(id) = self.marked.pop_front() else { return };
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.is_marked = false;
                self.serve(now, id);
            }
        }
    }
}
