//! AGENT/HEARTBEAT: what an agent does, and what it shall do.

use super::{Controller, Reply, Slot};
use crate::protocol::requests::heartbeat::{Heard, Heartbeat, Wanted};
use crate::types::{AgentId, Now, Offer, Round, TaskId, TaskState};

/// A task that is handed out is with its agent after a commit and a hop, some milliseconds: a tenth of the heartbeat interval
/// is long. Should it be on its way still, the agent asks once more than it must and is told the same.
const HANDOUT_SHARE: u32 = 10;

impl Controller {
    pub(super) fn heartbeat(&mut self, now: Now, id: &AgentId, heartbeat: Heartbeat) -> Reply {
        self.agents.set_ip(id, heartbeat.ip);
        self.agents.set_offer(id, Offer { tags: heartbeat.tags, leases: heartbeat.beat.is_some() });
        self.agents.set_kill_budget(id, heartbeat.beat.and_then(|beat| beat.kill_budget));
        self.has_looked(id, heartbeat.tools.and_then(|told| told.looked));
        let beat = heartbeat.beat.map(|beat| beat.number);
        let wanted = heartbeat.run.map(|(task, round)| (task, round, self.wanted(id, task, round)));
        match (self.agents.slot_or_free(id), wanted) {
            (Slot::Free | Slot::Parked(..), Some((.., Wanted::Drop))) => {
                self.unpark(id);
                self.agents.set_slot(id, Slot::Stray);
            }
            // What a run that is over has left keeps it from taking another one.
            (Slot::Free, None) if heartbeat.busy => self.agents.set_slot(id, Slot::Stray),
            (Slot::Stray, None) if !heartbeat.busy => self.agents.set_slot(id, Slot::Free),
            _ => {}
        }
        // An agent that does not park learns only from PUB that there is work; PUB may lose, so say it again.
        if !heartbeat.busy && self.tasks.queue().len() > 0 {
            self.inform();
        }
        Reply::Heartbeat(Heard {
            controller: self.controller_id,
            beat,
            wanted,
            parked: self.has_applied(now, id),
            tools: self.known_tools(id),
            look: self.look_of(id),
        })
    }

    /// Whether an agent that says that its slot is free has no reason to ask for a task: it waits here for one, or has been
    /// given one a moment ago. One that was given long before, and of which it does not speak, has been lost on its way.
    fn has_applied(&self, now: Now, id: &AgentId) -> bool {
        match self.agents.slot_or_free(id) {
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

    /// What shall become of a run that an agent says it has.
    fn wanted(&self, id: &AgentId, task: TaskId, round: Round) -> Wanted {
        let current = self.tasks.get(task).filter(|record| record.round == round);
        let mine = current.filter(|record| record.assignment().is_some_and(|run| run.agent == *id));
        match mine {
            // To go on would be to begin anew: its lease is not renewed, and the task does not wait for longer than that.
            Some(_) if self.expiring.contains_key(&task) => Wanted::Drop,
            Some(record) if record.kill.is_some() => Wanted::Kill,
            Some(_) => Wanted::Run,
            None => Wanted::Drop,
        }
    }
}
