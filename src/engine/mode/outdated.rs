//! A controller whose store is older than what its agents know.
//!
//! | event | consequence |
//! |---|---|
//! | the controller starts from a backup, or on another machine | the waiting tasks that it has found do not start for two loss times. An agent that names a run of one of them keeps it, in the later round of the two; the numbers of pushes leave a gap |
//! | an agent has served under a newer epoch of this service, or under another start with the same epoch | the agent is not registered, and this controller gives out no tasks and accepts none: another controller has its agents |
//!
//! Changes that the backup does not have are lost, and tasks that have ended since may run again. The log and the incidents say so.
//! Copies of one store go unnoticed unless some agent has met both. Each copy runs its tasks with the agents that know only that
//! copy.

use std::time::Duration;

use crate::Controller;
use crate::fleet::agent::{Liveness, Slot};
use crate::tasks::transition::{Again, TaskEvent};
use api::wire::reply::Reply;
use api::wire::requests::Sender;
use api::wire::requests::heartbeat::Heard;
use api::wire::task;
use base::journal::Severity;
use base::{
    AgentId, Epoch, IncidentKind, KnownEpoch, Now, Phase, PhaseTimes, Round, RoundEnd, TaskId, TaskRecord, Wall, span,
};

/// The number of pushes of one task that a newer controller may have made, unknown to this one.
const PUSHES_SKIPPED: u32 = 1_000;

/// The time that agents get to come back to a controller that was started anew.
const COME_AGAIN: Duration = Duration::from_secs(5);

/// The start of a controller, and the age of its store.
#[derive(Debug, Default)]
pub(crate) struct Start {
    /// Shows agents whether they still talk to the same life of the controller.
    pub(crate) id: u64,
    pub(crate) at: Wall,
    pub(crate) epoch: Option<Epoch>,
    /// Whether the store is from a backup or another machine.
    pub(crate) is_from_elsewhere: bool,
    /// Why this controller gives out no tasks.
    pub(super) outdated: Option<String>,
}

impl Start {
    /// Agents know this life of the controller by `id`.
    pub(super) fn new(id: u64) -> Self {
        Self { id, ..Self::default() }
    }
}

impl Controller {
    /// Whether agents of the controller before may not have come back yet.
    pub(crate) fn may_agents_return(&self, now: Now) -> bool {
        now.wall.since(self.mode.start.at) < COME_AGAIN
    }

    /// Sets the epoch of this start. `raised` says why it is not the one that follows the last, if so.
    pub(crate) fn begin_epoch(&mut self, now: Now, epoch: Option<Epoch>, raised: Option<String>) {
        let start = &mut self.mode.start;
        (start.at, start.epoch, start.is_from_elsewhere) = (now.wall, epoch, raised.is_some());
        let (Some(why), Some(epoch)) = (raised, epoch) else { return };
        let line = format!(
            "{why} (epoch {}); tasks accepted after it was made are unknown here, tasks that have ended since then run again unless an \
             agent has them, and waiting tasks start in {}",
            epoch.number,
            span(self.claim_time())
        );
        self.turn.incident(Severity::Warn, IncidentKind::StoreFromElsewhere, line);
    }

    /// The time that agents get to name the runs that a store from elsewhere does not know.
    fn claim_time(&self) -> Duration {
        self.settings.lost_after * 2
    }

    /// The moment before which a restored task does not start, so that an agent that has it can say so.
    pub(crate) fn claims_until(&self, record: &TaskRecord) -> Option<Wall> {
        if self.mode.start.is_from_elsewhere {
            return Some(self.mode.start.at + self.claim_time());
        }
        let runs_once = task::is_of_a_list(record) || (record.tool.is_source() && task::submit_key(record).is_some());
        (runs_once && record.round == Round(0)).then(|| self.mode.start.at + self.settings.lost_after)
    }

    /// The gap in the numbers of the pushes of a restored task.
    pub(crate) fn skipped_pushes(&self) -> u32 {
        if self.mode.start.is_from_elsewhere { PUSHES_SKIPPED } else { 0 }
    }

    /// The answer to an agent that has served under a newer epoch.
    pub(crate) fn answer_newer(&mut self, sender: &Sender, known: Option<KnownEpoch>) -> Option<Reply> {
        let (epoch, known) = self.mode.start.epoch.zip(known)?;
        if !known.outdates(epoch, self.mode.start.id) {
            return None;
        }
        if self.mode.start.outdated.is_none() {
            let line = format!(
                "another controller has the agents of this service: agent {} has served one of epoch {}, and this one is another of \
                 epoch {}; this one gives out no tasks and takes none. Stop it; or, to make this store the one that \
                 counts, stop both, remove the file epoch in its STATE_DIR, and start this one",
                sender.agent, known.epoch.number, epoch.number
            );
            self.turn.incident(Severity::Error, IncidentKind::Outdated, line.clone());
            self.mode.start.outdated = Some(line);
        }
        Some(Reply::Heartbeat(Heard { epoch: Some(epoch), ..Heard::of(self.mode.start.id) }))
    }

    /// An agent names a run of a task that a store from elsewhere has in an earlier round, or waiting. The agent is believed.
    pub(crate) fn believe(&mut self, now: Now, id: &AgentId, (named, round): (TaskId, Round)) {
        if !self.mode.start.is_from_elsewhere || named > self.tasks.restored_max() {
            return;
        }
        let Some(record) = self.tasks.get(named).filter(|record| record.round < round) else { return };
        let holder = record.assignment().map(|run| run.agent.clone());
        let is_unheard = |holder: &AgentId| {
            let holder = self.fleet.get(holder);
            holder.is_some_and(|holder| !matches!(holder.contact.liveness, Liveness::Session(_)))
        };
        match (record.phase(), holder) {
            (Phase::Waiting, _) if !record.is_out_of_contact() => {}
            (_, Some(holder)) if record.phase() < Phase::Finished && (holder == *id || is_unheard(&holder)) => {
                self.void_list(now, &holder);
                if self.fleet.slot(&holder) == Some(Slot::Busy(named)) {
                    self.fleet.set_slot(&holder, Slot::Free);
                }
                let (at, end, times) = (now.wall, RoundEnd::Returned, PhaseTimes::default());
                let again = Again { at, end, times, result: None, not_before: Some(now.wall) };
                self.change(now, named, TaskEvent::Again(again));
            }
            _ => return,
        }
        self.turn.info(format!("agent {id} has task {named} in round {round}, which this store does not know"));
        self.update(named, |record| record.round = record.round.max(round));
    }
}
