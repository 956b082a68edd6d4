//! `llts step`: report from the task of a step to the controller while it runs.

use clap::{Args, Subcommand};

use api::wire::requests::step;
use api::wire::step_files;
use base::{Round, words};
use term::exit::Failure;
use term::session::Session;

#[derive(Args, Debug)]
pub(super) struct StepArgs {
    #[command(subcommand)]
    command: StepCommand,
}

#[derive(Debug, Subcommand)]
enum StepCommand {
    /// Within a task of a step: announce a partition at once, so that steps downstream can start
    #[command(after_help = "\
A location that begins with out/ is the path in ../out of the task, which is kept with its graph. All other locations are \
handed on as they are. What a task announces only at its end belongs in ../provide/PORT, one line for each partition.")]
    Providing {
        /// The output of the step
        port: String,
        /// The location of the partition; it may be empty
        location: String,
    },
    /// End a step early: its tasks get a file ../finish and SIGTERM, and what they provide then counts
    Complete {
        /// The graph; within a task of a step, that of the task
        #[arg(value_name = "GRAPH_ID")]
        graph_or_step: String,
        /// The step
        step: Option<String>,
    },
}

pub(super) fn run(session: &mut Session, args: &StepArgs) -> Result<u8, Failure> {
    let ask = match &args.command {
        StepCommand::Providing { port, location } => {
            let task = of_the_task(words::TASK_ID, "only a running task announces a partition")?;
            of_the_task(words::STEP, "the task is not of a step, so nothing is downstream of it")?;
            let round = std::env::var(words::ROUND).ok().and_then(|round| round.parse().ok()).map(Round);
            step::providing(&task, round, port, &whole(location)?)
        }
        StepCommand::Complete { graph_or_step, step: Some(step) } => step::complete(graph_or_step, step),
        StepCommand::Complete { graph_or_step: step, step: None } => {
            let usage = format!("outside of a task of a step write `llts step complete GRAPH_ID {step}`");
            step::complete(&of_the_task(words::GRAPH_ID, &usage)?, step)
        }
    };
    session.client()?.ask(&ask)?;
    Ok(0)
}

/// Turns a location within the output folder into a full path.
fn whole(location: &str) -> Result<String, Failure> {
    match location.strip_prefix(step_files::OUT_PREFIX) {
        Some(path) => {
            let folder = of_the_task(step_files::OUT_PATH, "the task has no folder for outputs")?;
            Ok(format!("{folder}/{path}"))
        }
        None => Ok(location.to_owned()),
    }
}

/// A variable that an agent sets for a task.
fn of_the_task(name: &str, otherwise: &str) -> Result<String, Failure> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.ok_or_else(|| Failure::usage(format!("{name} is not in the environment: {otherwise}")))
}
