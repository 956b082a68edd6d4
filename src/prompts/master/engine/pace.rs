//! The minimum time between two messages to one worker.
//!
//! The document's workers parse the result of one `recv` as one JSON text, so two messages in one segment end them. A
//! worker that declares in its JOIN that it splits the stream gets everything at once. Any other worker gets nothing for
//! [`GAP`] after each message, and is not idle meanwhile; messages owed to it then follow one by one. That costs such a
//! worker at most [`GAP`] for each prompt, and [`GAP`] for each CHECK before one. If both a CHECK and a prompt are pending,
//! they alternate, so that neither starves.

use std::time::Duration;

use super::peer::{Asked, Debt, Peer, State};
use super::{Connection, Effect, Master, Timer};
use crate::wire::FromMaster;
use base::Now;

/// Minimum time between two messages to a worker that does not split the stream. A Python process is back in its `recv` by
/// then, even on a busy machine.
const GAP: Duration = Duration::from_millis(200);

impl Master {
    /// Sends a message at once. The caller knows that the peer may get one.
    pub(super) fn send_paced(&mut self, now: Now, connection: Connection, message: FromMaster) {
        let is_check = matches!(message, FromMaster::Check(_));
        self.effects.push_back(Effect::Send(connection, message));
        if self.peers.begin_pause(connection, is_check) {
            self.timers.set(Timer::Speak(connection), now.mono + GAP);
        }
    }

    /// Sends a message as soon as the peer may get one. A message that is already owed is not owed twice.
    pub(super) fn owe_debt(&mut self, now: Now, connection: Connection, debt: Debt) {
        if let Some(peer) = self.peers.get_mut(connection) {
            peer.owe(debt);
        }
        self.pay(now, connection);
    }

    /// Sends the messages owed to the peer, as far as it may get them.
    pub(super) fn pay(&mut self, now: Now, connection: Connection) {
        while let Some(debt) = self.next_debt(connection) {
            let message = match debt {
                Debt::JoinAck => FromMaster::JoinAck,
                Debt::Status => FromMaster::StatusAck(Box::new(self.status(now))),
                Debt::Check => FromMaster::Check(self.ask(now, connection, Asked::Check)),
            };
            self.send_paced(now, connection, message);
        }
    }

    /// Takes the next owed message, if the peer may get one.
    fn next_debt(&mut self, connection: Connection) -> Option<Debt> {
        let peer = self.peers.get(connection)?;
        let debt = peer.next_debt()?;
        // Checks in quick succession would keep all prompts from the worker: after one check it is a prompt's turn. This
        // check follows that prompt, or comes with the next TIMER if another worker gets the prompt.
        let gives_way = debt == Debt::Check && peer.prefers_prompt();
        if gives_way && self.may_claim() && self.files.has_next(|gates| self.gates.may_start(gates)) {
            return None;
        }
        self.peers.get_mut(connection)?.pay_first();
        Some(debt)
    }

    /// A worker may get the next message.
    pub(super) fn may_speak(&mut self, now: Now, connection: Connection) {
        let Some(peer) = self.peers.get_mut(connection) else { return };
        peer.end_pause();
        if peer.state == State::Settling {
            let since = peer.since;
            let end = self.idle_state(connection);
            self.peers.set(connection, end, since);
        }
        self.pay(now, connection);
    }

    /// The state of a worker without work: at the end of the queue, unless it may not get a prompt yet. The caller sets it.
    pub(super) fn idle_state(&mut self, connection: Connection) -> State {
        if let Some(until) = self.closed_until(connection) {
            self.timers.set(Timer::Rest(connection), until);
            return State::Resting;
        }
        let is_quiet = self.peers.get(connection).is_some_and(Peer::is_quiet);
        if is_quiet { State::Settling } else { self.peers.end_of_queue() }
    }
}
