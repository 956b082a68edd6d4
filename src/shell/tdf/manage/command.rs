//! A command as a callback: the task on its standard input, its exit code as the answer.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::super::super::readable;
use super::super::super::signals::{Signals, with_clean_mask};
use super::CallbackError;
use crate::protocol::tdf::Task;

/// Runs a line of a shell. Notes whether a signal has come meanwhile, however the command ends: the first one ends it politely, the
/// second one at once.
///
/// # Errors
/// When it cannot be started, or has not exited with 0.
pub fn run(line: &str, task: &Task, signals: &mut Signals, is_stopping: &mut bool) -> Result<(), CallbackError> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).stdin(Stdio::piped());
    let mut child = with_clean_mask(|| command.spawn()).map_err(|error| format!("cannot start /bin/sh: {error}"))?;
    let stdin = child.stdin.take();
    let text = task.to_json().to_string() + "\n";
    // A command may read as slowly as it likes, or not at all.
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // It fails when the command does not read to the end, which is its own business.
                let _ = stdin.write_all(text.as_bytes());
            }
        });
        let came = wait(&mut child, signals).map_err(|error| format!("cannot wait for the command: {error}"))?;
        *is_stopping |= came;
        let status = child.wait().map_err(|error| format!("cannot wait for the command: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("{line:?} ended with {status}").into()) }
    })
}

/// Waits for the end of the command, and passes signals on.
fn wait(child: &mut Child, signals: &mut Signals) -> io::Result<bool> {
    let pid = Pid::from_child(child);
    let end = pidfd_open(pid, PidfdFlags::empty())?;
    let mut came = 0;
    loop {
        let ready = readable::wait([end.as_fd(), signals.as_fd()], None);
        for _ in signals.read() {
            came += 1;
            // It cannot be another process: no other code has waited for it.
            let _ = kill_process(pid, if came == 1 { Signal::TERM } else { Signal::KILL });
        }
        if ready.first() == Some(&true) {
            return Ok(came > 0);
        }
    }
}
