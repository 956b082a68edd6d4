//! Lists, ends and reaps all processes that a run started, however they try to escape.
//!
//! The caller is a child subreaper: a process below it that loses its parent becomes its child, even after `setsid` and
//! a double fork. So the tree of a run is everything that descends from the caller, except the siblings that the caller
//! names: an agent has none, and a supervisor has its agents. A tree is empty exactly when no child is left, which one
//! system call shows.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::procfs::{ProcessId, Stat, visit_all};
use super::sys::{self, Peek};
use super::tree_scan::{Pinned, TreeScan};
use crate::clock;

/// Maximum orphans that one call reaps, so that a tree that forks endlessly cannot block the caller. SIGCHLD stays
/// pending for the rest.
const REAPS_MAX: u32 = 10_000;

/// Makes the calling process the new parent of all orphans below it, and ensures that their status is kept for it.
///
/// Call it once, before any process is started. It applies to the process, not to the thread, and is not inherited.
///
/// # Errors
/// When the kernel is older than 3.4.
pub fn become_subreaper() -> io::Result<()> {
    sys::default_sigchld();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Lets a subreaper start a process that detaches, without adopting it again. It must not be called during a run, whose
/// orphans would escape.
///
/// # Errors
/// See [`become_subreaper`].
pub fn without_adoption<T>(start: impl FnOnce() -> T) -> io::Result<T> {
    rustix::process::set_child_subreaper(None)?;
    let started = start();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(started)
}

/// Whether any process is left of a run whose run.sh was reaped, alive or waiting for [`reap_orphans`].
///
/// Without siblings this is one system call, cheap enough for the end of every run; with live siblings, a scan of `/proc`.
#[must_use]
pub fn any_left(siblings: &[Pid]) -> bool {
    match sys::peek_children() {
        Ok(Peek::NoChild) => false,
        Ok(Peek::Alive | Peek::Ended(_)) if siblings.is_empty() => true,
        Ok(Peek::Ended(pid)) if !siblings.contains(&pid) => true,
        Ok(Peek::Alive | Peek::Ended(_)) => !children_except(siblings, |_| true).is_empty(),
        Err(error) => {
            log::error!("cannot look for children: {error}");
            true
        }
    }
}

/// Reaps the orphans that have ended, and returns their number. The children in `known` are left alone, because their
/// status belongs to their owners. Never blocks.
pub fn reap_orphans(known: &[Pid]) -> u32 {
    for reaped in 0..REAPS_MAX {
        match sys::peek_children() {
            Ok(Peek::Ended(pid)) if !known.contains(&pid) => {
                let _ = sys::wait4(pid);
            }
            // The peek always shows the same ended child, so further ones must be searched for.
            Ok(Peek::Ended(_)) => return reaped + reap_behind(known),
            Ok(Peek::NoChild | Peek::Alive) | Err(_) => return reaped,
        }
    }
    REAPS_MAX
}

fn reap_behind(known: &[Pid]) -> u32 {
    let ended = children_except(known, |stat| !stat.alive);
    let reaped = ended.into_iter().filter(|&pid| matches!(sys::wait4(pid), Ok(Some(_)))).count();
    u32::try_from(reaped).unwrap_or(u32::MAX)
}

fn children_except(known: &[Pid], wanted: impl Fn(&Stat) -> bool) -> Vec<Pid> {
    let own = rustix::process::getpid();
    let mut children = Vec::new();
    let scanned = visit_all(|stat| {
        if stat.parent == Some(own) && !known.contains(&stat.pid) && wanted(stat) {
            children.push(stat.pid);
        }
    });
    if let Err(error) = scanned {
        log::error!("cannot scan /proc for children: {error}");
    }
    children
}

/// The processes below the caller that do not belong to the tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spared<'a> {
    /// These, and everything below them.
    trees: &'a [Pid],
    /// These themselves, but not what they start.
    processes: &'a [Pid],
}

impl<'a> Spared<'a> {
    /// Siblings of a tree, with all that they start.
    #[must_use]
    pub const fn trees(trees: &'a [Pid]) -> Self {
        Self { trees, processes: &[] }
    }

    /// Processes that stay, without what they start from now on.
    #[must_use]
    pub const fn processes(processes: &'a [Pid]) -> Self {
        Self { trees: &[], processes }
    }
}

/// The live processes of the tree.
#[must_use]
pub fn stragglers(spared: Spared<'_>) -> Vec<ProcessId> {
    let mut scan = scan_below_us(spared);
    scan.find_all(|_| None);
    scan.members().collect()
}

/// A sentence about the live processes of the tree that we may not signal, and why; `None` if there is none.
#[must_use]
pub(super) fn foreign_processes(spared: Spared<'_>) -> Option<String> {
    let may_not = |process: &ProcessId| rustix::process::test_kill_process(process.pid) == Err(Errno::PERM);
    let foreign: Vec<ProcessId> = stragglers(spared).into_iter().filter(may_not).collect();
    let own = rustix::process::geteuid();
    Some(format!("{}: still running, and this agent (user {own}) may not end it", named(&foreign)?))
}

/// The first of these processes, for people; `None` if there is none.
#[must_use]
pub fn named(processes: &[ProcessId]) -> Option<String> {
    const NAMED_MAX: usize = 3;
    let named: Vec<String> = processes.iter().take(NAMED_MAX).map(|process| described(process.pid)).collect();
    let beyond = if processes.len() > NAMED_MAX { ", …" } else { "" };
    (!named.is_empty()).then(|| format!("{}{beyond}", named.join(", ")))
}

