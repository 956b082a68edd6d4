//! The budget of a turn, and the receivers to serve.
//!
//! Marked receivers are served first in, first out. A receiver with work left is marked again, behind the others.

use std::collections::VecDeque;

use super::effect::ReceiverId;
use super::receiver::Receiver;
use super::receivers::Receivers;

/// Maximum timers handled in one turn, because each may close a socket.
pub(super) const TIMERS_PER_TURN: usize = 64;

/// Maximum answers to host names that the shell passes on in one turn, because each searches for the receivers that
/// wait for the name.
pub const ANSWERS_PER_TURN: usize = 16;

/// The remaining budget of a turn, including its flushes.
#[derive(Debug)]
struct Budget {
    /// Number of sockets that may be served.
    sockets: usize,
    /// Bytes that sockets may move, in both directions.
    bytes: usize,
    /// Number of receivers that may leave the line, most of them for a socket of their own.
    admissions: usize,
}

const WHOLE: Budget = Budget { sockets: 64, bytes: 1 << 20, admissions: 16 };

/// The current turn.
#[derive(Debug)]
pub(super) struct Turn {
    budget: Budget,
    /// Receivers to serve, in this turn or a later one. It may name receivers that are gone.
    marked: VecDeque<ReceiverId>,
    /// Number of marks that this flush still serves. Receivers that it marks again come after these.
    flushing: usize,
}

impl Turn {
    pub(super) const fn new() -> Self {
        Self { budget: WHOLE, marked: VecDeque::new(), flushing: 0 }
    }

    /// Begins a turn.
    pub(super) const fn renew(&mut self) {
        self.budget = WHOLE;
    }

    /// Marks a receiver for service.
    pub(super) fn mark(&mut self, id: ReceiverId, receiver: &mut Receiver) {
        if !std::mem::replace(&mut receiver.is_marked, true) {
            self.marked.push_back(id);
        }
    }

    /// Begins to serve all receivers that are currently marked.
    pub(super) fn flush(&mut self) {
        self.flushing = self.marked.len();
    }

    /// The next receiver to serve in this flush. The caller removes its mark.
    pub(super) fn next(&mut self) -> Option<ReceiverId> {
        if self.flushing == 0 || self.budget.sockets == 0 || self.budget.bytes == 0 {
            self.flushing = 0;
            return None;
        }
        self.flushing -= 1;
        self.budget.sockets -= 1;
        self.marked.pop_front()
    }

    /// Charges bytes that a socket has moved.
    pub(super) const fn spend(&mut self, bytes: usize) {
        self.budget.bytes = self.budget.bytes.saturating_sub(bytes);
    }

    /// Whether one more receiver may leave the line.
    pub(super) const fn take_admission(&mut self) -> bool {
        let may = self.budget.admissions > 0;
        if may {
            self.budget.admissions -= 1;
        }
        may
    }

    /// Whether receivers are marked.
    pub(super) fn has_more(&self) -> bool {
        !self.marked.is_empty()
    }

    /// Checks that the list names the marked receivers, each once.
    pub(super) fn sanity_check(&self, receivers: &Receivers) {
        let mut marked: Vec<ReceiverId> =
            self.marked.iter().copied().filter(|id| receivers.get(*id).is_some()).collect();
        marked.sort_unstable();
        assert_eq!(marked, receivers.ids_of(|receiver| receiver.is_marked));
    }
}
