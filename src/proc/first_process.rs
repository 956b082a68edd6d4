//! The first process of a PID namespace, such as a container's: it gets every orphan and has to reap it.
//!
//! The program itself runs in a child, because reaping every orphan would also take the exit status of the program's
//! own children. Signals sent to the first process are forwarded to the child, except those of a terminal, which reach
//! both anyway.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::signals::with_clean_mask;

/// `si_code` of a signal from the kernel, such as one of a terminal.
const SI_KERNEL: i32 = 0x80;

/// If this is the first process, runs this program again as a child and returns its exit code; otherwise `None`.
///
/// # Errors
/// When the child cannot be started.
pub fn run_child() -> io::Result<Option<u8>> {
    if std::process::id() != 1 {
        return Ok(None);
    }
    let mut signals = SigSet::all();
    for own in [Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGABRT] {
        signals.remove(own);
    }
    signals.thread_block()?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(arguments.next().unwrap_or_else(|| "llts".into())).args(arguments);
    let child = with_clean_mask(|| command.spawn())?;
    loop {
        if let Some(status) = reap(&child)? {
            let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
            return Ok(Some(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)));
        }
        let Some(signal) = signals.read_signal()? else { continue };
        let number = i32::try_from(signal.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
        if let Some(number) = number.filter(|number| *number != Signal::SIGCHLD && signal.ssi_code != SI_KERNEL) {
            // The child has not been reaped, so its number is still its own.
            let _ = kill(pid_of(&child), number);
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

/// Reaps all ended processes. Returns the status of the child, if it has ended.
fn reap(child: &Child) -> io::Result<Option<ExitStatus>> {
    loop {
        let (pid, status) = match waitpid(None, Some(WaitPidFlag::WNOHANG))? {
            WaitStatus::Exited(pid, code) => (pid, ExitStatus::from_raw(code << 8)),
            WaitStatus::Signaled(pid, signal, _) => (pid, ExitStatus::from_raw(signal as i32)),
            _ => return Ok(None),
        };
        if pid == pid_of(child) {
            return Ok(Some(status));
        }
    }
}
