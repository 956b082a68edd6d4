//! The problems that an operator has to look at, because they do not end by themselves, the gravest first. `llts status` and both
//! screens show them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Controller, Slot, Wait};
use api::wire::brief;
use api::wire::requests::rows::TaskRow;
use api::wire::requests::status::Problem;
use base::{GateVerdict, Holdup, IncidentKind, Now, TaskId, UNTIL_OPENED, Wall, pattern};

/// How long an incident is a problem.
const INCIDENT_AGE_MAX: Duration = Duration::from_secs(600);

/// An agent that is lost this often within that time is a problem of its own.
const LOSSES_MIN: usize = 3;

/// Maximum number of kinds of incidents that are shown.
const INCIDENTS_MAX: usize = 5;

/// Maximum number of lost agents and of reasons to wait that are named one by one.
const NAMED_MAX: usize = 3;

/// A run that takes this many times as long as usual, and at least `STUCK_MIN`, may be stuck.
const STUCK_FACTOR: u32 = 10;
const STUCK_MIN: Duration = Duration::from_secs(10);

/// The command that ends a wait that time alone does not end.
pub(super) fn remedy(holdup: &Holdup, task: TaskId) -> Option<String> {
    match holdup {
        Holdup::Gate(gate, GateVerdict::Closed(UNTIL_OPENED)) => Some(format!("llts resume --gate {gate}")),
        Holdup::Drained(agents) => agents.first().map(|agent| format!("llts resume --agent {agent}")),
        Holdup::NoSuchAgent
        | Holdup::OnlySimpleAgents
        | Holdup::NoTool
        | Holdup::ToolElsewhere
        | Holdup::Unfit(_)
        | Holdup::HeldSlots { .. } => Some(format!("llts explain {}", brief::short(task))),
        Holdup::Gate(..)
        | Holdup::Paused(_)
        | Holdup::Held(_)
        | Holdup::After(..)
        | Holdup::NotBefore(_)
        | Holdup::Lease(_)
        | Holdup::Claims(_)
        | Holdup::Outdated(_)
        | Holdup::Store(_)
        | Holdup::Silent { .. }
        | Holdup::Fetching { .. }
        | Holdup::Agents { .. } => None,
    }
}

/// Whether a person may have to do something about an incident.
const fn needs_attention(kind: IncidentKind) -> bool {
    match kind {
        IncidentKind::Refused
        | IncidentKind::PushDropped
        | IncidentKind::HistoryLag
        | IncidentKind::RestartFailed
        | IncidentKind::CutOff
        | IncidentKind::StoreFromElsewhere
        // It may come and go with every request.
        | IncidentKind::StoreTrouble
        | IncidentKind::Crashed
        | IncidentKind::AgentDisk => true,
        // The others are problems of their own while they last, or none.
        IncidentKind::Started
        | IncidentKind::Stopped
        | IncidentKind::AgentLost
        | IncidentKind::AgentBack
        | IncidentKind::GateClosed
        | IncidentKind::StoreWell
        | IncidentKind::Paused
        | IncidentKind::Reloaded
        | IncidentKind::SlotsHeld
        | IncidentKind::ClockSkew
        | IncidentKind::Leads
        | IncidentKind::Deposed
        | IncidentKind::Outdated => false,
    }
}

fn problem(text: impl Into<String>, hint: impl Into<String>, since: Option<Wall>) -> Problem {
    Problem { text: text.into(), hint: hint.into(), since, task: None }
}

