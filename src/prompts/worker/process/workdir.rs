//! The folder in which the command of a run works: that of the worker, a copy of it, or a worktree of its git repository.
//!
//! A copy or a worktree is `work` in the folder of the run, so that the remains of a killed worker go with that. A worktree and its
//! branch are also known to git: [`Workplace::clean_up`] forgets those whose folder is gone.
//!
//! Both are slow, and git is a process: while [`Workplace::prepare`] or [`WorkFolder::finish`] is running, on a thread of its own, the
//! worker must not reap children, and has no run.

mod copy;
mod git;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Wall;
use proc::runs::remove_folder;

pub(super) use git::Remains;
use git::{Repository, Worktree};

/// The name in the folder of a run.
const WORK: &str = "work";

/// The choice of `--workdir`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workdir {
    /// All runs work in the folder of the worker.
    #[default]
    Shared,
    /// Each run has a copy of it, which is removed at its end.
    Copy,
    /// Each run has a worktree of the git repository that the folder is in, on a branch of its own.
    GitWorktree,
}

impl Workdir {
    /// The words for it on a command line.
    pub const WORDS: [(&str, Self); 3] =
        [("shared", Self::Shared), ("copy", Self::Copy), ("git-worktree", Self::GitWorktree)];
}

/// The folders of all runs.
#[derive(Clone, Debug)]
pub(super) struct Workplace {
    kind: Workdir,
    root: PathBuf,
    repository: Option<Repository>,
    /// Ends a copy early.
    stop: Arc<AtomicBool>,
}

/// The folder of one run.
#[derive(Debug)]
pub(super) struct WorkFolder {
    /// The working directory of the command.
    pub(super) folder: PathBuf,
    extra: Extra,
}

/// A folder of the run's own.
#[derive(Debug)]
enum Extra {
    None,
    Copy(PathBuf),
    Worktree(Box<Worktree>),
}

impl Workplace {
    /// Looks for the repository, if one is needed.
    ///
    /// # Errors
    /// A sentence, when there is no git or no repository with a commit.
    pub(super) fn open(kind: Workdir, root: &Path) -> Result<Self, String> {
        let repository = (kind == Workdir::GitWorktree).then(|| Repository::of(root)).transpose()?;
        Ok(Self { kind, root: root.to_owned(), repository, stop: Arc::default() })
    }

    pub(super) fn is_shared(&self) -> bool {
        self.kind == Workdir::Shared
    }

    /// Forgets the worktrees of killed workers, whose folders have been removed below `runs`.
    pub(super) fn clean_up(&self, runs: &Path) {
        if let Some(repository) = &self.repository {
            repository.forget_lost(runs);
        }
    }

    /// The folder of all runs, if they share one.
    pub(super) fn shared(&self) -> WorkFolder {
        WorkFolder { folder: self.root.clone(), extra: Extra::None }
    }

    /// Makes the working folder of a run, whose own folder is `run`. `name` is that of the prompt; `letters` distinguish runs of one second.
    ///
    /// # Errors
    /// A sentence; then nothing is left of the folder.
    pub(super) fn prepare(&self, run: &Path, name: &str, start: Wall, letters: &str) -> Result<WorkFolder, String> {
        let work = run.join(WORK);
        match (&self.repository, self.kind) {
            (Some(repository), _) => {
                let worktree = repository.add(&work, name, start, letters)?;
                Ok(WorkFolder { folder: worktree.folder(), extra: Extra::Worktree(Box::new(worktree)) })
            }
            (None, Workdir::Copy) => match copy::copy(&self.root, &work, &self.stop) {
                Ok(()) => Ok(WorkFolder { folder: work.clone(), extra: Extra::Copy(work) }),
                Err(error) => {
                    remove_folder(&work);
                    Err(format!("cannot copy {} for a run (--workdir copy): {error}", self.root.display()))
                }
            },
            (None, _) => Ok(self.shared()),
        }
    }

    /// The worker is to end: a copy or a worktree that is being made is of no use. The second call ends the git that keeps the work of
    /// a run, too.
    pub(super) fn stop(&self) {
        let at_once = self.stop.swap(true, Ordering::Relaxed);
        if let Some(repository) = &self.repository {
            repository.stop(at_once);
        }
    }
}

impl WorkFolder {
    /// True if the folder is the run's own, and needs [`Self::finish`].
    pub(super) const fn is_own(&self) -> bool {
        !matches!(self.extra, Extra::None)
    }

    /// Removes the folder of an ended run, unless work of the run would be lost with it. Returns the branch or the folder that remains.
    ///
    /// # Errors
    /// A sentence, when such a folder cannot be kept elsewhere; then it is still there.
    pub(super) fn finish(self) -> Result<Remains, String> {
        match self.extra {
            Extra::None => Ok(Remains::default()),
            Extra::Copy(folder) => {
                remove_folder(&folder);
                Ok(Remains::default())
            }
            Extra::Worktree(worktree) => worktree.finish(),
        }
    }
}
