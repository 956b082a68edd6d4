//! The answers about step graphs, and their published changes: written and read.

use serde_json::{Map, Value};

use crate::wire::client::{Listing, ReplyError, decode, view};
use crate::wire::graph::{activity, state, status};
use base::json::{FieldLimits, ObjectWriter};
use base::words::kind;
use base::{
    Fields, GraphChange, GraphId, GraphView, InputView, Phase, Scalar, StepHoldup, StepState, StepView, ToolName, Wall,
    json, words,
};

view! {
    /// An accepted graph.
    GraphSubmitted {
        /// Id of the graph.
        id: &str = |fields| fields.text(words::GRAPH_ID).unwrap_or_default();
        /// Whether it had been accepted before, with the same key.
        is_duplicate: bool = |fields| fields.flag(words::DUPLICATE);
        /// A warning about fields that were ignored.
        warning: Option<&str> = |fields| fields.text(words::WARNING);
    }
}

view! {
    /// The state of a graph, or a change of it.
    GraphAnswer {
        /// Id of the graph.
        id: &str = |fields| fields.text(words::GRAPH_ID).unwrap_or_default();
        /// Its status: `RUNNING`, `SUCCEEDED`, `FAILED` or `KILLED`.
        status: &str = |fields| fields.text(words::STATUS).unwrap_or_default();
        /// Why it ends or has ended without success.
        reason: Option<&str> = |fields| fields.text(words::REASON);
        /// The name in its document.
        name: Option<&str> = |fields| fields.text(words::NAME);
        /// The id chosen by its submitter.
        given_id: Option<&Scalar> = |fields| fields.get(words::GIVEN_ID);
        /// Moment of acceptance.
        submitted_at: Option<Wall> = |fields| fields.moment(words::SUBMIT_TIME);
        /// Moment of its end.
        ended_at: Option<Wall> = |fields| fields.moment(words::END_TIME);
        /// Number of its steps.
        total: u64 = |fields| fields.count(words::TOTAL).unwrap_or_default();
        /// Of a change: its number, from 1.
        seq: Option<u64> = |fields| fields.count(words::SEQ);
        /// Of a change: the step.
        step: Option<&str> = |fields| fields.text(words::STEP);
        /// Of a change: the state of the step.
        state: Option<&str> = |fields| fields.text(words::STATE);
    }
}

impl GraphAnswer {
    /// Number of its steps in a state.
    #[must_use]
    pub fn in_state(&self, wanted: StepState) -> u64 {
        self.fields().count(state(wanted)).unwrap_or_default()
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended_at().is_some()
    }
}

/// One step of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRow {
    /// Its name.
    pub name: String,
    /// Its data, by the words of the wire.
    pub data: Map<String, Value>,
}

impl StepRow {
    /// Its state.
    #[must_use]
    pub fn state(&self) -> &str {
        self.data.get(words::STATE).and_then(Value::as_str).unwrap_or_default()
    }

    /// Why it has not reached its next state.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        self.data.get(words::WHY)?.as_str()
    }

    /// The ids of its tasks in a phase.
    pub fn tasks(&self, phase: Phase) -> impl Iterator<Item = &str> {
        let tasks = self.data.get(words::TASKS).and_then(|tasks| tasks.get(words::phase(phase)));
        tasks.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Number of its tasks.
    #[must_use]
    pub fn task_count(&self) -> u64 {
        self.data.get(words::TOTAL).and_then(Value::as_u64).unwrap_or_default()
    }
}

/// Reads a page of steps.
pub(super) fn decode_steps(frame: &[u8]) -> Result<Listing<StepRow>, ReplyError> {
    let malformed = |reason: String| ReplyError::Malformed(reason);
    let members: Map<String, Value> =
        serde_json::from_slice(frame).map_err(|error| malformed(format!("the reply is not a JSON object: {error}")))?;
    let (rows, head): (Vec<_>, Vec<_>) = members.into_iter().partition(|(_, value)| value.is_object());
    let head = serde_json::to_vec(&head.into_iter().collect::<Map<_, _>>()).unwrap_or_default();
    let head = decode(&head)?;
    let row = |(name, value)| match value {
        Value::Object(data) => Some(StepRow { name, data }),
        _ => None,
    };
    let total = head.count(words::TOTAL).ok_or_else(|| malformed("the reply has no total".to_owned()))?;
    Ok(Listing { total, rows: rows.into_iter().filter_map(row).collect() })
}

/// Writes the id of an accepted graph.
pub(in crate::wire) fn write_submitted(
    graph: GraphId,
    duplicate: bool,
    warning: Option<&str>,
    writer: &mut ObjectWriter<'_>,
) {
    writer.text(words::GRAPH_ID, &graph.to_string());
    if duplicate {
        writer.literal(words::DUPLICATE, true);
    }
    writer.maybe_text(words::WARNING, warning);
}

