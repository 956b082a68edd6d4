//! `llts graph`: step graphs, in files and at a controller.

mod document;
mod dot;
pub(super) mod explain;
mod ids;
mod layout;
pub(super) mod list;
mod run;
pub(super) mod show;
mod svg;
mod view;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use term::exit::Failure;
use term::session::Session;

use document::Drawn;
pub(super) use run::wait;

#[derive(Args, Debug)]
pub(super) struct GraphArgs {
    #[command(subcommand)]
    command: GraphCommand,
}

#[derive(Debug, Subcommand)]
enum GraphCommand {
    /// Run a graph: submit it, show its steps until its end, exit as it did
    Run(run::RunArgs),
    /// Submit a graph and print its id
    Submit(run::SubmitArgs),
    /// Show a graph and its steps
    Show(show::ShowArgs),
    /// List graphs, newest first
    List(list::ListArgs),
    /// End graphs
    Kill(list::KillArgs),
    /// Check the document of a graph
    Check {
        /// The document: JSON or TOML
        file: PathBuf,
    },
    /// Print a graph as text for Graphviz
    Dot(DrawArgs),
    /// Print a graph as a drawing
    Svg(DrawArgs),
}

#[derive(Args, Debug)]
struct DrawArgs {
    /// The document: JSON or TOML; or a graph as of `llts graph show`, which is drawn with the states of its steps
    #[arg(value_name = "FILE_OR_ID")]
    what: PathBuf,
}

impl GraphArgs {
    /// Whether it makes no task.
    pub(super) const fn only_looks_or_stops(&self) -> bool {
        !matches!(self.command, GraphCommand::Run(_) | GraphCommand::Submit(_))
    }

    /// Where this command works instead of at a controller.
    pub(super) const fn acts_elsewhere(&self) -> Option<&'static str> {
        match &self.command {
            GraphCommand::Check { .. } => Some("`llts graph check` reads a file of this machine"),
            GraphCommand::Run(_)
            | GraphCommand::Submit(_)
            | GraphCommand::Show(_)
            | GraphCommand::List(_)
            | GraphCommand::Kill(_)
            | GraphCommand::Dot(_)
            | GraphCommand::Svg(_) => None,
        }
    }
}

pub(super) fn run(session: &mut Session, args: &GraphArgs) -> Result<u8, Failure> {
    match &args.command {
        GraphCommand::Run(args) => return run::run(session, args),
        GraphCommand::Submit(args) => return run::submit(session, args),
        GraphCommand::Show(args) => return show::run(session, args),
        GraphCommand::List(args) => return list::list(session, args),
        GraphCommand::Kill(args) => return list::kill(session, args),
        GraphCommand::Check { file } => document::check(session, file)?,
        GraphCommand::Dot(DrawArgs { what }) => {
            let drawn = Drawn::find(session, what)?;
            session.out.text(&dot::text(&drawn));
        }
        GraphCommand::Svg(DrawArgs { what }) => {
            let drawn = Drawn::find(session, what)?;
            session.out.text(&svg::text(&drawn));
        }
    }
    Ok(0)
}
