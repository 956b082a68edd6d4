//! Finds all processes of a tree and signals each of them once, and never any other process.
//!
//! A pid alone proves nothing: between reading that 4711 is a child of ours and signalling 4711, it may end and be
//! reaped by its parent, and the pid may be reused for an unrelated process. So each process is first pinned by a
//! pidfd, and its membership is then read again.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroI32;
use std::ops::AddAssign;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::procfs::{ProcessId, Stat, visit_all};
use crate::{clock, readable};
use base::Mono;

/// Maximum scans of one call. Each finds processes that were started during the previous one. If a tree still grows
/// after this many, most of it is stopped by then, and the next call continues.
pub(super) const PASSES_MAX: u32 = 12;

/// How long a sweep waits for killed processes. A process in an uninterruptible wait takes longer and is reported as left.
const DEATH_TIMEOUT: Duration = Duration::from_secs(1);

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Processes that were found alive and killed.
    pub killed: u32,
    /// Processes that are still running: another user's, or in an uninterruptible wait.
    pub left: Vec<ProcessId>,
}

impl AddAssign for Ended {
    fn add_assign(&mut self, other: Self) {
        self.killed += other.killed;
        self.left.extend(other.left.into_iter().filter(|process| !self.left.contains(process)).collect::<Vec<_>>());
    }
}

/// The deadline for the end of processes that are killed now.
pub(super) fn death_deadline() -> Mono {
    clock::now().mono + DEATH_TIMEOUT
}

/// The known members of a tree.
pub(super) struct TreeScan<S> {
    /// Processes that are never touched, whatever they descend from: known children, or ourselves and our ancestors.
    immune: BTreeSet<Number>,
    /// Whether a process belongs to the tree by itself; `None` while that is unknown. A descendant of a member always
    /// belongs to the tree.
    seed: S,
    /// By pid. The start time shows whether the pid still refers to the member.
    members: BTreeMap<Number, Member>,
    /// Members that had ended before they were found, and wait to be reaped.
    remains: BTreeSet<Number>,
    /// Number of processes that the last scan could not decide about: gone, in the middle of an exec, or ended.
    unsure: u32,
}

/// A pid as a key: `Pid` itself has no order.
type Number = NonZeroI32;

const fn number(pid: Pid) -> Number {
    pid.as_raw_nonzero()
}

struct Member {
    id: ProcessId,
    /// Whether a signal could not be delivered, because the process belongs to another user.
    refused: bool,
}

impl<S: FnMut(&Stat) -> Option<bool>> TreeScan<S> {
    pub(super) fn new(immune: impl IntoIterator<Item = Pid>, seed: S) -> Self {
        Self {
            immune: immune.into_iter().map(number).collect(),
            seed,
            members: BTreeMap::new(),
            remains: BTreeSet::new(),
            unsure: 0,
        }
    }

    /// Scans once, sends each new live member the signal that `act` chooses, and returns their number.
    pub(super) fn find_new(&mut self, mut act: impl FnMut(&Stat) -> Option<Signal>) -> u32 {
        let (mut found, mut unsure) = (0, 0);
        let scanned = visit_all(|stat| {
            if self.immune.contains(&number(stat.pid)) || self.knows(stat.id()) {
                return;
            }
            if !stat.alive {
                // It may have started a process since the list of this scan was made.
                unsure += u32::from(self.belongs(stat) == Some(true) && self.remains.insert(number(stat.pid)));
                return;
            }
            match self.belongs(stat).map(|belongs| belongs.then(|| self.signal_verified(stat, act(stat)))) {
                Some(None) => {}
                // Recorded even if it cannot be signalled: its children belong to the tree in any case.
                Some(Some(Ok(refused))) => {
                    self.members.insert(number(stat.pid), Member { id: stat.id(), refused });
                    found += 1;
                }
                // It has lost its parent or is in the middle of an exec, so it must be checked again.
                Some(Some(Err(Gone))) | None => unsure += 1,
            }
        });
        match scanned {
            Ok(gone) => self.unsure = unsure + gone,
            Err(error) => log::error!("cannot scan /proc for processes of a task: {error}"),
        }
        found
    }

    /// Repeats [`Self::find_new`] until it finds no process. Returns false if the tree still grows after [`PASSES_MAX`]
    /// scans.
    pub(super) fn find_all(&mut self, mut act: impl FnMut(&Stat) -> Option<Signal>) -> bool {
        (0..PASSES_MAX).any(|_| self.find_new(&mut act) == 0)
    }

