//! SERVICE/STATUS: everything that the status screen of a service shows, in one answer.

use std::time::Duration;

use super::job::{self, JobAnswer};
use super::rows::{self, RowView, TaskRow};
use super::stats::AgentCounts;
use super::{Ask, Kind, Request, words};
use crate::wire::client::{ReplyError, decode_parts};
use base::json::ObjectWriter;
use base::{AgentId, Fields, JobView, Scalar, StateCounts, Wall};

/// The state of a service, for people.
pub const SERVICE_STATUS: Kind = Kind::question("SERVICE/STATUS", |_| Ok(Request::Status));

/// The state of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusView {
    /// The moment of the answer.
    pub now: Wall,
    /// When the controller was started.
    pub started_at: Wall,
    /// The numbers of tasks by their states.
    pub states: StateCounts,
    /// The numbers of agents.
    pub agents: AgentCounts,
    /// When the oldest task that could start was submitted.
    pub oldest_at: Option<Wall>,
    /// Tasks that have finished per second, within the last minute.
    pub rate: f64,
    /// The median of their run times.
    pub run_p50: Option<Duration>,
    /// Until when a client has paused the service.
    pub paused_until: Option<Wall>,
    /// The lost agents, and when each was heard last.
    pub lost: Vec<(AgentId, Wall)>,
    /// The newest jobs that have not ended.
    pub jobs: Vec<JobView>,
    /// The tasks that have run longest beyond what is usual.
    pub running: Vec<TaskRow>,
    /// Why tasks wait, and how many wait for that; the most frequent first.
    pub waiting: Vec<(String, usize)>,
    /// The last failures, newest first.
    pub failed: Vec<TaskRow>,
}

/// Requests the state of the service.
#[must_use]
pub fn status() -> Ask<Status> {
    Ask::new(SERVICE_STATUS.word, decode)
}

/// The names of the parts of the answer: each row is called by its part, a blank and its own name.
mod part {
    pub(super) const STATES: &str = "states";
    pub(super) const AGENTS: &str = "agents";
    pub(super) const LOST: &str = "lost";
    pub(super) const JOB: &str = "job";
    pub(super) const RUNNING: &str = "running";
    pub(super) const WAITING: &str = "waiting";
    pub(super) const FAILED: &str = "failed";
}

/// Writes the answer.
pub(in crate::wire) fn write(view: &StatusView, writer: &mut ObjectWriter<'_>) {
    writer.moment(words::TIME, view.now);
    writer.moment(words::START, view.started_at);
    writer.maybe_moment(words::OLDEST_TIME, view.oldest_at);
    writer.literal(words::RATE, view.rate);
    writer.maybe(words::RUN_P50, view.run_p50.map(|time| time.as_secs_f64()));
    writer.maybe_moment(words::PAUSED_UNTIL, view.paused_until);
    writer.object(part::STATES, |writer| rows::write_states(&view.states, writer));
    writer.object(part::AGENTS, |writer| view.agents.write(writer));
    let named = |part: &str, name: &dyn std::fmt::Display| format!("{part} {name}");
    for (agent, heard) in &view.lost {
        writer.object(&named(part::LOST, agent), |writer| {
            writer.text(words::AGENT_ID, agent.as_str());
            writer.moment(words::HEARD_TIME, *heard);
        });
    }
    for view in &view.jobs {
        writer.object(&named(part::JOB, &view.name), |writer| job::write(view, writer));
    }
    for row in &view.running {
        writer.object(&named(part::RUNNING, &row.record.id), |writer| rows::write_row(row, writer));
    }
    for (number, (why, count)) in view.waiting.iter().enumerate() {
        writer.object(&named(part::WAITING, &number), |writer| {
            writer.text(words::WHY, why);
            writer.literal(words::COUNT, count);
        });
    }
    for row in &view.failed {
        writer.object(&named(part::FAILED, &row.record.id), |writer| rows::write_row(row, writer));
    }
}

/// The answer, as it arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The moment of the answer, by the clock of the controller.
    pub now: Wall,
    /// When the controller was started.
    pub started_at: Wall,
    /// The numbers of tasks by their states.
    pub states: StateCounts,
    /// The numbers of agents.
    pub agents: AgentCounts,
    /// When the oldest task that could start was submitted.
    pub oldest_at: Option<Wall>,
    /// Tasks that have finished per second, within the last minute.
    pub rate: f64,
    /// The median of their run times.
    pub run_p50: Option<Duration>,
    /// Until when a client has paused the service.
    pub paused_until: Option<Wall>,
    /// A sentence about its health, if that is not good.
    pub warning: Option<String>,
    /// The lost agents, and when each was heard last.
    pub lost: Vec<(String, Wall)>,
    /// The newest jobs that have not ended.
    pub jobs: Vec<JobAnswer>,
    /// The tasks that have run longest beyond what is usual.
    pub running: Vec<RowView>,
    /// Why tasks wait, and how many wait for that; the most frequent first.
    pub waiting: Vec<(String, u64)>,
    /// The last failures, newest first.
    pub failed: Vec<RowView>,
}

fn decode(frame: &[u8]) -> Result<Status, ReplyError> {
    let (head, parts) = decode_parts(frame)?;
    let mut status = Status {
        now: head.moment(words::TIME).unwrap_or_default(),
        started_at: head.moment(words::START).unwrap_or_default(),
        oldest_at: head.moment(words::OLDEST_TIME),
        rate: head.get(words::RATE).and_then(Scalar::as_f64).unwrap_or_default(),
        run_p50: head.get(words::RUN_P50).and_then(|p50| Duration::try_from_secs_f64(p50.as_f64()?).ok()),
        paused_until: head.moment(words::PAUSED_UNTIL),
        warning: head.text(words::WARNING).map(str::to_owned),
        ..Status::default()
    };
    for (name, fields) in parts {
        let text = |fields: &Fields, word| fields.text(word).unwrap_or_default().to_owned();
        match name.split_once(' ').map_or(name.as_str(), |(part, _)| part) {
            part::STATES => status.states = rows::read_states(&fields),
            part::AGENTS => status.agents = fields.into(),
            part::LOST => {
                let heard = fields.moment(words::HEARD_TIME).unwrap_or_default();
                status.lost.push((text(&fields, words::AGENT_ID), heard));
            }
            part::JOB => status.jobs.push(fields.into()),
            part::RUNNING => status.running.push(fields.into()),
            part::WAITING => {
                status.waiting.push((text(&fields, words::WHY), fields.count(words::COUNT).unwrap_or_default()));
            }
            part::FAILED => status.failed.push(fields.into()),
            // A later version may have more parts.
            _ => {}
        }
    }
    Ok(status)
}
