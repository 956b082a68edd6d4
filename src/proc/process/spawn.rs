//! Starts a run: checks that there is a valid `run.sh` and executes it. Writing the folder is the caller's concern.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

use super::brand::Brand;
use super::child::RunningChild;
use super::environment::Environment;
use super::procfs::Ticks;
use super::sys::{self, NewProcess};

/// The program of a tool (docs/sources/controller.md, 3.1).
pub const PROGRAM: &str = "run.sh";

const PROGRAM_PATH: &CStr = c"./run.sh";
const SHELL_PATH: &CStr = c"/bin/sh";

/// Maximum bytes of the first line of run.sh in an error message. The kernel itself reads 256.
const FIRST_LINE_BYTES_MAX: usize = 256;

/// The parameters of a start.
#[derive(Clone, Copy, Debug)]
pub struct SpawnPlan<'a> {
    /// The folder with run.sh; also its working directory.
    pub folder: BorrowedFd<'a>,
    /// The whole environment of run.sh; no variable is added.
    pub environment: &'a Environment,
    /// Its standard input.
    pub stdin: BorrowedFd<'a>,
    /// Its standard output.
    pub stdout: BorrowedFd<'a>,
    /// Its standard error.
    pub stderr: BorrowedFd<'a>,
    /// The mark of it and of all processes that it starts.
    pub brand: Option<Brand>,
    /// It must not start when the machine has been up for longer than this, however long the caller is delayed before.
    pub not_after: Option<Duration>,
    /// A descriptor that it gets as [`PASSED`].
    pub passed: Option<BorrowedFd<'a>>,
}

/// The number under which a program gets the descriptor beside its standard ones.
pub const PASSED: i32 = 3;

/// Why run.sh was not started. Each displays as one sentence for the submitter.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Another process has run.sh open for writing. The caller should try again after some milliseconds.
    #[error("{PROGRAM} is held open for writing by another process")]
    Busy,
    /// There is no run.sh.
    #[error("the tool has no {PROGRAM}")]
    Missing,
    /// run.sh is not a regular file.
    #[error("{PROGRAM} is {0}, not a regular file")]
    NotAFile(&'static str),
    /// run.sh is not executable and cannot be made so.
    #[error("cannot make {PROGRAM} executable: {0}")]
    Mode(Errno),
    /// The kernel refuses to execute it: a noexec mount, or an interpreter that is not executable.
    #[error(
        "{PROGRAM} may not be executed: {first_line:?} is not an executable program, or the file system is mounted noexec"
    )]
    NotExecutable {
        /// The first line of run.sh.
        first_line: String,
    },
    /// The interpreter does not exist. A line that ends with `\r\n` names one that ends with `\r`.
    #[error("the interpreter that the first line of {PROGRAM} names does not exist: {first_line:?}")]
    NoInterpreter {
        /// The first line of run.sh.
        first_line: String,
    },
    /// The user has reached the limit of processes: see [`limit_processes`].
    #[error("cannot start {PROGRAM}: the limit of processes is reached")]
    TooManyProcesses,
    /// The environment is longer than the kernel accepts.
    #[error("cannot start {PROGRAM}: its environment is too long")]
    TooLong,
    /// It was not started in time: see [`SpawnPlan::not_after`].
    #[error("cannot start {PROGRAM}: the lease of the run has expired")]
    TooLate,
    /// Any other failure.
    #[error("cannot start {PROGRAM}: {0}")]
    Start(Errno),
}

