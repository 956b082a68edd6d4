//! The record of the present run: another agent of this host, or the guard, finds the remains of the run by it.

use super::super::AgentError;
use api::config::Config;
use api::wire::info;
use api::wire::requests::apply::Dispatch;
use base::{Round, Session, TaskId, Wall};
use proc::process::{Brand, Cookie, ProcessId, RecordError, RecordFile, RunRecord, RunRecords, TaskRun};

/// The subject of a record without a task: an id that is never given out.
pub(in crate::process) fn of_tools_that_stay() -> TaskRun {
    TaskRun { task: TaskId::new(Wall::default(), [0; TaskId::SUFFIX_LEN]), round: Round::default() }
}

pub(super) struct RecordKeeper {
    file: RecordFile,
    agent: ProcessId,
    brand: Option<Brand>,
}

impl RecordKeeper {
    /// An `owner` is the name under which a later agent offers the outputs of a run whose agent was killed.
    pub(super) fn open(
        config: &Config,
        records: &RunRecords,
        (session, owner): (Session, Option<&str>),
        brand: Option<Brand>,
    ) -> Result<Self, AgentError> {
        let agent = ProcessId::own().map_err(std::io::Error::from)?;
        let mut file = records.of(agent, Some(session))?;
        if let Some(owner) = owner {
            file.set_owner(owner);
        }
        if config.agent.cgroup
            && let Err(error) = file.confine()
        {
            log::info!(
                "this agent has no cgroup of its own: {error}; if it is killed, its processes are found by their marks"
            );
        }
        Ok(Self { file, agent, brand })
    }

    pub(super) fn write(&mut self, dispatch: &Dispatch, root: Option<ProcessId>) -> Result<(), RecordError> {
        self.file.write(&RunRecord {
            subject: TaskRun { task: dispatch.task, round: dispatch.round },
            root,
            agent: self.agent,
            cookie: Cookie::new(info::cookie(dispatch.task, dispatch.round)).branded(self.brand),
        })
    }

    /// Tools stay without a task. `root` is that of one that is being started.
    pub(super) fn write_staying(&mut self, root: Option<ProcessId>) -> Result<(), RecordError> {
        self.file.write(&RunRecord {
            subject: of_tools_that_stay(),
            root,
            agent: self.agent,
            cookie: Cookie::new([format!("{}={}", info::STAY, self.mark())]).branded(self.brand),
        })
    }

    /// The value of the variable that all processes of tools that stay have, unless they remove it.
    pub(super) fn mark(&self) -> String {
        format!("{}-{}", self.agent.pid, self.agent.start_time)
    }

    pub(super) fn clear(&mut self) {
        if let Err(error) = self.file.clear() {
            log::error!("{error}");
        }
    }
}
