//! The command line: global options and the list of subcommands. The arguments of each are in its own file.

use clap::{CommandFactory as _, Parser, Subcommand};

use super::connect::Global;
use super::later::Later;
use super::{
    agent, config, context, controller, down, drain, exit, explain, forget, gate, get, graph, guard, history, hold,
    incidents, init, job, join, keys, kill, list, lists, logs, map, prompt, query, restart, retry, run, show, status,
    step, store, submit, supervise, tdf, tool, up, wait,
};
use crate::protocol::version;

const ABOUT: &str =
    "Runs small programs with low latency: submit a task, an agent runs its tool, and you get the result";

const EXIT_CODES: &str = "\
Exit codes:
    0    success, or nothing had to be done
    1    failure; stderr has the reason
    2    invalid usage or configuration
    3    no controller answers
    4    the controller refused; stderr has the code and the message
    5    no such task
  124    the time limit of a wait or of a task has passed
  map exits with the number of failed tasks, 101 for more than 100, and 255 if it cannot go on
  run and wait exit like the task: with its code, 124 if it TIMED_OUT or EXPIRED, or 128 + n if signal n ended it";

#[derive(Debug, Parser)]
#[command(name = "llts", version = version::program(), about = ABOUT, after_help = EXIT_CODES, max_term_width = 110)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a tool: submit a task, wait for its end, print its report, exit as it did
    Run(Later<run::RunArgs>),
    /// Run a command for each line of the input, as xargs and GNU parallel do
    Map(Later<Box<map::MapArgs>>),
    /// Submit a task and print its id
    Submit(Later<submit::SubmitArgs>),
    /// Wait until tasks have finished
    Wait(Later<wait::WaitArgs>),
    /// End tasks
    Kill(Later<kill::KillArgs>),
    /// Run finished tasks again
    Retry(Later<retry::RetryArgs>),
    /// Fetch the files that are kept with tasks
    Get(Later<get::GetArgs>),
    /// Remove finished tasks before their time
    Forget(Later<forget::ForgetArgs>),
    /// Keep tasks from starting
    Hold(Later<hold::HoldArgs>),
    /// Let held tasks start
    Release(Later<hold::ReleaseArgs>),
    /// Show everything known about a task
    Query(Later<query::QueryArgs>),
    /// Explain why a task waits, or why it ended as it did
    Explain(Later<explain::ExplainArgs>),
    /// Show what a task does, how it ended or what it waits for, and why
    Show(Later<show::ShowArgs>),
    /// Print the outputs of tasks, whole, also while they run
    Logs(Later<logs::LogsArgs>),
    /// List tasks, newest first
    List(Later<list::ListArgs>),
    /// Count finished rounds of the last days, with their run times
    History(Later<history::HistoryArgs>),
    /// List what happened to the service: lost agents, restarts, refused connections
    Incidents(Later<incidents::IncidentsArgs>),
    /// List jobs, newest first
    Jobs(Later<job::JobsArgs>),
    /// Show the progress of a job, its run times, and why tasks of it failed
    Job(Later<job::JobArgs>),
    /// Show the whole service on one screen: agents, jobs, running and waiting tasks, last failures
    Status(Later<status::StatusArgs>),
    /// The same screen, drawn again each second
    Top(Later<status::TopArgs>),
    /// Count tasks and agents
    Stats,
    /// List agents
    Agents,
    /// Show the service that is meant, and where everything of it is
    Info,
    /// Give agents no more tasks
    Drain(Later<drain::DrainArgs>),
    /// Limit how many tasks of a kind run at once, or start
    Gate(Later<gate::GateArgs>),
    /// Check or export the durable store
    Store(Later<store::StoreArgs>),
    /// Run, check and draw step graphs
    Graph(Later<graph::GraphArgs>),
    /// Within a task of a step: announce a partition; or end a step early
    Step(Later<step::StepArgs>),
    /// Make, check and pack tools
    Tool(Later<tool::ToolArgs>),
    /// Make keys, with which a controller accepts other machines but no strangers
    Keys(Later<keys::KeysArgs>),
    /// Show the configuration in force, and the source of each value
    Config(Later<config::ConfigArgs>),
    /// Name controllers of other machines
    Context(Later<context::ContextArgs>),
    /// Hand prompts out to workers that run a command for each
    Prompt(Later<prompt::PromptArgs>),
    /// Work off lists of commands that are files in a folder
    Lists(Later<lists::ListsArgs>),
    /// Make a home for a service, with keys if it listens for other machines
    Init(Later<init::InitArgs>),
    /// Make a home for agents of a controller on another machine that has invited this one
    Join(Later<join::JoinArgs>),
    /// Distribute tasks over machines by way of Redis
    Tdf(Later<tdf::TdfArgs>),
    /// Start a controller and agents in the background
    Up(Later<up::UpArgs>),
    /// Stop the service that `up` has started
    Down(Later<down::DownArgs>),
    /// Replace the processes of the service by this version of llts, one after the other, without losing a task
    Restart(Later<restart::RestartArgs>),
    /// Run a controller in the foreground
    Controller(Later<controller::ControllerArgs>),
    /// Run an agent in the foreground
    Agent(Later<agent::AgentArgs>),
    /// Run a controller and agents in the foreground
    #[command(hide = true)]
    Supervise(Later<supervise::SuperviseArgs>),
    /// End the processes that a killed process leaves behind
    #[command(hide = true)]
    Guard(Later<guard::GuardArgs>),
}

