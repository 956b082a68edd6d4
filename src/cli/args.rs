//! What the command line takes: global options and the list of subcommands. Their own arguments stand in their files.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::exit::Failure;
use super::{
    agent, config, connect, context, drain, explain, gate, guard, hold, init, join, keys, kill, list, prompt, query,
    release, retry, run, store, submit, supervise, tool, up, wait,
};
use crate::protocol::info::CONTROLLER_ADDRESS;

/// The variable that names a context.
const CONTEXT: &str = "LLTS_CONTEXT";

const ABOUT: &str = "Runs small programs with low latency: submit a task, an agent runs the tool, you are told";

const EXIT_CODES: &str = "\
Exit codes:
    0    done, or there was nothing to do
    1    it failed; stderr says why
    2    usage, or a bad configuration
    3    no controller answers
    4    the controller refused; stderr has the code and the sentence
    5    no such task
  124    the time of a wait is over, or that of the task was
  run and wait exit as the task did: its code, 124 if it TIMED_OUT or EXPIRED, or 128 + n if signal n ended it";

#[derive(Debug, Parser)]
#[command(name = "llts", version, about = ABOUT, after_help = EXIT_CODES, max_term_width = 110)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Args, Debug)]
pub(super) struct Global {
    /// The folder of the service: configuration, state, tools, work, logs, socket [default: the variable LLTS_HOME, else the
    /// nearest home upwards from here, else that of the user]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(super) home: Option<PathBuf>,
    /// Configuration file, read over the built-in defaults [default: config.toml of the home if there is one]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(super) config: Option<PathBuf>,
    /// The controller to talk to: tcp://IP:PORT or ipc://PATH [default: the variable CONTROLLER_ADDRESS, else the one of the
    /// configuration]
    #[arg(long, global = true, value_name = "ENDPOINT", value_parser = connect::parse, help_heading = "Global options")]
    controller: Option<String>,
    /// A controller by its name in `llts context list`, with the keys for it [default: the variable LLTS_CONTEXT]
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "controller", help_heading = "Global options")]
    context: Option<String>,
    /// Tables for people, or one JSON value on stdout
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "human|json",
        hide_possible_values = true,
        default_value_t = Format::Human,
        help_heading = "Global options"
    )]
    pub(super) output: Format,
}

impl Global {
    /// The controller, if one was named here or in the environment. An empty variable names none.
    ///
    /// # Errors
    /// When the variable is no address of a controller.
    pub(super) fn controller(&self) -> Result<Option<String>, Failure> {
        if let Some(named) = &self.controller {
            return Ok(Some(named.clone()));
        }
        let Some(variable) = std::env::var_os(CONTROLLER_ADDRESS).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        // A text that is no Unicode is refused with its value, not passed over.
        let named = connect::parse(&variable.to_string_lossy());
        named.map(Some).map_err(|why| Failure::usage(format!("the environment variable {CONTROLLER_ADDRESS}: {why}")))
    }

    /// What the arguments say to name a controller, if they do.
    pub(super) fn named_elsewhere(&self) -> Option<String> {
        let controller = self.controller.as_ref().map(|address| format!("--controller {address}"));
        controller.or_else(|| self.context.as_ref().map(|name| format!("--context {name}")))
    }

    /// The context that holds, if one does: an address is more than a name, and an argument more than a variable.
    ///
    /// # Errors
    /// When the variable is no address of a controller, which would be more than a name.
    pub(super) fn context(&self) -> Result<Option<String>, Failure> {
        if self.context.is_some() || self.controller()?.is_some() {
            return Ok(self.context.clone());
        }
        let variable = std::env::var_os(CONTEXT).filter(|value| !value.is_empty());
        Ok(variable.map(|name| name.to_string_lossy().into_owned()))
    }

