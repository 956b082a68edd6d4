//! The connection of a process to the supervisor that started it: its mark, and the lines that it writes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

/// The environment variable that marks every process of a service. If a supervisor is killed, its remaining processes
/// are found by this mark. The prefix LLTS_RUN_ keeps a client that a tool starts from reading it as a configuration
/// key.
pub const MARK: &str = "LLTS_RUN_SERVICE";

/// The variable that names a home.
pub const HOME_VARIABLE: &str = "LLTS_HOME";

/// Whether this process was started by a supervisor.
#[must_use]
pub fn is_supervised() -> bool {
    std::env::var_os(MARK).is_some()
}

/// The supervisor of this process. Its descriptor is readable when it has died.
#[derive(Debug)]
pub struct Supervisor {
    pid: Pid,
    process: OwnedFd,
}

impl Supervisor {
    /// The parent of this process, if that is a supervisor that lives.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let pid = getppid().filter(|_| is_supervised())?;
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // A process whose parent has died gets another one, and the number of the first may be that of a stranger.
        (getppid() == Some(pid)).then_some(Self { pid, process })
    }

    /// Its process id.
    #[must_use]
    pub const fn pid(&self) -> Pid {
        self.pid
    }
}

impl AsFd for Supervisor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}

/// The start of the line in which an agent reports the final end of its run's lease.
const LEASE_LINE: &str = "llts agent lease: ";

/// The line in which an agent reports the lease of its run to its supervisor: the end as time since the boot, or that
/// there is no lease.
#[must_use]
pub fn lease_line(end: Option<Duration>) -> String {
    format!("{LEASE_LINE}{}\n", end.map_or_else(|| "none".to_owned(), |end| end.as_nanos().to_string()))
}

/// Parses a line of [`lease_line`]; `None` for any other line.
pub fn lease_of(line: &str) -> Option<Option<Duration>> {
    let end = line.strip_prefix(LEASE_LINE)?;
    Some(end.parse().ok().map(Duration::from_nanos))
}
