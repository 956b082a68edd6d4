//! Several prompt workers as one program: `llts prompt worker --jobs N`. Each is a process of its own, with a guard of its own, so the
//! end of one does not affect the others. There is one exception: after COMPLETED to one of them the others end, too, because a
//! worker that has not reached the master by then would wait for ever. Signals are passed on to all of them. If this process is
//! killed, the kernel sends them a SIGTERM: they end their commands and give their prompts back.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::set_parent_process_death_signal;

use proc::readable;
use proc::signals::{STOP, Signals, with_clean_mask};

/// The signal of a worker to its crew that all prompts are done.
const ALL_DONE: Signal = Signal::SIGUSR1;

/// The exit code of a worker that a signal has ended.
const KILLED: u8 = 1;

/// Runs this many workers with these arguments until all have ended; returns the highest exit code.
///
/// # Errors
/// When a worker cannot be started; those before it are stopped then.
pub fn run(program: &Path, arguments: &[OsString], jobs: u32) -> io::Result<u8> {
    let mut signals = Signals::install(&[&STOP[..], &[Signal::SIGCHLD, ALL_DONE]].concat())?;
    let mut workers = Vec::new();
    let mut problem = None;
    let arguments = of_crew(arguments);
    for _ in 0..jobs {
        // In a group of its own, a worker gets Ctrl-C once: from here.
        match with_clean_mask(|| Command::new(program).args(&arguments).process_group(0).spawn()) {
            Ok(worker) => workers.push(worker),
            Err(error) => {
                pass_on(&workers, Signal::SIGTERM);
                problem = Some(error);
                break;
            }
        }
    }
    let (mut code, mut is_all_done) = (0, false);
    while !workers.is_empty() {
        readable::is_readable(signals.as_fd(), None);
        for signal in signals.read() {
            match signal {
                Signal::SIGCHLD => {}
                // No prompt is left, with any worker.
                ALL_DONE => {
                    is_all_done = true;
                    pass_on(&workers, Signal::SIGTERM);
                }
                signal => pass_on(&workers, signal),
            }
        }
        let mut left = Vec::new();
        for mut worker in workers {
            match worker.try_wait()? {
                None => left.push(worker),
                Some(status) => {
                    // One that had not begun to listen for it ends by the signal itself.
                    let is_asked = is_all_done && status.signal() == Some(Signal::SIGTERM as i32);
                    let ended = status.code().and_then(|code| u8::try_from(code).ok());
                    let ended = ended.unwrap_or(if is_asked { 0 } else { KILLED });
                    log::info!("worker {} has ended with {status}; {} are left", worker.id(), left.len());
                    code = code.max(ended);
                }
            }
        }
        workers = left;
    }
    problem.map_or(Ok(code), Err)
}

/// The arguments of a worker that ends with this process.
fn of_crew(arguments: &[OsString]) -> Vec<OsString> {
    let (before, command) =
        arguments.split_at(arguments.iter().position(|word| word == "--").unwrap_or(arguments.len()));
    let parent = OsString::from(format!("--crew-of={}", std::process::id()));
    before.iter().cloned().chain([parent]).chain(command.iter().cloned()).collect()
}

/// Makes the kernel send SIGTERM to this process when its parent has ended, however that happens.
///
/// # Errors
/// When the parent, which should have this process id, has ended already.
pub fn end_with(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    if std::os::unix::process::parent_id() == parent {
        return Ok(());
    }
    Err(io::Error::other(format!("the process {parent}, which has started this worker, has ended")))
}

/// Reports to the parent of a crew that all prompts are done.
pub fn report_all_done(parent: u32) {
    // The parent may have ended.
    let _ = kill(Pid::from_raw(parent.cast_signed()), ALL_DONE);
}

fn pass_on(workers: &[Child], signal: Signal) {
    for worker in workers {
        let pid = Pid::from_raw(i32::try_from(worker.id()).unwrap_or(i32::MAX));
        // A worker that has ended is not reaped yet, so the signal reaches no other process.
        if let Err(error) = kill(pid, signal) {
            log::debug!("cannot pass {signal} on to worker {pid}: {error}");
        }
    }
}
