//! The tools folders of the agents: who has what, what comes and goes, and what must not become of tasks for that.

use std::collections::BTreeSet;
use std::time::Duration;

use api::wire::requests::FromAgent;
use base::json::FieldLimits;
use base::{ExitCode, Now, Phase, RoundEnd, Scalar, TaskId, TaskRecord, ToolName, ToolSet, json};
use engine::Record;

use crate::simulation::dice::{Dice, Nanos, SECOND};
use crate::simulation::event::{Defect, Event};
use crate::simulation::host::{Host, Input};
use crate::simulation::plan::HEARTBEAT;
use crate::simulation::world::{World, note};

/// The tools that agents may have. Tasks may name one more.
pub(crate) const TOOLS: usize = 3;

/// The decisions of a seed about tools.
#[derive(Default)]
pub(crate) struct ToolsPlan {
    /// The tools of each agent at first.
    pub(crate) had: Vec<BTreeSet<usize>>,
    /// Which agents tell what they have.
    pub(crate) telling: Vec<bool>,
    pub(crate) changes: Vec<(Nanos, Change)>,
}

/// A tool comes to an agent, or is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    agent: usize,
    tool: usize,
    comes: bool,
    /// After which the agent notices it.
    notice: Nanos,
}

pub(crate) fn tool_name(tool: usize) -> ToolName {
    ToolName::new(&format!("tool-{tool}")).expect("a name of ours")
}

impl ToolsPlan {
    /// Special agents report their tools: a tool that one of the others lacked once, it lacks for good, and no other agent
    /// may run their tasks.
    pub(crate) fn new(dice: &mut Dice, special: &[bool], calm: Nanos) -> Self {
        let agents = special.len();
        if !dice.chance(500) {
            let all = (0..TOOLS).collect::<BTreeSet<_>>();
            return Self { had: vec![all; agents], telling: vec![true; agents], changes: Vec::new() };
        }
        let share = if dice.chance(500) { 600 } else { 150 };
        let had = (0..agents).map(|_| (0..TOOLS).filter(|_| dice.chance(share)).collect()).collect();
        let telling = special.iter().map(|special| dice.chance(850) || *special).collect();
        let count = if dice.chance(500) { dice.within(1..=12) } else { 0 };
        let changes = (0..count).map(|_| (dice.within(0..=calm), Change::new(dice, agents))).collect();
        Self { had, telling, changes }
    }

    /// The tool of a task: rarely one that is nowhere.
    pub(crate) fn tool(dice: &mut Dice) -> usize {
        if dice.chance(60) { TOOLS } else { dice.index(TOOLS) }
    }
}

impl Change {
    fn new(dice: &mut Dice, agents: usize) -> Self {
        let notice = if dice.chance(500) { dice.skewed(0..=SECOND / 100) } else { dice.within(0..=HEARTBEAT) };
        Self { agent: dice.index(agents), tool: dice.index(TOOLS), comes: dice.chance(500), notice }
    }
}

/// The tools folder of a host.
#[derive(Default)]
pub(crate) struct Shelf {
    /// The present tools, with the time of their arrival.
    since: std::collections::BTreeMap<usize, Nanos>,
    pub(crate) tells: bool,
}

impl Shelf {
    pub(crate) fn new(had: &BTreeSet<usize>, tells: bool) -> Self {
        Self { since: had.iter().map(|tool| (*tool, 0)).collect(), tells }
    }

    pub(crate) fn has(&self, tool: &ToolName) -> bool {
        self.since.keys().any(|had| tool_name(*had) == *tool)
    }

    /// How long after the start of the simulation the controller knows that the host has this tool, if nothing goes wrong: the host
    /// notices it within a heartbeat interval, and its report may wait for the answer to an earlier one.
    fn had_since(&self, tool: &ToolName) -> Option<Duration> {
        let (_, since) = self.since.iter().find(|(had, _)| tool_name(**had) == *tool)?;
        let noticed = if *since == 0 { 0 } else { since + 2 * HEARTBEAT };
        Some(Duration::from_nanos(noticed.max(3 * SECOND / 2)))
    }

    pub(crate) fn list(&self) -> ToolSet {
        ToolSet::only(self.since.keys().map(|tool| tool_name(*tool)).collect())
    }
}

impl World {
    pub(crate) fn begin_changes(&mut self) {
        for (at, change) in self.plan.tools.changes.clone() {
            self.after(at, Event::Tools(change));
        }
    }

    pub(crate) fn change_tools(&mut self, change: Change) {
        note!(self, "{change:?}");
        let since = &mut self.hosts[change.agent].shelf.since;
        if change.comes {
            since.entry(change.tool).or_insert(self.now);
        } else {
            since.remove(&change.tool);
        }
        self.after(change.notice, Event::Noticed { agent: change.agent });
    }

