//! TASK/INTERNAL/APPLY (docs/sources/controller.md, 5.1): an agent asks for a task, and gets one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::{FromAgent, Kind, Refusal, words};
use crate::wire::{command, locations, source, task, task_files};
use base::json::{List, ObjectWriter};
use base::{
    Fields, PortName, Round, StepContext, StepName, StepRole, TaskCommand, TaskFiles, TaskId, TaskRecord, TaskSource,
    ToolDigest, ToolName, json,
};

/// Requests a task.
pub const TASK_APPLY: Kind = Kind::of_agents("TASK/INTERNAL/APPLY", |reader| Ok(FromAgent::Apply(reader.wait()?)));

const ROLE_MAIN: &str = "MAIN";
const ROLE_PREPARE: &str = "PREPARE";

/// One round of a task, as its agent gets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Id of the task.
    pub task: TaskId,
    /// The round of this run.
    pub round: Round,
    /// Name of the tool, or the built-in operation.
    pub tool: ToolName,
    /// The version of the tool that the task has pinned, if it has one.
    pub pin: Option<ToolDigest>,
    /// The command of the built-in operation.
    pub command: Option<Box<TaskCommand>>,
    /// The source of its program, if the agent fetches it.
    pub source: Option<Box<TaskSource>>,
    /// The files that travel with it, if it names any.
    pub files: Option<Arc<TaskFiles>>,
    /// The submitted fields.
    pub fields: Fields,
    /// The maximum delay of every report except that of the end.
    pub batch_delay: Duration,
    /// The length of its lease, if the run must end when the controller is silent.
    pub lease: Option<Duration>,
    /// Its place in a graph, if it is a task of a step.
    pub step: Option<Arc<StepContext>>,
}

/// Several short tasks for an agent, which runs them one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchList {
    /// The tasks, in the order in which they start.
    pub dispatches: VecDeque<Dispatch>,
    /// The terms that hold for all of them.
    pub terms: ListTerms,
}

/// The terms of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListTerms {
    /// Its number, different for each list of one start of the controller.
    pub number: u64,
    /// The time after the APPLY within which the agent may start its tasks. The first task may always start.
    pub time: Duration,
}

/// Maximum number of tasks in one list. The agent must be able to remember the orders about tasks that have not started.
pub const LIST_TASKS_MAX: usize = 64;

