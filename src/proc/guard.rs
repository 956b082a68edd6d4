//! A guard: a small process that briefly outlives another one, to end the processes that the other leaves behind when
//! it is killed.
//!
//! A supervisor inherits the processes of a killed agent. A process without a supervisor starts a guard instead. The
//! guard sleeps and holds one end of a line, a pair of connected sockets; the guarded process holds the other end.
//!
//! | the guard | receives | does |
//! |---|---|---|
//! | watches | `.` | ends: no process is left behind |
//! | watches | `L` and a moment | from that moment on, ends all processes that the guarded process has started, unless told otherwise: the lease has then expired, and the guarded process must be stopped |
//! | watches | `F` | forgets that moment |
//! | watches | the end of the line | waits for the process, which is about to end |
//! | waits | the process has ended | its duty, then it ends |
//!
//! The line says more than the end of the process would. A program that is being started holds all descriptors of its
//! parent until its exec. Until then it also shows the environment of its parent, so it could not be recognised. The
//! line is therefore closed only when the process has ended and the program that it was just starting can be
//! recognised.
//!
//! The guarded process sees the line closed if its guard was killed, and may start another one.
//!
//! # Its parent
//!
//! The guard detaches from its parent before it watches. An agent knows that a run has left no process when it has no
//! child at all, and a guard among its children would turn that one system call into a scan of `/proc` after each task.
//! In its own session, a guard gets neither Ctrl-C nor a signal to the group of the guarded process. It blocks the
//! polite signals: a service manager that stops a whole service signals all processes at once, and the guard must not
//! be the first to end.
//!
//! # Why not the reverse
//!
//! The started process could be the guard, and the agent its child. But then a user who stops or kills the started
//! process would mean the agent and hit the guard.

use std::ffi::OsString;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{PidfdFlags, pidfd_open};

use super::clock;
use super::own_program::OwnProgram;
use super::process::{ProcessId, close_all_on_exec};
use super::signals::{STOP, Signals, with_clean_mask};
use crate::readable;

/// Time limit for the end of a released guard, which has nothing else to do.
const RELEASE_MAX: Duration = Duration::from_secs(1);

/// Why there is no guard.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The system provides no process, or no line to it.
    #[error("cannot start a guard: {0}")]
    Start(#[from] io::Error),
    /// The guard has failed, and has written the reason to stderr.
    #[error("cannot start a guard: it {0}")]
    Refused(ExitStatus),
}

/// How to start a guard of this process.
#[derive(Clone, Debug)]
pub struct GuardPlan {
    program: OwnProgram,
    duty: Vec<OsString>,
    is_of_a_guest: bool,
    environment: Vec<(&'static str, OsString)>,
}

/// The guard of this process, as long as this value exists.
#[derive(Debug)]
pub struct Guard {
    line: UnixStream,
}

impl GuardPlan {
    /// A guard for an agent.
    #[must_use]
    pub const fn new(program: OwnProgram) -> Self {
        Self { program, duty: Vec::new(), is_of_a_guest: false, environment: Vec::new() }
    }

    /// The same, for the ephemeral service in this folder, with the environment of that service.
    #[must_use]
    pub fn of_an_ephemeral_service(mut self, folder: PathBuf, environment: Vec<(&'static str, OsString)>) -> Self {
        self.duty = vec!["--guest".into(), folder.into()];
        self.is_of_a_guest = true;
        self.environment.extend(environment);
        self
    }

    /// The same, for a prompt worker with this root folder.
    #[must_use]
    pub fn of_prompts(mut self, root: PathBuf) -> Self {
        self.duty = vec!["--prompts".into(), root.into()];
        self
    }

    /// The same, for a TDF worker in this folder.
    #[must_use]
    pub fn of_tdf(mut self, root: PathBuf) -> Self {
        self.duty = vec!["--tdf".into(), root.into()];
        self
    }

    /// The same, for a worker of task lists with this folder for outputs.
    #[must_use]
    pub fn of_lists(mut self, work_dir: PathBuf) -> Self {
        self.duty = vec!["--lists".into(), work_dir.into()];
        self
    }

    /// Starts the guard and returns when it has detached. No other code may reap children meanwhile, and this process
    /// must not adopt orphans: see [`super::process::without_adoption`].
    ///
    /// # Errors
    /// [`GuardError`]
    pub fn start(&self) -> Result<Guard, GuardError> {
        // The guard may outlive every other process, so it must not inherit descriptors that libraries leave open.
        close_all_on_exec().map_err(io::Error::from)?;
        let of = ProcessId::own().map_err(io::Error::from)?;
        let (line, its_end) = UnixStream::pair()?;
        let mut command = self.program.command();
        command.args(["guard", "--pid", &of.pid.to_string(), "--start-time", &of.start_time.to_string()]);
        command.args(&self.duty).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(OwnedFd::from(its_end)).stdout(Stdio::null());
        if self.is_of_a_guest {
            // Ending a service takes a while, and an open stderr would make its reader wait until then.
            command.stderr(Stdio::null());
        }
        let status = with_clean_mask(|| command.status())?;
        if status.success() { Ok(Guard { line }) } else { Err(GuardError::Refused(status)) }
    }
}

impl Guard {
    /// Whether it is gone. Its descriptor being readable proves that, because it never sends anything.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        readable::is_readable(&self.line, Some(Duration::ZERO))
    }

