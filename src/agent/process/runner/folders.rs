//! The work folders of the agent: after a run they are kept for a later task, or removed.

use std::io;
use std::sync::Arc;

use super::super::preparation::Prepared;
use crate::workspace::{DirPool, OutKeeper, OutLimits, Removed, Remover, Workspace};
use api::config::Config;

/// Entries of a work folder that are removed on the loop; a thread removes the rest.
const INLINE_REMOVALS: u32 = 256;

pub(super) struct Folders {
    workspace: Arc<Workspace>,
    /// `None` where folders cannot be kept.
    dir_pool: Option<DirPool>,
    remover: Remover,
    outs: OutKeeper,
    /// Whether the work folder was found removed or moved.
    is_gone: bool,
}

impl Folders {
    pub(super) fn open(config: &Config, workspace: Arc<Workspace>, remover: Remover) -> io::Result<Self> {
        let dir_pool = DirPool::open(Arc::clone(&workspace), config.agent.spare_folders_max)
            .inspect_err(|error| log::warn!("{error}; each task gets a new folder"))
            .ok();
        let limits = OutLimits { bytes_max: config.agent.out_keep_bytes, age_max: config.controller.task_keep };
        let outs = OutKeeper::start(Arc::clone(&workspace), limits)?;
        Ok(Self { workspace, dir_pool, remover, outs, is_gone: false })
    }

    /// Whether the work folder was removed since the start. True once: the agent ends, and the next one makes it again.
    pub(super) fn are_removed(&mut self) -> bool {
        let is_found = !self.is_gone && self.workspace.is_removed();
        self.note(is_found)
    }

    /// The same for a folder that was removed or moved, looked at after a failure.
    pub(super) fn are_gone(&mut self) -> bool {
        let is_found = !self.is_gone && self.workspace.is_gone();
        self.note(is_found)
    }

    fn note(&mut self, is_found: bool) -> bool {
        if is_found {
            let path = self.workspace.path().display();
            log::warn!("the work folder {path} is gone: this agent ends, and the next one makes it again");
        }
        self.is_gone |= is_found;
        is_found
    }

    /// The kept folders, and the remover of unusable ones.
    pub(super) fn kept(&mut self) -> Option<(&mut DirPool, &Remover)> {
        self.dir_pool.as_mut().map(|dir_pool| (dir_pool, &self.remover))
    }

    pub(super) const fn remover(&self) -> &Remover {
        &self.remover
    }

    /// Keeps or removes the folder of a run that has ended.
    pub(super) fn end(&mut self, Prepared { dir, rest, out, .. }: Prepared) {
        rest.into_iter().for_each(|rest| self.remover.take(rest));
        if let Some(out) = out {
            self.outs.end(out, self.dir_pool.as_mut());
        }
        let dir = match &mut self.dir_pool {
            Some(dir_pool) => dir_pool.put_aside(dir, &self.remover),
            None => Some(dir),
        };
        match dir.map(|dir| self.workspace.remove(dir, INLINE_REMOVALS)) {
            None | Some(Removed::Done) => {}
            Some(Removed::Rest(rest)) => self.remover.take(rest),
            Some(Removed::Left(error)) => log::error!("{error}"),
        }
    }

    /// Does work that can wait until nothing else is due.
    pub(super) fn tidy(&mut self) {
        if let Some(dir_pool) = &mut self.dir_pool {
            dir_pool.tidy(&self.remover);
        }
    }
}