/// How long the submitter expects the run of a task to take: `__EXPECTED_DURATION__`.
#[must_use]
pub fn expected_duration(record: &TaskRecord) -> Option<Duration> {
    let seconds = json::member(&record.submitted, words::EXPECTED_DURATION).and_then(json::value_of)?;
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

/// Writes the longest time that an agent waits for a task.
pub(in crate::wire) fn write(wait: Option<Duration>, writer: &mut ObjectWriter<'_>) {
    writer.maybe(words::WAIT, wait.map(|wait| wait.as_millis()));
}

/// Writes the task for an agent.
pub(in crate::wire) fn write_answer(record: &TaskRecord, step: Option<&StepContext>, writer: &mut ObjectWriter<'_>) {
    task::write(record, writer);
    writer.maybe(
        words::SLACK,
        Some(record.batch_delay())
            .filter(|batch_delay| !batch_delay.is_zero())
            .map(|batch_delay| batch_delay.as_millis()),
    );
    writer.maybe(words::LEASE, record.lease().map(|lease| lease.term.as_millis()));
    if let Some(step) = step {
        write_step(step, record, writer);
    }
}

/// Writes a list of tasks: the first one as if it were alone.
pub(in crate::wire) fn write_list(tasks: &[TaskRecord], terms: ListTerms, writer: &mut ObjectWriter<'_>) {
    let Some((first, ahead)) = tasks.split_first() else { return };
    write_answer(first, None, writer);
    writer.literal(words::LIST, terms.number);
    writer.literal(words::LIST_TIME, terms.time.as_micros());
    writer.objects(words::AHEAD, ahead, |task, writer| write_answer(task, None, writer));
}

/// Writes the place of a task in its graph, without the names that its record already shows.
fn write_step(step: &StepContext, record: &TaskRecord, writer: &mut ObjectWriter<'_>) {
    let mut fields = step_fields(step);
    fields.retain(|name, _| json::member(&record.submitted, name).is_none());
    writer.members(&json::members(&fields));
    writer.text(words::INPUTS, &locations::to_text(&step.inputs));
    writer.text(words::OUTPUTS, &step.outputs.iter().map(PortName::as_str).collect::<Vec<_>>().join(","));
    writer.literal(words::GRACE, step.grace.as_millis());
}

/// The fields of a step that a task shows to its tool.
pub(in crate::wire) fn step_fields(step: &StepContext) -> Fields {
    let fields = Fields::new().with(words::GRAPH_ID, step.graph.to_string()).with(words::STEP, step.step.as_str());
    let (role, port) = match &step.role {
        StepRole::Main => (ROLE_MAIN, None),
        StepRole::Prepare(port) => (ROLE_PREPARE, Some(port)),
    };
    let fields = fields.with(words::ROLE, role);
    let fields = port.into_iter().fold(fields, |fields, port| fields.with(words::PORT, port.as_str()));
    fields.with(words::PARTITION, step.partition)
}

impl DispatchList {
    /// Reads the rest of a list, behind its first task, as written by [`write_list`]; `None` if the answer is no list, or
    /// contains an invalid task.
    pub(in crate::wire) fn read(fields: &Fields, ahead: List) -> Option<(ListTerms, VecDeque<Dispatch>)> {
        let terms = ListTerms {
            number: fields.count(words::LIST)?,
            time: Duration::from_micros(fields.count(words::LIST_TIME)?),
        };
        let dispatch = |fields: Result<Fields, Refusal>| {
            let fields = fields.ok()?;
            let run = run(&fields)?;
            Dispatch::read(fields, run)
        };
        Some((terms, ahead.items.into_iter().map(dispatch).collect::<Option<_>>()?))
    }
}

/// The run that an answer names.
pub(in crate::wire) fn run(fields: &Fields) -> Option<(TaskId, Round)> {
    let round = u32::try_from(fields.count(words::ROUND)?).ok()?;
    Some((fields.text(words::TASK_ID)?.parse().ok()?, Round(round)))
}

impl Dispatch {
    /// Reads a task as written by [`write_answer`]; `None` for an invalid one.
    pub(in crate::wire) fn read(mut fields: Fields, (task, round): (TaskId, Round)) -> Option<Self> {
        let command = command::read(&fields).ok()?.map(Box::new);
        let tool = match &command {
            Some(_) => ToolName::command(),
            None => ToolName::new(fields.text(words::OPERATION)?).ok()?,
        };
        let millis = |name| fields.count(name).and_then(|millis| u32::try_from(millis).ok());
        let time = |name| millis(name).map(|millis| Duration::from_millis(millis.into()));
        let (batch_delay, lease) = (time(words::SLACK).unwrap_or_default(), time(words::LEASE));
        // A task of a graph must not run without its place in it.
        let step = if fields.get(words::INPUTS).is_some() { Some(Arc::new(read_step(&fields)?)) } else { None };
        // With an invalid source, the task is invalid.
        let source = match source::read(&fields, &tool) {
            Some(source) => Some(Box::new(source?)),
            None => None,
        };
        let pin = fields.text(words::TOOL_DIGEST).and_then(|text| text.parse().ok());
        let files = task_files::read(&fields).ok()?;
        fields.retain(|name, _| !task::is_ours(name));
        Some(Self { task, round, tool, pin, command, source, files, fields, batch_delay, lease, step })
    }
}

fn read_step(fields: &Fields) -> Option<StepContext> {
    let port = |name: &str| PortName::new(name).ok();
    let inputs = locations::read(fields.text(words::INPUTS)?)?;
    let outputs = fields.text(words::OUTPUTS)?.split(',').filter(|name| !name.is_empty());
    Some(StepContext {
        graph: fields.text(words::GRAPH_ID)?.parse().ok()?,
        step: StepName::new(fields.text(words::STEP)?).ok()?,
        role: match fields.text(words::ROLE)? {
            ROLE_MAIN => StepRole::Main,
            ROLE_PREPARE => StepRole::Prepare(port(fields.text(words::PORT)?)?),
            _ => return None,
        },
        partition: fields.count(words::PARTITION)?.try_into().ok()?,
        inputs: inputs.into_iter().map(|(port, list)| (port, list.into())).collect(),
        outputs: outputs.map(port).collect::<Option<_>>()?,
        grace: Duration::from_millis(fields.count(words::GRACE)?),
    })
}
