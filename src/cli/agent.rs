//! `llts agent`: an agent in the foreground, until SIGTERM or Ctrl-C.

use clap::Args;

use super::Session;
use super::controller::logged;
use super::exit::{self, Failure};
use crate::shell::agent::{self, AgentError};
use crate::shell::guard::GuardPlan;
use crate::shell::logging::{self, LogError};
use crate::shell::supervisor;
use crate::types::{AgentId, InvalidAgentId};

#[derive(Args, Debug)]
pub(super) struct AgentArgs {
    /// Its id; it names its log file, too. Without one it makes up an id and logs to stderr
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<AgentId>,
}

fn name(text: &str) -> Result<AgentId, InvalidAgentId> {
    AgentId::new(text)
}

pub(super) fn run(session: &Session, args: &AgentArgs) -> Result<u8, Failure> {
    let config = &session.config;
    let file = args.name.as_ref().map(|name| config.log.agent_file(name));
    match logging::init(&config.log, file.as_deref()) {
        // Two agents of one name share the log; the lock of the name tells so better.
        Err(LogError::InUse(_)) | Ok(()) => {}
        Err(error) => return Err(Failure::failed(error)),
    }
    // What a killed agent leaves behind is ended by its supervisor, or else by its guard.
    let guard = match supervisor::is_parent() {
        true => None,
        false => Some(GuardPlan::new(session.config_file()).map_err(Failure::failed)?),
    };
    agent::run(config, args.name.clone(), guard).map_err(|error| {
        let exit = if let AgentError::Denied { .. } = error { exit::REFUSED } else { exit::FAILED };
        Failure { exit, ..logged(error) }
    })?;
    Ok(0)
}