    /// Sends it the final end of the current run's lease, as time since the boot; `None` means that there is no lease.
    pub fn set_lease(&mut self, end: Option<Duration>) {
        let message = end.map_or_else(|| vec![FREE], |end| [&[LEASE][..], &nanos(end).to_be_bytes()].concat());
        // A failure means that the guard is gone.
        let _ = self.line.write_all(&message);
    }

    /// Lets it end, because no process is left behind, and waits for that.
    pub fn release(mut self) {
        // A failure means that the guard is already gone.
        let _ = self.line.set_read_timeout(Some(RELEASE_MAX));
        let _ = self.line.write_all(&[RELEASE]).and_then(|()| self.line.read(&mut [0]));
    }
}

/// Readable when the guard is gone.
impl AsFd for Guard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

/// The end of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The process has reported that it leaves no process behind.
    Released,
    /// The process has ended without such a report.
    Died,
}

/// Detaches the calling process from its parent, in a session of its own, with polite signals blocked. Call it before
/// any thread is started. The parent sees an exit code of 0.
///
/// # Errors
/// When no process can be started.
pub fn detach() -> io::Result<Signals> {
    let deaf = Signals::install(&STOP)?;
    nix::unistd::daemon(true, true)?;
    Ok(deaf)
}

/// The messages of the guarded process.
const RELEASE: u8 = b'.';
const FREE: u8 = b'F';
const LEASE: u8 = b'L';

/// A moment as sent over the line: nanoseconds since the boot.
fn nanos(since_boot: Duration) -> u64 {
    u64::try_from(since_boot.as_nanos()).unwrap_or(u64::MAX)
}

/// Pause before the second check for remains of a run whose lease has expired. It doubles each time, because a process
/// that does not end belongs to another user or hangs in the kernel.
const END_AGAIN: Duration = Duration::from_millis(100);

/// The longest such pause.
const END_AGAIN_MAX: Duration = Duration::from_secs(5);

/// The messages received from the guarded process.
#[derive(Debug, Default)]
struct Heard {
    /// The bytes of an incomplete message.
    rest: Vec<u8>,
    /// The final end of its run's lease, as time since the boot.
    lease: Option<Duration>,
    is_released: bool,
}

impl Heard {
    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(word) = self.rest.first() {
            let length = if *word == LEASE { 1 + size_of::<u64>() } else { 1 };
            let Some(said) = self.rest.get(1..length) else { return };
            match *word {
                LEASE => self.lease = said.try_into().ok().map(u64::from_be_bytes).map(Duration::from_nanos),
                FREE => self.lease = None,
                _ => self.is_released = true,
            }
            self.rest.drain(..length);
        }
    }
}

