//! AGENT/HEARTBEAT: the state of an agent, and the instructions in the answer.

use super::{Controller, Reply, Slot};
use crate::fleet::agent::{Agent, Liveness};
use api::wire::requests::heartbeat::{Directive, Heard, Heartbeat};
use base::journal::Severity;
use base::{AgentId, IncidentKind, Now, Offer, Round, Skew, TaskId, TaskState, address_elsewhere};

/// After a heartbeat interval divided by this, a handed-out task should have reached its agent: it takes a commit and a hop, some
/// milliseconds. If it is still on its way, the agent asks once more than necessary and gets the same answer.
const HANDOUT_SHARE: u32 = 10;

impl Controller {
    pub(super) fn heartbeat(&mut self, now: Now, id: &AgentId, heartbeat: Heartbeat) -> Reply {
        self.fleet.set_offer(id, Offer { tags: heartbeat.tags, is_full: heartbeat.version.is_some() });
        self.fleet.set_warm(id, heartbeat.warm);
        if let Some(Agent { about, .. }) = self.fleet.get_mut(id) {
            about.host = heartbeat.ip.as_deref().and_then(address_elsewhere);
            (about.ip, about.version, about.own_versions) = (heartbeat.ip, heartbeat.version, heartbeat.own_versions);
            about.kill_budget = heartbeat.beat.and_then(|beat| beat.kill_budget);
        }
        self.tell_skew(id, heartbeat.skew);
        // A leader that may have been deposed extends no lease of a run: its successor, which does not hear this agent, gives the task
        // to another one when the lease has expired.
        let beat = heartbeat.beat.map(|beat| beat.number).filter(|_| self.doubt().is_none());
        let run = heartbeat.run.filter(|run| !self.is_undecided(id, *run));
        let wanted = run.map(|(task, round)| (task, round, self.wanted(id, task, round)));
        match (self.fleet.slot_or_free(id), wanted) {
            (Slot::Free | Slot::Parked(..), Some((.., Directive::Drop))) => {
                self.unpark(id);
                self.fleet.set_slot(id, Slot::Stray);
            }
            // The remains of a finished run keep it from taking another one.
            (Slot::Free, None) if heartbeat.busy => self.fleet.set_slot(id, Slot::Stray),
            (Slot::Stray, None) if !heartbeat.busy => self.fleet.set_slot(id, Slot::Free),
            _ => {}
        }
        // An agent that does not park learns of work only from PUB, which may lose messages. So the message is repeated.
        if !heartbeat.busy && self.queue.len() > 0 {
            self.turn.inform();
        }
        Reply::Heartbeat(Heard {
            controller: self.mode.start.id,
            beat,
            wanted,
            parked: self.has_applied(now, id),
            tools: self.known_tools(id),
            serving: Some(self.readers.outputs.has_offer(id)),
            folder: self.archives.folder().cloned(),
            epoch: self.mode.start.epoch,
            clock: Some(now.wall),
        })
    }

    /// An agent has measured the difference of the clocks. The log tells of it once, until the clock is right again.
    fn tell_skew(&mut self, id: &AgentId, skew: Option<Skew>) {
        let Some(agent) = self.fleet.get_mut(id) else { return };
        let before = std::mem::replace(&mut agent.about.skew, skew);
        if let Some(skew) = skew.filter(|_| before != skew) {
            let line = format!(
                "the clock of agent {id} is {skew} that of this controller: the times of its runs are by its clock; keep the clocks \
                 equal, for example with NTP"
            );
            self.turn.incident(Severity::Warn, IncidentKind::ClockSkew, line);
        }
    }

    /// Whether an agent that reports a free slot has no reason to ask for a task: it is parked here, or was given a task a
    /// moment ago. A task that was given long before, and that the agent does not mention, was lost on its way.
    fn has_applied(&self, now: Now, id: &AgentId) -> bool {
        match self.fleet.slot_or_free(id) {
            Slot::Parked(..) => true,
            Slot::Free | Slot::Stray | Slot::Lost => false,
            Slot::Busy(task) => match self.tasks.get(task).map(|record| &record.state) {
                Some(TaskState::Dispatched(run)) => {
                    now.wall.since(run.dispatched_at) < self.settings.heartbeat_interval / HANDOUT_SHARE
                }
                _ => true,
            },
        }
    }

    /// Whether a run may still become the run of this agent, which was restored with an earlier one. The report on the end of the
    /// earlier run may be on its way ([`Controller::reunite`]). After that report this run is adopted ([`Controller::readopt`]). An
    /// order to drop it would start the same round anew.
    fn is_undecided(&self, id: &AgentId, (task, round): (TaskId, Round)) -> bool {
        let is_back = self.fleet.get(id).is_some_and(|agent| !matches!(agent.contact.liveness, Liveness::Session(_)));
        let is_present = || self.tasks.get(task).is_some_and(|record| record.round == round);
        is_back && self.may_be_out(task) && is_present()
    }

    /// The directive for a run that an agent reports.
    fn wanted(&self, id: &AgentId, task: TaskId, round: Round) -> Directive {
        let current = self.tasks.get(task).filter(|record| record.round == round);
        let mine = current.filter(|record| record.assignment().is_some_and(|run| run.agent == *id));
        match mine {
            // Continuing would mean starting anew: the lease is not renewed, and the task waits no longer than it lasts.
            Some(_) if self.fleet.is_expiring(task) => Directive::Drop,
            Some(record) if record.kill.is_some() => Directive::Kill,
            Some(record) if self.is_told_to_finish(record) => Directive::Finish,
            Some(_) => Directive::Run,
            None => Directive::Drop,
        }
    }
}
