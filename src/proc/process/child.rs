//! A started run.sh: whether and how it ended, and its resource usage. Ending it is [`super::tree`]'s concern.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

use super::procfs::{ProcessId, Ticks};
use super::sys;
use base::ExitCode;

/// A started run.sh. SIGCHLD signals that it may have ended.
///
/// Dropping it ends and reaps nothing: see [`super::Tree`] for that.
#[derive(Debug)]
#[must_use]
pub struct RunningChild {
    id: ProcessId,
    exit: Option<ChildExit>,
}

/// How run.sh ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChildExit {
    /// Its exit code, or the negated signal that ended it.
    pub exit: ExitCode,
    /// Processor time of it and of the processes that it waited for, in seconds.
    pub cpu_seconds: f64,
    /// Peak resident memory of the largest of them, in KiB. It is at least that of the agent at the start, because the
    /// kernel counts the memory that parent and child share until the exec.
    pub max_rss_kib: u64,
}

impl ChildExit {
    /// An end with this code, without resource usage.
    #[must_use]
    pub const fn unused(exit: ExitCode) -> Self {
        Self { exit, cpu_seconds: 0.0, max_rss_kib: 0 }
    }
}

impl RunningChild {
    /// Takes over a process that was started just now, not before `not_before`. A process that could not be
    /// distinguished from a later one with the same pid is killed and reaped.
    pub(super) fn adopt(pid: Pid, not_before: Ticks) -> rustix::io::Result<Self> {
        let id = ProcessId::of_new(pid, not_before);
        if id.is_err() {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            // It dies of the signal at once, so this wait is short.
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        }
        Ok(Self { id: id?, exit: None })
    }

    /// Its identity; also the root of its [`super::Tree`].
    #[must_use]
    pub const fn id(&self) -> ProcessId {
        self.id
    }

    /// How it ended, or `None` while it runs. Reaps it when it has ended, and returns the same result afterwards.
    ///
    /// # Errors
    /// `ECHILD` when other code has reaped it, which is a bug. Its exit code is lost.
    pub fn try_wait(&mut self) -> io::Result<Option<ChildExit>> {
        if self.exit.is_none() {
            self.exit = sys::wait4(self.id.pid)?.as_ref().map(ChildExit::from_waited);
        }
        Ok(self.exit)
    }
}

impl ChildExit {
    fn from_waited(waited: &sys::Waited) -> Self {
        let status = waited.status;
        let exit = if libc::WIFSIGNALED(status) {
            ExitCode::from_signal(libc::WTERMSIG(status))
        } else {
            ExitCode(libc::WEXITSTATUS(status))
        };
        let cpu = duration(waited.usage.ru_utime) + duration(waited.usage.ru_stime);
        let max_rss_kib = u64::try_from(waited.usage.ru_maxrss).unwrap_or(0);
        Self { exit, cpu_seconds: cpu.as_secs_f64(), max_rss_kib }
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
    seconds + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(status: i32) -> ExitCode {
        let usage = libc::rusage { ru_utime: libc::timeval { tv_sec: 1, tv_usec: 500_000 }, ..sys::no_usage() };
        let exit = ChildExit::from_waited(&sys::Waited { status, usage });
        assert!((exit.cpu_seconds - 1.5).abs() < 1e-9);
        exit.exit
    }

    /// A signal never looks like an exit code of run.sh, nor like -128 to -135 (docs/design/hazards.md, P3).
    #[test]
    fn codes_and_signals_are_told_apart() {
        assert_eq!([exit(0), exit(1 << 8), exit(255 << 8)], [ExitCode(0), ExitCode(1), ExitCode(255)]);
        assert_eq!([exit(9), exit(15), exit(11 | 0x80)], [ExitCode(-9), ExitCode(-15), ExitCode(-11)]);
        assert!((1..=64).all(|signal| exit(signal) == ExitCode(-signal)));
    }
}