/// The pid, name and user of a process, as far as they can be read.
fn described(pid: Pid) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or("?");
    let user = field("Uid:").split_ascii_whitespace().next().unwrap_or("?");
    format!("process {pid} ({}) of user {user}", field("Name:"))
}

fn scan_below_us(spared: Spared<'_>) -> TreeScan<impl FnMut(&Stat) -> Option<bool> + use<'_>> {
    let own = rustix::process::getpid();
    let starts_others = move |parent: Pid| parent == own || spared.processes.contains(&parent);
    let immune = spared.trees.iter().chain(spared.processes).copied();
    TreeScan::new(immune, move |stat| Some(stat.parent.is_some_and(starts_others)))
}

/// Sends SIGKILL to all processes that another process has started, because that one is stopped and cannot do it.
/// Returns whether none was found. The other process is a subreaper, so everything that it has started is below it.
#[must_use]
pub fn end_below(process: ProcessId) -> bool {
    if !process.is_alive() {
        return true;
    }
    let mut scan = TreeScan::new([], move |stat: &Stat| Some(stat.parent == Some(process.pid)));
    // Stop them first: run.sh must not continue when one of its programs is killed.
    scan.find_all(|_| Some(Signal::STOP));
    scan.signal_all(Signal::KILL);
    scan.members().next().is_none()
}

/// Ends these processes and all that they have started, with SIGKILL.
pub fn end_all(processes: &[ProcessId]) {
    let mut scan = TreeScan::new([], |stat: &Stat| Some(processes.contains(&stat.id())));
    scan.find_all(|_| Some(Signal::KILL));
}

/// A descriptor that becomes readable when the process ends; `None` if it has.
#[must_use]
pub fn end_of(process: ProcessId) -> Option<OwnedFd> {
    Pinned::open(process).ok().map(Pinned::into_descriptor)
}

/// Waits for the end of a process, at most for this long.
pub fn wait_for_end(process: ProcessId, limit: Duration) {
    if let Ok(pinned) = Pinned::open(process) {
        pinned.wait_for_end(clock::now().mono + limit);
    }
}

/// The result of a signal to a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signalled {
    /// Number of live processes of the tree that were found.
    pub found: u32,
    /// Number of processes that could not be signalled, because they run as another user (a set-user-id program).
    pub refused: u32,
    /// Whether the last scan found no new process. If it did, the tree grows while it is being ended, so call again
    /// after the next SIGCHLD or on a timer.
    pub settled: bool,
}

/// The processes of a run that must end: call [`Self::terminate`], wait for a grace time, then call [`Self::kill`]
/// until [`any_left`] returns false.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    root: Option<ProcessId>,
}

impl Tree {
    /// The tree of a run.sh.
    #[must_use]
    pub const fn of(root: ProcessId) -> Self {
        Self { root: Some(root) }
    }

    /// The orphans of a process that died below us. A supervisor gets them when an agent dies.
    #[must_use]
    pub const fn of_orphans() -> Self {
        Self { root: None }
    }

    /// The root, if it has one.
    pub(super) const fn root(&self) -> Option<ProcessId> {
        self.root
    }

    /// Sends this signal to each process once, then SIGCONT, so that a stopped process can act on it.
    ///
    /// The group is signalled first, because that is atomic: no member can fork past it.
    pub fn terminate(&self, signal: Signal, spared: Spared<'_>) -> Signalled {
        let group = self.signal_group(signal);
        let mut scan = scan_below_us(spared);
        // A second one makes some programs abort their cleanup, and members of the group have had theirs.
        let settled = scan.find_all(|stat| (group.is_none() || stat.group != group).then_some(signal));
        scan.signal_all(Signal::CONT);
        signalled(&scan, settled)
    }

    /// Ends every process with SIGKILL.
    ///
    /// If a new process turns up after a first round, the tree forks: all of it is stopped before it is killed, because
    /// each death would make room for a new process.
    pub fn kill(&self, spared: Spared<'_>) -> Signalled {
        self.signal_group(Signal::KILL);
        let mut scan = scan_below_us(spared);
        if scan.find_new(|_| Some(Signal::KILL)) == 0 {
            return signalled(&scan, true);
        }
        let settled = scan.find_all(|_| Some(Signal::STOP));
        scan.signal_all(Signal::KILL);
        signalled(&scan, settled)
    }

    /// Signals the group of run.sh, but only while its pid is certain to be ours: as long as we have not reaped it, the
    /// pid cannot be reused. After that, the scan finds the members one by one.
    fn signal_group(&self, signal: Signal) -> Option<Pid> {
        let root = self.root.filter(|root| root.holds_its_number())?;
        match rustix::process::kill_process_group(root.pid, signal) {
            Ok(()) => Some(root.pid),
            // ESRCH: run.sh has left its group. EPERM: no member is ours.
            Err(Errno::SRCH | Errno::PERM) => None,
            Err(error) => {
                log::error!("cannot signal the process group {}: {error}", root.pid);
                None
            }
        }
    }
}

fn signalled<S: FnMut(&Stat) -> Option<bool>>(scan: &TreeScan<S>, settled: bool) -> Signalled {
    Signalled { found: u32::try_from(scan.members().count()).unwrap_or(u32::MAX), refused: scan.refused(), settled }
}
