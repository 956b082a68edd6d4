//! The environment of an agent as its runs get it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::process::AgentError;
use api::config::{Config, key_variables};
use proc::lending;
use proc::process::Environment;

/// The agent's own environment, without the variables of its starting folder and of this service, but with the paths of the
/// CURVE keys and the way to the supervisor, for an `llts` that a tool starts.
pub(super) fn inherited(config: &Config) -> Result<Environment, AgentError> {
    let is_ours = |name: &OsStr| name == "OLDPWD" || name.as_bytes().starts_with(b"LLTS_");
    let mut environment = Environment::inherited(is_ours);
    if let Some(name) = std::env::var_os(lending::VARIABLE) {
        environment.set(lending::VARIABLE, name).map_err(std::io::Error::other)?;
    }
    let keys = config.network.curve_client.as_ref().map(key_variables).transpose()?;
    for (name, path) in keys.into_iter().flatten() {
        environment.set(name, path).map_err(std::io::Error::other)?;
    }
    Ok(environment)
}
