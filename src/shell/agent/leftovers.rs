//! The remains of dead agents on this host: processes and work folders of runs without an agent.

use std::fs;

use super::AgentError;
use super::process::{Ended, RunRecords, TaskRun};
use crate::config::Config;
use crate::shell::workspace::{Remover, Workspace};

/// The folder of the run records, in STATE_DIR.
const RECORDS: &str = "runs";

/// The records of the runs of all agents of this host.
pub(super) fn records(config: &Config) -> Result<RunRecords, AgentError> {
    Ok(RunRecords::open(config.paths.state_dir.join(RECORDS))?)
}

/// Ends the runs of dead agents, and removes their folders and records.
pub(super) fn sweep(records: &RunRecords, workspace: &Workspace, remover: &Remover) -> Result<Ended, AgentError> {
    let mut discarded = Ok(());
    let ended = records.sweep(|swept| {
        let TaskRun { task, round } = swept.subject;
        log::warn!("round {round} of task {task} had lost its agent: {swept:?}");
        if swept.superseded {
            return;
        }
        match workspace.discard(task) {
            Ok(rest) => rest.into_iter().for_each(|rest| remover.take(rest)),
            Err(error) => discarded = Err(error),
        }
    })?;
    discarded?;
    Ok(ended)
}

/// Ends the remains of dead agents of this STATE_DIR, for a guard whose agent was killed and for the end of a service. Does
/// nothing where no agent is known.
///
/// # Errors
/// [`AgentError`], when a folder cannot be used.
pub fn sweep_after_death(config: &Config) -> Result<Ended, AgentError> {
    let is_empty =
        fs::read_dir(config.paths.state_dir.join(RECORDS)).map_or(true, |mut entries| entries.next().is_none());
    if is_empty {
        return Ok(Ended::default());
    }
    let workspace = Workspace::open(&config.paths.work_dir)?;
    let remover = Remover::start(&workspace)?;
    let swept = sweep(&records(config)?, &workspace, &remover);
    remover.finish();
    swept
}

/// Moves a guard out of the cgroup of its agent, if it was born there.
///
/// # Errors
/// [`AgentError`], when it must stay inside: a sweep does not kill it, but the cgroup stays.
pub fn step_out(config: &Config) -> Result<(), AgentError> {
    Ok(records(config)?.step_out()?)
}