    pub(crate) fn notice_tools(&mut self, agent: usize) {
        self.agent_receives(agent, Input::Tools);
    }

    pub(crate) fn look_at_tools(&mut self, agent: usize) {
        let (now, shelf) = (self.agent_now(agent), &self.hosts[agent].shelf);
        if shelf.tells && self.defect != Some(Defect::UntoldTools) {
            let list = shelf.list();
            self.slot(agent).handle_tools(now, list);
        }
    }

    /// In the end every agent has every tool, so that no task waits for an agent with its tags while another one has its tool.
    pub(crate) fn stock_all(&mut self) {
        for agent in 0..self.hosts.len() {
            for tool in 0..=TOOLS {
                self.change_tools(Change { agent, tool, comes: true, notice: 0 });
            }
        }
    }

    /// The task that is under way and whose run has not found its tool, says this message.
    pub(crate) fn missing_in(&mut self, now: Now, message: &FromAgent) -> Option<TaskId> {
        let FromAgent::Report(report) = message else { return None };
        let result = report.result.as_ref()?;
        let missing = result.exit_code == ExitCode::TOOL_MISSING;
        missing.then(|| self.lookup(now, report.task)).flatten().filter(|task| task.phase() < Phase::Finished)?;
        Some(report.task)
    }

    /// An agent has not found the tool of a task. That must not be its end while an agent that is here has the tool.
    pub(crate) fn check_tool(&mut self, now: Now, task: TaskId) {
        let Some(record) = self.lookup(now, task) else { return };
        let ended = record.phase() == Phase::Finished && record.kill.is_none();
        if !ended || record.result().is_none_or(|result| result.exit_code != ExitCode::TOOL_MISSING) {
            return;
        }
        let answer = self.ask_directly(br#"{"__TYPE__":"AGENT/DETAILS"}"#);
        let text = String::from_utf8(answer).expect("text");
        let tool = &record.tool;
        for (index, host) in self.hosts.iter().enumerate().filter(|(_, host)| host.slot.is_some()) {
            let Some(known) = row(&text, host.name.as_str()) else { continue };
            let told = |name: &str| known.get(name).and_then(Scalar::as_text).unwrap_or_default().to_owned();
            if told("__AGENT_STATUS__") == "LOST" {
                continue;
            }
            let set = ToolSet::parse(&told("__TOOLS__")).expect("a list of ours");
            assert!(!set.has(tool), "{} ends without {tool}, which {} has, as it has told", record.id, host.name);
            let had_in_time =
                host.shelf.had_since(tool).is_some_and(|since| Self::first_wall() + since <= record.submitted_at);
            let peaceful = self.plan.is_peaceful() && host.shelf.tells;
            assert!(!(had_in_time && peaceful), "{} ends without {tool}, which agent {index} has for long", record.id);
        }
    }

    /// A submit was refused with this sentence, because no agent has its tool, or that of a step. That must not be while an agent
    /// has had it for long.
    pub(crate) fn check_missing_tool(&self, said: &str, asked_at: Nanos) {
        let tool = (0..=TOOLS).map(tool_name).find(|tool| said.contains(&format!("the tool {tool};")));
        let tool = tool.unwrap_or_else(|| panic!("no tool is named: {said}"));
        for host in self.hosts.iter().filter(|host| self.plan.is_peaceful() && host.shelf.tells) {
            let had_in_time = host.shelf.had_since(&tool).is_some_and(|since| since <= Duration::from_nanos(asked_at));
            assert!(!had_in_time, "{said}, but {} has it for long", host.name);
        }
    }
}

/// The part of AGENT/DETAILS about one agent.
fn row(text: &str, agent: &str) -> Option<base::Fields> {
    let start = text.find(&format!("\"{agent}\":{{"))? + agent.len() + 3;
    let end = start + text[start..].find('}')? + 1;
    json::parse(&text.as_bytes()[start..end], &FieldLimits::TRUSTED).ok()
}

/// How a task met the lack of its tool, for the summary.
pub(crate) fn met(record: &TaskRecord) -> Vec<&'static str> {
    let mut met = Vec::new();
    if record.past.iter().any(|past| past.end == RoundEnd::NoTool) {
        met.push("given back");
    }
    if record.result().is_some_and(|result| result.exit_code == ExitCode::TOOL_MISSING) {
        met.push("no tool");
    }
    met
}

/// Whether the agent that this task is with has had its tool for so long that it has told of it.
pub(crate) fn has_its_tool(hosts: &[Host], now: Nanos, record: &Record) -> bool {
    let Record::Put(record) = record else { return false };
    let agent = record.assignment().map(|run| &run.agent);
    let with = hosts.iter().find(|host| Some(&host.name) == agent);
    let had = with.and_then(|host| host.shelf.since.iter().find(|(had, _)| tool_name(**had) == record.tool));
    had.is_some_and(|(_, since)| since + 2 * HEARTBEAT <= now)
}
