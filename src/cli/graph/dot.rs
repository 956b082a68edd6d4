//! A graph as text for Graphviz: sub inputs are dashed lines, exchanges are ovals.

use std::fmt::Write as _;

use crate::engine::graph::{Graph, MainTasks};

/// The text. Every name of a port stands at its end of the line.
pub(super) fn text(title: Option<&str>, graph: &Graph) -> String {
    let mut out =
        format!("digraph {} {{\n  rankdir=LR;\n  node [shape=box, style=rounded];\n", quoted(title.unwrap_or("graph")));
    for step in graph.steps() {
        let (name, tasks) = (step.name.as_str(), tasks(step.main, &step.inputs));
        let (label, shape) = match &tasks {
            Some(tasks) => (format!("{name}\n{tasks}"), ""),
            None => (name.to_owned(), ", shape=ellipse"),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(out, "  {} [label={}{shape}];", quoted(name), quoted(&label));
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
pub(super) fn tasks(main: MainTasks, inputs: &[crate::engine::graph::Input]) -> Option<String> {
    match main {
        MainTasks::Exchange => None,
        MainTasks::Number(1) => Some("1 task".to_owned()),
        MainTasks::Number(count) => Some(format!("{count} tasks")),
        MainTasks::PerPartition(input) => Some(format!("a task per partition of {}", inputs[input as usize].name)),
    }
}

/// A quoted id of the language. A line break in it is written as two characters.
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
