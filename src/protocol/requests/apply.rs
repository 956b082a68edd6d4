//! TASK/INTERNAL/APPLY (facts, 1.2): an agent asks for a task, and gets one.

use std::time::Duration;

use super::{FromAgent, Kind, words};
use crate::protocol::json::ObjectWriter;
use crate::protocol::{command, task};
use crate::types::{Fields, Round, TaskCommand, TaskId, TaskRecord, ToolName};

/// Requests a task.
pub const TASK_APPLY: Kind = Kind::of_agents("TASK/INTERNAL/APPLY", |reader| Ok(FromAgent::Apply(reader.wait()?)));

/// A task in the form for an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Id of the task.
    pub task: TaskId,
    /// The round of this run.
    pub round: Round,
    /// Name of the tool, or the built-in operation.
    pub tool: ToolName,
    /// The command of the built-in operation.
    pub command: Option<Box<TaskCommand>>,
    /// The submitted fields.
    pub fields: Fields,
    /// The maximum delay of every report except that of the end.
    pub batch_delay: Duration,
    /// The length of its lease, if the run must end when the controller is silent.
    pub lease: Option<Duration>,
}

/// Writes the longest time that an agent would wait for a task.
pub(in crate::protocol) fn write(wait: Option<Duration>, writer: &mut ObjectWriter<'_>) {
    writer.maybe(words::WAIT, wait.map(|wait| wait.as_millis()));
}

/// Writes the task for an agent.
pub(in crate::protocol) fn write_answer(record: &TaskRecord, writer: &mut ObjectWriter<'_>) {
    task::write(record, writer);
    writer.maybe(
        words::SLACK,
        Some(record.batch_delay())
            .filter(|batch_delay| !batch_delay.is_zero())
            .map(|batch_delay| batch_delay.as_millis()),
    );
    writer.maybe(words::LEASE, record.lease().map(|lease| lease.term.as_millis()));
}

impl Job {
    /// Reads a task as written by [`write_answer`]; `None` for an invalid one.
    pub(in crate::protocol) fn read(mut fields: Fields, (task, round): (TaskId, Round)) -> Option<Self> {
        let command = command::read(&fields).ok()?.map(Box::new);
        let tool = match &command {
            Some(_) => ToolName::command(),
            None => ToolName::new(fields.text(words::OPERATION)?).ok()?,
        };
        let millis = |name| fields.count(name).and_then(|millis| u32::try_from(millis).ok());
        let time = |name| millis(name).map(|millis| Duration::from_millis(millis.into()));
        let (batch_delay, lease) = (time(words::SLACK).unwrap_or_default(), time(words::LEASE));
        fields.retain(|name, _| !task::is_ours(name));
        Some(Self { task, round, tool, command, fields, batch_delay, lease })
    }
}
