//! Processes that outlive a run: those of a tool that stays, as they were when it was ready.
//!
//! A run that ends beside them must leave no other process, and that is to be found out within microseconds. Their children cannot be
//! listed (see [`visit_all`]), so the numbers tell: the kernel gives them out in order, and shows the last one. If it is the same as
//! after the last check, nothing was started in this PID namespace; otherwise only the numbers in between are looked at.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::process::Pid;

use super::procfs::{ProcessId, Stat, pid_of, visit_all};
use crate::clock;
use base::Mono;

/// Numbers that are looked at one by one. A scan of `/proc` costs about as much as this many of them.
const LOOKS_MAX: u32 = 300;

/// In this time the kernel cannot give out all numbers, so that they would begin anew.
const CERTAIN: Duration = Duration::from_millis(100);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Kept {
    members: Vec<ProcessId>,
    /// The state of the numbers when all processes below us were known.
    known: Option<Numbers>,
    /// The number of forks before that, and when it was read.
    forks: u64,
}

/// The last number that was given out, and when it was read.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    last: u32,
    at: Mono,
}

impl Kept {
    pub(super) const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn has(&self, pid: Pid) -> bool {
        self.members.iter().any(|member| member.pid == pid)
    }

    pub(super) fn pids(&self) -> Vec<Pid> {
        self.members.iter().map(|member| member.pid).collect()
    }

    pub(super) fn add(&mut self, processes: &[ProcessId]) {
        self.members.extend(processes);
        self.known = None;
    }

    pub(super) fn remove(&mut self, processes: &[ProcessId]) {
        self.members.retain(|member| !processes.contains(member));
        self.known = None;
    }

    /// Whether a process is alive below us that is not kept.
    pub(super) fn has_newcomers(&mut self) -> bool {
        let now = Numbers::read();
        let found = match self.known.zip(now).and_then(|(before, now)| self.given_out(before, now)) {
            Some(numbers) => numbers.into_iter().any(|pid| self.is_newcomer_with(pid)),
            None => self.finds_newcomer(),
        };
        self.known = now.filter(|_| !found);
        found
    }

    /// The numbers given out between two moments; `None` if that is not certain, or they are many.
    fn given_out(&mut self, before: Numbers, now: Numbers) -> Option<Vec<Pid>> {
        if now.at.since(before.at) > CERTAIN {
            let forks = forks()?;
            let since = forks.saturating_sub(std::mem::replace(&mut self.forks, forks));
            if since >= u64::from(*NUMBERS_MAX) / 2 {
                return None;
            }
        }
        let count = now.last.checked_sub(before.last).filter(|count| *count <= LOOKS_MAX)?;
        Some((0..count).filter_map(|at| pid_of(i32::try_from(now.last - at).ok()?)).collect())
    }

    fn is_newcomer_with(&self, pid: Pid) -> bool {
        // A thread has a number of its own, and looks like a child of its process's parent.
        Stat::read(pid).is_ok_and(|stat| self.is_newcomer(&stat)) && is_process(pid)
    }

    fn is_newcomer(&self, stat: &Stat) -> bool {
        let is_below = |parent: Pid| parent == rustix::process::getpid() || self.has(parent);
        stat.alive && stat.parent.is_some_and(is_below) && !self.members.contains(&stat.id())
    }

    fn finds_newcomer(&self) -> bool {
        let mut is_found = false;
        if let Err(error) = visit_all(|stat| is_found |= self.is_newcomer(stat)) {
            log::error!("cannot scan /proc for processes of a tool: {error}");
        }
        is_found
    }
}

impl Numbers {
    /// `None` where the kernel does not show them.
    fn read() -> Option<Self> {
        // Starting a thread takes a number. A kernel that is not Linux itself may show a constant.
        static ARE_SHOWN: LazyLock<bool> = LazyLock::new(|| {
            let before = last_number();
            std::thread::spawn(|| ()).join().is_ok() && before != last_number()
        });
        ARE_SHOWN.then_some(())?;
        Some(Self { at: clock::now().mono, last: last_number()? })
    }
}

/// The largest number of a process, from which on they begin anew.
static NUMBERS_MAX: LazyLock<u32> = LazyLock::new(|| {
    let text = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    text.trim().parse().unwrap_or(1 << 15)
});

/// The last word of `/proc/loadavg`.
fn last_number() -> Option<u32> {
    // Each read from the beginning shows the present values.
    static FILE: LazyLock<Option<File>> = LazyLock::new(|| File::open("/proc/loadavg").ok());
    let mut bytes = [0; 128];
    let length = FILE.as_ref()?.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(bytes.get(..length)?).ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// The processes and threads that were started since the boot, in all namespaces.
fn forks() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("processes "))?.trim().parse().ok()
}

fn is_process(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    leader.is_none_or(|leader| leader.trim().parse() == Ok(pid.as_raw_nonzero().get()))
}
