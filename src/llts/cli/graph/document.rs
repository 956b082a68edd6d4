//! Graph documents in files, and graphs prepared for drawing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Value, json};

use super::super::Session;
use super::{ids, show};
use api::wire::graph::{Document, GraphRules, check_bytes, state};
use api::wire::requests::graph::{StepRow, query};
use base::{GraphLimits, StepName, StepState, counted, words};
use controller::process::field_limits;
use engine::graph::Graph;
use term::exit::Failure;

/// A graph to be drawn.
pub(super) struct Drawn {
    pub(super) title: String,
    pub(super) graph: Graph,
    /// The states of its steps, if it is at a controller.
    states: BTreeMap<String, StepState>,
}

impl Drawn {
    /// The graph of a file, or the one with this id.
    pub(super) fn find(session: &Session, what: &Path) -> Result<Self, Failure> {
        if let Some(text) = what.to_str().filter(|text| ids::may_name(text) && !what.exists()) {
            return Self::of_controller(session, text);
        }
        let (document, graph) = read(session, what)?;
        Ok(Self { title: document.name.unwrap_or_else(|| "graph".to_owned()), graph, states: BTreeMap::new() })
    }

    fn of_controller(session: &Session, text: &str) -> Result<Self, Failure> {
        let client = session.client()?;
        let id = &ids::whole(&client, text)?;
        let answer = client.ask(&query(id, None))?;
        let rows = show::all_steps(&client, id)?;
        let steps: serde_json::Map<_, _> = rows.iter().map(|row| (row.name.clone(), step(row))).collect();
        let text = json!({ "steps": steps }).to_string();
        // The controller has already accepted this graph, perhaps with other limits.
        let limits = GraphLimits {
            bytes_max: usize::MAX,
            steps_max: usize::MAX,
            connections_max: usize::MAX,
            tasks_max: usize::MAX,
        };
        let unclear = |refusal| Failure::failed(format!("the steps of {id} do not fit together: {refusal}"));
        let graph = Document::parse(&text, &rules(session, limits)).and_then(|document| Graph::new(&document));
        let known = |row: &StepRow| StepState::ALL.into_iter().find(|one| state(*one) == row.state());
        let states = rows.iter().filter_map(|row| Some((row.name.clone(), known(row)?))).collect();
        Ok(Self { title: answer.name().unwrap_or(id).to_owned(), graph: graph.map_err(unclear)?, states })
    }

    pub(super) fn state(&self, step: &StepName) -> Option<StepState> {
        self.states.get(step.as_str()).copied()
    }
}

/// A step in the form of its document, reduced to the parts that a drawing shows.
fn step(row: &StepRow) -> Value {
    let sources = |word| -> serde_json::Map<_, _> {
        let ports = row.data.get(word).and_then(Value::as_object).into_iter().flatten().map(|(port, _)| port);
        let source = |port: &String| row.data.get(words::SOURCES)?.get(port).cloned();
        ports.filter_map(|port| Some((port.clone(), source(port)?))).collect()
    };
    let outputs = row.data.get(words::OUTPUTS).and_then(Value::as_object);
    let outputs: Vec<_> = outputs.into_iter().flatten().map(|(port, _)| port).collect();
    let mut step = json!({ "inputs": sources(words::INPUTS), "outputs": outputs });
    if row.data.contains_key(words::OPERATION) {
        step["sub_inputs"] = sources(words::SUB_INPUTS).into();
        step["command"] = json!(["true"]);
        step["tasks"] = row.task_count().into();
    }
    step
}

pub(super) fn check(session: &mut Session, file: &Path) -> Result<(), Failure> {
    let (document, graph) = read(session, file)?;
    let (steps, connections, tasks) = (graph.steps().len(), document.connections(), document.tasks());
    let name = document.name.as_deref();
    if session.out.is_json() {
        session.out.value(&json!({ "name": name, "steps": steps, "connections": connections, "tasks": tasks }));
        return Ok(());
    }
    let title = name.map_or_else(|| file.display().to_string(), str::to_owned);
    let of_partitions = document.steps.iter().filter(|step| step.is_per_partition()).count();
    let more = if of_partitions == 0 { "" } else { ", and one for each partition" };
    let line = [(steps, "step"), (connections, "connection"), (tasks, "task")]
        .map(|(count, what)| counted(count, what))
        .join(", ");
    session.out.line(format_args!("{title}: {line}{more}"));
    Ok(())
}

/// Reads and checks a document, with the limits of the configuration.
fn read(session: &Session, file: &Path) -> Result<(Document, Graph), Failure> {
    let limits = session.config.graph;
    let text = text(session, file)?;
    let refused = |refusal| Failure::failed(format!("{}: {refusal}", file.display()));
    let document = Document::parse(&text, &rules(session, limits)).map_err(refused)?;
    let graph = Graph::new(&document).map_err(refused)?;
    Ok((document, graph))
}

fn rules(session: &Session, graph: GraphLimits) -> GraphRules {
    let fields = field_limits(&session.config.limits);
    GraphRules { graph, fields, defaults: session.config.task_defaults.policy.clone().into() }
}

/// The text of a document. At most one byte more than allowed is read, which shows that it is too long.
pub(super) fn text(session: &Session, file: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let limits = &session.config.graph;
    let read = File::open(file).and_then(|opened| opened.take(limits.bytes_max as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| Failure::failed(format!("cannot read {}: {error}", file.display())))?;
    check_bytes(bytes.len(), limits).map_err(|refusal| Failure::failed(format!("{}: {refusal}", file.display())))?;
    String::from_utf8(bytes).map_err(|_| Failure::failed(format!("{} is not UTF-8", file.display())))
}
