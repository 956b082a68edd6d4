//! Traces, rules and random graphs against the pure scheduler.

mod early;
mod random;
mod rules;
mod runs;
mod size;
mod traces;

use std::sync::Arc;

use super::*;
use api::wire::Refusal;
use api::wire::graph::{Document, GraphRules};
use api::wire::rules::DefaultPolicies;
use base::json::FieldLimits;
use base::{
    GraphEntry, GraphEvent, GraphLimits, PortActivity, StepIndex, StepName, StepState, StepTask, TaskEnd, TaskRole,
};

fn rules() -> GraphRules {
    let graph = GraphLimits { bytes_max: 1 << 24, steps_max: 20_000, connections_max: 200_000, tasks_max: 1_000_000 };
    GraphRules { graph, fields: FieldLimits::TRUSTED, defaults: DefaultPolicies::default() }
}

fn graph(text: &str) -> Result<Graph, Refusal> {
    Graph::new(&Document::parse(text, &rules())?)
}

/// A graph in which each step is written as one line: `name kind inputs | sub inputs`. The kind is `x` for an exchange, a number
/// of tasks, or `each` for one task per partition of the first input. An input is the list of steps that it takes.
fn lines(lines: &[&str]) -> String {
    let port = |text: &str| text.split('+').map(|step| format!("\"{step}.out\"")).collect::<Vec<_>>().join(",");
    let ports = |text: &str, letter: char| {
        let ports = text.split_whitespace().enumerate();
        ports.map(|(at, sources)| format!("\"{letter}{at}\":[{}]", port(sources))).collect::<Vec<_>>().join(",")
    };
    let step = |line: &&str| {
        let (main, sub) = line.split_once('|').unwrap_or((line, ""));
        let (name, rest) = main.split_once(' ').unwrap_or((main, "1"));
        let (kind, inputs) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
        let work = match kind {
            "x" => String::new(),
            "each" => ",\"operation\":\"t\",\"tasks\":\"i0\"".to_owned(),
            count => format!(",\"operation\":\"t\",\"tasks\":{count}"),
        };
        let sub_inputs =
            if sub.is_empty() { String::new() } else { format!(",\"sub_inputs\":{{{}}}", ports(sub, 's')) };
        format!("\"{name}\":{{\"inputs\":{{{}}}{sub_inputs}{work}}}", ports(inputs, 'i'))
    };
    format!("{{\"steps\":{{{}}}}}", lines.iter().map(step).collect::<Vec<_>>().join(","))
}

/// A scheduler whose tasks end when the test says so.
struct World {
    scheduler: Scheduler,
    /// Changes of states since the last look: `a PREPARED` as `a P`.
    changes: Vec<String>,
    running: Vec<(StepTask, Option<Partition>)>,
    started: Vec<(StepTask, Option<Partition>)>,
    told: Vec<StepTask>,
    is_done: bool,
}

impl World {
    fn new(steps: &[&str]) -> Self {
        Self::of(&lines(steps))
    }

    fn of(text: &str) -> Self {
        let graph = Arc::new(graph(text).unwrap_or_else(|refusal| panic!("{refusal}: {text}")));
        let mut world = Self {
            scheduler: Scheduler::new(graph, 100_000),
            changes: Vec::new(),
            running: Vec::new(),
            started: Vec::new(),
            told: Vec::new(),
            is_done: false,
        };
        world.drain();
        world
    }

    fn drain(&mut self) {
        while let Some(effect) = self.scheduler.poll_effect() {
            match effect {
                Effect::Start(slot, partition) => {
                    self.running.push((slot, partition));
                    self.started.push((slot, partition));
                }
                Effect::End(slot) => self.told.push(slot),
                Effect::Changed(step, state) => {
                    let letter = ["c", "A", "ing", "P", "R", "E", "C", "D"][state as usize];
                    self.changes.push(format!("{} {letter}", self.name(step)));
                }
                Effect::Excess(step) => self.changes.push(format!("{} excess", self.name(step))),
                Effect::Done => self.is_done = true,
            }
        }
        self.scheduler.sanity_check();
    }

    fn name(&self, step: StepIndex) -> String {
        self.scheduler.graph().step(step).name.to_string()
    }

    fn step(&self, name: &str) -> StepIndex {
        self.scheduler.graph().named(&StepName::new(name).unwrap()).unwrap()
    }

    fn state(&self, name: &str) -> StepState {
        self.scheduler.state(self.step(name))
    }

    /// The changes since the last call.
    fn seen(&mut self) -> String {
        std::mem::take(&mut self.changes).join("; ")
    }

    /// The running tasks, as `step` or `step!` for one that prepares.
    fn tasks(&self) -> String {
        let task = |(slot, _): &(StepTask, _)| {
            format!("{}{}", self.name(slot.step), if slot.role == TaskRole::Main { "" } else { "!" })
        };
        let mut running = self.running.clone();
        running.sort();
        running.iter().map(task).collect::<Vec<_>>().join(" ")
    }

    /// The oldest running task of a step ends. Returns the changes.
    #[track_caller]
    fn end(&mut self, name: &str) -> String {
        let step = self.step(name);
        let at = self.running.iter().position(|(slot, _)| slot.step == step).expect("it has a task");
        let (slot, _) = self.running.remove(at);
        assert!(self.scheduler.handle_ended(slot, true), "{slot:?}");
        self.drain();
        self.seen()
    }

    /// A task announces partitions on the first output of its step.
    fn provide(&mut self, name: &str, task: u32, first: u32, count: u32) -> String {
        let output = OutputId { step: self.step(name), output: 0 };
        assert!(self.scheduler.handle_providing(output, task, first, count), "{name} has ended");
        self.drain();
        self.seen()
    }

    fn complete(&mut self, name: &str) -> String {
        self.scheduler.handle_completion(self.step(name));
        self.drain();
        self.seen()
    }
}
