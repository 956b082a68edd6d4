//! The processes of one run at a time: its root, which is a run.sh or a command, and all processes that it starts. Beside it there may be
//! tools that stay for later runs.

use rustix::process::{Pid, Signal as KernelSignal};

use super::child::{ChildExit, RunningChild};
use super::kept::Kept;
use super::procfs::ProcessId;
use super::tree::{Signalled, Spared, Tree, any_left, foreign_processes, reap_orphans, stragglers};
use crate::ladder::Signal;
use base::{EndSignal, ExitCode};

/// The processes of the present run, or the remains of the last one. The caller is a subreaper without any other child than the tools
/// that stay.
#[derive(Debug)]
pub struct RunProcesses {
    /// `None` before the start, and after it has been reaped.
    root: Option<RunningChild>,
    /// A root that its owner reaps.
    foreign_root: Option<Pid>,
    tree: Tree,
    /// The first signal when they must end.
    end_signal: KernelSignal,
    kept: Kept,
}

/// The meaning of a child's end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChildEnd {
    /// The root has ended. Its remains are not known yet.
    Root(ChildExit),
    /// There is no root; these are the remains.
    Rest(Rest),
}

/// The remains of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Whether any process is left.
    pub left: bool,
    /// Number of processes other than the root that have ended since the last check.
    pub reaped: u32,
}

impl RunProcesses {
    /// Before the first run.
    #[must_use]
    pub fn none() -> Self {
        let (root, foreign_root, kept) = (None, None, Kept::default());
        Self { root, foreign_root, tree: Tree::of_orphans(), end_signal: KernelSignal::TERM, kept }
    }

    /// A run begins, whose root was just started.
    pub fn start(&mut self, root: RunningChild, end_signal: EndSignal) {
        self.tree = Tree::of(root.id());
        self.root = Some(root);
        self.set_end_signal(end_signal);
    }

    /// A run begins in a tool that stays, with this root, which its owner reaps.
    pub fn start_in(&mut self, root: ProcessId, end_signal: EndSignal) {
        (self.root, self.foreign_root, self.tree) = (None, Some(root.pid), Tree::of(root));
        self.set_end_signal(end_signal);
    }

    /// The run has ended. A root that is still alive counts as one of its remains.
    pub const fn end(&mut self) {
        (self.root, self.foreign_root, self.tree) = (None, None, Tree::of_orphans());
    }

    /// These processes stay when a run ends.
    pub fn keep(&mut self, processes: &[ProcessId]) {
        self.kept.add(processes);
    }

    /// These processes stay no longer: they belong to the run, or to its remains.
    pub fn release(&mut self, processes: &[ProcessId]) {
        self.kept.remove(processes);
    }

    const fn set_end_signal(&mut self, signal: EndSignal) {
        self.end_signal = match signal {
            EndSignal::Term => KernelSignal::TERM,
            EndSignal::Int => KernelSignal::INT,
            EndSignal::Hup => KernelSignal::HUP,
            EndSignal::Quit => KernelSignal::QUIT,
            EndSignal::Usr1 => KernelSignal::USR1,
            EndSignal::Usr2 => KernelSignal::USR2,
        };
    }

    /// Signals all of them.
    pub fn signal(&self, signal: Signal) -> Signalled {
        let kept = self.kept.pids();
        // The root of a tool that stays shares its group with what a run has left.
        let tree =
            if self.tree.root().is_some_and(|root| self.kept.has(root.pid)) { Tree::of_orphans() } else { self.tree };
        let signalled = match signal {
            Signal::Terminate => tree.terminate(self.end_signal, Spared::processes(&kept)),
            Signal::Kill => tree.kill(Spared::processes(&kept)),
        };
        log::debug!("{signal:?}: {signalled:?}");
        signalled
    }

    /// Reaps processes that have ended; call it after SIGCHLD. `None` while the root lives.
    pub fn reap(&mut self) -> Option<ChildEnd> {
        // The root comes before the orphans, so that its exit is known before its remains are reported.
        if let Some(exit) = self.take_exit() {
            return Some(ChildEnd::Root(exit));
        }
        let rest = self.look();
        self.root.is_none().then_some(ChildEnd::Rest(rest))
    }

    /// Reaps processes that have lost their parent and ended.
    pub fn reap_orphans(&self) -> u32 {
        let own = self.root.as_ref().map(|root| root.id().pid);
        let known: Vec<Pid> = own.into_iter().chain(self.foreign_root).chain(self.kept.pids()).collect();
        reap_orphans(&known)
    }

    /// The end of the root, returned once.
    fn take_exit(&mut self) -> Option<ChildExit> {
        let root = self.root.as_mut()?;
        let exit = match root.try_wait() {
            Ok(exit) => exit?,
            Err(error) => {
                // Its exit code is lost. It must not look like a success.
                log::error!("the end of process {} cannot be read: {error}", root.id());
                ChildExit::unused(ExitCode::PREPARE_FAILED)
            }
        };
        self.root = None;
        Some(exit)
    }

    /// Whether any of them is left, including the root. Costs one system call if none is, and some more beside a tool that stays.
    pub fn look(&mut self) -> Rest {
        if self.kept.is_empty() && !any_left(&[]) {
            return Rest { left: false, reaped: 0 };
        }
        let reaped = self.reap_orphans();
        Rest { left: if self.kept.is_empty() { any_left(&[]) } else { self.kept.has_newcomers() }, reaped }
    }

    /// All that are alive.
    #[must_use]
    pub fn stragglers(&self) -> Vec<ProcessId> {
        stragglers(Spared::processes(&self.kept.pids()))
    }

    /// A sentence about those that we may not signal; `None` if there is none.
    #[must_use]
    pub fn foreign(&self) -> Option<String> {
        foreign_processes(Spared::processes(&self.kept.pids()))
    }
}
