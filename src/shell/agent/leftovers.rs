//! What dead agents have left on this host: processes and work folders of runs that nobody looks after.

use super::AgentError;
use super::process::RunRecords;
use crate::config::Config;
use crate::shell::workspace::{Remover, Workspace};

/// The records of the runs of all agents of this host.
pub(super) fn records(config: &Config) -> Result<RunRecords, AgentError> {
    Ok(RunRecords::open(config.paths.state_dir.join("runs"))?)
}

/// Ends the runs of dead agents, and removes their folders and records.
pub(super) fn sweep(records: &RunRecords, workspace: &Workspace, remover: &Remover) -> Result<(), AgentError> {
    let mut discarded = Ok(());
    records.sweep(|swept| {
        log::warn!("round {} of task {} had lost its agent: {swept:?}", swept.round, swept.task);
        if swept.superseded {
            return;
        }
        match workspace.discard(swept.task) {
            Ok(rest) => rest.into_iter().for_each(|rest| remover.take(rest)),
            Err(error) => discarded = Err(error),
        }
    })?;
    Ok(discarded?)
}

/// The duty of a guard whose agent was killed. Does nothing when that agent had no run.
///
/// # Errors
/// [`AgentError`], when a folder cannot be used.
pub fn sweep_after_death(config: &Config) -> Result<(), AgentError> {
    let workspace = Workspace::open(&config.paths.work_dir)?;
    let remover = Remover::start(&workspace)?;
    let swept = sweep(&records(config)?, &workspace, &remover);
    remover.finish();
    swept
}
