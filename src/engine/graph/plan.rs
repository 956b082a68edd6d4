//! The immutable graph: steps, ports and edges by number, made from a document whose steps fit together.

use std::collections::{BTreeMap, BTreeSet};

use api::wire::graph::{Document, Port, Source, StepDocument, TaskCount, Work};
use api::wire::{Code, Refusal};
use base::{PortName, StepIndex, StepName, nearest_hint};

/// An input of a step: its number among the main inputs, then the sub inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InputId {
    /// The step.
    pub step: StepIndex,
    /// Its input.
    pub input: u32,
}

/// An output of a step by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputId {
    /// The step.
    pub step: StepIndex,
    /// Its output.
    pub output: u32,
}

/// A graph without circles, in which every input takes existing outputs.
#[derive(Clone, Debug)]
pub struct Graph {
    steps: Vec<Step>,
    by_name: BTreeMap<StepName, StepIndex>,
}

/// One step of a graph.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its name.
    pub name: StepName,
    /// Its main inputs, then its sub inputs.
    pub inputs: Vec<Input>,
    /// Number of its main inputs.
    pub main_inputs: u32,
    /// Its outputs.
    pub outputs: Vec<Output>,
    /// Its main tasks.
    pub main: MainTasks,
    /// Whether the step is told to end early when all its downstream steps end.
    pub propagates: bool,
}

impl Step {
    /// Whether the step hands its inputs on, without tasks.
    #[must_use]
    pub fn is_exchange(&self) -> bool {
        self.main == MainTasks::Exchange
    }

    /// Number of its sub inputs.
    #[must_use]
    pub fn sub_inputs(&self) -> usize {
        self.inputs.len() - self.main_inputs as usize
    }

    /// Whether this input is a sub input.
    #[must_use]
    pub const fn is_sub(&self, input: u32) -> bool {
        input >= self.main_inputs
    }
}

/// An input of a step.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name.
    pub name: PortName,
    /// The outputs that it takes, in the order of the document.
    pub sources: Vec<OutputId>,
    /// Of a sub input, the number of tasks that prepare it.
    pub prepare: u32,
}

/// An output of a step.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name.
    pub name: PortName,
    /// The inputs that take it.
    pub sinks: Vec<InputId>,
}

/// The main tasks of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MainTasks {
    /// None: each partition of a main input goes to each output.
    Exchange,
    /// This many.
    Number(u32),
    /// One for each partition of this input.
    PerPartition(u32),
}

impl Graph {
    /// Connects the steps of a document.
    ///
    /// # Errors
    /// -1007 when an input takes an output that does not exist, or steps wait for one another in a circle.
    pub fn new(document: &Document) -> Result<Self, Refusal> {
        let names = document.steps.iter().map(|step| step.name.clone());
        let by_name: BTreeMap<StepName, StepIndex> = names.zip((0..).map(StepIndex)).collect();
        let outputs: Vec<BTreeMap<&PortName, u32>> =
            document.steps.iter().map(|step| step.outputs.iter().zip(0..).collect()).collect();
        let found = |step: &StepDocument, port: &Port, source: &Source| {
            let Some(from) = by_name.get(&source.step) else { return Err(no_such_step(document, step, port, source)) };
            let output = outputs[from.at()].get(&source.port);
            output
                .map(|output| OutputId { step: *from, output: *output })
                .ok_or_else(|| no_such_output(&document.steps[from.at()], step, port, source))
        };
        let connect = |step: &StepDocument| {
            let input = |port: &Port| {
                let sources = port.sources.iter().map(|source| found(step, port, source)).collect::<Result<_, _>>()?;
                Ok(Input { name: port.name.clone(), sources, prepare: port.tasks })
            };
            let inputs = step.ports().map(input).collect::<Result<Vec<_>, Refusal>>()?;
            let outputs = step.outputs.iter().map(|name| Output { name: name.clone(), sinks: Vec::new() }).collect();
            let main_inputs = u32::try_from(step.inputs.len()).unwrap_or(u32::MAX);
            let (main, name, propagates) = (main_tasks(step), step.name.clone(), step.propagates);
            Ok(Step { name, inputs, main_inputs, outputs, main, propagates })
        };
        let mut graph = Self { steps: document.steps.iter().map(connect).collect::<Result<_, _>>()?, by_name };
        graph.connect_outputs();
        match graph.circle() {
            None => Ok(graph),
            Some(circle) => Err(circular(&circle)),
        }
    }

    fn connect_outputs(&mut self) {
        let edges_of = |step: StepIndex| {
            let inputs = self.step(step).inputs.iter().zip(0..);
            inputs.flat_map(move |(input, number)| {
                input.sources.iter().map(move |source| (*source, InputId { step, input: number }))
            })
        };
        let edges: Vec<(OutputId, InputId)> = self.indexes().flat_map(edges_of).collect();
        for (source, sink) in edges {
            self.steps[source.step.at()].outputs[source.output as usize].sinks.push(sink);
        }
    }

