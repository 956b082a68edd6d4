//! `llts agent`: an agent in the foreground, until SIGTERM or Ctrl-C.

use clap::Args;

use super::controller::logged;
use agent::process::{AgentError, Name};
use api::trust;
use api::trust::Part;
use base::{AgentId, InvalidAgentId};
use proc::files::privacy;
use proc::logging;
use proc::logging::LogError;
use proc::supervised::is_supervised;
use term::exit;
use term::exit::Failure;
use term::session::Session;

#[derive(Args, Debug)]
#[command(after_help = "\
With --controller tcp://IP:PORT, broadcasts come from the same address at the configured CONTROLLER_PUB_PORT; a kill also reaches \
an agent without them, with its next heartbeat.")]
pub(super) struct AgentArgs {
    /// Id of the agent, which also names its log file. Without an id it makes one up, and logs to stderr unless
    /// AGENT_LOG_FILE is set
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<AgentId>,
}

fn name(text: &str) -> Result<AgentId, InvalidAgentId> {
    AgentId::new(text)
}

pub(super) fn run(session: &Session, args: &AgentArgs) -> Result<u8, Failure> {
    privacy::keep_files_private();
    let config = &match session.global.controller()? {
        // The variable may have come with the environment that started the service. A supervisor names another controller by an argument.
        Some(endpoint) if !is_supervised() || session.global.named_elsewhere().is_some() => {
            session.config.clone().at_controller(&endpoint).map_err(|error| Failure::usage(error.to_string()))?
        }
        _ => session.config.clone(),
    };
    // Before the first file is opened.
    trust::check(config, Part::Agent).map_err(Failure::failed)?;
    let name = args.name.clone().map_or_else(Name::made_up, Name::Given);
    // An agent without a name is started by hand: it logs to its terminal unless AGENT_LOG_FILE is set.
    let has_file = args.name.is_some() || config.log.agent_name_is_set;
    let file = has_file.then(|| config.log.agent_file(name.id()));
    match logging::init(&config.log, file.as_deref()) {
        // Two agents of one name share the log; the lock of the name gives the better message.
        Err(LogError::InUse(_)) | Ok(()) => {}
        Err(error) => return Err(Failure::failed(error)),
    }
    // A killed agent's remains are ended by its supervisor, or by a guard if it has none.
    let guard = if is_supervised() { None } else { Some(session.guard()?) };
    agent::process::run(config, &name, guard, &session.reload()).map_err(|error| {
        let exit = match &error {
            AgentError::Denied { .. } => exit::REFUSED,
            AgentError::Socket(error) if error.is_about_keys() => exit::USAGE,
            _ => exit::FAILED,
        };
        Failure { exit, ..logged(error) }
    })?;
    Ok(0)
}
