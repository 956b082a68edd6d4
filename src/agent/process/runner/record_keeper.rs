//! The record of the present run: another agent of this host, or the guard, finds the remains of the run by it.

use super::super::AgentError;
use api::config::Config;
use api::wire::info;
use api::wire::requests::apply::Dispatch;
use base::Session;
use proc::process::{Brand, Cookie, ProcessId, RecordError, RecordFile, RunRecord, RunRecords, TaskRun};

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

    pub(super) fn clear(&mut self) {
        if let Err(error) = self.file.clear() {
            log::error!("{error}");
        }
    }
}
