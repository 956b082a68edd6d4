//! The outputs on their way to the master: results of a run that has ended, and parts of one that a client follows.

use super::Loop;
use super::runner::{Answer, UNREAD};
use crate::files::results::read_root_id;
use crate::wire::{FromWorker, RequestId, Welcome};
use proc::clock;

/// Parts of results that are sent in one turn.
const PARTS_OF_A_TURN: usize = 16;

impl Loop {
    /// Begins to send results, if the master does not have them already and wants them.
    pub(super) fn send_results(&mut self, run: &RequestId, welcome: &Welcome) {
        let has_root = read_root_id(&self.tasks).is_ok_and(|id| id == welcome.root);
        let wanted = welcome.result_bytes_max > 0 && !has_root;
        self.outbox = None;
        if !wanted {
            return self.worker.handle_results_sent(clock::now(), run, Ok(()));
        }
        match self.runner.outbox(run, welcome.result_bytes_max) {
            Ok(outbox) => self.outbox = Some(outbox),
            Err(reason) => self.worker.handle_results_sent(clock::now(), run, Err(reason)),
        }
    }

    /// Sends as many parts as the connection takes, up to a turn's worth.
    pub(super) fn send_parts(&mut self) {
        for _ in 0..PARTS_OF_A_TURN {
            let Some(outbox) = self.outbox.as_mut().filter(|_| self.link.is_flushed()) else { return };
            match outbox.next_part() {
                Ok(Some(part)) => {
                    let message = FromWorker::Result(Box::new(part)).encode();
                    self.with_link(|link| link.send(&message));
                }
                end => {
                    let (run, outcome) = (outbox.run.clone(), end.map(drop));
                    self.outbox = None;
                    let outcome = outcome.map_err(|error| format!("{UNREAD}: {error}"));
                    self.worker.handle_results_sent(clock::now(), &run, outcome);
                }
            }
        }
    }

    /// Answers requests for outputs, as far as the connection takes the answers.
    pub(super) fn send_tails(&mut self) {
        while self.link.is_flushed()
            && let Some(order) = self.tailing.next()
        {
            match self.runner.tail(&order) {
                Answer::Part(part) => {
                    let message = FromWorker::TailPart(Box::new(part)).encode();
                    self.with_link(|link| link.send(&message));
                }
                Answer::Wait(path) => {
                    if let Err(error) = self.tailing.wait(order.clone(), &path) {
                        log::warn!("cannot watch {}: {error}", path.display());
                    } else if matches!(self.runner.tail(&order), Answer::Part(_)) {
                        // The file has grown before it was watched.
                        self.tailing.retry_all();
                    }
                }
                Answer::Early => self.tailing.park(order),
                Answer::None => {}
            }
        }
    }
}
