//! TASK/EXPLAIN: why a task is in its present state.

use super::{Answer, Controller, Filter, Goal, Refusal, Reply, Slot, Ticket};
use crate::fleet::agent::{Agent, LastRun};
use base::{AgentId, BlockedAgent, Holdup, Now, Phase, Requirements, TaskId, TaskRecord, ToolName};

/// Maximum number of tasks before a waiting one that are counted. A reader wants the order of magnitude, not the exact number.
const BEFORE_MAX: usize = 10_000;

/// Maximum number of drained agents that a sentence names.
const DRAINED_SHOWN_MAX: usize = 10;

impl Controller {
    /// Searches the newest task with an id or a given id.
    pub(super) fn search_to_explain(&mut self, now: Now, ticket: Ticket, filter: Filter) -> Answer {
        if filter.task_id().is_none() && filter.given_id().is_none() {
            return self.explain(now, &filter, None).unwrap_or_else(Reply::Refused).into();
        }
        self.search(now, ticket, filter, Goal::Explain { found: None })
    }

    /// Explains the present state of a task.
    pub(crate) fn explain(&self, now: Now, filter: &Filter, found: Option<TaskId>) -> Result<Reply, Refusal> {
        let found = found.and_then(|task| self.tasks.get(task));
        let Some(record) = found else { return Err(Refusal::no_such_task(filter.shown_id())) };
        let holdup = self.holdup(now, record, BEFORE_MAX);
        // A task without a run, or whose agent has gone, has no version of its own to compare.
        let agent = record.last_run().and_then(|run| self.fleet.get(&run.agent));
        let own = agent.and_then(|agent| agent.about.own_versions.as_ref()?.get(&record.tool).copied());
        let own = own.filter(|own| record.pin.is_some_and(|pin| pin != *own));
        Ok(Reply::Explained { record: Box::new(record.clone()), holdup, own })
    }

    /// The reason that holds up a task that waits, or that its agent does not run yet. At most `before_max` tasks before it are
    /// counted.
    pub(super) fn holdup(&self, now: Now, record: &TaskRecord, before_max: usize) -> Option<Holdup> {
        let sets = &self.queue.sets;
        let agents_with = |needs: &Requirements, tool: Option<&ToolName>| {
            self.fleet.any_with(needs, |set| tool.is_none_or(|tool| sets.has(set, tool)))
        };
        let waits = record.phase() == Phase::Waiting;
        let lease = self.fleet.expiring(record.id).map(|run| Holdup::Lease(now.wall + run.until.since(now.mono)));
        let fetches = || {
            let run = record.assignment().filter(|_| record.phase() < Phase::Running)?;
            let fetching = self.archives.reads.of(&run.agent).filter(|fetching| Some(fetching.digest) == record.pin)?;
            Some(Holdup::Fetching { digest: fetching.digest, offset: fetching.offset, total: fetching.total })
        };
        let of_children = || {
            let agents = (record.phase() == Phase::Running).then(|| self.held_for_child(now, record.id)).flatten()?;
            Some(Holdup::HeldSlots { agents, is_parent: true })
        };
        let of_store =
            || self.doubt().filter(|_| record.phase() <= Phase::Dispatched).map(|why| Holdup::Store(why.to_owned()));
        let mut holdup = waits
            .then(|| self.queue.holdup(now, record, &agents_with, before_max))
            .or(lease)
            .or_else(of_store)
            .or_else(fetches)
            .or_else(of_children);
        match &mut holdup {
            Some(found) if waits && self.mode.outdated().is_some() => {
                *found = Holdup::Outdated(self.mode.outdated().unwrap_or_default().to_owned());
            }
            Some(Holdup::NotBefore(at)) if self.claims_until(record) == Some(*at) => holdup = Some(Holdup::Claims(*at)),
            Some(found @ Holdup::Agents { .. }) if let Some(store) = of_store() => *found = store,
            Some(found @ Holdup::Agents { .. }) if let Some(paused) = self.mode.paused => {
                *found = Holdup::Paused(paused.until);
            }
            Some(found @ (Holdup::NoSuchAgent | Holdup::OnlySimpleAgents | Holdup::ToolElsewhere))
                if record.unfit_rounds().next().is_some() && agents_with(&record.policy.needs, Some(&record.tool)) =>
            {
                *found = Holdup::Unfit(self.drained_for(record));
            }
            Some(found @ (Holdup::NoSuchAgent | Holdup::NoTool | Holdup::OnlySimpleAgents | Holdup::ToolElsewhere))
                if let agents = self.drained_for(record)
                    && !agents.is_empty() =>
            {
                *found = Holdup::Drained(agents);
            }
            Some(found @ Holdup::Agents { .. }) if let Some(agents) = self.held_agents(now, record) => {
                *found = Holdup::HeldSlots { agents, is_parent: false };
            }
            Some(Holdup::Agents { is_one_idle, blocked, .. }) => {
                let needs = record.needs();
                let servers = || self.fleet.all_with(&needs, |set| sets.has(set, &record.tool));
                *is_one_idle = servers().any(|(_, agent)| agent.slot == Slot::Free);
                *blocked = servers().find_map(|(id, agent)| self.blocked_agent(id, agent)).map(Box::new);
            }
            Some(_) | None => {}
        }
        holdup.map(|found| self.silent_holdup(now, record, found))
    }

    /// Some of the agents that could run a task, if all of these are drained.
    fn drained_for(&self, record: &TaskRecord) -> Vec<AgentId> {
        let (needs, sets) = (record.needs(), &self.queue.sets);
        let all = self.fleet.all_drained_or_with(&needs, |set| sets.has(set, &record.tool));
        all.map(|(id, _)| id.clone()).take(DRAINED_SHOWN_MAX).collect()
    }

    /// The reason that keeps an agent busy after the end of its run, as far as the agent has reported it.
    fn blocked_agent(&self, id: &AgentId, agent: &Agent) -> Option<BlockedAgent> {
        let (task, reason) = match (agent.slot, &agent.last_run) {
            (Slot::Busy(task), _) => {
                let record = self.tasks.get(task).filter(|record| record.phase() == Phase::Ended)?;
                (task, &record.result()?.error)
            }
            (Slot::Stray, LastRun::Remains(task, reason)) => (*task, reason),
            (Slot::Free | Slot::Parked(..) | Slot::Stray | Slot::Lost, _) => return None,
        };
        (!reason.is_empty()).then(|| BlockedAgent { agent: id.clone(), task, reason: reason.clone() })
    }
}
