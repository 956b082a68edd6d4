//! Ends the remaining processes of a dead agent, which are found by its run record and by the mark of each run.
//!
//! In contrast to [`super::tree`], these processes need not descend from us: when an agent dies and no supervisor
//! adopts its run, init does. So nothing here relies on ancestry alone.

use rustix::process::{Pid, Signal};

use super::brand::Brand;
use super::procfs::{self, ProcessId, Stat};
use super::tree_scan::{Ended, Pinned, TreeScan, death_deadline};

/// The mark of all processes of one run: entries of the environment, each as `NAME=value`, and the brand of its agent.
///
/// All entries must match. They must include the task and the round: the task alone would also match the next round,
/// which may run on the same host under another agent. The brand alone is also sufficient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookie {
    entries: Vec<String>,
    brand: Option<Brand>,
}

impl Cookie {
    /// A mark made of these entries. Without any entry, it matches no process.
    #[must_use]
    pub fn new(entries: impl IntoIterator<Item = String>) -> Self {
        Self { entries: entries.into_iter().collect(), brand: None }
    }

    /// The same mark with a brand.
    #[must_use]
    pub fn branded(self, brand: Option<Brand>) -> Self {
        Self { brand, ..self }
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &[String] {
        &self.entries
    }

    /// The brand, if there is one.
    #[must_use]
    pub const fn brand(&self) -> Option<Brand> {
        self.brand
    }

    /// Whether an environment, in the form of `/proc/<pid>/environ`, has this mark.
    fn marks(&self, environment: &[u8]) -> bool {
        let has = |wanted: &String| environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes());
        !self.entries.is_empty() && !environment.is_empty() && self.entries.iter().all(has)
    }
}

/// Ends every process with the mark, and all their descendants. Never touches the caller or its ancestors. Waits up to
/// a second for the end.
#[must_use]
pub fn sweep_by_cookie(cookie: &Cookie) -> Ended {
    end_run(cookie, None)
}

/// As [`sweep_by_cookie`], but also finds processes by the identity, group and session of run.sh, in case the
/// environment was cleared.
pub(super) fn end_run(cookie: &Cookie, root: Option<ProcessId>) -> Ended {
    let mut marks = Marks { cookie, root, group_is_ours: root.is_some_and(ProcessId::holds_its_number) };
    let mut scan = TreeScan::new(ourselves_and_ancestors(), |stat: &Stat| marks.are_on(stat));
    // Stop before killing: when a parent dies, its children go to init and their descent is lost.
    scan.find_scattered(|_| Some(Signal::STOP));
    scan.signal_all(Signal::KILL);
    let members: Vec<ProcessId> = scan.members().collect();
    let left = wait_for_end(&members);
    Ended { killed: u32::try_from(members.len() - left.len()).unwrap_or(u32::MAX), left }
}

struct Marks<'a> {
    cookie: &'a Cookie,
    root: Option<ProcessId>,
    /// Whether the pid of run.sh still names its group: it is alive, or a marked process is in that group. The kernel
    /// does not reuse the number while a group or a session has members.
    group_is_ours: bool,
}

impl Marks<'_> {
    fn are_on(&mut self, stat: &Stat) -> Option<bool> {
        let in_group = self.root.is_some_and(|root| [stat.group, stat.session].contains(&Some(root.pid)));
        if self.root == Some(stat.id()) || (in_group && self.group_is_ours) {
            return Some(true);
        }
        if !stat.kernel && self.cookie.brand.is_some_and(|brand| brand.is_on(stat.pid)) {
            return Some(true);
        }
        let marked = self.cookie.marks(&procfs::environment(stat)?);
        self.group_is_ours |= marked && in_group;
        Some(marked)
    }
}

/// Whether a process of our PID namespace has the mark. Its agent is then in our namespace, too, because a process is
/// in the namespace of its parent or below it. The exception is a caller that is itself part of the run, whose agent
/// may be in a namespace above.
pub(super) fn is_of_our_namespace(cookie: &Cookie) -> bool {
    let namespace = |pid: Pid| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let Some(ours) = namespace(rustix::process::getpid()) else { return false };
    let (immune, mut found, mut is_inside) = (ourselves_and_ancestors(), false, false);
    let scanned = procfs::visit_all(|stat| {
        if procfs::environment(stat).is_some_and(|environment| cookie.marks(&environment)) {
            is_inside |= immune.contains(&stat.pid);
            found |= stat.alive && namespace(stat.pid).as_ref() == Some(&ours);
        }
    });
    scanned.is_ok() && found && !is_inside
}

/// The caller and its ancestors. The caller may itself be part of a task, because a tool may start its own service.
pub(super) fn ourselves_and_ancestors() -> Vec<Pid> {
    let mut line = Vec::new();
    let mut next = Some(rustix::process::getpid());
    while let Some(pid) = next.filter(|pid| !line.contains(pid)) {
        line.push(pid);
        next = Stat::read(pid).ok().and_then(|stat| stat.parent);
    }
    line
}

/// The processes that have not ended in time.
fn wait_for_end(processes: &[ProcessId]) -> Vec<ProcessId> {
    let deadline = death_deadline();
    let pinned = processes.iter().filter_map(|&id| Pinned::open(id).ok());
    pinned.filter(|process| !process.wait_for_end(deadline)).map(|process| process.id()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie(entries: &[&str]) -> Cookie {
        Cookie::new(entries.iter().map(|&entry| entry.to_owned()))
    }

    #[test]
    fn a_mark_is_all_of_its_entries_and_each_as_a_whole() {
        let environment = b"A=1\0__TASK_ID__=TASK_1\0__ROUND__=0\0";
        assert!(cookie(&["__TASK_ID__=TASK_1", "__ROUND__=0"]).marks(environment));
        assert!(!cookie(&["__TASK_ID__=TASK_1", "__ROUND__=1"]).marks(environment));
        assert!(!cookie(&["__TASK_ID__=TASK_"]).marks(environment), "a prefix");
        assert!(!cookie(&["TASK_ID__=TASK_1"]).marks(environment), "a suffix");
    }

    #[test]
    fn an_empty_mark_is_on_nobody() {
        assert!(!cookie(&[]).marks(b"A=1\0"));
        assert!(!cookie(&[""]).marks(b""));
        assert!(!cookie(&[]).marks(b""));
    }

    #[test]
    fn we_are_immune_and_so_is_our_parent() {
        let immune = ourselves_and_ancestors();
        assert!(immune.contains(&rustix::process::getpid()));
        assert!(immune.contains(&rustix::process::getppid().unwrap()));
    }
}
