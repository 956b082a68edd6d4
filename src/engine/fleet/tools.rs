//! The tools of each agent, and the fate of a task whose agent has not found its tool.
//!
//! Some agents report their tools (`agent::slot`), with the first heartbeat and after each change. An agent that
//! does not is assumed to have every tool.
//!
//! An agent that fetches tools counts as one that has each tool that the controller holds ([`crate::archives::catalog`]).
//!
//! | the tool of a task | the task is handed to | if that agent reports -129 |
//! |---|---|---|
//! | a present agent has it | such an agent; it waits while all of them are busy | it waits for the others in its next round |
//! | no present agent has it | any agent, which looks into its folder | it ends with -129, unless an agent has the tool by then |
//!
//! | an agent that | has, as far as the controller knows |
//! |---|---|
//! | has only sent its first message | every tool, or the tools in its heartbeat |
//! | reports another list | that list |
//! | reports -129 | not that tool, until it reports a list again |
//! | reports that a run has started | also the tool of that run |
//! | may not have commands, by its door | neither commands nor fetched programs |
//! | is lost, or has left | no tool; a lost one that comes back has its former tools |
//!
//! So no task is given twice to an agent that lacks its tool while another one has it, unless that agent reports the tool
//! again; and after [`TaskRecord::PAST_ROUNDS_MAX`] rounds of that kind it ends. These rounds draw on no budget of the
//! task.
//!
//! A submit with `__REQUIRE_TOOL__` true, and every submit of a graph, is refused while its tool is certain to be nowhere. The
//! refusal suggests the name that was probably meant. Any other submit is accepted, and its task ends with -129.

use std::sync::Arc;

use super::agent::{Slot, Tools};
use crate::Controller;
use crate::tasks::transition::Again;
use api::wire::requests::report::Report;
use api::wire::requests::{FromAgent, Sender};
use api::wire::{Code, Refusal};
use base::journal::Severity;
use base::{
    AgentId, ExitCode, IncidentKind, Now, Phase, RoundEnd, RunResult, Session, TaskId, TaskRecord, ToolName, ToolSet,
    nearest,
};

impl Controller {
    /// Handles an agent's report of its tools; the agent is present.
    pub(crate) fn hear_tools(&mut self, now: Now, sender: &Sender, message: &FromAgent) {
        let id = &sender.agent;
        let known = self.fleet.get(id).and_then(|agent| agent.tools);
        let told = if let FromAgent::Heartbeat(heartbeat) = message { heartbeat.tools.as_ref() } else { None };
        let news = told.and_then(|told| Some((told.generation, told.set.as_ref()?)));
        // A report that was delayed on its way is outdated. Each process counts its lists from 1.
        let newest = known.and_then(|known| known.generation).filter(|(session, _)| *session == sender.session);
        let is_newer = |generation: Option<u64>| generation.is_none() || generation > newest.map(|(_, number)| number);
        match (news.filter(|(generation, _)| is_newer(*generation)), known) {
            (Some((generation, set)), _) => self.give_tools(now, sender, set.clone(), generation),
            (None, None) => self.set_tools(now, id, ToolSet::every(), None),
            (None, Some(tools)) => {
                let set = self.queue.sets.get(tools.set).filter(|set| set.has_text_for_a_shell()).cloned();
                if let Some(set) = set.filter(|_| !sender.may_have_commands) {
                    self.give_tools(now, sender, (*set).clone(), tools.generation.map(|(_, number)| number));
                }
            }
        }
    }

    /// Sets the tools of an agent, without commands if it may not have any. In that case the number of its list is not kept. So the
    /// agent repeats the list, and may get commands when it connects another way.
    fn give_tools(&mut self, now: Now, sender: &Sender, set: ToolSet, generation: Option<u64>) {
        let Sender { agent, session, may_have_commands } = sender;
        if *may_have_commands || !set.has_text_for_a_shell() {
            return self.set_tools(now, agent, set, generation.map(|number| (*session, number)));
        }
        self.set_tools(now, agent, set.without_text_for_a_shell(), None);
        if self.fleet.note_denied(agent, *session) {
            let line = format!(
                "agent {agent} gets no commands: it belongs to another user of this machine, whom ALLOW_COMMANDS excludes"
            );
            self.turn.incident(Severity::Warn, IncidentKind::Refused, line);
        }
    }

    /// An agent of an earlier controller has sent no message yet: no task ends for lack of a tool that it may have.
    pub(crate) fn expect_every_tool(&mut self, now: Now, id: &AgentId) {
        self.set_tools(now, id, ToolSet::every(), None);
    }

    /// The number of the known list of an agent, for the answer to it.
    pub(crate) fn known_tools(&self, id: &AgentId) -> Option<u64> {
        self.fleet.get(id)?.tools?.generation.map(|(_, number)| number)
    }

