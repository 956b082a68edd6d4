//! Data of `/proc` about a process: its identity, its parent, its initial environment.

use std::fmt;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::{LazyLock, OnceLock};

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::process::Pid;

/// Maximum bytes read of an environment. The kernel's limit for arguments and environment together is 6 MiB.
const ENVIRONMENT_BYTES_MAX: u64 = 6 << 20;

/// How often the environment of a process in the middle of an exec is read again. Usually once is enough.
const EXEC_RETRIES_MAX: u32 = 200;

/// The flag of a kernel thread in field 9 of `/proc/<pid>/stat`.
const PF_KTHREAD: i64 = 0x0020_0000;

/// One process, unique within one boot: the kernel reuses a pid, but not together with its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId {
    /// Its process id.
    pub pid: Pid,
    /// When it started, in clock ticks since the boot: field 22 of `/proc/<pid>/stat`.
    pub start_time: u64,
}

impl ProcessId {
    /// The process that currently has this pid, alive or waiting to be reaped.
    ///
    /// # Errors
    /// `ESRCH` or `ENOENT` when there is none.
    pub fn of(pid: Pid) -> Result<Self> {
        Ok(Stat::read(pid)?.id())
    }

    /// A child that was started just now, not before `not_before`.
    ///
    /// If no tick has passed meanwhile, its start time is known without reading it, which would cost a tenth of a
    /// start. The first child must show that the kernel counts as we do, because it may not be Linux itself.
    ///
    /// # Errors
    /// See [`Self::of`].
    pub(super) fn of_new(pid: Pid, not_before: Ticks) -> Result<Self> {
        static COUNTS_AS_WE_DO: OnceLock<bool> = OnceLock::new();
        let now = Ticks::now();
        if now == not_before && COUNTS_AS_WE_DO.get() == Some(&true) {
            return Ok(Self { pid, start_time: now.0 });
        }
        let id = Self::of(pid)?;
        COUNTS_AS_WE_DO.get_or_init(|| (not_before.0..=now.0).contains(&id.start_time));
        Ok(id)
    }

    /// The calling process.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn own() -> Result<Self> {
        Self::of(rustix::process::getpid())
    }

    /// Whether this very process is still running, not a later one with its pid and not a zombie.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Stat::read(self.pid).is_ok_and(|stat| stat.id() == self && stat.alive)
    }

    /// The memory that it has in use, in bytes; 0 for one that has ended.
    #[must_use]
    pub fn resident_bytes(self) -> u64 {
        let statm = read_some(self.pid, "statm", 256);
        let pages =
            std::str::from_utf8(&statm).ok().and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok());
        pages.unwrap_or(0_u64).saturating_mul(rustix::param::page_size() as u64)
    }

    /// Whether its number still refers to it, alive or waiting to be reaped.
    pub(super) fn holds_its_number(self) -> bool {
        Stat::read(self.pid).is_ok_and(|stat| stat.id() == self)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pid)
    }
}

/// A moment in the unit of start times: clock ticks since the boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks(u64);

impl Ticks {
    pub(super) fn now() -> Self {
        let tick_nanos = 1_000_000_000 / u128::from(rustix::param::clock_ticks_per_second().max(1));
        Self(u64::try_from(crate::clock::since_boot().as_nanos() / tick_nanos).unwrap_or(u64::MAX))
    }
}

/// A number as a pid, if it is a valid one. `/proc` shows -1 for the group of a process that is being reaped.
pub(super) fn pid_of(number: i32) -> Option<Pid> {
    if number > 0 { Pid::from_raw(number) } else { None }
}

/// The required fields of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: Pid,
    /// `None` for processes without a parent here: init, kernel threads, processes from outside the container.
    pub(super) parent: Option<Pid>,
    pub(super) group: Option<Pid>,
    pub(super) session: Option<Pid>,
    pub(super) start_time: u64,
    /// Whether it is a kernel thread.
    pub(super) kernel: bool,
    /// False for a zombie. A process whose first thread has ended also looks like one, but its other threads are still
    /// running.
    pub(super) alive: bool,
    /// Whether it is in the middle of an exec: the data of the previous program is gone, and that of the next one is
    /// not there yet.
    in_exec: bool,
}

