//! The reports of workers that send their answers: a prompt ends when its answer is stored, not before.
//!
//! While the disk of the master is full, no prompt is handed out. A worker whose answer could not be stored gets no confirmation, so it
//! keeps the answer. When there is room again, its connection is closed: the worker rejoins at once, and sends everything again. The
//! run of an answer that is incomplete is lost.

use super::peer::{Answer, Report, State};
use super::{Connection, Destination, Effect, Master, NotStored, Timer};
use crate::wire::RequestId;
use base::Now;

impl Master {
    /// A worker reports the end of its run.
    pub(super) fn reported(&mut self, now: Now, connection: Connection, report: Report) {
        let sends_answers = self.settings.result_bytes_max > 0;
        let Some(peer) = self.peers.get_mut(connection) else { return };
        let State::Working(held, _) = &peer.state else { return };
        match &held.run {
            Some(run) if peer.resumes() && sends_answers => {
                let destination = match &report {
                    Report::Done => Destination::Done,
                    Report::Failed(_) => Destination::Failed { reason: None },
                };
                self.effects.push_back(Effect::StoreAnswer(run.clone(), held.file.clone(), destination));
                peer.set_answer(Answer::Storing(report));
                // The run has ended in time.
                self.timers.clear(&Timer::Run(connection));
            }
            _ => self.carry_out(now, connection, &report),
        }
    }

    fn carry_out(&mut self, now: Now, connection: Connection, report: &Report) {
        match report {
            Report::Done => self.done(now, connection),
            Report::Failed(reason) => self.failed(now, connection, reason),
        }
    }

    /// The result of an [`Effect::StoreAnswer`]. A worker that has lost its connection since then reports again.
    pub fn handle_answer_stored(&mut self, now: Now, run: &RequestId, outcome: Result<(), NotStored>) {
        let is_of = |state: &State| matches!(state, State::Working(held, _) if held.run.as_ref() == Some(run));
        let stored = self.peers.iter().find(|(_, peer)| is_of(&peer.state)).map(|(connection, _)| connection);
        if let Err(NotStored::NoRoom(reason)) = &outcome {
            self.handle_room(now, Err(reason.clone()));
        }
        if let Some(connection) = stored
            && let Some(peer) = self.peers.get_mut(connection)
            && let Some(Answer::Storing(report)) = peer.take_answer()
        {
            match outcome {
                Ok(()) => self.carry_out(now, connection, &report),
                Err(NotStored::Torn(reason)) => self.lost(now, connection, &reason),
                Err(NotStored::NoRoom(reason)) => {
                    peer.set_answer(Answer::Unstored);
                    let name = peer.name();
                    self.journal.error(format!("the answer of {name} cannot be stored and stays there: {reason}"));
                }
            }
        }
        self.hand_out(now);
    }

    /// The room for answers, or the reason why there is none: with each [`Effect::Scan`], and after an error.
    pub fn handle_room(&mut self, now: Now, room: Result<(), String>) {
        if let Err(reason) = room {
            let line = format!("no prompt is handed out until answers can be stored: {reason}");
            if self.dispatch.close_for_disk(reason) {
                self.journal.error(line);
            }
            return;
        }
        if !self.dispatch.is_disk_full() {
            return;
        }
        let unstored =
            self.peers.iter().filter(|(_, peer)| matches!(peer.state, State::Working(_, Some(Answer::Unstored))));
        let unstored: Vec<Connection> = unstored.map(|(connection, _)| connection).collect();
        if unstored.is_empty() {
            self.dispatch.reopen_for_disk();
            self.journal.info("answers can be stored again");
            self.hand_out(now);
        }
        // These answers come before the next prompt: there may not be room for all of them.
        for connection in unstored {
            let lease = self.lease_of(connection);
            self.disconnect(now, connection, "its answer can be stored now", lease);
        }
    }
}