    /// Names the controller as `--controller` does.
    pub(super) fn set_controller(&mut self, address: String) {
        self.controller = Some(address);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Human,
    Json,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a tool: submit a task, wait for its end, print its report, exit as it did
    Run(run::RunArgs),
    /// Submit a task and print its id
    Submit(submit::SubmitArgs),
    /// Wait until tasks have finished
    Wait(wait::WaitArgs),
    /// End tasks
    Kill(kill::KillArgs),
    /// Run tasks again that have finished
    Retry(retry::RetryArgs),
    /// Keep tasks from starting
    Hold(hold::HoldArgs),
    /// Let held tasks start
    Release(release::ReleaseArgs),
    /// Show all that is known of a task
    Query(query::QueryArgs),
    /// Say why a task waits, or why it ended as it did
    Explain(explain::ExplainArgs),
    /// List tasks, newest first
    List(list::ListArgs),
    /// Count tasks and agents
    Stats,
    /// List agents
    Agents,
    /// Show the service that is meant, and where everything of it is
    Info,
    /// Give agents no more tasks
    Drain(drain::DrainArgs),
    /// Limit how many tasks of a kind run at once, or start
    Gate(gate::GateArgs),
    /// Check or export the durable store
    Store(store::StoreArgs),
    /// Make, check and pack tools
    Tool(tool::ToolArgs),
    /// Make keys, with which a controller is open to other machines and to nobody else
    Keys(keys::KeysArgs),
    /// Show what is configured, and where it was said
    Config(config::ConfigArgs),
    /// Name controllers of other machines
    Context(context::ContextArgs),
    /// Hand prompts out to workers that run a command for each
    Prompt(prompt::PromptArgs),
    /// Make a home for a service, with keys if it listens for other machines
    Init(init::InitArgs),
    /// Make a home for agents of a controller on another machine, which has invited this one
    Join(join::JoinArgs),
    /// Start a controller and agents in the background
    Up(up::UpArgs),
    /// Stop what `up` has started
    Down,
    /// Run a controller in the foreground
    Controller,
    /// Run an agent in the foreground
    Agent(agent::AgentArgs),
    /// Run a controller and agents in the foreground
    #[command(hide = true)]
    Supervise(supervise::SuperviseArgs),
    /// End what a process leaves behind when it is killed
    #[command(hide = true)]
    Guard(guard::GuardArgs),
}

impl Command {
    /// What this command does instead of talking to a controller that `--controller` could name; `None` if it talks to one.
    pub(super) fn acts_elsewhere(&self) -> Option<&'static str> {
        match self {
            Self::Run(_) | Self::Submit(_) | Self::Wait(_) | Self::Kill(_) | Self::Retry(_) | Self::Hold(_) => None,
            Self::Release(_) | Self::Query(_) | Self::Explain(_) | Self::List(_) | Self::Stats | Self::Agents => None,
            Self::Drain(_) | Self::Gate(_) | Self::Agent(_) | Self::Info => None,
            Self::Up(args) if args.is_about_agents_only() => None,
            Self::Up(_) => Some("`llts up` starts a service on this machine"),
            Self::Init(_) | Self::Join(_) => Some("this command makes a home on this machine"),
            Self::Down => Some("`llts down` stops a service of this machine"),
            Self::Controller => Some("`llts controller` is a controller itself"),
            Self::Store(_) => Some("`llts store` reads the store of this machine"),
            Self::Tool(_) => Some("`llts tool` works on files of this machine"),
            Self::Keys(_) => Some("`llts keys` makes files on this machine"),
            Self::Context(_) => Some("`llts context` keeps a file of this user"),
            Self::Config(_) => Some("`llts config` shows the configuration of this machine"),
            Self::Prompt(_) => {
                Some("`llts prompt` knows a prompt master, which is named by host and port behind the command")
            }
            Self::Supervise(_) | Self::Guard(_) => Some("this command belongs to a service of this machine"),
        }
    }

    /// Whether it is a part of a service, which has the home as its current folder.
    pub(super) const fn runs_in_its_home(&self) -> bool {
        matches!(self, Self::Controller | Self::Agent(_))
    }

    /// Whether a person reads what it says on stderr.
    pub(super) const fn is_for_people(&self) -> bool {
        !matches!(self, Self::Supervise(_) | Self::Guard(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

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
        for line in
            ["llts up 0", "llts up 1001", "llts up -1", "llts wait", "llts kill", "llts submit", "llts list --status X"]
        {
            let refused = Arguments::try_parse_from(line.split(' ')).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{line}");
        }
        for (controller, why) in [
            ("", "names no controller"),
            ("tcp://127.0.0.1:99999", "bad port"),
            ("tcp://127.0.0.1:0", "bad port"),
            ("tcp://127.0.0.1", "no port"),
            ("tcp://127.0.0.1.1:1", "bad host"),
            ("tcp://:1", "bad host"),
            ("inproc://x", "no address of a controller"),
            ("ipc://", "no address of a controller"),
        ] {
            let refused = Arguments::try_parse_from(["llts", "stats", "--controller", controller]).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{controller}");
            assert!(refused.to_string().contains(why), "{controller}: {refused}");
        }
    }
}
