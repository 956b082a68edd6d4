//! What the controller answers (document, section 2; facts, 1.2).

use super::code::{Code, Refusal};
use super::json::ObjectWriter;
use super::page::{PageBytes, PageOf};
use super::requests::agents::{self, AgentView};
use super::requests::heartbeat::Heard;
use super::requests::stats::{AgentCounts, TaskCounts};
use super::requests::{apply, explain, gate, list, query, report, submit};
use super::words;
use crate::types::{GateView, Holdup, Phase, Round, TaskId, TaskRecord};

/// One answer. Each request gets exactly one.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The request was done; there is nothing more to say.
    Done,
    /// A task was accepted.
    Submitted {
        /// Its id.
        task: TaskId,
        /// What was not taken as it was sent.
        warning: Option<String>,
        /// Whether it was accepted before, with the same `__SUBMIT_KEY__`.
        duplicate: bool,
    },
    /// What is known of a task.
    Task {
        /// The task.
        record: Box<TaskRecord>,
        /// How many tasks matched.
        matches: usize,
    },
    /// How many tasks are in each phase.
    Statistic(TaskCounts),
    /// Some tasks, newest first.
    Tasks {
        /// The page.
        records: Vec<TaskRecord>,
        /// What it is a page of.
        page: PageOf,
    },
    /// How many agents there are.
    AgentCounts(AgentCounts),
    /// Some agents, by their ids.
    Agents {
        /// The page.
        agents: Vec<AgentView>,
        /// What it is a page of.
        page: PageOf,
    },
    /// The answer to a heartbeat.
    Heartbeat(Heard),
    /// A task for an agent.
    Assigned(Box<TaskRecord>),
    /// The answer to a report.
    Reported {
        /// The task.
        task: TaskId,
        /// The round that was meant.
        round: Round,
        /// The phase that was reported.
        phase: Phase,
        /// Why it was refused, if it was.
        refusal: Option<Refusal>,
    },
    /// Why a task stands where it does.
    Explained {
        /// The task.
        record: Box<TaskRecord>,
        /// What holds it up, if it waits.
        holdup: Option<Holdup>,
    },
    /// How a gate stands.
    Gate(GateView),
    /// How all gates stand.
    Gates(Vec<GateView>),
    /// The request was refused.
    Refused(Refusal),
}

/// Writes a reply to a request of this kind.
#[must_use]
pub fn encode(kind: &str, reply: &Reply, page_bytes: PageBytes) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let mut writer = ObjectWriter::typed(&mut out, kind);
    match reply {
        Reply::Refused(refusal) | Reply::Reported { refusal: Some(refusal), .. } => {
            writer.literal(words::CODE, refusal.code.number());
            writer.text(words::ERROR_MSG, &refusal.message);
        }
        _ => writer.literal(words::CODE, 0),
    }
    write_body(reply, page_bytes, &mut writer);
    writer.end();
    out
}

fn write_body(reply: &Reply, page_bytes: PageBytes, writer: &mut ObjectWriter<'_>) {
    match reply {
        Reply::Done | Reply::Refused(_) => {}
        Reply::Submitted { task, warning, duplicate } => submit::write(*task, warning.as_deref(), *duplicate, writer),
        Reply::Task { record, matches } => query::write(record, *matches, writer),
        Reply::Explained { record, holdup } => explain::write(record, holdup.as_ref(), writer),
        Reply::Gate(gate) => gate::write(gate, writer),
        Reply::Gates(gates) => {
            writer.literal(words::TOTAL, gates.len());
            gates.iter().for_each(|gate| writer.object(gate.name.as_str(), |writer| gate::write(gate, writer)));
        }
        Reply::Statistic(counts) => counts.write(writer),
        Reply::Tasks { records, page } => page.write(records, "tasks", page_bytes, writer, list::write),
        Reply::AgentCounts(counts) => counts.write(writer),
        Reply::Agents { agents, page } => page.write(agents, "agents", page_bytes, writer, agents::write),
        Reply::Heartbeat(heard) => heard.write(writer),
        Reply::Assigned(record) => apply::write_answer(record, writer),
        Reply::Reported { task, round, phase, .. } => report::write_answer(*task, *round, *phase, writer),
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What an agent is told when there is nothing for it to do.
#[must_use]
pub fn no_task() -> Reply {
    Reply::Refused(Refusal::new(Code::NoTask, "no task waits for an agent"))
}
