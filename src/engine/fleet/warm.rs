//! The tools that stay at agents: which agent has which tool warm, and how long an idle agent leaves a task to such an agent.
//!
//! An agent says with each heartbeat which tools stay at it. In between, the result of a run tells: its tool is warm, or has ended with
//! the run. An agent that is lost or has left has none.
//!
//! | a task whose tool stays | goes to |
//! |---|---|
//! | agents wait that may run it, and one of them has the tool warm | that one ([`super::parked`]) |
//! | no such agent waits, but at least as many busy agents have it warm as such tasks wait | one of those, unless another takes it after `STAY_WAIT_MAX` |
//!
//! An agent either takes its best task or stays idle. It never takes a later task and leaves an earlier one, which might then find
//! both agents busy. It stays idle only if it would leave every task that it could take, and none of them has waited for longer
//! than `STAY_WAIT_MAX` since its submit. So the order of the tasks is that of the queue. No task waits for a warm tool beyond that
//! time while an agent that could run it is idle, whatever becomes of the agent that has the tool.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::Fleet;
use super::agent::{Agent, Slot};
use crate::Controller;
use crate::turn::effect::Timer;
use base::{AgentId, Mono, Now, PhaseTimes, RunResult, TaskId, ToolName};

/// Maximum number of tools that count as warm at one agent: each is a process in its memory.
const TOOLS_MAX: usize = 64;

/// Submits within `STAY_WAIT_MAX` divided by this count as simultaneous, so that many of them cost few deadlines.
const SHARE: u32 = 16;

#[derive(Debug, Default)]
pub(crate) struct Warm {
    /// The tools that stay at an agent that is not lost.
    tools: BTreeMap<ToolName, WarmTool>,
    /// The first task of each group of simultaneous submits, oldest group first. A task is young if it is not older than the very
    /// first of these.
    young: VecDeque<(Mono, TaskId)>,
}

#[derive(Debug, Default)]
struct WarmTool {
    agents: BTreeSet<AgentId>,
    /// Moving average of the durations of runs that found the tool running.
    usual: Option<Duration>,
}

impl Fleet {
    /// Sets the tools that stay at an agent.
    pub(crate) fn set_warm(&mut self, id: &AgentId, mut warm: BTreeSet<ToolName>) {
        while warm.len() > TOOLS_MAX {
            warm.pop_last();
        }
        let Some(agent) = self.agents.get(id).filter(|agent| agent.about.warm != warm) else { return };
        for tool in agent.about.warm.difference(&warm) {
            let Some(known) = self.warm.tools.get_mut(tool) else { continue };
            known.agents.remove(id);
            if known.agents.is_empty() {
                self.warm.tools.remove(tool);
            }
        }
        for tool in &warm {
            self.warm.tools.entry(tool.clone()).or_default().agents.insert(id.clone());
        }
        self.relist(id, |agent| agent.about.warm = warm);
    }

    /// Whether an agent has this tool warm.
    pub(crate) fn stays(&self, tool: &ToolName) -> bool {
        self.warm.tools.contains_key(tool)
    }

    /// How long a run of this tool usually takes at an agent that has it warm.
    pub(crate) fn usual_warm_run(&self, id: &AgentId, tool: &ToolName) -> Option<Duration> {
        self.warm.tools.get(tool).filter(|known| known.agents.contains(id))?.usual
    }

    pub(crate) fn check_warm(&self) {
        let told = self.agents.iter().map(|(id, agent)| (id, &agent.about.warm));
        let told: BTreeSet<_> = told.flat_map(|(id, tools)| tools.iter().map(move |tool| (tool, id))).collect();
        let known = self.warm.tools.iter().flat_map(|(tool, known)| known.agents.iter().map(move |id| (tool, id)));
        assert!(known.eq(told.iter().copied()), "the tools that stay have drifted");
        let waits = |(_, id): &(&ToolName, &AgentId)| self.get(id).is_some_and(|agent| agent.parked_as().is_some());
        let waiting: BTreeSet<_> = self.parked.all_warm().collect();
        assert!(told.into_iter().filter(waits).eq(waiting), "the list of parked agents with warm tools has drifted");
    }
}