impl Stat {
    pub(super) fn read(pid: Pid) -> Result<Self> {
        let mut buffer = [0; 1024];
        let file = rustix::fs::open(format!("/proc/{pid}/stat"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let length = rustix::io::read(&file, &mut buffer)?;
        Self::parse(buffer.get(..length).unwrap_or_default()).ok_or(Errno::SRCH)
    }

    fn parse(line: &[u8]) -> Option<Self> {
        // The second field is the program's name in parentheses, which may contain spaces and parentheses.
        let close = line.iter().rposition(|&byte| byte == b')')?;
        let pid = std::str::from_utf8(line.get(..line.iter().position(|&byte| byte == b' ')?)?).ok()?;
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        // Field 3, the state, is the first of these.
        let fields: Vec<&str> = rest.split_ascii_whitespace().take(24).collect();
        let number = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<i64>().ok());
        let pid_at = |field: usize| number(field).and_then(|n| pid_of(i32::try_from(n).ok()?));
        let ended = matches!(*fields.first()?, "Z" | "X" | "x") && number(20)? <= 1;
        Some(Self {
            pid: pid_of(pid.parse().ok()?)?,
            parent: pid_at(4),
            group: pid_at(5),
            session: pid_at(6),
            start_time: u64::try_from(number(22)?).ok()?,
            kernel: number(9)? & PF_KTHREAD != 0,
            alive: !ended,
            // Field 26 is the address of the program's code, which the kernel sets at the very end of an exec, after
            // the environment.
            in_exec: !ended && number(26) == Some(0),
        })
    }

    pub(super) const fn id(&self) -> ProcessId {
        ProcessId { pid: self.pid, start_time: self.start_time }
    }
}

/// Calls `visit` with every process in order of pid, reading each at its turn. Returns how many were gone at their turn.
///
/// It scans instead of reading `/proc/<pid>/task/<tid>/children`: kernels without `CONFIG_PROC_CHILDREN` do not have that
/// file, and elsewhere it may leave out processes while others end.
pub(super) fn visit_all(mut visit: impl FnMut(&Stat)) -> Result<u32> {
    let mut gone = 0;
    for entry in Dir::new(open_proc()?)? {
        let entry = entry?;
        let number = entry.file_name().to_str().ok().and_then(|name| pid_of(name.parse().ok()?));
        match number.map(Stat::read) {
            Some(Ok(stat)) => visit(&stat),
            Some(Err(_)) => gone += 1,
            None => {}
        }
    }
    Ok(gone)
}

fn open_proc() -> Result<OwnedFd> {
    rustix::fs::open("/proc", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// The initial environment of a process, with entries ended by NUL. Empty if it may not be read, `None` while it cannot
/// be known.
///
/// In the middle of an exec the kernel shows no environment, so a process could escape a search for one. A kernel that
/// does not report the end of the exec at least shows that there is a command line.
pub(super) fn environment(stat: &Stat) -> Option<Vec<u8>> {
    for _ in 0..EXEC_RETRIES_MAX {
        let settled = stat.kernel || Stat::read(stat.pid).map_or(true, |stat| !stat.in_exec);
        let environment = read_some(stat.pid, "environ", ENVIRONMENT_BYTES_MAX);
        if settled || !environment.is_empty() {
            return Some(environment);
        }
        std::thread::yield_now();
    }
    (!read_some(stat.pid, "cmdline", 1).is_empty()).then(Vec::new)
}

fn read_some(pid: Pid, name: &str, bytes_max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(format!("/proc/{pid}/{name}")) {
        // A process that ends meanwhile causes an error after some bytes, which are all there is.
        let _ = file.take(bytes_max).read_to_end(&mut bytes);
    }
    bytes
}

/// The id of this boot, without which start times are meaningless. Empty if the kernel does not provide it.
pub fn boot_id() -> &'static str {
    static BOOT_ID: LazyLock<String> = LazyLock::new(|| {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim_end().to_owned()
    });
    &BOOT_ID
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &str = " 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0 0";

    fn line(name: &str, state: &str, threads: u32) -> Vec<u8> {
        format!("42 ({name}) {state} 7 40 41 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 4711 1 2 3\n").into_bytes()
    }

    #[test]
    fn a_name_cannot_forge_fields() {
        let stat = Stat::parse(&line(&format!("x) S 1 1 1{TAIL}"), "S", 1)).unwrap();
        assert_eq!((stat.pid.as_raw_nonzero().get(), stat.start_time, stat.alive), (42, 4711, true));
        assert_eq!([stat.parent, stat.group, stat.session].map(Pid::as_raw), [7, 40, 41]);
    }

    #[test]
    fn a_zombie_with_running_threads_is_alive() {
        assert!(!Stat::parse(&line("a", "Z", 1)).unwrap().alive);
        assert!(Stat::parse(&line("a", "Z", 2)).unwrap().alive);
        assert!(Stat::parse(&line("a", "T", 1)).unwrap().alive);
    }

    #[test]
    fn a_process_that_is_just_being_reaped_has_no_group() {
        let stat = Stat::parse(b"42 (a) X 0 -1 -1 0 -1 0 0 0 0 0 0 0 0 0 20 0 0 0 4711 1\n").unwrap();
        assert_eq!((stat.parent, stat.group, stat.session, stat.alive), (None, None, None, false));
    }

    #[test]
    fn a_torn_line_is_nothing() {
        let whole = line("a b", "S", 1);
        for length in 0..whole.len() - "4711 1 2 3\n".len() {
            assert_eq!(Stat::parse(&whole[..length]), None, "{length}");
        }
    }

    /// Ten attempts, because a tick may pass during one.
    #[test]
    fn the_start_time_of_a_child_is_known_without_reading_it() {
        for _ in 0..10 {
            let before = Ticks::now();
            let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
            let pid = Pid::from_child(&child);
            assert_eq!(ProcessId::of_new(pid, before), ProcessId::of(pid));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // Another process may have got its pid.
        assert!(ProcessId::of_new(pid_of(i32::MAX).unwrap(), Ticks(0)).is_err());
    }

    #[test]
    fn this_process_is_found() {
        let own = ProcessId::own().unwrap();
        let mut found = false;
        visit_all(|stat| found |= stat.id() == own).unwrap();
        assert!(found && own.is_alive());
        assert!(!ProcessId { start_time: own.start_time + 1, ..own }.is_alive());
    }
}
