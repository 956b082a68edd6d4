//! The remains of dead agents on this host: processes and work folders of runs without an agent.

use std::os::fd::BorrowedFd;
use std::{fs, io};

use super::AgentError;
use super::ending::REPORT_LOG;
use super::preparation::{STDERR, STDOUT};
use super::process::{Ended, RunRecords, TaskRun};
use super::runner::of_tools_that_stay;
use crate::outputs;
use crate::workspace::{Remover, TaskDir, Workspace};
use api::config::{AgentSection, Config};
use base::Stream;

/// The folder of the run records, in STATE_DIR.
const RECORDS: &str = "runs";

/// The records of the runs of all agents of this host.
pub(super) fn records(config: &Config) -> Result<RunRecords, AgentError> {
    Ok(RunRecords::open(config.paths.state_dir.join(RECORDS))?)
}

/// Ends the runs of dead agents, keeps their outputs, and removes their folders and records.
pub(super) fn sweep(
    config: &AgentSection,
    records: &RunRecords,
    workspace: &Workspace,
    remover: &Remover,
) -> Result<Ended, AgentError> {
    let mut discarded = Ok(());
    let ended = records.sweep(|swept| {
        let TaskRun { task, round } = swept.subject;
        log::debug!("{swept:?}");
        if swept.subject == of_tools_that_stay() {
            return log::warn!("tools that stay had lost their agent; they are ended");
        }
        log::warn!("round {round} of task {task} had lost its agent; what it left is ended");
        if swept.superseded {
            return;
        }
        if let Some(owner) = swept.owner.as_deref().filter(|_| config.output_keep_bytes > 0)
            && let Err(error) = keep_outputs(workspace, owner, swept.subject)
        {
            log::error!("cannot keep the outputs of round {round} of task {task}: {error}");
        }
        match workspace.discard(task) {
            Ok(rest) => rest.into_iter().for_each(|rest| remover.take(rest)),
            Err(error) => discarded = Err(error),
        }
    })?;
    discarded?;
    Ok(ended)
}

/// Moves the outputs of a run to the kept outputs of its agent, whose next life offers them.
fn keep_outputs(workspace: &Workspace, owner: &str, run: TaskRun) -> io::Result<()> {
    let Some(mut folder) = workspace.left_of(run.task) else { return Ok(()) };
    outputs::keep_of_killed(workspace.as_fd(), owner, (run.task, run.round), |stream, to| match stream {
        Stream::Stdout => folder.move_output((&[], STDOUT), to),
        Stream::Stderr => folder.move_output((&[], STDERR), to),
        Stream::Report => move_report(&mut folder, to),
    })
}

/// The record does not name the tool, but its folder is the only one that llts makes there.
fn move_report(folder: &mut TaskDir, to: (BorrowedFd<'_>, &str)) -> io::Result<()> {
    let tools = folder.folders()?;
    let tool = tools.iter().find(|tool| folder.live_output(&[tool.as_str()], REPORT_LOG).is_ok());
    tool.map_or(Ok(()), |tool| folder.move_output((&[tool.as_str()], REPORT_LOG), to))
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
    let swept = sweep(&config.agent, &records(config)?, &workspace, &remover);
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
