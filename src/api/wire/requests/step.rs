//! STEP/PROVIDING and STEP/COMPLETE: a running task passes a location on, and a step ends early.

use std::sync::Arc;

use super::{Ask, Code, Kind, Reader, Refusal, Request, words};
use base::{PortName, Round, StepName, TaskId, checked_location};

/// Announces a location at once.
pub const STEP_PROVIDING: Kind =
    Kind::order("STEP/PROVIDING", |reader| Ok(Request::StepProviding(Box::new(reader.providing()?))));

/// Ends a step early.
pub const STEP_COMPLETE: Kind = Kind::order("STEP/COMPLETE", |reader| {
    let graph = reader.required(words::GRAPH_ID, "the id that the submit of the graph returned")?;
    let graph = graph.parse().map_err(|_| Refusal::no_such_graph(graph))?;
    Ok(Request::StepComplete(graph, reader.name(words::STEP, "the name of a step", StepName::new)?))
});

/// A location that a running task announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Providing {
    /// The task.
    pub task: TaskId,
    /// The round that announces it; `None` for the present one.
    pub round: Option<Round>,
    /// The output.
    pub port: PortName,
    /// The location.
    pub location: Arc<str>,
}

impl Reader<'_> {
    fn providing(&self) -> Result<Providing, Refusal> {
        let (task, round) = (self.task_id()?, self.round()?);
        let port = self.name(words::PORT, "the name of an output of its step", PortName::new)?;
        let location = self.required(words::LOCATION, "the location, which may be empty")?;
        let location = checked_location(location)
            .map_err(|flaw| Refusal::new(Code::BadField, format!("{} {flaw}", words::LOCATION)))?;
        Ok(Providing { task, round, port, location })
    }

    fn required(&self, name: &str, meaning: &str) -> Result<&str, Refusal> {
        self.text(name).ok_or_else(|| {
            let message = format!("{} has no text {name}; set it to {meaning}", self.kind.word);
            Refusal::new(Code::BadField, message)
        })
    }

    fn name<T, E: std::fmt::Display>(
        &self,
        field: &str,
        meaning: &str,
        checked: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Refusal> {
        let text = self.required(field, meaning)?;
        checked(text).map_err(|error| Refusal::new(Code::BadField, format!("{field}: {error}")))
    }
}

/// Announces a location at once, in the name of a running task.
#[must_use]
pub fn providing(task: &str, round: Option<Round>, port: &str, location: &str) -> Ask<()> {
    let ask = STEP_PROVIDING.demand().with(words::TASK_ID, task);
    let ask = ask.with(words::PORT, port).with(words::LOCATION, location);
    match round {
        Some(Round(round)) => ask.with(words::ROUND, round),
        None => ask,
    }
}

/// Requests the early end of a step.
#[must_use]
pub fn complete(graph: &str, step: &str) -> Ask<()> {
    STEP_COMPLETE.demand().with(words::GRAPH_ID, graph).with(words::STEP, step)
}
