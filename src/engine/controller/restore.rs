//! A controller that starts again: from stored records to the state in which they were written.
//!
//! Waiting tasks keep their order. A task that an agent had stays with that agent: if it comes back and speaks of the same
//! run, it is adopted ([`super::assign`]); if it is silent for two intervals, it is lost like any other.

use super::agents::{Life, Slot};
use super::effect::Timer;
use super::{Controller, Settings};
use crate::protocol::task;
use crate::types::{Now, TaskRecord, TaskState};

impl Controller {
    /// A controller with the tasks that a former one has stored, in the order of their ids.
    #[must_use]
    pub fn restore(settings: Settings, seed: u64, now: Now, records: impl IntoIterator<Item = TaskRecord>) -> Self {
        let mut controller = Self::new(settings, seed);
        let mut finished = Vec::new();
        for record in records {
            if let TaskState::Finished { at, .. } = record.state {
                finished.push((record.id, at));
            }
            controller.take_back(now, record);
        }
        controller.restored_max = controller.last_id;
        // Only when all members are known: a family is kept from the end of its last one.
        for (id, at) in finished {
            controller.keep(now, id, at);
        }
        controller
    }

    fn take_back(&mut self, now: Now, record: TaskRecord) {
        self.last_id = self.last_id.max(record.id);
        if let Some(parent) = record.parent.filter(|parent| self.tasks.get(*parent).is_some()) {
            self.families.add(record.id, parent);
        }
        let agent = match &record.state {
            TaskState::Waiting | TaskState::Finished { .. } => None,
            TaskState::Dispatched(run)
            | TaskState::Preparing(run)
            | TaskState::Running(run)
            | TaskState::Ended { assignment: run, .. } => Some(run.agent.clone()),
        };
        if let Some(agent) = agent {
            self.agents.register(now, agent.clone(), Life::Stored);
            self.agents.set_slot(&agent, Slot::Busy(record.id));
            self.timers.set(Timer::Silence(agent), now.mono + self.silence_max());
        }
        let given_id = task::given_id(&record);
        self.tasks.restore(record, given_id);
    }
}
