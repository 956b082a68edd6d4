//! The processes of one run at a time: its root, which is a run.sh or a command, and all processes that the root starts.

use rustix::process::{Pid, Signal as KernelSignal};

use super::child::{ChildExit, RunningChild};
use super::tree::{Signalled, Tree, any_left, reap_orphans};
use crate::ladder::Signal;
use base::{EndSignal, ExitCode};

/// The processes of the current run, or the remains of the last one. The caller is a subreaper without any other child.
#[derive(Debug)]
pub struct RunProcesses {
    /// `None` before the start, and after it has been reaped.
    root: Option<RunningChild>,
    tree: Tree,
    /// The first signal when they must end.
    end_signal: KernelSignal,
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
    pub const fn none() -> Self {
        Self { root: None, tree: Tree::of_orphans(), end_signal: KernelSignal::TERM }
    }

    /// For a run whose root was just started.
    #[must_use]
    pub const fn of(root: RunningChild) -> Self {
        Self { tree: Tree::of(root.id()), root: Some(root), end_signal: KernelSignal::TERM }
    }

    /// The same, with this first signal when they must end.
    #[must_use]
    pub const fn ending_with(self, signal: EndSignal) -> Self {
        let end_signal = match signal {
            EndSignal::Term => KernelSignal::TERM,
            EndSignal::Int => KernelSignal::INT,
            EndSignal::Hup => KernelSignal::HUP,
            EndSignal::Quit => KernelSignal::QUIT,
            EndSignal::Usr1 => KernelSignal::USR1,
            EndSignal::Usr2 => KernelSignal::USR2,
        };
        Self { end_signal, ..self }
    }

    /// Signals all of them.
    pub fn signal(&self, signal: Signal) -> Signalled {
        let signalled = match signal {
            Signal::Terminate => self.tree.terminate(self.end_signal, &[]),
            Signal::Kill => self.tree.kill(&[]),
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

    /// Whether any of them is left, including the root. Costs one system call if none is.
    #[must_use]
    pub fn look(&self) -> Rest {
        if !any_left(&[]) {
            return Rest { left: false, reaped: 0 };
        }
        let known: Vec<Pid> = self.root.iter().map(|root| root.id().pid).collect();
        let reaped = reap_orphans(&known);
        Rest { left: any_left(&[]), reaped }
    }
}
