//! TASK/INTERNAL/APPLY: an agent asks for a task.

use std::time::Duration;

use super::{Answer, Controller, Remains, Slot, Ticket, Timer};
use crate::fleet::agent::LastRun;
use crate::turn::batch_delay;
use api::wire::reply;
use base::{AgentId, Now, RoundEnd, TaskId, TaskState};

impl Controller {
    pub(super) fn apply(&mut self, now: Now, ticket: Ticket, id: &AgentId, wait: Option<Duration>) -> Answer {
        self.unpark(id);
        if let Slot::Busy(task) = self.fleet.slot_or_free(id) {
            if let Some(record) = self.tasks.get(task).filter(|task| matches!(task.state, TaskState::Dispatched(_))) {
                // The agent has not seen the answer to its last APPLY (docs/design/hazards.md, A5).
                let record = Box::new(record.clone());
                let reply = self.answer_again(now, id, record);
                if let Some(LastRun::Given { again, .. }) = self.fleet.get_mut(id).map(|agent| &mut agent.last_run) {
                    *again = true;
                }
                return reply.into();
            }
            self.turn.warn(format!("agent {id} asks for a task although it has {task}: it has lost track of it"));
            self.void_round(now, task, RoundEnd::Lost, Remains::Unknown(now.mono));
        }
        self.fleet.set_slot(id, Slot::Free);
        self.fleet.end_given(id);
        self.void_list(now, id);
        if let Some(task) = self.task_for(now, id) {
            let batch_delay =
                self.tasks.get(task).map(|record| batch_delay::after_queuing(now.wall, record)).unwrap_or_default();
            let reply = self.assign(now, task, id, batch_delay);
            return self.with_list(now, id, reply).into();
        }
        match wait {
            None => reply::no_task().into(),
            Some(wait) => {
                self.fleet.park(id, ticket);
                self.turn.set_timer(Timer::ApplyWait(id.clone()), now.mono + wait);
                Answer::Later
            }
        }
    }

    /// Parks an agent with a free slot until there is a task.
    pub(super) fn park(&mut self, now: Now, ticket: Ticket, id: &AgentId, wait: Duration) {
        match self.apply(now, ticket, id, Some(wait)) {
            Answer::Now(reply) => self.turn.reply(ticket, reply),
            Answer::Later => {}
            Answer::NowAndLater(reply) => unreachable!("an APPLY has one answer: {reply:?}"),
        }
    }

    /// Ends the wait of an agent without a task.
    pub(crate) fn unpark(&mut self, id: &AgentId) {
        if let Slot::Parked(ticket, _) = self.fleet.slot_or_free(id) {
            self.fleet.set_slot(id, Slot::Free);
            self.turn.clear_timer(&Timer::ApplyWait(id.clone()));
            self.turn.reply(ticket, reply::no_task());
        }
    }

    /// The task for an agent that asks for one.
    fn task_for(&mut self, now: Now, id: &AgentId) -> Option<TaskId> {
        self.catch_up(now);
        self.release_due(now);
        if !self.mode.gives_out() {
            return None;
        }
        loop {
            let agent = self.fleet.get(id).filter(|agent| !agent.drained)?;
            let task = self.queue.best_for(id, agent)?;
            if self.stays_idle(id, agent, task) {
                return None;
            }
            if !self.begins_another_round(now, task) && !self.skip_if_stopped(now, task) {
                return Some(task);
            }
        }
    }
}