/// Writes the state of a graph.
pub(in crate::wire) fn write(view: &GraphView, writer: &mut ObjectWriter<'_>) {
    writer.text(words::GRAPH_ID, &view.id.to_string());
    writer.text(words::STATUS, status(view.status));
    writer.maybe_text(words::REASON, view.reason.as_ref());
    writer.maybe_text(words::NAME, view.name.as_ref());
    if let Some(given_id) = &view.given_id {
        writer.scalar(words::GIVEN_ID, given_id);
    }
    writer.moment(words::SUBMIT_TIME, view.submitted_at);
    match view.ended_at {
        Some(at) => writer.moment(words::END_TIME, at),
        None => writer.scalar(words::END_TIME, &Scalar::Null),
    }
    writer.literal(words::TOTAL, view.steps.iter().sum::<usize>());
    for (one, count) in StepState::ALL.into_iter().zip(view.steps) {
        writer.literal(state(one), count);
    }
}

/// Writes the row of a graph.
pub(in crate::wire) fn write_row(view: &GraphView, writer: &mut ObjectWriter<'_>) {
    writer.object(&view.id.to_string(), |writer| write(view, writer));
}

/// Writes the row of a step.
pub(in crate::wire) fn write_step(step: &StepView, writer: &mut ObjectWriter<'_>) {
    writer.object(step.name.as_str(), |writer| {
        writer.text(words::STATE, state(step.state));
        writer.maybe_text(words::WHY, step.holdup.as_ref().map(why));
        writer.maybe_text(words::OPERATION, step.tool.as_ref().map(ToolName::as_str));
        for (word, inputs) in [(words::INPUTS, &step.inputs), (words::SUB_INPUTS, &step.sub_inputs)] {
            writer.object(word, |writer| {
                inputs.iter().for_each(|input| writer.text(input.name.as_str(), activity(input.activity)));
            });
        }
        writer.object(words::OUTPUTS, |writer| {
            step.outputs.iter().for_each(|(name, active)| writer.text(name.as_str(), activity(*active)));
        });
        writer.object(words::SOURCES, |writer| {
            let source = |(step, port): &(_, _)| format!("\"{step}.{port}\"");
            for InputView { name, sources, .. } in step.inputs.iter().chain(&step.sub_inputs) {
                writer.list(name.as_str(), sources.iter().map(source));
            }
        });
        writer.literal(words::TOTAL, step.task_count);
        writer.object(words::TASKS, |writer| write_tasks(step, writer));
        if step.tasks.len() < step.task_count {
            let (shown, all) = (step.tasks.len(), step.task_count);
            let warning = format!(
                "{shown} of {all} tasks are shown; TASK/DETAILS with {} and {} lists all",
                words::JOB,
                words::STEP
            );
            writer.text(words::WARNING, &warning);
        }
        writer.object(words::TIMES, |writer| {
            for (one, at) in StepState::ALL.into_iter().zip(step.times) {
                writer.maybe(state(one), at);
            }
        });
    });
}

/// A sentence: why a step has not reached its next state.
fn why(holdup: &StepHoldup) -> String {
    match holdup {
        StepHoldup::Activation(other) => format!("it waits for the activation of step {other}"),
        StepHoldup::Input(port, from) => format!("its input {port} is open: step {from} has not completed"),
        StepHoldup::Tasks => "its tasks have not finished".to_owned(),
    }
}

fn write_tasks(step: &StepView, writer: &mut ObjectWriter<'_>) {
    for phase in Phase::ALL {
        let ids = || step.tasks.iter().filter(|(of, _)| *of == phase).map(|(_, task)| format!("\"{task}\""));
        if ids().next().is_some() {
            writer.list(words::phase(phase), ids());
        }
    }
}

/// Writes a change of a graph for its receiver and for subscribers, who can select one graph by the first bytes.
#[must_use]
pub fn encode_status(change: &GraphChange) -> Vec<u8> {
    let mut out = Vec::with_capacity(192);
    let mut writer = ObjectWriter::typed(&mut out, kind::GRAPH_STATUS);
    writer.text(words::GRAPH_ID, &change.graph.to_string());
    writer.literal(words::SEQ, change.seq);
    if let Some((step, reached)) = &change.step {
        writer.text(words::STEP, step.as_str());
        writer.text(words::STATE, state(*reached));
    }
    writer.text(words::STATUS, status(change.status));
    writer.maybe_text(words::REASON, change.reason.as_ref());
    writer.end();
    out
}

/// The first bytes of every published change of a graph.
#[must_use]
pub fn status_prefix(graph: &str) -> String {
    format!("{{\"{}\":\"{}\",\"{}\":\"{graph}\"", words::TYPE, kind::GRAPH_STATUS, words::GRAPH_ID)
}

/// Reads a published change; `None` for any other message.
#[must_use]
pub fn read_status(frame: &[u8]) -> Option<GraphAnswer> {
    let fields = json::parse(frame, &FieldLimits::TRUSTED).ok()?;
    (fields.text(words::TYPE) == Some(kind::GRAPH_STATUS)).then(|| Fields::into(fields))
}