    /// As [`Self::find_all`], without relying on ancestry: between the listing and its turn, a process may start
    /// another one and end, which leaves init as the parent of that one. So a scan in which any process was gone is
    /// repeated, too.
    pub(super) fn find_scattered(&mut self, mut act: impl FnMut(&Stat) -> Option<Signal>) -> bool {
        (0..PASSES_MAX).any(|_| self.find_new(&mut act) == 0 && self.unsure == 0)
    }

    /// Signals every found member. A member that could not be signalled before still counts as refused if it takes this
    /// signal: SIGCONT is allowed to any process of the same session, whatever its user.
    pub(super) fn signal_all(&mut self, signal: Signal) {
        for member in self.members.values_mut() {
            if let Ok(refused) = signal_pinned(member.id, Some(signal)) {
                member.refused |= refused;
            }
        }
    }

    pub(super) fn members(&self) -> impl Iterator<Item = ProcessId> {
        self.members.values().map(|member| member.id)
    }

    pub(super) fn refused(&self) -> u32 {
        u32::try_from(self.members.values().filter(|member| member.refused).count()).unwrap_or(u32::MAX)
    }

    fn knows(&self, id: ProcessId) -> bool {
        self.members.get(&number(id.pid)).is_some_and(|member| member.id == id)
    }

    fn belongs(&mut self, stat: &Stat) -> Option<bool> {
        if stat.parent.is_some_and(|parent| self.members.contains_key(&number(parent))) {
            return Some(true);
        }
        (self.seed)(stat)
    }

    /// Pins the process, checks its membership again, and signals it.
    fn signal_verified(&mut self, found: &Stat, signal: Option<Signal>) -> Result<bool, Gone> {
        let pinned = Pinned::open(found.id())?;
        if (self.seed)(&pinned.stat) != Some(true) {
            // It belongs to the tree by its parent, which must have kept its pid throughout.
            let parent = pinned.stat.parent.ok_or(Gone)?;
            if !self.members.get(&number(parent)).ok_or(Gone)?.id.holds_its_number() {
                return Err(Gone);
            }
        }
        pinned.signal(signal)
    }
}

/// The process is gone, or has another parent, where the next scan finds it.
pub(super) struct Gone;

/// A process that is certain to be the intended one, as long as this value exists.
pub(super) struct Pinned {
    pidfd: OwnedFd,
    stat: Stat,
}

impl Pinned {
    pub(super) fn open(id: ProcessId) -> Result<Self, Gone> {
        let pidfd = match rustix::process::pidfd_open(id.pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Err(Gone),
            Err(error) => {
                log::warn!("cannot pin process {id}: {error}");
                return Err(Gone);
            }
        };
        let stat = Stat::read(id.pid).map_err(|_| Gone)?;
        if stat.id() == id { Ok(Self { pidfd, stat }) } else { Err(Gone) }
    }

    pub(super) const fn id(&self) -> ProcessId {
        self.stat.id()
    }

    /// Whether it was alive when it was pinned.
    pub(super) const fn is_alive(&self) -> bool {
        self.stat.alive
    }

    /// Readable when it has ended.
    pub(super) fn into_descriptor(self) -> OwnedFd {
        self.pidfd
    }

    /// Waits for its end until the deadline, and returns whether it has ended.
    pub(super) fn wait_for_end(&self, deadline: Mono) -> bool {
        readable::is_readable(&self.pidfd, Some(deadline.since(clock::now().mono)))
    }

    /// Sends a signal and returns whether it was refused; without a signal, returns whether one would be.
    pub(super) fn signal(&self, signal: Option<Signal>) -> Result<bool, Gone> {
        let Some(signal) = signal else {
            // Checked here, because a signal to its group succeeds if any member took it.
            return Ok(rustix::process::test_kill_process(self.stat.pid) == Err(Errno::PERM));
        };
        match rustix::process::pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) => Ok(false),
            Err(Errno::SRCH) => Err(Gone),
            Err(_) => Ok(true),
        }
    }
}

fn signal_pinned(id: ProcessId, signal: Option<Signal>) -> Result<bool, Gone> {
    Pinned::open(id)?.signal(signal)
}