    /// The steps, in the order of the document.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// One step.
    #[must_use]
    pub fn step(&self, step: StepIndex) -> &Step {
        &self.steps[step.at()]
    }

    /// The step with this name.
    #[must_use]
    pub fn named(&self, name: &StepName) -> Option<StepIndex> {
        self.by_name.get(name).copied()
    }

    /// The numbers of all steps.
    pub fn indexes(&self) -> impl Iterator<Item = StepIndex> + use<> {
        (0..u32::try_from(self.steps.len()).unwrap_or(u32::MAX)).map(StepIndex)
    }

    /// The downstream steps of a step, each once for every connection.
    pub fn downstream(&self, step: StepIndex) -> impl Iterator<Item = StepIndex> {
        self.step(step).outputs.iter().flat_map(|output| &output.sinks).map(|sink| sink.step)
    }

    /// The upstream steps of a step, each once for every connection.
    pub fn upstream(&self, step: StepIndex) -> impl Iterator<Item = StepIndex> {
        self.step(step).inputs.iter().flat_map(|input| &input.sources).map(|source| source.step)
    }

    /// The names of the steps of one circle, in the direction of the data.
    fn circle(&self) -> Option<Vec<StepName>> {
        // Steps without an upstream step are removed repeatedly. The remaining ones are in a circle or behind one.
        let mut waits_for: Vec<usize> = self.indexes().map(|step| self.upstream(step).count()).collect();
        let mut free: Vec<StepIndex> = self.indexes().filter(|step| waits_for[step.at()] == 0).collect();
        while let Some(step) = free.pop() {
            for next in self.downstream(step) {
                waits_for[next.at()] -= 1;
                if waits_for[next.at()] == 0 {
                    free.push(next);
                }
            }
        }
        let mut step = self.indexes().find(|step| waits_for[step.at()] > 0)?;
        // Each of these has an upstream step among them, so going upstream meets a step twice.
        let (mut way, mut seen) = (Vec::new(), BTreeSet::new());
        while seen.insert(step) {
            way.push(step);
            step = self.upstream(step).find(|upstream| waits_for[upstream.at()] > 0)?;
        }
        let begin = way.iter().position(|known| *known == step)?;
        let mut circle: Vec<StepIndex> = way.drain(begin..).rev().collect();
        let first = circle.iter().zip(0..).min().map_or(0, |(_, at)| at);
        circle.rotate_left(first);
        Some(circle.into_iter().map(|step| self.step(step).name.clone()).collect())
    }
}

fn main_tasks(step: &StepDocument) -> MainTasks {
    match (&step.work, &step.tasks) {
        (Work::Exchange, _) => MainTasks::Exchange,
        (Work::Tasks(_), TaskCount::Number(count)) => MainTasks::Number(*count),
        (Work::Tasks(_), TaskCount::PerPartition(name)) => {
            // The reader of the document has checked that the input exists.
            let at = step.inputs.iter().position(|port| port.name == *name).unwrap_or_default();
            MainTasks::PerPartition(u32::try_from(at).unwrap_or(u32::MAX))
        }
    }
}

fn no_such_step(document: &Document, step: &StepDocument, port: &Port, source: &Source) -> Refusal {
    let hint = nearest_hint(source.step.as_str(), document.steps.iter().map(|step| step.name.as_str()));
    let (step, port) = (&step.name, &port.name);
    let message = format!("step {step}: its input {port} takes {source}, but there is no step {}{hint}", source.step);
    Refusal::new(Code::BadField, message)
}

fn no_such_output(upstream: &StepDocument, step: &StepDocument, port: &Port, source: &Source) -> Refusal {
    let outputs: Vec<&str> = upstream.outputs.iter().map(PortName::as_str).collect();
    let hint = match outputs.is_empty() {
        true => "; it has none".to_owned(),
        false => nearest_hint(source.port.as_str(), outputs.iter().copied()),
    };
    let (step, port, upstream) = (&step.name, &port.name, &upstream.name);
    let message = format!(
        "step {step}: its input {port} takes {source}, but step {upstream} has no output {}{hint}",
        source.port
    );
    Refusal::new(Code::BadField, message)
}

/// Maximum number of steps of a circle that a sentence names.
const SHOWN_STEPS_MAX: usize = 20;

fn circular(circle: &[StepName]) -> Refusal {
    let mut shown: Vec<&str> = circle.iter().take(SHOWN_STEPS_MAX).map(StepName::as_str).collect();
    if circle.len() > SHOWN_STEPS_MAX {
        shown.push("…");
    }
    shown.extend(circle.first().map(StepName::as_str));
    let message =
        format!("the steps {} form a circle, so none of them could start; remove a connection", shown.join(" -> "));
    Refusal::new(Code::BadField, message)
}
