//! The child processes of a supervisor: those of the service, and others that were there before it.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use crate::supervisor::child::ChildProcess;
use base::Role;

pub(super) struct Processes {
    children: BTreeMap<Role, ChildProcess>,
    /// Children outside of the service, which do not end with it.
    strangers: Vec<Pid>,
}

impl Processes {
    pub(super) const fn new(strangers: Vec<Pid>) -> Self {
        Self { children: BTreeMap::new(), strangers }
    }

    pub(super) fn add(&mut self, role: Role, child: ChildProcess) {
        self.children.insert(role, child);
    }

    pub(super) fn add_stranger(&mut self, pid: Pid) {
        self.strangers.push(pid);
    }

    pub(super) fn remove(&mut self, role: Role) {
        self.children.remove(&role);
    }

    pub(super) fn child(&self, role: Role) -> Option<&ChildProcess> {
        self.children.get(&role)
    }

    pub(super) fn children(&mut self) -> impl Iterator<Item = (Role, &mut ChildProcess)> {
        self.children.iter_mut().map(|(role, child)| (*role, child))
    }

    pub(super) fn signal(&self, role: Role, signal: Signal) {
        if let Some(child) = self.child(role) {
            child.signal(signal);
        }
    }

    /// The roles of the children, by their numbers.
    pub(super) fn roles(&self) -> BTreeMap<i32, Role> {
        self.children.iter().map(|(role, child)| (child.pid().as_raw_nonzero().get(), *role)).collect()
    }

    pub(super) fn strangers(&self) -> impl Iterator<Item = i32> {
        self.strangers.iter().map(|pid| pid.as_raw_nonzero().get())
    }

    /// All known children: any other child of this process is an orphan.
    pub(super) fn known(&self) -> Vec<Pid> {
        self.children.values().map(ChildProcess::pid).chain(self.strangers.iter().copied()).collect()
    }

    /// The descriptors that become readable when a child writes a line or ends.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.children.values().flat_map(ChildProcess::descriptors)
    }

    pub(super) fn reap_strangers(&mut self) {
        self.strangers.retain(|pid| !matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(Some(_))));
    }
}
