//! A graph as text for Graphviz: sub inputs are dashed lines, exchanges are ovals.

use std::fmt::Write as _;

use super::document::Drawn;
use base::{StepState, counted};
use engine::graph::MainTasks;

/// The text for Graphviz. The name of each port is at its end of the line.
pub(super) fn text(drawn: &Drawn) -> String {
    let graph = &drawn.graph;
    let mut out = format!("digraph {} {{\n  rankdir=LR;\n  node [shape=box, style=rounded];\n", quoted(&drawn.title));
    for step in graph.steps() {
        let (name, tasks) = (step.name.as_str(), tasks(step.main, &step.inputs));
        let (label, shape) = match &tasks {
            Some(tasks) => (format!("{name}\n{tasks}"), ""),
            None => (name.to_owned(), ", shape=ellipse"),
        };
        let colour = drawn.state(&step.name).map(colour);
        let style = if shape.is_empty() { "rounded,filled" } else { "filled" };
        let colour = colour.map(|colour| format!(", style={}, fillcolor=\"{colour}\"", quoted(style)));
        // Writing into a String cannot fail.
        let _ = writeln!(out, "  {} [label={}{shape}{}];", quoted(name), quoted(&label), colour.unwrap_or_default());
    }
    for step in graph.steps() {
        for (input, number) in step.inputs.iter().zip(0..) {
            let style = if step.is_sub(number) { ", style=dashed" } else { "" };
            for source in &input.sources {
                let from = graph.step(source.step);
                let [tail, head] =
                    [&from.outputs[source.output as usize].name, &input.name].map(|name| quoted(name.as_str()));
                let (from, to) = (quoted(from.name.as_str()), quoted(step.name.as_str()));
                let _ = writeln!(out, "  {from} -> {to} [taillabel={tail}, headlabel={head}{style}];");
            }
        }
    }
    out.push_str("}\n");
    out
}

/// The number of tasks of a step for people; `None` for an exchange.
pub(super) fn tasks(main: MainTasks, inputs: &[engine::graph::Input]) -> Option<String> {
    match main {
        MainTasks::Exchange => None,
        MainTasks::Number(1) => Some("1 task".to_owned()),
        MainTasks::Number(count) => Some(counted(count, "task")),
        MainTasks::PerPartition(input) => Some(format!("a task per partition of {}", inputs[input as usize].name)),
    }
}

/// The colour of a step in a state: grey before its work, blue during it, green after it.
pub(super) const fn colour(state: StepState) -> &'static str {
    match state {
        StepState::Created => "#ffffff",
        StepState::Activated | StepState::Prepared => "#eef2f7",
        StepState::Preparing => "#dbe7fb",
        StepState::Running => "#b9d3fa",
        StepState::Completing => "#fde3b4",
        StepState::Completed => "#c6ecd0",
        StepState::Deactivated => "#e2f5e7",
    }
}

/// A quoted id of Graphviz. A line break becomes two characters.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