/// Sets the limit of processes and threads for this process and all processes that it starts; 0 sets none. Returns the
/// resulting limit.
///
/// It is set once at the start instead of on each child, because inheriting it costs nothing and no descendant escapes
/// it. Soft and hard limit are both lowered, so that a tool cannot raise it again. The kernel counts all processes of
/// the user, including ours: at the limit the agent cannot start threads either, so start those first. The limit does
/// not apply to root.
///
/// # Errors
/// When the kernel refuses the limit.
pub fn limit_processes(max: u64) -> Result<Option<u64>, Errno> {
    let present = rustix::process::getrlimit(Resource::Nproc);
    if max == 0 {
        return Ok(present.current);
    }
    let limit = present.maximum.map_or(max, |hard| hard.min(max));
    rustix::process::setrlimit(Resource::Nproc, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    Ok(Some(limit))
}

/// Runs `./run.sh` in its folder, in its own process group, with no descriptors except those of the plan. Never blocks;
/// costs as much as one `vfork` and exec.
///
/// `/bin/sh` runs a run.sh without a `#!` line (`ENOEXEC`), as in every shell. No other error falls back to it: a shell
/// would also "run" a script whose interpreter does not exist.
///
/// # Errors
/// See [`SpawnError`]; no process is left after one.
pub fn spawn(plan: &SpawnPlan<'_>) -> Result<RunningChild, SpawnError> {
    make_ready(plan.folder)?;
    let environment: Vec<&CStr> = plan.environment.entries().collect();
    let new = NewProcess {
        program: PROGRAM_PATH,
        arguments: &[PROGRAM_PATH],
        environment: &environment,
        folder: plan.folder,
        stdio: [plan.stdin, plan.stdout, plan.stderr],
        brand: plan.brand,
        umask: None,
        not_after: plan.not_after,
        is_terminal: false,
        passed: plan.passed,
    };
    let started = match start(&new) {
        Err(Errno::NOEXEC) => start(&NewProcess { program: SHELL_PATH, arguments: &[SHELL_PATH, PROGRAM_PATH], ..new }),
        other => other,
    };
    started.map_err(|error| explain(error, plan.folder))
}

/// Checks that run.sh is a regular file, not a link to one, and lets its owner execute it. A shell script must also be
/// readable.
fn make_ready(folder: BorrowedFd<'_>) -> Result<(), SpawnError> {
    let stat = match rustix::fs::statat(folder, PROGRAM, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Err(SpawnError::Missing),
        Err(error) => return Err(SpawnError::Start(error)),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(SpawnError::NotAFile("a folder")),
        FileType::Symlink => return Err(SpawnError::NotAFile("a symbolic link")),
        FileType::Fifo => return Err(SpawnError::NotAFile("a named pipe")),
        FileType::Socket => return Err(SpawnError::NotAFile("a socket")),
        FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
            return Err(SpawnError::NotAFile("a device"));
        }
    }
    let (mode, needed) = (Mode::from_raw_mode(stat.st_mode), Mode::RUSR | Mode::XUSR);
    if mode.contains(needed) {
        return Ok(());
    }
    // Set-user-id and set-group-id are dropped: no tool needs them.
    let wanted = (mode | needed) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
    rustix::fs::chmodat(folder, PROGRAM, wanted, AtFlags::empty()).map_err(SpawnError::Mode)
}

/// Starts a process with its standard descriptors and no others.
pub(super) fn start(new: &NewProcess<'_>) -> rustix::io::Result<RunningChild> {
    let [stdin, stdout, stderr] = new.stdio.map(Source::above_stdio);
    let (stdin, stdout, stderr) = (stdin?, stdout?, stderr?);
    // Above the number that it gets, which its copy would otherwise have already, closed on exec.
    let passed = new.passed.map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, PASSED + 1)).transpose()?;
    // Before each start, because a library may open descriptors without the flag at any time.
    sys::close_all_on_exec()?;
    let before = Ticks::now();
    let stdio = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let pid = sys::start(&NewProcess { stdio, passed: passed.as_ref().map(AsFd::as_fd), ..*new })?;
    RunningChild::adopt(pid, before)
}

/// The source of one of the child's standard descriptors.
enum Source<'a> {
    Same(BorrowedFd<'a>),
    Copy(OwnedFd),
}

impl<'a> Source<'a> {
    /// If our own standard descriptors are closed, a file may have one of the numbers to which the child's are moved
    /// one by one. It is then copied to a higher number.
    fn above_stdio(fd: BorrowedFd<'a>) -> rustix::io::Result<Self> {
        if fd.as_raw_fd() > 2 {
            return Ok(Self::Same(fd));
        }
        rustix::io::fcntl_dupfd_cloexec(fd, 3).map(Self::Copy)
    }
}

impl AsFd for Source<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Same(fd) => *fd,
            Self::Copy(fd) => fd.as_fd(),
        }
    }
}

fn explain(error: Errno, folder: BorrowedFd<'_>) -> SpawnError {
    match error {
        Errno::TXTBSY => SpawnError::Busy,
        Errno::NOENT => SpawnError::NoInterpreter { first_line: first_line(folder) },
        Errno::ACCESS | Errno::PERM => SpawnError::NotExecutable { first_line: first_line(folder) },
        Errno::AGAIN => SpawnError::TooManyProcesses,
        Errno::TOOBIG => SpawnError::TooLong,
        Errno::TIME => SpawnError::TooLate,
        other => SpawnError::Start(other),
    }
}

fn first_line(folder: BorrowedFd<'_>) -> String {
    let mut buffer = [0; FIRST_LINE_BYTES_MAX];
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let length = rustix::fs::openat(folder, PROGRAM, flags, Mode::empty())
        .and_then(|file| rustix::io::pread(&file, &mut buffer, 0))
        .unwrap_or(0);
    let text = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default());
    text.split('\n').next().unwrap_or_default().to_owned()
}
