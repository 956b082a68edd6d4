//! Which agent has which tools, and what becomes of a task whose agent has not found its tool.
//!
//! An agent that tells ([`crate::engine::slot`]) says it with its first heartbeat and after each change; one that does not is
//! taken to have every tool.
//!
//! | a task whose tool | is handed to | and if that agent reports -129 |
//! |---|---|---|
//! | an agent that is here has | such an agent; it waits while all of them are busy | it waits for the others in its next round |
//! | no agent that is here has | any agent, when all have looked for the tool anew ([`super::looks`]) | it ends with -129, unless one has the tool by then |
//!
//! | an agent | has, as far as is known here |
//! |---|---|
//! | has just been heard for the first time | every tool, or what its heartbeat tells |
//! | tells another list | that list |
//! | reports -129 | that tool no more, until it tells a list again |
//! | reports that a run has started | also the tool of that run |
//! | is lost, or has left | nothing that counts; a lost one that is back has what it had |
//!
//! So no task is given twice to an agent that lacks its tool while another one has it, unless that agent tells of it again; and
//! after [`TaskRecord::PAST_ROUNDS_MAX`] rounds of that kind it ends. No budget of the task is spent on them. If the last agent that had the tool reports -129, the others
//! look anew before the task ends: what they have may be news.

use std::sync::Arc;

use super::Controller;
use super::agent::{Slot, Tools};
use super::report::reached;
use super::transition::Again;
use crate::protocol::request::{FromAgent, Report};
use crate::types::{AgentId, ExitCode, Now, Phase, RoundEnd, RunResult, TaskId, TaskRecord, ToolSet};

impl Controller {
    /// Takes in what an agent tells of its tools; the agent is here.
    pub(super) fn hear_tools(&mut self, now: Now, id: &AgentId, message: &FromAgent) {
        let known = self.agents.get(id).and_then(|agent| agent.tools);
        let told = if let FromAgent::Heartbeat(heartbeat) = message { heartbeat.tools.as_ref() } else { None };
        let news = told.and_then(|told| Some((told.generation, told.set.as_ref()?)));
        // One that was late on its way is old.
        let is_newer =
            |generation: Option<u64>| generation.is_none() || generation > known.and_then(|known| known.generation);
        match (news.filter(|(generation, _)| is_newer(*generation)), known) {
            (Some((generation, set)), _) => self.set_tools(now, id, set.clone(), generation),
            (None, None) => self.set_tools(now, id, ToolSet::every(), None),
            (None, Some(_)) => {}
        }
    }

    /// An agent that a former controller knew has not been heard: whatever it has, no task ends for the lack of it.
    pub(super) fn expect_every_tool(&mut self, now: Now, id: &AgentId) {
        self.set_tools(now, id, ToolSet::every(), None);
    }

    /// The number of the list that is known of an agent, for its answer.
    pub(super) fn known_tools(&self, id: &AgentId) -> Option<u64> {
        self.agents.get(id)?.tools?.generation
    }

    fn set_tools(&mut self, now: Now, id: &AgentId, set: ToolSet, generation: Option<u64>) {
        let before = self.agents.get(id).and_then(|agent| agent.tools);
        let queue = self.tasks.queue_mut();
        let set = queue.sets_mut().hold(set);
        // The new one first: the tools in both are there all the time.
        queue.enter(now, set);
        self.agents.set_tools(id, Tools { set, generation });
        if let Some(before) = before {
            self.tasks.queue_mut().leave(now, before.set);
            self.tasks.queue_mut().sets_mut().release(before.set);
        }
    }

    /// An agent that was lost is back, with what it had.
    pub(super) fn tools_are_back(&mut self, now: Now, id: &AgentId) {
        if let Some(tools) = self.agents.get(id).and_then(|agent| agent.tools) {
            self.tasks.queue_mut().enter(now, tools.set);
        }
    }

    /// An agent is lost: what it has is of no use.
    pub(super) fn tools_are_lost(&mut self, now: Now, id: &AgentId) {
        let Some(agent) = self.agents.get(id).filter(|agent| agent.slot != Slot::Lost) else { return };
        if let Some(tools) = agent.tools {
            self.tasks.queue_mut().leave(now, tools.set);
        }
        self.forget_look(id);
    }

    /// An agent leaves for good.
    pub(super) fn forget_tools(&mut self, now: Now, id: &AgentId) {
        self.tools_are_lost(now, id);
        if let Some(tools) = self.agents.get(id).and_then(|agent| agent.tools) {
            self.tasks.queue_mut().sets_mut().release(tools.set);
        }
    }

    /// Notes that the agent of a run has its tool, or lacks it.
    fn note_tool(&mut self, now: Now, task: TaskId, has: bool) {
        let Some(record) = self.tasks.get(task) else { return };
        let Some(id) = record.assignment().map(|run| &run.agent) else { return };
        let Some(tools) = self.agents.get(id).and_then(|agent| agent.tools) else { return };
        let sets = self.tasks.queue().sets();
        if sets.has(tools.set, &record.tool) == has {
            return;
        }
        let Some(set) = sets.get(tools.set).map(|set| set.changed(&record.tool, has)) else { return };
        let id = id.clone();
        self.set_tools(now, &id, set, tools.generation);
    }

    /// The run of a task has started: its agent has the tool, whatever it has told.
    pub(super) fn tool_was_found(&mut self, now: Now, task: TaskId) {
        self.note_tool(now, task, true);
    }

    /// Whether a report, of the present round by its agent, says that the tool is missing there although another agent has it, or
    /// may have it: then the task waits for that one, as soon as this one is done with it.
    pub(super) fn gives_back(&mut self, now: Now, report: &Report) -> bool {
        let missing = |result: &RunResult| result.exit_code == ExitCode::TOOL_MISSING;
        let Some(record) = self.tasks.get(report.task) else { return false };
        if record.phase() >= Phase::Ended || !report.result.as_ref().is_some_and(missing) {
            return false;
        }
        let is_killed = record.kill.is_some();
        // An agent may tell again and again what it does not find.
        let tries = record.past.iter().filter(|past| past.end == RoundEnd::NoTool).count();
        let is_tried = tries >= TaskRecord::PAST_ROUNDS_MAX;
        let tool = record.tool.clone();
        let others_look = record.assignment().is_some_and(|run| self.others_look(&run.agent));
        self.note_tool(now, report.task, false);
        let is_elsewhere = others_look || self.tasks.queue().sets().with(&tool).next().is_some();
        if is_killed || is_tried || !is_elsewhere {
            return false;
        }
        if report.phase == Phase::Finished {
            let (end, times) = (RoundEnd::NoTool, reached(now, report.times, Phase::Finished));
            let result = report.result.clone().map(Arc::new);
            self.again(now, report.task, Again { at: now.wall, end, times, result, not_before: None });
        }
        true
    }

    /// Whether other agents than this one, which has not found its tool, may find it if they look for it anew.
    fn others_look(&self, id: &AgentId) -> bool {
        let is_last_resort = self.agents.get(id).is_some_and(|agent| agent.is_last_resort);
        !is_last_resort && self.agents.that_look().any(|other| other != id)
    }
}