/// Waits until `process` has ended, or says on `line` that no process is left. When a lease has expired, calls
/// `end_run` until it returns true, which means that no process is left.
pub fn watch(process: ProcessId, line: impl AsFd, mut end_run: impl FnMut(ProcessId) -> bool) -> Watched {
    // The pid may have been reused before the descriptor was opened.
    let pidfd = pidfd_open(process.pid, PidfdFlags::empty()).ok().filter(|_| process.is_alive());
    let (mut heard, mut again) = (Heard::default(), END_AGAIN);
    loop {
        let left = heard.lease.map(|end| end.saturating_sub(clock::since_boot()));
        let has_said = readable::is_readable(&line, left);
        if !has_said && heard.lease.is_some_and(|end| end <= clock::since_boot()) {
            if again == END_AGAIN {
                log::warn!("the agent does not end its run, whose lease has expired: the guard ends it");
            }
            heard.lease = (!end_run(process)).then(|| clock::since_boot() + again);
            again = (again * 2).min(END_AGAIN_MAX);
        }
        if !has_said {
            continue;
        }
        let mut bytes = [0; 256];
        match rustix::io::read(&line, &mut bytes) {
            Ok(length @ 1..) => {
                heard.take(&bytes[..length]);
                again = END_AGAIN;
            }
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => break,
        }
        if heard.is_released {
            return Watched::Released;
        }
    }
    if let Some(pidfd) = pidfd {
        while !readable::is_readable(&pidfd, None) {}
    }
    Watched::Died
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeper() -> (Child, ProcessId) {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let id = ProcessId::of(rustix::process::Pid::from_child(&child)).unwrap();
        (child, id)
    }

    /// Watches in a thread, so that an endless wait fails a test instead of blocking it.
    fn watching(process: ProcessId, line: UnixStream) -> std::sync::mpsc::Receiver<Watched> {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(watch(process, line, |_| panic!("there is no lease"))));
        receiver
    }

    #[test]
    fn a_word_releases_and_the_end_of_the_line_does_not() {
        let (mut child, id) = sleeper();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let first = watching(id, theirs);
        ours.write_all(&[RELEASE]).unwrap();
        assert_eq!(first.recv_timeout(Duration::from_secs(60)), Ok(Watched::Released));

        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        let second = watching(id, theirs);
        assert!(second.recv_timeout(Duration::from_millis(50)).is_err(), "the process lives");
        child.kill().unwrap();
        assert_eq!(second.recv_timeout(Duration::from_secs(60)), Ok(Watched::Died));
        child.wait().unwrap();
    }

    /// The messages may arrive in pieces, and several at once.
    #[test]
    fn a_run_is_ended_when_its_lease_is_over_and_not_before() {
        let (mut child, id) = sleeper();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (sender, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut tries = 0;
            watch(id, theirs, |process| {
                tries += 1;
                sender.send((process, clock::since_boot())).unwrap();
                tries > 1
            })
        });
        let (hour, soon) = (Duration::from_secs(3600), Duration::from_millis(100));
        let mut guard = Guard { line: ours };
        guard.set_lease(Some(clock::since_boot()));
        let (process, _) = ended.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(process, id);
        ended.recv_timeout(Duration::from_secs(60)).expect("something was left, so it looks again");
        guard.set_lease(Some(clock::since_boot() + hour));
        let end = clock::since_boot() + soon;
        let word = [&[LEASE][..], &nanos(end).to_be_bytes()].concat();
        guard.line.write_all(&word[..3]).unwrap();
        guard.line.write_all(&[&word[3..], &[FREE], &word].concat()).unwrap();
        let (_, at) = ended.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(at >= end, "{at:?} is before {end:?}");
        guard.set_lease(Some(clock::since_boot() + hour));
        guard.set_lease(None);
        guard.release();
        assert!(ended.recv_timeout(Duration::from_secs(60)).is_err(), "it has ended without another try");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_program_that_is_being_started_is_waited_for() {
        let (mut child, id) = sleeper();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let until_its_exec = ours.try_clone().unwrap();
        let watched = watching(id, theirs);
        drop(ours);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(watched.recv_timeout(Duration::from_millis(50)).is_err(), "it cannot be found yet");
        drop(until_its_exec);
        assert_eq!(watched.recv_timeout(Duration::from_secs(60)), Ok(Watched::Died));
    }

    #[test]
    fn a_reused_number_is_a_process_that_has_died() {
        let (mut child, id) = sleeper();
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        let before = ProcessId { start_time: id.start_time - 1, ..id };
        assert_eq!(watching(before, theirs).recv_timeout(Duration::from_secs(60)), Ok(Watched::Died));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