/// What a command works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A controller alone.
    Controller,
    /// Files of this machine, and perhaps a controller.
    Files,
    /// A service of this machine: its home, its processes, its keys, or another door.
    Service,
}

/// The exit code for arguments that were refused, or for help.
pub(super) fn exit_code(refused: &clap::Error) -> u8 {
    let code = u8::try_from(refused.exit_code()).unwrap_or(exit::USAGE);
    let is_map = || {
        let found = Arguments::command().ignore_errors(true).try_get_matches().ok();
        found.is_some_and(|found| found.subcommand_name() == Some("map"))
    };
    if code != 0 && is_map() { map::FAILED } else { code }
}

/// Whether arguments were refused only because there is no command.
pub(super) fn lacks_command(refused: &clap::Error) -> bool {
    use clap::error::ErrorKind;
    matches!(refused.kind(), ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
}

impl Command {
    /// Where this command works instead of at a controller that `--controller` could name; `None` if it uses a controller.
    pub(super) fn acts_elsewhere(&self) -> Option<&'static str> {
        match self {
            Self::Map(_)
            | Self::Run(_)
            | Self::Submit(_)
            | Self::Wait(_)
            | Self::Kill(_)
            | Self::Retry(_)
            | Self::Hold(_) => None,
            Self::Release(_)
            | Self::Query(_)
            | Self::Explain(_)
            | Self::Show(_)
            | Self::List(_)
            | Self::Stats
            | Self::Agents => None,
            Self::Status(_) | Self::Top(_) => None,
            Self::Drain(_)
            | Self::Gate(_)
            | Self::Agent(_)
            | Self::Info
            | Self::Get(_)
            | Self::Forget(_)
            | Self::History(_)
            | Self::Incidents(_)
            | Self::Logs(_)
            | Self::Jobs(_)
            | Self::Job(_)
            | Self::Step(_) => None,
            Self::Up(args) if args.is_about_agents_only() => None,
            Self::Up(_) => Some("`llts up` starts a service on this machine"),
            Self::Init(_) | Self::Join(_) => Some("this command makes a home on this machine"),
            Self::Down(_) => Some("`llts down` stops a service of this machine"),
            Self::Restart(_) => Some("`llts restart` replaces the processes of a service of this machine"),
            Self::Controller(_) => Some("`llts controller` is a controller itself"),
            Self::Store(_) => Some("`llts store` reads the store of this machine"),
            Self::Graph(args) => args.acts_elsewhere(),
            Self::Tool(_) => Some("`llts tool` works on files of this machine"),
            Self::Keys(_) => Some("`llts keys` makes files on this machine"),
            Self::Context(_) => Some("`llts context` keeps a file of this user"),
            Self::Config(_) => Some("`llts config` shows the configuration of this machine"),
            Self::Prompt(_) => {
                Some("`llts prompt` uses a prompt master, whose host and port are given after the command")
            }
            Self::Lists(_) => Some("`llts lists` uses a folder of this machine, or the server that --server names"),
            Self::Tdf(_) => Some("`llts tdf` knows a Redis, which is named in the file behind the command"),
            Self::Supervise(_) | Self::Guard(_) => Some("this command belongs to a service of this machine"),
        }
    }

    /// The things that it works with.
    pub(super) fn place(&self) -> Place {
        match self {
            Self::Up(_)
            | Self::Init(_)
            | Self::Join(_)
            | Self::Down(_)
            | Self::Restart(_)
            | Self::Controller(_)
            | Self::Agent(_)
            | Self::Supervise(_)
            | Self::Guard(_)
            | Self::Config(_)
            | Self::Keys(_)
            | Self::Context(_)
            | Self::Store(_)
            | Self::Prompt(_)
            | Self::Lists(_)
            | Self::Tdf(_) => Place::Service,
            command if command.acts_elsewhere().is_none() => Place::Controller,
            _ => Place::Files,
        }
    }

    /// Whether it is a part of a service, which has the home as its current folder.
    pub(super) const fn runs_in_its_home(&self) -> bool {
        matches!(self, Self::Controller(_) | Self::Agent(_))
    }

    /// Whether its stderr is for people.
    pub(super) const fn is_for_people(&self) -> bool {
        !matches!(self, Self::Supervise(_) | Self::Guard(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Format;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn global_options_stand_before_and_after_the_command() {
        for line in ["llts --output json stats", "llts stats --output json"] {
            let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(arguments.global.output, Format::Json, "{line}");
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        for line in ["llts up 1001", "llts up -1", "llts wait", "llts kill", "llts submit", "llts list --status X"] {
            let refused = Arguments::try_parse_from(line.split(' ')).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{line}");
        }
        for (controller, why) in [
            ("", "does not name a controller"),
            ("tcp://127.0.0.1:99999", "bad port"),
            ("tcp://127.0.0.1:0", "bad port"),
            ("tcp://127.0.0.1", "no port"),
            ("tcp://127.0.0.1.1:1", "bad host"),
            ("tcp://:1", "bad host"),
            ("inproc://x", "not an address of a controller"),
            ("ipc://", "not an address of a controller"),
        ] {
            let refused = Arguments::try_parse_from(["llts", "stats", "--controller", controller]).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{controller}");
            assert!(refused.to_string().contains(why), "{controller}: {refused}");
        }
    }
}