    fn set_tools(&mut self, now: Now, id: &AgentId, set: ToolSet, generation: Option<(Session, u64)>) {
        let before = self.fleet.get(id).and_then(|agent| agent.tools);
        let queue = &mut self.queue;
        let set = queue.sets.hold(set);
        // The new set comes first: tools in both sets stay available throughout.
        queue.enter_set(now, set);
        self.fleet.relist(id, |agent| agent.tools = Some(Tools { set, generation }));
        if let Some(before) = before {
            self.queue.leave_set(now, before.set);
            self.queue.sets.release(before.set);
        }
    }

    /// A lost agent is back, with its former tools.
    pub(crate) fn tools_are_back(&mut self, now: Now, id: &AgentId) {
        if let Some(tools) = self.fleet.get(id).and_then(|agent| agent.tools) {
            self.queue.enter_set(now, tools.set);
        }
    }

    /// An agent is lost: its tools do not count.
    pub(crate) fn tools_are_lost(&mut self, now: Now, id: &AgentId) {
        let Some(agent) = self.fleet.get(id).filter(|agent| agent.slot != Slot::Lost) else { return };
        if let Some(tools) = agent.tools {
            self.queue.leave_set(now, tools.set);
        }
    }

    /// An agent has left for good.
    pub(crate) fn forget_tools(&mut self, now: Now, id: &AgentId) {
        self.tools_are_lost(now, id);
        if let Some(tools) = self.fleet.get(id).and_then(|agent| agent.tools) {
            self.queue.sets.release(tools.set);
        }
    }

    /// Records that the agent of a run has its tool, or lacks it.
    fn note_tool(&mut self, now: Now, task: TaskId, has: bool) {
        let Some(record) = self.tasks.get(task) else { return };
        let Some(id) = record.assignment().map(|run| &run.agent) else { return };
        let Some(tools) = self.fleet.get(id).and_then(|agent| agent.tools) else { return };
        let sets = &self.queue.sets;
        if sets.has_own(tools.set, &record.tool) == has {
            return;
        }
        let Some(set) = sets.get(tools.set).map(|set| set.changed(&record.tool, has)) else { return };
        let id = id.clone();
        self.set_tools(now, &id, set, tools.generation);
    }

    /// The run of a task has started: its agent has the tool, whatever it has reported.
    pub(crate) fn tool_was_found(&mut self, now: Now, task: TaskId) {
        let Some(record) = self.tasks.get(task) else { return };
        let Some(run) = record.assignment() else { return };
        self.archives.reads.end(&run.agent);
        // It may have been fetched.
        if record.pin.is_none() {
            self.note_tool(now, task, true);
        }
    }

    /// Whether a report, of the present round by its agent, says that the tool is missing there although another agent has
    /// it or may have it. The task then waits for that agent, as soon as this one has finished with it.
    pub(crate) fn gives_back(&mut self, now: Now, report: &Report) -> bool {
        let missing = |result: &RunResult| result.exit_code == ExitCode::TOOL_MISSING;
        let Some(record) = self.tasks.get(report.task) else { return false };
        if record.phase() >= Phase::Ended || !report.result.as_ref().is_some_and(missing) {
            return false;
        }
        let is_killed = record.kill.is_some();
        // An agent may keep reporting a tool that it then does not find.
        let tries = record.past.iter().filter(|past| past.end == RoundEnd::NoTool).count();
        let is_tried = tries >= TaskRecord::PAST_ROUNDS_MAX;
        let tool = record.tool.clone();
        self.note_tool(now, report.task, false);
        let is_elsewhere = self.queue.sets.with(&tool).next().is_some();
        if is_killed || is_tried || !is_elsewhere {
            return false;
        }
        self.go_elsewhere(now, report, RoundEnd::NoTool);
        true
    }

    /// Ends a round that draws on no budget, for another agent, when the agent of the report has finished with it.
    pub(crate) fn go_elsewhere(&mut self, now: Now, report: &Report, end: RoundEnd) {
        if report.phase == Phase::Finished {
            let times = report.times.up_to(Phase::Finished, now.wall);
            let result = report.result.clone().map(Arc::new);
            self.again(now, report.task, Again { at: now.wall, end, times, result, not_before: None });
        }
    }

    /// Refuses a submit that requires its tool, if the tool is certain to be nowhere: the controller does not hold it, at least one
    /// agent is present, and each present agent reports its tools without this one. `place` names the step. `subject` is a graph or
    /// a task, which the sentence says to submit again.
    pub(crate) fn check_tool(&self, tool: &ToolName, place: &str, subject: &str) -> Result<(), Refusal> {
        let sets = &self.queue.sets;
        if !tool.is_archive() || sets.is_known(tool) || !sets.are_all_told() {
            return Ok(());
        }
        let hint = match nearest(tool.as_str(), sets.names().map(ToolName::as_str)) {
            Some(nearest) => format!("did you mean {nearest}? If not, send"),
            None => "send".to_owned(),
        };
        let message = format!(
            "{place}no agent has the tool {tool}; {hint} it with `llts tool push FOLDER`, and submit the {subject} again"
        );
        Err(Refusal::new(Code::BadOperation, message))
    }
}
