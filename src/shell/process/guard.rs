//! A process that ends what another one leaves behind, when that one is killed and cannot do it itself.
//!
//! The process splits in two: the **ward** does the work, the **guard** only waits for its end. Each sees the death of the
//! other: the guard ends what a killed ward has started, and the ward stops when its guard is killed. Only who kills both at
//! once leaves something; the run records are for that.
//!
//! A copy, not a new program: it costs half a millisecond, and pages of memory are shared until they are written to.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal};

use super::child::RunningChild;
use super::procfs::Ticks;
use super::sys;
use super::tree::{Tree, any_left, become_subreaper, reap_orphans};
use crate::types::ExitCode;

/// Which half a process is.
#[derive(Debug)]
#[must_use]
pub enum Half {
    /// The one that works.
    Ward(Guarded),
    /// The one that waits.
    Guard(Ward),
}

/// The guard, as its ward sees it. Readable when it is dead.
#[derive(Debug)]
pub struct Guarded(OwnedFd);

/// The ward, as its guard sees it. Readable when it has ended.
#[derive(Debug)]
pub struct Ward {
    child: RunningChild,
    pidfd: OwnedFd,
}

/// Splits the process. The ward gets a process group of its own: a Ctrl-C reaches the guard only, which passes it on.
///
/// # Errors
/// When there are threads already, which a copy would not have, or what the system says.
pub fn split() -> io::Result<Half> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("{threads} threads run already")));
    }
    become_subreaper()?;
    let guard = rustix::process::getpid();
    let before = Ticks::now();
    let Some(ward) = sys::fork()? else {
        // Opened first, checked then: after that, the descriptor means the guard for good.
        let pidfd = rustix::process::pidfd_open(guard, PidfdFlags::empty())?;
        if rustix::process::getppid() != Some(guard) {
            return Err(io::Error::other("the guard has ended"));
        }
        join_own_group(None)?;
        // What the guard is, its copy is not by itself.
        become_subreaper()?;
        return Ok(Half::Ward(Guarded(pidfd)));
    };
    // Here as well, so that it holds whichever half comes first.
    let _ = join_own_group(Some(ward));
    let child = RunningChild::adopt(ward, before)?;
    Ok(Half::Guard(Ward { child, pidfd: rustix::process::pidfd_open(ward, PidfdFlags::empty())? }))
}

fn join_own_group(pid: Option<Pid>) -> rustix::io::Result<()> {
    rustix::process::setpgid(pid, pid)
}

impl AsFd for Guarded {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Ward {
    /// Passes a signal on.
    pub fn signal(&self, signal: Signal) {
        // One that has ended needs none.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, signal);
    }

    /// How it ended, or `None` while it lives.
    ///
    /// # Errors
    /// When somebody else has reaped it, which is a bug.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitCode>> {
        Ok(self.child.try_wait()?.map(|exit| exit.exit))
    }

    /// Kills what it has left behind; whether that was all. If not, again after a moment.
    #[must_use]
    pub fn end_orphans(&self) -> bool {
        reap_orphans(&[]);
        if any_left(&[]) {
            let _ = Tree::of_orphans().kill(&[]);
            reap_orphans(&[]);
        }
        !any_left(&[])
    }
}

impl AsFd for Ward {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}
