//! The end of a run: its outputs are kept, its folders removed or put aside.

use super::{Prepared, RunProcesses, Runner};
use crate::workspace::Removed;

/// Entries of a work folder that are removed on the loop; a thread removes the rest.
const INLINE_REMOVALS: u32 = 256;

impl Runner {
    pub(super) fn remove(&mut self) {
        let Some(run) = self.run.take() else { return };
        // A run.sh that could not be ended may still be running: from here on it counts as a process that the run has left.
        self.processes = RunProcesses::none();
        self.serving.end_run();
        if let Some(Prepared { mut dir, rest, out, .. }) = run.folder {
            self.serving.keep(&run.job, &mut dir);
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
        if let Err(error) = self.record.clear() {
            log::error!("{error}");
        }
    }
}
