//! What people do with tasks, agents and gates beside submitting and killing: retry, hold, drain, gates, and asking why.

use super::Controller;
use super::effect::{Effect, Record};
use super::transition::Again;
use crate::protocol::reply::Reply;
use crate::protocol::request::{self, GateChange};
use crate::protocol::task::Filter;
use crate::protocol::{Code, Refusal};
use crate::types::{
    AgentId, GateSettings, Holdup, Label, Needs, Now, Phase, PhaseTimes, RoundEnd, TaskId, TaskRecord, TaskState,
    ToolName, Wall,
};

impl Controller {
    /// Another round of a task that has finished, with its budgets anew.
    pub(super) fn retry(&mut self, now: Now, task: TaskId) -> Result<Reply, Refusal> {
        let record = self.known(task)?;
        let not_allowed = |why: String| Err(Refusal::new(Code::NotAllowed, why));
        let TaskState::Finished { .. } = record.state else {
            return not_allowed(format!("task {task} has not finished; only what has can be retried"));
        };
        if let Some(at) = record.policy.end_before.filter(|at| *at <= now.wall) {
            return not_allowed(format!("the time for task {task} was over at {at}; submit it anew with a later end"));
        }
        if let Some(parent) = record.parent.and_then(|parent| self.tasks.get(parent))
            && parent.gets_no_children()
        {
            return not_allowed(format!("the parent {} of task {task} is ending or has ended; retry that", parent.id));
        }
        self.check_queue(&record.policy.needs, record.bytes())?;
        self.unkeep(task);
        self.stop_pushing_again(task);
        let times = PhaseTimes::default();
        self.again(now, task, Again { at: now.wall, end: RoundEnd::Retried, times, result: None, not_before: None });
        self.dispatch(now);
        self.inform_if_waiting(task);
        Ok(Reply::Done)
    }

    /// Keeps a task from starting, or lets it. One that runs goes on; its next round is held.
    pub(super) fn hold(&mut self, now: Now, task: TaskId, hold: bool) -> Result<Reply, Refusal> {
        let record = self.known(task)?;
        if record.phase() == Phase::Finished {
            return Err(Refusal::new(Code::NotAllowed, format!("task {task} has finished; there is nothing to hold")));
        }
        if record.held.is_some() != hold {
            self.tasks.hold(now, task, hold.then_some(now.wall));
            self.dispatch(now);
        }
        self.inform_if_waiting(task);
        Ok(Reply::Done)
    }

    /// An agent shall get no more tasks, or may again. It need not be here: an agent that is restarted keeps its name.
    pub(super) fn drain(&mut self, agent: &AgentId, drain: bool) -> Result<Reply, Refusal> {
        if drain && self.agents.drained() >= self.settings.agents_max {
            let max = self.settings.agents_max;
            let message = format!("{max} agents are drained already (AGENTS_MAX); let some of them have tasks again");
            return Err(Refusal::new(Code::LimitReached, message));
        }
        self.agents.set_drained(agent, drain);
        self.tasks.effects.push_back(Effect::Record(Record::Drained(agent.clone(), drain)));
        Ok(Reply::Done)
    }

    /// Changes how a gate is set.
    pub(super) fn set_gate(&mut self, now: Now, name: &Label, change: &GateChange) -> Result<Reply, Refusal> {
        let gates = &self.tasks.queue().gates;
        if !gates.is_known(name) && gates.len() >= self.settings.gates_max {
            let message = format!("{} gates are known already (GATES_MAX)", self.settings.gates_max);
            return Err(Refusal::new(Code::LimitReached, message));
        }
        let mut settings = gates.settings(name);
        change.apply(&mut settings);
        self.put_gate(now, name, settings);
        Ok(Reply::Done)
    }

    /// A run that stands at a gate has found out that nobody can pass it for a while.
    pub(super) fn close_gate(&mut self, now: Now, name: &Label, until: Wall) {
        let mut settings = self.tasks.queue().gates.settings(name);
        if settings.closed_until.is_none_or(|at| at < until) {
            log::info!("gate {name} is closed until {until} by a task that was deferred");
            settings.closed_until = Some(until);
            self.put_gate(now, name, settings);
        }
    }

    fn put_gate(&mut self, now: Now, name: &Label, settings: GateSettings) {
        let record = Record::Gate(name.clone(), settings.clone());
        let queue = self.tasks.queue_mut();
        queue.gates.set(name, settings);
        queue.refresh_gated(now, std::iter::once(name));
        self.tasks.effects.push_back(Effect::Record(record));
    }

    /// How one gate stands.
    pub(super) fn query_gate(&self, now: Now, name: &Label) -> Reply {
        let queue = self.tasks.queue();
        Reply::Gate(queue.gates.view(now, name, queue.waiting_at(name)))
    }

    /// How all gates stand.
    pub(super) fn query_gates(&self, now: Now) -> Reply {
        let queue = self.tasks.queue();
        let view = |name: &Label| queue.gates.view(now, name, queue.waiting_at(name));
        Reply::Gates(queue.gates.names().map(view).collect())
    }

    /// Why a task stands where it does.
    pub(super) fn explain(&self, now: Now, filter: &Filter, found: Option<TaskId>) -> Result<Reply, Refusal> {
        let found = found.and_then(|task| self.tasks.get(task));
        let Some(record) = found else { return Err(request::no_such_task(&filter.shown_id())) };
        let sets = self.tasks.queue().sets();
        let agents_with = |needs: &Needs, tool: Option<&ToolName>| {
            self.agents.any_with(needs, |set| tool.is_none_or(|tool| sets.has(set, tool)))
        };
        let waits = record.phase() == Phase::Waiting;
        let lease = self.expiring.get(&record.id).map(|run| Holdup::Lease(now.wall + run.until.since(now.mono)));
        let holdup = waits.then(|| self.tasks.queue().holdup(now, record, &agents_with)).or(lease);
        Ok(Reply::Explained { record: Box::new(record.clone()), holdup })
    }

    fn known(&self, task: TaskId) -> Result<&TaskRecord, Refusal> {
        self.tasks.get(task).ok_or_else(|| request::no_such_task(&task.to_string()))
    }

    /// A finished task lives again: its family is open again, and not to be forgotten.
    fn unkeep(&mut self, task: TaskId) {
        let root = self.families.root(task);
        self.kept.reopened(task, root);
        self.families.reopened(task);
    }
}
