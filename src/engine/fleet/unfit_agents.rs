//! The fate of a task whose agent is unfit for it: its disk has no room for the tool or the folder of the run, or its machine does not
//! have the folder in which the command starts, or the client that gives its streams.
//!
//! | the agent reports -134 or -135, and | then |
//! |---|---|
//! | another agent here may run the task, drained or not, and has not reported that for it; for -135, one of another machine | the task waits for such an agent, in its next round |
//! | the task still waits after a pause ([`TaskRecord::next_trial`]) | it may go to this agent again, which may be fit by then |
//! | no other agent here may run it, or it is killed | -134 becomes -131, and -135 becomes 126; the sentence names the agents and the way out |
//!
//! Such a round draws on no budget of the task, and its agent does not get the task during that pause ([`TaskRecord::needs`]), unless
//! a client asks for another round. A client never sees -134 and -135.

use std::time::Duration;

use crate::Controller;
use api::wire::requests::report::Report;
use base::journal::Severity;
use base::{AgentId, ExitCode, IncidentKind, Now, Phase, Requirements, RoundEnd, RunResult, TaskCommand, TaskRecord};

/// The minimum time between two incidents about the same full disk.
const TELL_AGAIN: Duration = Duration::from_secs(60);

impl Controller {
    /// Whether an accepted report says that its agent is unfit for the task although another agent may run it. The task then waits
    /// for that agent, as soon as this one has finished with it. Otherwise the report becomes that of a run that could not be
    /// started.
    pub(crate) fn avoids_agent(&mut self, now: Now, agent: &AgentId, report: &mut Report) -> bool {
        let Some(result) = report.result.as_mut() else { return false };
        let end = match result.exit_code {
            ExitCode::DISK_FULL => RoundEnd::DiskFull,
            ExitCode::NOT_HERE => RoundEnd::NotHere,
            _ => return false,
        };
        let Some(record) = self.tasks.get(report.task) else { return false };
        name_agent(result, end, agent);
        let trouble = (end == RoundEnd::DiskFull).then(|| result.error.clone());
        let is_of_these = |end| matches!(end, RoundEnd::NoTool | RoundEnd::DiskFull | RoundEnd::NotHere);
        let tries = record.past.iter().filter(|past| is_of_these(past.end)).count();
        let is_over = record.phase() >= Phase::Ended || record.kill.is_some() || result.told_to_finish;
        let mut needs = record.needs().into_owned();
        let others = others(&needs);
        needs.avoided.insert(agent.clone());
        if end == RoundEnd::NotHere {
            needs.avoided_hosts.insert(self.fleet.host(agent));
        }
        let sets = &self.queue.sets;
        // A drained agent counts, because it takes tasks again some day. The task waits for it, as it does when all agents are
        // drained.
        let is_elsewhere = self.fleet.all_drained_or_with(&needs, |set| sets.has(set, &record.tool)).next().is_some();
        self.archives.reads.end(agent);
        trouble.into_iter().for_each(|sentence| self.tell_of_disk(now, agent, sentence));
        let Some(result) = report.result.as_mut() else { return false };
        if is_over || !is_elsewhere || tries >= TaskRecord::PAST_ROUNDS_MAX {
            conclude(result, end, &others);
            return false;
        }
        self.go_elsewhere(now, report, end);
        true
    }

    /// Notes that the disk of an agent is full, unless that was noted in the last minute.
    fn tell_of_disk(&mut self, now: Now, agent: &AgentId, sentence: String) {
        let is_known = self.readers.view.incidents().any(|(_, incident)| {
            let is_of_this =
                incident.kind == IncidentKind::AgentDisk && incident.text.contains(&format!("of agent {agent} is"));
            is_of_this && now.wall.since(incident.at) < TELL_AGAIN
        });
        if !is_known {
            self.turn.incident(Severity::Warn, IncidentKind::AgentDisk, sentence);
        }
    }
}

/// Adds the name of the agent and the remedy to the sentence.
fn name_agent(result: &mut RunResult, end: RoundEnd, agent: &AgentId) {
    (result.exit_code, result.error) = match end {
        RoundEnd::NotHere => (TaskCommand::NOT_STARTED, format!("agent {agent} {}", result.error)),
        _ => {
            let sentence = format!(
                "the disk of agent {agent} is full: {}; free space there, or set AGENT_WORK_DIR and STATE_DIR of that agent to \
                 folders of a larger disk",
                result.error
            );
            (ExitCode::PREPARE_FAILED, sentence)
        }
    };
}

/// The agents that were unfit before.
fn others(needs: &Requirements) -> String {
    needs.avoided.iter().map(AgentId::as_str).collect::<Vec<_>>().join(", ")
}

/// No other agent gets the task.
fn conclude(result: &mut RunResult, end: RoundEnd, others: &str) {
    let before = match (others, end) {
        ("", _) => String::new(),
        (_, RoundEnd::NotHere) => format!("; it could not run at {others}, either"),
        _ => format!("; earlier, there was no room for the task at {others}"),
    };
    result.error += &before;
}
