//! The command line: global options and the list of subcommands. The arguments of each are in its own file.

use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum as _};

use super::later::Later;
use super::{
    about, agent, config, context, controller, down, drain, events, explain, forget, gate, get, graph, guard, history,
    hold, incidents, init, job, join, keys, kill, list, logs, map, open, pause, progress, query, restart, retry, run,
    service, show, status, step, store, submit, supervise, tool, top, up, wait,
};
use api::kept_config;
use api::wire::version;
use term::connect::Global;
use term::exit;
use term::output::Format;

#[derive(Debug, Parser)]
#[command(name = "llts", version = version::shown(), max_term_width = 110, disable_help_subcommand = true)]
#[command(about = "Runs small programs with low latency")]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a command or tool: show its output, exit as it did
    Run(Later<run::RunArgs>),
    /// Run a command for each line, as xargs and parallel do
    Map(Later<Box<map::MapArgs>>),
    /// Submit a task and print its id
    Submit(Later<submit::SubmitArgs>),
    /// Wait until tasks have finished
    Wait(Later<wait::WaitArgs>),
    /// End tasks
    #[command(visible_alias = "cancel")]
    Kill(Later<kill::KillArgs>),
    /// Run finished tasks again
    Retry(Later<retry::RetryArgs>),
    /// Fetch the files that are kept with tasks
    Get(Later<get::GetArgs>),
    /// Remove finished tasks before their time
    #[command(visible_alias = "rm")]
    Forget(Later<forget::ForgetArgs>),
    /// Keep tasks from starting
    #[command(hide = true)]
    Hold(Later<hold::HoldArgs>),
    /// Let held tasks start
    #[command(hide = true)]
    Release(Later<hold::ReleaseArgs>),
    /// Keep tasks, jobs, agents or a gate from starting
    Pause(Later<pause::PauseArgs>),
    /// End a pause
    Resume(Later<pause::ResumeArgs>),
    /// Show everything known about a task
    Query(Later<query::QueryArgs>),
    /// Explain why a task waits, or why it ended as it did
    Explain(Later<explain::ExplainArgs>),
    /// Show what a task does or waits for, and why
    Show(Later<show::ShowArgs>),
    /// Print the outputs of tasks, also while they run
    #[command(visible_alias = "log")]
    Logs(Later<logs::LogsArgs>),
    /// List tasks, newest first
    #[command(visible_aliases = ["ls", "ps"])]
    List(Later<list::ListArgs>),
    /// Count finished rounds, with their run times
    History(Later<history::HistoryArgs>),
    /// List lost agents, restarts, refused connections
    Incidents(Later<incidents::IncidentsArgs>),
    /// Print the changes of tasks as they happen
    Events(Later<events::EventsArgs>),
    /// List jobs, newest first
    Jobs(Later<job::JobsArgs>),
    /// Show the progress of a job, and why tasks failed
    Job(Later<job::JobArgs>),
    /// Show the whole service on one screen
    Status(Later<status::StatusArgs>),
    /// The live screen: problems, tasks and jobs, with keys that act on them
    Top(Later<top::TopArgs>),
    /// Count tasks and agents
    Stats,
    /// List agents
    Agents,
    /// Show which service you are talking to and where its files are
    Info,
    /// Open the page of the service in a browser
    Open(Later<open::OpenArgs>),
    /// Give agents no more tasks
    #[command(hide = true)]
    Drain(Later<drain::DrainArgs>),
    /// Limit how many tasks of a kind run at once, or start
    Gate(Later<gate::GateArgs>),
    /// Back up, restore, check, copy or repair the queue
    Store(Later<store::StoreArgs>),
    /// Run, check and draw step graphs
    Graph(Later<graph::GraphArgs>),
    /// Within a task of a step: announce a partition; or end a step early
    #[command(hide = true)]
    Step(Later<step::StepArgs>),
    /// Make, check and pack tools
    Tool(Later<tool::ToolArgs>),
    /// Make and admit the keys of other machines
    Keys(Later<keys::KeysArgs>),
    /// Show the configuration in force, and the source of each value
    Config(Later<config::ConfigArgs>),
    /// Name controllers of other machines
    Context(Later<context::ContextArgs>),
    /// Hand prompts to workers that run a command for each
    Prompt(Later<prompts::cli::PromptArgs>),
    /// Run lists of commands kept as files in a folder
    #[command(name = "spool", visible_alias = "lists")]
    Lists(Later<lists::cli::ListsArgs>),
    /// Make a home for a service, with keys if it listens for other machines
    Init(Later<init::InitArgs>),
    /// Run agents here for a controller elsewhere
    Join(Later<join::JoinArgs>),
    /// Distribute tasks over machines by way of Redis
    Tdf(Later<tdf::cli::TdfArgs>),
    /// Start a controller and agents in the background
    Up(Later<up::UpArgs>),
    /// Stop the service that `up` has started
    Down(Later<down::DownArgs>),
    /// Replace the processes of the service by this version of llts
    Restart(Later<restart::RestartArgs>),
    /// Explain commands, options and topics of the manual
    #[command(hide = true)]
    Help(about::HelpArgs),
    /// Print the completions of a shell: bash, zsh or fish
    Completions(about::CompletionsArgs),
    /// Within a task: tell how far it is
    Progress(progress::ProgressArgs),
    /// Write manual pages into a folder
    #[command(hide = true)]
    Man(about::ManArgs),
    /// Check this machine and this home for what keeps a service from working
    Doctor,
    /// Run the service under systemd
    Service(Later<service::ServiceArgs>),
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

