//! The minimum time between two messages to one worker.
//!
//! The document's workers parse the result of one `recv` as one JSON text, so two messages in one segment end them. A
//! worker that declares in its JOIN that it splits the stream gets everything at once. Any other worker gets nothing for
//! [`GAP`] after each message, and is not idle meanwhile; queued messages then follow one by one. The cost for such a
//! worker is at most [`GAP`] for each prompt, and [`GAP`] for each CHECK before one. If both a CHECK and a prompt are pending,
//! they alternate, so that neither starves.

use std::time::Duration;

use super::peer::{AckKind, Peer, Queued, State};
use super::{Connection, Effect, Master, Timer};
use crate::wire::FromMaster;
use base::Now;

/// Minimum time between two messages to a worker that does not split the stream. A Python process is back in its `recv` by
/// then, even on a busy machine.
const GAP: Duration = Duration::from_millis(200);

impl Master {
    /// Sends a message at once. The caller has checked that the peer may get one.
    pub(super) fn send_paced(&mut self, now: Now, connection: Connection, message: FromMaster) {
        let is_check = matches!(message, FromMaster::Check(_));
        self.effects.push_back(Effect::Send(connection, message));
        if self.peers.begin_pause(connection, is_check) {
            self.timers.set(Timer::Pause(connection), now.mono + GAP);
        }
    }

    /// Sends a message as soon as the peer may get one. A kind of message that is already queued is not queued twice.
    pub(super) fn enqueue(&mut self, now: Now, connection: Connection, queued: Queued) {
        if let Some(peer) = self.peers.get_mut(connection) {
            peer.enqueue(queued);
        }
        self.send_queued(now, connection);
    }

    /// Sends the queued messages of a peer, as far as it may get them.
    pub(super) fn send_queued(&mut self, now: Now, connection: Connection) {
        while let Some(queued) = self.next_queued(connection) {
            let message = match queued {
                Queued::JoinAck => FromMaster::JoinAck,
                Queued::Status => FromMaster::StatusAck(Box::new(self.status(now))),
                Queued::Check => {
                    let ahead = self.peers.get(connection).map_or(0, Peer::sending_bytes);
                    FromMaster::Check(self.expect_ack(now, connection, AckKind::Check, ahead))
                }
            };
            self.send_paced(now, connection, message);
        }
    }

    /// Takes the next queued message, if the peer may get one.
    fn next_queued(&mut self, connection: Connection) -> Option<Queued> {
        let peer = self.peers.get(connection)?;
        let queued = peer.next_queued()?;
        // Checks in quick succession would keep all prompts from the worker, so a prompt has its turn after each check. The queued
        // check follows that prompt, or the next TIMER if another worker gets the prompt.
        let gives_way = queued == Queued::Check && peer.prefers_prompt();
        if gives_way && self.may_claim() && self.files.has_next(|gates| self.gates.may_start(gates)) {
            return None;
        }
        self.peers.get_mut(connection)?.dequeue();
        Some(queued)
    }

    /// The pause after a message has passed.
    pub(super) fn end_pause(&mut self, now: Now, connection: Connection) {
        let Some(peer) = self.peers.get_mut(connection) else { return };
        peer.end_pause();
        if peer.state == State::Settling {
            let since = peer.since;
            let end = self.idle_state(connection);
            self.peers.set(connection, end, since);
        }
        self.send_queued(now, connection);
    }

    /// The state of a worker without work: idle at the end of the queue, unless its gate or a pause holds it up. The caller sets it.
    pub(super) fn idle_state(&mut self, connection: Connection) -> State {
        if let Some(until) = self.closed_until(connection) {
            self.timers.set(Timer::Rest(connection), until);
            return State::Resting;
        }
        let is_quiet = self.peers.get(connection).is_some_and(Peer::is_quiet);
        if is_quiet { State::Settling } else { self.peers.end_of_queue() }
    }
}
