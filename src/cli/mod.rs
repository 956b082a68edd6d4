//! The command line: arguments in, text for people or JSON for programs out. One file per subcommand.
//!
//! Results go to stdout, everything else to stderr, one line each, beginning with `llts:`. With `--output json`, stdout is one
//! JSON value, also when the command fails.

mod answers;
mod args;
mod caller;
mod change;
mod connect;
mod exit;
mod output;
mod parameter;
mod policy;
mod selection;
mod table;
mod tails;
mod times;
mod when;

mod agent;
mod agents;
mod config;
mod controller;
mod down;
mod drain;
mod explain;
mod gate;
mod guard;
mod hold;
mod keys;
mod kill;
mod list;
mod prompt;
mod query;
mod retry;
mod run;
mod stats;
mod store;
mod submit;
mod supervise;
mod tdf;
mod tool;
mod up;
mod wait;

use std::path::{Path, PathBuf};

use clap::Parser;

use crate::client::Client;
use crate::config::{Config, Sources};
use crate::shell::supervised::is_supervised;
use crate::shell::supervisor::{self, Abandoned};
use crate::shell::transport;

use args::{Arguments, Command};
use connect::Global;
use exit::Failure;
use output::{Output, note};

/// The context of every command.
struct Session {
    global: Global,
    config: Config,
    sources: Sources,
    out: Output,
}

impl Session {
    /// Connects to the controller that the arguments, the environment or the configuration name.
    fn client(&self) -> Result<Client, Failure> {
        let endpoint = connect::endpoint(&self.global, &self.config)?;
        Ok(Client::secured(&self.config, &endpoint)?)
    }

    /// The path of this program, for processes that run it again.
    fn program() -> Result<PathBuf, Failure> {
        std::env::current_exe().map_err(|error| Failure::failed(format!("cannot find this program: {error}")))
    }

    /// Refuses to start a part of a service with a transport that this program lacks.
    fn check_transport(&self) -> Result<(), Failure> {
        transport::check_built_in(&self.config, &self.sources).map_err(|error| Failure::usage(error.to_string()))
    }

    /// Refuses to start a service with a transport or with keys that its parts would refuse.
    fn check_start(&self) -> Result<(), Failure> {
        self.check_transport()?;
        transport::check_keys(&self.config).map_err(|error| Failure::usage(error.to_string()))
    }

    /// Ends the remains of ephemeral services whose keepers were killed, and reports them.
    fn end_abandoned(&self) {
        for Abandoned { folder, ended } in supervisor::end_abandoned(&self.config) {
            note(&down::of_abandoned(&folder, ended.as_ref()));
        }
    }

    fn config_file(&self) -> Option<PathBuf> {
        self.global.config.as_deref().map(Path::to_path_buf)
    }
}

/// Runs the program with the arguments of this process, and returns its exit code.
#[must_use]
pub fn run() -> u8 {
    let Arguments { global, command } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(refused) => {
            // Help and version go to stdout and are not errors. If they cannot be written, no other output is left.
            let _ = refused.print();
            return u8::try_from(refused.exit_code()).unwrap_or(exit::USAGE);
        }
    };
    let mut out = Output::new(global.output);
    let config = match &command {
        Command::Config(args) if args.is_about_defaults() => Config::built_in(),
        _ => Config::load(global.config.as_deref()),
    };
    let result = config.map_err(|error| Failure::usage(error.to_string())).and_then(|(config, sources)| {
        // The processes of a service share the environment of the service, which has already given these warnings.
        if command.is_for_people() && !is_supervised() {
            sources.warnings().iter().for_each(|warning| note(warning));
        }
        obey_or_refuse(&global, &command)?;
        let mut session = Session { global, config, sources, out: Output::new(out.format()) };
        let code = dispatch(&mut session, command)?;
        session.out.finish()?;
        Ok(code)
    });
    result.unwrap_or_else(|failure| {
        out.failure(&failure);
        failure.exit
    })
}

/// Refuses a named controller that the command would not use.
fn obey_or_refuse(global: &Global, command: &Command) -> Result<(), Failure> {
    match (global.named_controller(), command.acts_elsewhere()) {
        (Some(named), Some(what)) => {
            Err(Failure::usage(format!("{what}, so --controller {named} has no meaning here; omit it")))
        }
        _ => Ok(()),
    }
}

fn dispatch(session: &mut Session, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Up(args) => up::run(session, &args),
        Command::Down => down::run(session),
        Command::Run(args) => run::run(session, &args),
        Command::Submit(args) => submit::run(session, &args),
        Command::Wait(args) => wait::run(session, &args),
        Command::Kill(args) => kill::run(session, &args),
        Command::Retry(args) => retry::run(session, &args),
        Command::Hold(args) => hold::run(session, &args),
        Command::Release(args) => hold::release(session, &args),
        Command::Query(args) => query::run(session, &args),
        Command::Explain(args) => explain::run(session, &args),
        Command::List(args) => list::run(session, &args),
        Command::Stats => stats::run(session),
        Command::Agents => agents::run(session),
        Command::Drain(args) => drain::run(session, &args),
        Command::Gate(args) => gate::run(session, &args),
        Command::Store(args) => store::run(session, &args),
        Command::Tool(args) => tool::run(session, &args),
        Command::Keys(args) => keys::run(session, &args),
        Command::Config(args) => config::run(session, &args),
        Command::Prompt(args) => prompt::run(session, args),
        Command::Tdf(args) => tdf::run(session, args),
        Command::Controller => controller::run(session),
        Command::Agent(args) => agent::run(session, &args),
        Command::Guard(args) => guard::run(session, &args),
        Command::Supervise(args) => supervise::run(session, args),
    }
}
