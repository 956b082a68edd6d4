//! `llts graph`: step graphs in files.

mod dot;
mod svg;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::Session;
use super::exit::Failure;
use crate::engine::graph::Graph;
use crate::protocol::graph::{Document, GraphRules};
use crate::shell::controller::field_limits;

#[derive(Args, Debug)]
pub(super) struct GraphArgs {
    #[command(subcommand)]
    command: GraphCommand,
}

#[derive(Debug, Subcommand)]
enum GraphCommand {
    /// Check the document of a graph
    Check {
        /// The document: JSON or TOML
        file: PathBuf,
    },
    /// Print a graph as text for Graphviz
    Dot {
        /// The document: JSON or TOML
        file: PathBuf,
    },
    /// Print a graph as a drawing
    Svg {
        /// The document: JSON or TOML
        file: PathBuf,
    },
}

pub(super) fn run(session: &mut Session, args: &GraphArgs) -> Result<u8, Failure> {
    match &args.command {
        GraphCommand::Check { file } => check(session, file)?,
        GraphCommand::Dot { file } => {
            let (document, graph) = read(session, file)?;
            session.out.text(&dot::text(document.name.as_deref(), &graph));
        }
        GraphCommand::Svg { file } => {
            let (document, graph) = read(session, file)?;
            session.out.text(&svg::text(document.name.as_deref(), &graph));
        }
    }
    Ok(0)
}

fn check(session: &mut Session, file: &Path) -> Result<(), Failure> {
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

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Reads and checks a document, with the limits of the configuration.
fn read(session: &Session, file: &Path) -> Result<(Document, Graph), Failure> {
    let limits = session.config.graph;
    let bytes = read_bounded(file, limits.bytes_max)
        .map_err(|error| Failure::failed(format!("cannot read {}: {error}", file.display())))?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::failed(format!("{} is not UTF-8", file.display())))?;
    let fields = field_limits(&session.config.limits);
    let rules = GraphRules { graph: limits, fields, defaults: session.config.task_defaults.policy.clone().into() };
    let refused = |refusal| Failure::failed(format!("{}: {refusal}", file.display()));
    let document = Document::parse(&text, &rules).map_err(refused)?;
    let graph = Graph::new(&document).map_err(refused)?;
    Ok((document, graph))
}

/// One byte more than allowed is enough to know that there are too many.
fn read_bounded(file: &Path, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
