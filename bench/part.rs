//! Processes that a case starts beside the service, and waits that a signal ends.

use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::BenchError;
use proc::signals::{Signals, with_clean_mask};

/// This program, started again as a rival or as simulated agents. It ends when its standard input does.
#[derive(Debug)]
pub(crate) struct Part {
    child: Child,
    stdin: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
}

impl Part {
    /// Starts it and waits for its first line; a signal ends it.
    pub(crate) fn start(
        arguments: &[&str],
        environment: &[(&'static str, String)],
        signals: &mut Signals,
    ) -> Result<(Self, String), BenchError> {
        let failed = || BenchError::io("start a part of the measurement");
        let mut command = Command::new(std::env::current_exe().map_err(failed())?);
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        // A process group of its own, so that Ctrl-C reaches only the parent; the part ends with the parent.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = with_clean_mask(|| command.spawn()).map_err(failed())?;
        let stdin = child.stdin.take();
        let Some(out) = child.stdout.take() else { unreachable!("stdout is piped") };
        let mut part = Self { child, stdin, out: BufReader::new(out) };
        // Thousands of agents need much time on a busy machine.
        wait_readable(&[part.out.get_ref().as_fd()], None, signals)?;
        let line = part.line()?;
        Ok((part, line))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> Result<String, BenchError> {
        let mut line = String::new();
        self.out.read_line(&mut line).map_err(BenchError::io("read the output of a part of the measurement"))?;
        if line.is_empty() {
            return Err(BenchError::Unexpected(
                "a part of the measurement ended at once; its stderr says why".to_owned(),
            ));
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It has nothing to save. Both calls fail only when it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for the end of a program; a signal ends it.
pub(crate) fn wait_end(child: &mut Child, signals: &mut Signals) -> Result<ExitStatus, BenchError> {
    const WHAT: &str = "wait for a program";
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).map_err(BenchError::io(WHAT))?;
    let waited = wait_readable(&[pidfd.as_fd()], None, signals);
    if waited.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(BenchError::io(WHAT))?;
    waited.map(|_| status)
}

/// Waits until one of `fds` is readable or the deadline has passed; `false` if the deadline has passed.
pub(crate) fn wait_readable(
    fds: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
    signals: &mut Signals,
) -> Result<bool, BenchError> {
    let count = {
        let all = std::iter::once(signals.as_fd()).chain(fds.iter().copied());
        let mut polled: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        poll(&mut polled, timeout.as_ref()).map_err(BenchError::io("wait"))?
    };
    if signals.read().is_empty() { Ok(count > 0) } else { Err(BenchError::Interrupted) }
}
