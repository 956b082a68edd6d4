//! A command as a callback: the task on its standard input, its exit code as the answer.
//!
//! Each command has a process group of its own, which ends with the manager: by a signal if the manager is to stop, and by a
//! [`CommandGuard`] if it is killed. The line of a command begins when the guard knows its group.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, test_kill_process_group};

use super::CallbackError;
use crate::wire::Task;
use proc::signals::{Signals, with_clean_mask};
use proc::{clock, readable};

/// A longer command is logged, because it delays every other task of its manager.
const LONG: Duration = Duration::from_secs(10);

/// Time between SIGTERM and SIGKILL to the remains of a command when the manager stops, and between two checks of them.
const GRACE: Duration = Duration::from_secs(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Waits for a word that does not come if the manager is killed, then runs a line with the contents of a file as its input.
const GATE: &str = r#"read -r word && exec /bin/sh -c "$1" <"$2""#;

/// A process that outlives the manager by a moment, to end the command that runs then.
pub struct CommandGuard {
    /// The process group of the present command, or an empty line.
    line: ChildStdin,
}

impl CommandGuard {
    const SCRIPT: &'static str = "trap '' HUP INT TERM; group=; while read -r next; do group=$next; done; \
        if [ -n \"$group\" ]; then kill -s KILL -- \"-$group\"; fi";

    /// Starts the guard, in a process group of its own: signals to the group of the manager do not reach it.
    ///
    /// # Errors
    /// When the system refuses a process.
    pub fn start() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", Self::SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = with_clean_mask(|| command.process_group(0).spawn())?;
        child.stdin.take().map(|line| Self { line }).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    fn tell(&mut self, group: Option<Pid>) {
        let group = group.map(|group| group.as_raw_nonzero().to_string()).unwrap_or_default();
        if let Err(error) = self.line.write_all(format!("{group}\n").as_bytes()) {
            log::debug!("no process ends the command if this one is killed: {error}");
        }
    }
}

/// Runs a line of a shell. The first signal meanwhile sends SIGTERM to all processes of the command, the second one SIGKILL;
/// `is_stopping` is set then, however the command ends.
///
/// # Errors
/// When it cannot be started, or has not exited with 0.
pub fn run(
    line: &str,
    task: &Task,
    signals: &mut Signals,
    guard: &mut CommandGuard,
    is_stopping: &mut bool,
) -> Result<(), CallbackError> {
    let id = task.id();
    let input = input(task).map_err(|error| format!("cannot keep the input of {line:?} for task {id}: {error}"))?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", GATE, "sh", line, &format!("/proc/self/fd/{}", input.as_raw_fd())]);
    command.stdin(Stdio::piped()).process_group(0);
    let mut child = with_clean_mask(|| command.spawn()).map_err(|error| format!("cannot start /bin/sh: {error}"))?;
    guard.tell(Some(Pid::from_child(&child)));
    if let Some(mut gate) = child.stdin.take() {
        // Without a reader, the shell has ended, which its status shows.
        let _ = gate.write_all(b"\n");
    }
    let ended = end(&mut child, signals, &format!("the command {line:?} for task {id}"));
    guard.tell(None);
    let (status, came) = ended.map_err(|error| format!("cannot wait for the command: {error}"))?;
    *is_stopping |= came;
    if status.success() { Ok(()) } else { Err(format!("{line:?} ended with {status}").into()) }
}

/// The task as a file without a name, which children inherit: a command may read it as slowly as it likes, or not at all, and leave
/// it open to a process that outlives it. A pipe would be full then, and hold the manager up.
fn input(task: &Task) -> io::Result<File> {
    let mut file = File::from(memfd_create("task", MemfdFlags::empty())?);
    file.write_all((task.to_json().to_string() + "\n").as_bytes())?;
    Ok(file)
}

/// The end of a command, and whether a signal came before it.
fn end(child: &mut Child, signals: &mut Signals, about: &str) -> io::Result<(ExitStatus, bool)> {
    let came = wait(child, signals, about)?;
    let status = child.wait()?;
    if came {
        // The number of a group belongs to it as long as one process is in it.
        end_rest(Pid::from_child(child), signals);
    }
    Ok((status, came))
}

/// Waits for the end of the shell, and passes signals on to the group.
fn wait(child: &Child, signals: &mut Signals, about: &str) -> io::Result<bool> {
    let group = Pid::from_child(child);
    let end = pidfd_open(group, PidfdFlags::empty())?;
    let (began, mut is_logged, mut came) = (clock::now().mono, false, 0);
    loop {
        let left = LONG.checked_sub(clock::now().mono.since(began));
        if left.is_none() && !is_logged {
            log::warn!("{about} has not ended after {} s; the other tasks wait for it", LONG.as_secs());
            is_logged = true;
        }
        let ready = readable::wait([end.as_fd(), signals.as_fd()], left);
        for _ in signals.read() {
            came += 1;
            let _ = kill_process_group(group, if came == 1 { Signal::TERM } else { Signal::KILL });
        }
        if ready.first() == Some(&true) {
            return Ok(came > 0);
        }
    }
}

/// Ends what the shell has left of its group: it has had its SIGTERM.
fn end_rest(group: Pid, signals: &mut Signals) {
    let looks = GRACE.as_millis() / LOOK_INTERVAL.as_millis();
    for _ in 0..looks {
        if test_kill_process_group(group).is_err() {
            return;
        }
        if !signals.read().is_empty() {
            break;
        }
        readable::wait([signals.as_fd()], Some(LOOK_INTERVAL));
    }
    let _ = kill_process_group(group, Signal::KILL);
}