impl Controller {
    /// A run has ended. Its tool stays at the agent, unless it ended with the run.
    pub(crate) fn learn_warm(&mut self, task: TaskId, times: PhaseTimes, result: &RunResult) {
        let (Some(was_warm), Some(record)) = (result.warm, self.tasks.get(task)) else { return };
        let Some(run) = record.assignment() else { return };
        let (id, tool, began) = (run.agent.clone(), record.tool.clone(), run.times.run.or(times.run));
        let has_ended = record.kill.is_some() || result.exit_code.0 < 0;
        let Some(mut warm) = self.fleet.get(&id).map(|agent| agent.about.warm.clone()) else { return };
        let is_news = if has_ended { warm.remove(&tool) } else { warm.insert(tool.clone()) };
        if is_news {
            self.fleet.set_warm(&id, warm);
        }
        let ran = began.zip(times.end).map(|(began, end)| end.since(began)).filter(|_| was_warm && !has_ended);
        if let (Some(ran), Some(known)) = (ran, self.fleet.warm.tools.get_mut(&tool)) {
            known.usual = Some(known.usual.map_or(ran, |usual| (usual * 3 + ran) / 4));
        }
    }

    /// A task is accepted. It is young for a while if its tool stays somewhere.
    pub(crate) fn note_young(&mut self, now: Now, task: TaskId, tool: &ToolName) {
        let (max, warm) = (self.settings.stay_wait_max, &mut self.fleet.warm);
        let is_one_of_many = warm.young.back().is_some_and(|(at, _)| now.mono.since(*at) < max / SHARE);
        if !max.is_zero() && !is_one_of_many && warm.tools.contains_key(tool) {
            warm.young.push_back((now.mono, task));
            self.turn.set_timer_earlier(Timer::Young, now.mono + max);
        }
    }

    /// The oldest of the young tasks stop being young. The end of the event hands them out.
    pub(crate) fn end_youth(&mut self, now: Now) {
        let max = self.settings.stay_wait_max;
        while self.fleet.warm.young.pop_front_if(|(at, _)| *at + max <= now.mono).is_some() {}
        if let Some((at, _)) = self.fleet.warm.young.front() {
            self.turn.set_timer(Timer::Young, *at + max);
        }
        if self.queue.len() > 0 {
            self.turn.inform();
        }
    }

    /// Checks that a task is left to another agent for a bounded time only.
    pub(crate) fn check_young(&self) {
        assert!(self.fleet.warm.young.is_empty() || self.turn.has_timer(&Timer::Young), "a task is young for ever");
    }

    /// Whether this agent stays idle although it could take tasks, of which `first` is the best one.
    pub(crate) fn stays_idle(&self, id: &AgentId, agent: &Agent, first: TaskId) -> bool {
        let is_cold = |task| self.tasks.get(task).is_some_and(|record| !agent.about.warm.contains(&record.tool));
        let is_left = |task| is_cold(task) && self.is_left(task);
        let mut others = agent.tools.into_iter().flat_map(|tools| self.queue.open_heads(tools.set));
        is_left(first) && others.all(|(task, needs)| !agent.can_run(id, needs, |_| true) || is_left(task))
    }

    /// Whether an idle agent without the tool of this task leaves it to a busy one that has the tool warm. Each of those is left
    /// one task, so that any further task starts the tool elsewhere at once.
    pub(crate) fn is_left(&self, task: TaskId) -> bool {
        let Some((_, first_young)) = self.fleet.warm.young.front() else { return false };
        let Some(record) = self.tasks.get(task).filter(|record| record.id >= *first_young) else { return false };
        let Some(known) = self.fleet.warm.tools.get(&record.tool) else { return false };
        let needs = &*record.needs();
        let has = |set| self.queue.sets.has(set, &record.tool);
        let comes = |id: &AgentId| {
            let agent = self.fleet.get(id).filter(|agent| matches!(agent.slot, Slot::Busy(_) | Slot::Free));
            agent.is_some_and(|agent| !agent.drained && agent.can_run(id, needs, has))
        };
        let Some((count, oldest)) = self.queue.ready_alike(needs, &record.tool) else { return false };
        // A task of a lower priority may have waited longer behind it.
        oldest >= *first_young && known.agents.iter().filter(|id| comes(id)).take(count).count() == count
    }
}
