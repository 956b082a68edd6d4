//! Finding all processes of a tree and signalling each of them once, and never one that is not of the tree.
//!
//! A pid alone proves nothing: between reading that 4711 is a child of ours and signalling 4711, it may end, be reaped by its
//! parent, and its number be given to somebody else's process. So each victim is pinned by a pidfd first, and what made it a
//! victim is read again after that.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroI32;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::procfs::{ProcessId, Stat, visit_all};
use crate::shell::clock;
use crate::shell::readable;
use crate::types::Mono;

/// Scans of one call. Each finds what was started during the one before it; a tree that still grows after so many is not
/// outrun in this call, but most of it is stopped by then, and the next call goes on.
pub(super) const PASSES_MAX: u32 = 12;

/// The members of a tree that were found so far.
pub(super) struct TreeScan<S> {
    /// Who is never touched, whatever it descends from: known children, or ourselves and our ancestors.
    immune: BTreeSet<Number>,
    /// Whether a process belongs to the tree by itself; `None` while that cannot be told. What descends from a member is one
    /// in any case.
    seed: S,
    /// By pid. The start time tells whether the number still means the member.
    members: BTreeMap<Number, Member>,
    /// Members that had ended before they were found, and wait to be reaped.
    remains: BTreeSet<Number>,
    /// How many processes of the last scan could not be told: gone, in the middle of an exec, or ended.
    unsure: u32,
}

/// A pid as a key: `Pid` itself has no order.
type Number = NonZeroI32;

const fn number(pid: Pid) -> Number {
    pid.as_raw_nonzero()
}

struct Member {
    id: ProcessId,
    /// A signal could not be delivered: the process belongs to another user.
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

    /// Scans once and hands each living member that was not known to `act`, with a pidfd already pinned; returns how many.
    pub(super) fn find_new(&mut self, mut act: impl FnMut(&Stat) -> Option<Signal>) -> u32 {
        let (mut found, mut unsure) = (0, 0);
        let scanned = visit_all(|stat| {
            if self.immune.contains(&number(stat.pid)) || self.knows(stat.id()) {
                return;
            }
            if !stat.alive {
                // It may have started somebody since the list of this scan was made.
                unsure += u32::from(self.belongs(stat) == Some(true) && self.remains.insert(number(stat.pid)));
                return;
            }
            match self.belongs(stat).map(|belongs| belongs.then(|| self.signal_verified(stat, act(stat)))) {
                Some(None) => {}
                // Recorded even if it cannot be signalled: its children are of the tree all the same.
                Some(Some(Ok(refused))) => {
                    self.members.insert(number(stat.pid), Member { id: stat.id(), refused });
                    found += 1;
                }
                // It has lost its parent, or is in the middle of an exec: it must be looked at again.
                Some(Some(Err(Gone))) | None => unsure += 1,
            }
        });
        match scanned {
            Ok(gone) => self.unsure = unsure + gone,
            Err(error) => log::error!("cannot scan /proc for processes of a task: {error}"),
        }
        found
    }

    /// Repeats [`Self::find_new`] until it finds nobody; false if the tree still grows after [`PASSES_MAX`] scans.
    pub(super) fn find_all(&mut self, mut act: impl FnMut(&Stat) -> Option<Signal>) -> bool {
        (0..PASSES_MAX).any(|_| self.find_new(&mut act) == 0)
    }

    /// The same without the help of ancestry: a process may start another one and end, between the list of a scan and its own
    /// turn, and that one has init for a parent. So a scan in which anybody was gone is repeated, too.
    pub(super) fn find_scattered(&mut self, mut act: impl FnMut(&Stat) -> Option<Signal>) -> bool {
        (0..PASSES_MAX).any(|_| self.find_new(&mut act) == 0 && self.unsure == 0)
    }

    /// Signals every member that was found. One that has refused a signal still counts as refused when it takes this one: SIGCONT is
    /// allowed to any process of the same session, whoever its user is.
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

    /// Pins the process, checks again that it belongs to the tree, and signals it.
    fn signal_verified(&mut self, found: &Stat, signal: Option<Signal>) -> Result<bool, Gone> {
        let pinned = Pinned::open(found.id())?;
        if (self.seed)(&pinned.stat) != Some(true) {
            // It belongs to the tree by its parent: that one must have had its number all the while.
            let parent = pinned.stat.parent.ok_or(Gone)?;
            if !self.members.get(&number(parent)).ok_or(Gone)?.id.holds_its_number() {
                return Err(Gone);
            }
        }
        pinned.signal(signal)
    }
}

/// The process is not there any more, or has gone to another parent: the next scan finds it there.
pub(super) struct Gone;

/// A process that is known to be the one that was meant, for as long as this exists.
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

    /// Waits for its end until then at the latest; whether it has ended.
    pub(super) fn wait_for_end(&self, deadline: Mono) -> bool {
        readable::is_readable(&self.pidfd, Some(deadline.since(clock::now().mono)))
    }

    /// Whether the signal was refused; without one, whether it would be.
    pub(super) fn signal(&self, signal: Option<Signal>) -> Result<bool, Gone> {
        let Some(signal) = signal else {
            // A signal to its group succeeds if any member took it.
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