impl Controller {
    /// The problems of the service, the gravest first.
    pub(super) fn problems(&self, now: Now, waits: &[Wait], running: &[TaskRow]) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(trouble) = &self.mode.store_trouble {
            let text = format!("the store cannot be written ({trouble}); submits are refused until it can");
            problems.push(problem(text, "llts doctor", None));
        }
        if self.mode.is_orphaned {
            let text = "the supervisor was killed: what dies now is not started again";
            problems.push(problem(text, "llts up", None));
        }
        let (waiting, max) = (self.queue.len(), self.settings.waiting_max);
        if waiting >= max {
            let text = format!("the queue is full: {waiting} tasks wait (WAITING_TASKS_MAX); submits are refused");
            problems.push(problem(text, "llts list --state waiting", None));
        }
        if let Some(little) = self.mode.little_room.as_ref().filter(|_| self.mode.store_trouble.is_none()) {
            let text = format!("{little}: files, tools and whole outputs are refused until there is more");
            problems.push(problem(text, "llts doctor", None));
        }
        if let Some(why) = self.mode.outdated() {
            problems.push(problem(why, "llts info", None));
        }
        if let Some(until) = self.paused_until() {
            let until = if until >= UNTIL_OPENED { String::new() } else { format!(" until {until}") };
            problems.push(problem(
                format!("the service is paused{until}: no task starts"),
                "llts resume --service",
                None,
            ));
        }
        if self.fleet.len() == 0 && !self.may_agents_return(now) {
            problems.push(problem("no agent is connected", "llts up", None));
        }
        problems.extend(self.lost_agents());
        problems.extend(self.wrong_clocks());
        problems.extend(stuck_waits(waits));
        problems.extend(stuck_runs(now, running));
        problems.extend(self.recent_incidents(now));
        problems
    }

    fn lost_agents(&self) -> Vec<Problem> {
        let mut lost: Vec<_> = self.fleet.iter().filter(|(_, agent)| agent.slot == Slot::Lost).collect();
        lost.sort_by_key(|(_, agent)| agent.contact.heard_wall);
        let more = lost.len().saturating_sub(NAMED_MAX);
        let named = |(id, heard)| problem(format!("agent lost: {id}"), "llts agents", Some(heard));
        let mut problems: Vec<_> =
            lost.iter().take(NAMED_MAX).map(|(id, agent)| named((id, agent.contact.heard_wall))).collect();
        problems.extend((more > 0).then(|| problem(format!("agents lost: {more} more"), "llts agents", None)));
        problems
    }

    fn wrong_clocks(&self) -> Vec<Problem> {
        let wrong = self.fleet.iter().filter(|(_, agent)| agent.slot != Slot::Lost);
        let wrong: Vec<_> = wrong.filter_map(|(id, agent)| Some((id, agent.about.skew?))).collect();
        let more = wrong.len().saturating_sub(NAMED_MAX);
        let named = wrong.iter().take(NAMED_MAX).map(|(id, skew)| {
            let text = format!(
                "the clock of agent {id} is {skew} that of this controller; keep both equal, for example with NTP"
            );
            problem(text, "llts doctor", None)
        });
        let more =
            (more > 0).then(|| problem(format!("clocks of agents that differ: {more} more"), "llts doctor", None));
        named.chain(more).collect()
    }

    /// The incidents of the last minutes, with similar ones as one.
    fn recent_incidents(&self, now: Now) -> Vec<Problem> {
        let incidents = self.readers.view.incidents().map(|(_, incident)| incident);
        let recent = incidents.filter(|incident| now.wall.since(incident.at) < INCIDENT_AGE_MAX);
        let mut groups: Vec<(IncidentKind, String, usize, Problem)> = Vec::new();
        let mut losses: BTreeMap<&str, usize> = BTreeMap::new();
        for incident in recent {
            if incident.kind == IncidentKind::AgentLost {
                let agent = incident.text.strip_prefix("agent ").and_then(|text| text.split_once(" is lost"));
                *losses.entry(agent.map_or("", |(agent, _)| agent)).or_default() += 1;
            }
            let is_over = incident.kind == IncidentKind::StoreTrouble && self.mode.store_trouble.is_some();
            if !needs_attention(incident.kind) || is_over {
                continue;
            }
            let common = pattern(&incident.text);
            match groups.iter_mut().find(|(kind, known, ..)| *kind == incident.kind && *known == common) {
                Some((.., count, _)) => *count += 1,
                None => {
                    let newest = problem(incident.text.clone(), "llts incidents", Some(incident.at));
                    groups.push((incident.kind, common, 1, newest));
                }
            }
        }
        let counted = |(.., count, problem): (IncidentKind, String, usize, Problem)| match count {
            1 => problem,
            count => Problem { text: format!("{} ({count} times)", problem.text), ..problem },
        };
        let mut problems: Vec<_> = groups.into_iter().take(INCIDENTS_MAX).map(counted).collect();
        let flapping = losses.into_iter().filter(|(_, count)| *count >= LOSSES_MIN).take(NAMED_MAX);
        problems.extend(flapping.map(|(agent, count)| {
            problem(format!("agent {agent} was lost {count} times within ten minutes"), "llts incidents", None)
        }));
        problems
    }
}

/// Tasks that wait for something that time alone does not bring.
fn stuck_waits(waits: &[Wait]) -> Vec<Problem> {
    let stuck: Vec<_> = waits.iter().filter_map(|wait| Some((wait, wait.stuck.as_ref()?))).collect();
    let more = stuck.len().saturating_sub(NAMED_MAX);
    let named = stuck.iter().take(NAMED_MAX).map(|(wait, (task, remedy))| {
        let waits = if wait.count == 1 { "1 task waits".to_owned() } else { format!("{} tasks wait", wait.count) };
        Problem { task: Some(task.to_string()), ..problem(format!("{waits}: {}", wait.why), remedy, None) }
    });
    let more = (more > 0)
        .then(|| problem(format!("{more} more reasons keep tasks waiting"), "llts list --state waiting", None));
    named.chain(more).collect()
}

/// Runs that take far longer than usual, since their dispatch: that is a moment of this clock, and the clock of an agent may be wrong.
fn stuck_runs(now: Now, running: &[TaskRow]) -> Option<Problem> {
    let since = |row: &TaskRow| row.record.last_run().map(|run| run.dispatched_at);
    let stuck = running.iter().filter(|row| {
        let ran = since(row).map(|at| now.wall.since(at)).unwrap_or_default();
        row.usual.is_some_and(|usual| ran >= STUCK_MIN && ran >= usual.saturating_mul(STUCK_FACTOR))
    });
    let stuck: Vec<_> = stuck.collect();
    let first = stuck.first()?;
    let since = since(first);
    let short = brief::short(first.record.id);
    let text = match stuck.len() {
        1 => format!("task {short} runs more than {STUCK_FACTOR} times as long as usual"),
        count => format!("{count} tasks run more than {STUCK_FACTOR} times as long as usual, first {short}"),
    };
    Some(Problem { task: Some(first.record.id.to_string()), ..problem(text, format!("llts show {short}"), since) })
}
