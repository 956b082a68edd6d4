//! The state of a prompt master for people: its status, and the summary at its end.

use std::time::Duration;

use super::peer::State;
use super::{Master, Timer, Totals};
use crate::wire::{Status, WorkerStatus};
use base::Now;

impl Master {
    /// The summary for the end.
    #[must_use]
    pub fn totals(&self, now: Now) -> Totals {
        let left = self.files.pending() + self.files.set_aside_count() + self.working();
        self.progress.totals(self.phase.stopped().unwrap_or(now.mono), left, self.costs.sum)
    }

    /// Number of messages that had no meaning in their state: DONE of an idle worker, an unexpected acknowledgement.
    #[must_use]
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The present state for a status client.
    #[must_use]
    pub fn status(&self, now: Now) -> Status {
        let joined = self.peers.iter().filter_map(|(connection, peer)| Some((connection, peer, peer.worker.as_ref()?)));
        let workers = joined.map(|(connection, peer, worker)| WorkerStatus {
            id: worker.label.clone(),
            state: peer.shown_state(),
            file: peer.held().map(|held| held.file.to_string()),
            age: now.mono.since(peer.since),
            resting: (peer.state == State::Resting).then(|| self.time_to(now, &Timer::Rest(connection))),
            reason: peer.reason_of_rest().cloned(),
        });
        let gates = self.gates.closed().map(|gate| (gate.clone(), self.time_to(now, &Timer::Gate(gate.clone()))));
        let away = self
            .orphans
            .iter()
            .map(|(run, orphan)| (orphan.held.file.to_string(), self.time_to(now, &Timer::Lease(run.clone()))));
        Status {
            pending: self.files.pending() + self.files.set_aside_count(),
            working: self.working(),
            workers: workers.collect(),
            paused: self.dispatch.obstacle().cloned().or_else(|| self.wait_for_cost()),
            gates: gates.collect(),
            away: away.collect(),
            cost: self.costs.sum,
            cost_max: self.costs.max,
            ..self.progress.status(now, self.files.pending() + self.working())
        }
    }

    fn time_to(&self, now: Now, timer: &Timer) -> Duration {
        self.timers.get(timer).map(|at| at.since(now.mono)).unwrap_or_default()
    }

    pub(super) fn working(&self) -> u64 {
        let held = self.peers.iter().filter(|(_, peer)| peer.held().is_some()).count() + self.files.leaving().len();
        (held + self.orphans.len()) as u64 + u64::from(self.dispatch.claim().is_some())
    }
}