/// The things that a command works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A controller alone.
    Controller,
    /// Files of this machine, and perhaps a controller.
    Files,
    /// A service of this machine (its home, processes or keys), or another door.
    Service,
}

/// The name of the command in this process's arguments, even if those have errors.
pub(super) fn verb() -> Option<String> {
    // An option for help would end the parsing.
    let words = std::env::args_os().filter(|word| word != "--help" && word != "-h");
    let found = Arguments::command().ignore_errors(true).try_get_matches_from(words).ok()?;
    found.subcommand_name().map(str::to_owned)
}

/// The output format in this process's arguments. It is found by hand, because clap stops at the first wrong argument.
pub(super) fn format() -> Format {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let own = words.split(|word| word == "--").next().unwrap_or_default();
    let pair = own.windows(2).find_map(|pair| match pair {
        [option, format] if option == "--output" => Some(format.as_str()),
        _ => None,
    });
    let named = pair.or_else(|| own.iter().find_map(|word| word.strip_prefix("--output=")));
    named.and_then(|name| Format::from_str(name, true).ok()).unwrap_or(Format::Human)
}

/// The exit code for refused arguments, or for help.
pub(super) fn exit_code(refused: &clap::Error, verb: Option<&str>) -> u8 {
    let code = u8::try_from(refused.exit_code()).unwrap_or(exit::USAGE);
    if code != 0 && verb == Some("map") { map::FAILED } else { code }
}

/// Whether the only fault is that there is no command.
pub(super) fn lacks_command(refused: &clap::Error) -> bool {
    use clap::error::ErrorKind;
    matches!(refused.kind(), ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
}

impl Command {
    /// Where this command works if it cannot use the controller of `--controller`; `None` if it can.
    pub(super) fn acts_elsewhere(&self) -> Option<&'static str> {
        match self {
            Self::Map(_)
            | Self::Run(_)
            | Self::Submit(_)
            | Self::Wait(_)
            | Self::Kill(_)
            | Self::Retry(_)
            | Self::Hold(_) => None,
            Self::Pause(_) | Self::Resume(_) | Self::Show(_) | Self::Status(_) | Self::Top(_) => None,
            Self::Release(_) | Self::Query(_) | Self::Explain(_) | Self::List(_) | Self::Stats | Self::Agents => None,
            Self::Drain(_)
            | Self::Gate(_)
            | Self::Agent(_)
            | Self::Info
            | Self::Get(_)
            | Self::Forget(_)
            | Self::History(_)
            | Self::Incidents(_)
            | Self::Events(_)
            | Self::Logs(_)
            | Self::Jobs(_)
            | Self::Job(_)
            | Self::Step(_) => None,
            Self::Up(args) if args.is_about_agents_only() => None,
            Self::Up(_) => Some("`llts up` starts a service on this machine"),
            Self::Init(_) | Self::Join(_) => Some("this command makes a home on this machine"),
            Self::Open(_) => Some("`llts open` opens the page of a service of this machine"),
            Self::Doctor => Some("`llts doctor` checks this machine"),
            Self::Service(_) => Some("`llts service` makes a unit of this machine"),
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
            Self::Lists(_) => Some("`llts spool` uses a folder of this machine, or the server that --server names"),
            Self::Tdf(_) => Some("`llts tdf` knows a Redis, which is named in the file behind the command"),
            Self::Help(_) | Self::Completions(_) | Self::Man(_) | Self::Progress(_) => {
                Some("this command prints a text")
            }
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
            | Self::Open(_)
            | Self::Doctor
            | Self::Service(_)
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

    /// Whether the command can do all of its work with a damaged configuration. It can if it stops a service or only talks to a running
    /// one. A command that may start a service or make a task needs more of the configuration than the place of the socket.
    pub(super) fn does_without_configuration(&self) -> bool {
        match self {
            Self::Down(_) | Self::Open(_) | Self::Doctor | Self::Context(_) => true,
            Self::Run(_) | Self::Map(_) | Self::Submit(_) | Self::Step(_) | Self::Agent(_) => false,
            Self::Graph(args) => args.only_looks_or_stops(),
            Self::Tool(args) => args.only_asks(),
            command => command.place() == Place::Controller,
        }
    }

    /// Whether it is a part of a service, which has the home as its current folder.
    pub(super) const fn runs_in_its_home(&self) -> bool {
        matches!(self, Self::Controller(_) | Self::Agent(_))
    }

    /// The copy of the configuration for this process, if it belongs to a service that runs.
    pub(super) fn kept_config(&self) -> Option<PathBuf> {
        match self {
            Self::Supervise(args) => args.0.kept_config(),
            Self::Controller(_) | Self::Agent(_) => kept_config::given(),
            _ => None,
        }
    }

    /// Whether its stderr is for people.
    pub(super) const fn is_for_people(&self) -> bool {
        !matches!(self, Self::Supervise(_) | Self::Guard(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let of_a_machine = "llts service install --user --run-as llts";
        for line in [
            of_a_machine,
            "llts up 1001",
            "llts up -1",
            "llts wait",
            "llts kill",
            "llts submit",
            "llts list --status X",
        ] {
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
