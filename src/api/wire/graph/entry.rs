//! The stored form of the events of a graph: one JSON object for each entry, with the names of steps and ports, so that people
//! can read it beside the document.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::document::Document;
use super::step::{Port, StepDocument};
use base::{GraphEntry, GraphEvent, PortName, StepIndex, StepTask, TaskEnd, TaskRole, Wall};

/// One entry as text.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct EntryText {
    /// Unix microseconds.
    at: u64,
    event: Event,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<Task>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Event {
    Announced {
        task: Task,
        round: u32,
        output: String,
        location: String,
    },
    Ended {
        task: Task,
        round: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        provided: BTreeMap<String, Vec<String>>,
    },
    Complete {
        step: String,
    },
    Kill {
        reason: String,
    },
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Task {
    step: String,
    /// The sub input that it prepares; a main task has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prepares: Option<String>,
    partition: u32,
}

/// Writes and reads the entries of a graph.
#[derive(Debug)]
pub struct EntryCodec<'a> {
    document: &'a Document,
    steps: BTreeMap<&'a str, StepIndex>,
}

impl<'a> EntryCodec<'a> {
    /// For a graph with this document.
    #[must_use]
    pub fn of(document: &'a Document) -> Self {
        let steps = document.steps.iter().map(|step| step.name.as_str()).zip((0..).map(StepIndex)).collect();
        Self { document, steps }
    }

    /// Writes an entry of a graph with this document; `None` if the entry does not fit the document.
    #[must_use]
    pub fn encode(document: &Document, entry: &GraphEntry) -> Option<String> {
        let this = Names { document };
        let event = match &entry.event {
            GraphEvent::Announced { slot, round, output, location } => Event::Announced {
                task: this.task(slot)?,
                round: *round,
                output: this.output(slot.step, *output)?,
                location: location.to_string(),
            },
            GraphEvent::Ended(slot, TaskEnd { failure, round, provided }) => {
                let provided = provided.iter().map(|(output, locations)| {
                    Some((this.output(slot.step, *output)?, locations.iter().map(ToString::to_string).collect()))
                });
                Event::Ended {
                    task: this.task(slot)?,
                    round: *round,
                    failure: failure.as_ref().map(ToString::to_string),
                    provided: provided.collect::<Option<_>>()?,
                }
            }
            GraphEvent::Complete(step) => Event::Complete { step: this.step(*step)?.name.to_string() },
            GraphEvent::Kill(reason) => Event::Kill { reason: reason.to_string() },
        };
        let dropped = entry.dropped.iter().map(|slot| this.task(slot)).collect::<Option<_>>()?;
        serde_json::to_string(&EntryText { at: entry.at.micros(), event, dropped }).ok()
    }

    /// Reads an entry as [`Self::encode`] wrote it; `None` for any other text.
    #[must_use]
    pub fn decode(&self, text: &str) -> Option<GraphEntry> {
        let EntryText { at, event, dropped } = serde_json::from_str(text).ok()?;
        let event = match event {
            Event::Announced { task, round, output, location } => {
                let slot = self.slot(&task)?;
                GraphEvent::Announced {
                    slot,
                    round,
                    output: self.output_of(slot.step, &output)?,
                    location: location.into(),
                }
            }
            Event::Ended { task, round, failure, provided } => {
                let slot = self.slot(&task)?;
                let provided = provided.into_iter().map(|(output, locations)| {
                    Some((self.output_of(slot.step, &output)?, locations.into_iter().map(Arc::from).collect()))
                });
                let mut provided: Vec<(u32, Vec<Arc<str>>)> = provided.collect::<Option<_>>()?;
                provided.sort();
                GraphEvent::Ended(slot, TaskEnd { failure: failure.map(Arc::from), round, provided })
            }
            Event::Complete { step } => GraphEvent::Complete(*self.steps.get(step.as_str())?),
            Event::Kill { reason } => GraphEvent::Kill(reason.into()),
        };
        let dropped = dropped.iter().map(|task| self.slot(task)).collect::<Option<_>>()?;
        Some(GraphEntry { at: Wall::from_micros(at), event, dropped })
    }

    fn output_of(&self, step: StepIndex, name: &str) -> Option<u32> {
        number_of(self.document.steps.get(step.at())?.outputs.iter().map(PortName::as_str), name)
    }

    fn slot(&self, task: &Task) -> Option<StepTask> {
        let step = *self.steps.get(task.step.as_str())?;
        let role = match &task.prepares {
            None => TaskRole::Main,
            Some(port) => {
                let names = self.document.steps.get(step.at())?.ports().map(|Port { name, .. }| name.as_str());
                TaskRole::Prepare(number_of(names, port)?)
            }
        };
        Some(StepTask { step, role, number: task.partition })
    }
}

/// The names for the numbers of a graph.
struct Names<'a> {
    document: &'a Document,
}

impl Names<'_> {
    fn step(&self, step: StepIndex) -> Option<&StepDocument> {
        self.document.steps.get(step.at())
    }

    fn output(&self, step: StepIndex, output: u32) -> Option<String> {
        self.step(step)?.outputs.get(output as usize).map(ToString::to_string)
    }

    fn task(&self, slot: &StepTask) -> Option<Task> {
        let step = self.step(slot.step)?;
        let prepares = match slot.role {
            TaskRole::Main => None,
            TaskRole::Prepare(input) => Some(step.ports().nth(input as usize)?.name.to_string()),
        };
        Some(Task { step: step.name.to_string(), prepares, partition: slot.number })
    }
}

fn number_of<'a>(mut names: impl Iterator<Item = &'a str>, name: &str) -> Option<u32> {
    names.position(|known| known == name).and_then(|at| u32::try_from(at).ok())
}
