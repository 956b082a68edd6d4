//! The supervisor becomes another version of its program ([`crate::supervisor::handover`]), after its controller has tried it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};

use super::start::{Setup, leave_incident};
use super::{FAILED, Supervisor};
use crate::plan::Living;
use crate::supervisor::child::ChildProcess;
use crate::supervisor::handover;
use crate::supervisor::handover::{Adopted, Given, Handover};
use api::service_file::{Renewal, Report};
use base::Role;
use controller::store;
use proc::signals::SENT_RETIRE;
use proc::takeover::Successor;
use proc::{clock, takeover};

/// The restart that has brought this program, and the next one.
pub(super) struct Restarts {
    /// The id of the restart request that this program came from, if it succeeded another one in this process.
    request: Option<String>,
    /// Why the supervisor of the new program ended, if this one has taken the service back.
    failure: Option<String>,
    /// Whether an incident about an agent that fails to start after the restart was already written.
    has_incident: bool,
    next: Option<Succession>,
}

impl Restarts {
    pub(super) fn new(handover: Option<&Handover>, failure: Option<String>) -> Self {
        let request = handover.map(|handover| handover.request.clone());
        Self { request, failure, has_incident: false, next: None }
    }

    /// The signal for another program has arrived. A trial in progress ends first.
    pub(super) fn want(&mut self) {
        self.next.get_or_insert(Succession::Wanted);
    }

    pub(super) const fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }
}

/// A request for another program.
enum Succession {
    /// The signal has arrived; the request is in its file.
    Wanted,
    /// The controller tries the program.
    Tried(Successor),
    /// The program serves as the controller.
    Proven(Successor),
}

impl<F: FnMut(&Report)> Supervisor<'_, F> {
    /// Follows a request for another program as soon as every process of the service is known. Returns whether the request advanced or
    /// was refused.
    pub(super) fn hand_over(&mut self) -> bool {
        if self.plan.living().is_none() {
            return false;
        }
        match self.restarts.next.take() {
            Some(Succession::Wanted) => self.begin_succession(),
            Some(Succession::Proven(successor)) => {
                let why = self.become_program(&successor, true);
                // The controller already runs the program that this process failed to become.
                self.starter.reject();
                self.retire(Role::Controller);
                self.refuse(successor, why);
            }
            other => {
                self.restarts.next = other;
                return false;
            }
        }
        true
    }

    fn begin_succession(&mut self) {
        let successor = match Successor::take(&self.config.paths.state_dir, takeover::SUPERVISOR) {
            Ok(successor) => successor,
            // It was taken up before its signal came.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return log::error!("cannot read the request for a restart: {error}"),
        };
        log::info!("restart with {}", successor.program.display());
        let checked = match self.lifeline {
            Some(_) => Err("it ends with the command that has started it".to_owned()),
            None => self.check(&successor),
        };
        match checked {
            // The next effect tells the controller.
            Ok(setup) => self.starter.try_setup(setup),
            Err(why) => return self.refuse(successor, why),
        }
        if self.plan.handle_try(clock::now().mono) {
            self.restarts.next = Some(Succession::Tried(successor));
            return;
        }
        let why = self.become_program(&successor, false);
        self.starter.reject();
        self.refuse(successor, why);
    }

    /// Asks the program whether it can take over with the present configuration.
    fn check(&self, successor: &Successor) -> Result<Setup, String> {
        let setup = self.starter.next(&successor.program)?;
        handover::is_ready(&mut self.starter.supervisor(&setup), &self.handover(successor, false)?)?;
        Ok(setup)
    }

    /// The program under trial in the controller does not work.
    pub(super) fn reject(&mut self, why: &str) {
        self.starter.reject();
        let Some(Succession::Tried(successor)) = self.restarts.next.take() else { return };
        let mut why = format!("{} was tried, but {why}", successor.program.display());
        if let Err(error) = store::check_version(&self.config.paths.state_dir) {
            // The present program would fail at every start.
            self.starter.try_program(&successor.program);
            why = format!("{why}; it has changed the store already ({error}), so it is started again");
        }
        self.refuse(successor, why);
    }

    /// The program under trial in the controller works.
    pub(super) fn prove(&mut self) {
        if let Some(Succession::Tried(successor)) = self.restarts.next.take() {
            self.restarts.next = Some(Succession::Proven(successor));
        }
    }

    fn refuse(&mut self, successor: Successor, why: String) {
        log::error!("cannot restart: {why}");
        self.leave_incident(&why);
        self.write_renewal(Renewal { request: successor.id, ..Renewal::refused(why) });
        self.take_up_next();
    }

    /// Writes the failure to the history, and tells the controller about it, unless that is about to start.
    fn leave_incident(&self, why: &str) {
        leave_incident(self.config, &format!("the service goes on as before: {why}"));
        let is_ready = |living: Living| living.role == Role::Controller && living.ready;
        if self.plan.living().is_some_and(|living| living.into_iter().any(is_ready)) {
            self.processes.signal(Role::Controller, SENT_RETIRE);
        }
    }

    /// Writes one incident per restart if this agent fails to start after it.
    pub(super) fn tell_of_agent(&mut self, role: Role, reason: &str) {
        let fails = role != Role::Controller && !self.plan.is_ready(role) && reason.starts_with(FAILED);
        if !fails || self.plan.renewal().is_none() || std::mem::replace(&mut self.restarts.has_incident, true) {
            return;
        }
        leave_incident(
            self.config,
            &format!("{role} {reason}; it is started again and again: mend the cause, then restart"),
        );
        self.processes.signal(Role::Controller, SENT_RETIRE);
    }

    /// Takes up a request that arrived during another one. Its signal was ignored then; its file is still there.
    pub(super) fn take_up_next(&mut self) {
        if Successor::is_left(&self.config.paths.state_dir, takeover::SUPERVISOR) {
            self.restarts.want();
        }
    }

    /// The state of this supervisor, for the program that it becomes.
    fn handover(&self, successor: &Successor, is_proven: bool) -> Result<Handover, String> {
        let given = self.given()?;
        let mut handover = Handover::new(successor.id.clone(), self.lock.as_fd(), &given);
        handover.endpoints = self.starter.endpoints().cloned();
        handover.socket_is_open = self.starter.socket_is_open();
        handover.strangers = self.processes.strangers().collect();
        handover.is_proven = is_proven;
        Ok(handover)
    }

    fn given(&self) -> Result<Vec<Given<'_>>, String> {
        let living = self.plan.living().ok_or("it is stopping")?;
        let given = living.into_iter().filter_map(|living| {
            let child = self.processes.child(living.role)?;
            Some(Given { living, pid: child.pid(), out: child.out.fd(), err: child.err.fd() })
        });
        Ok(given.collect())
    }

    /// Becomes the program by an exec. Returns only on failure, with the reason.
    fn become_program(&mut self, successor: &Successor, is_proven: bool) -> String {
        let begun = Self::trial_stderr().and_then(|(stderr, said)| {
            let (standby, before) = self.starter.start_standby(said.as_fd())?;
            Ok((stderr, said, standby, before))
        });
        let (stderr, said, standby, before) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                return format!("the process that would go back to the present program cannot be started: {error}");
            }
        };
        self.processes.add_stranger(standby);
        let (handover, given) = match (self.handover(successor, is_proven), self.given()) {
            (Ok(handover), Ok(given)) => (handover.with_way_back(stderr.as_fd(), &before), given),
            (Err(why), _) | (_, Err(why)) => return why,
        };
        let pipes = given.iter().flat_map(|child| [child.out, child.err]).flatten();
        let kept: Vec<_> = pipes.chain([self.lock.as_fd(), stderr.as_fd()]).collect();
        let mut command = self.starter.supervisor(self.starter.of_controller());
        self.systemd.reloading();
        let error = takeover::exec(command.arg("--handover").stderr(said), &handover, &kept);
        // The exec replaced it before it failed.
        let _ = nix::unistd::dup2_stderr(&stderr);
        self.tell_ready();
        format!("{} cannot be started: {error}", successor.program.display())
    }

    /// The present standard error, and a file in memory in its place for an unproven program, whose last words must not be lost.
    fn trial_stderr() -> io::Result<(OwnedFd, OwnedFd)> {
        let said = memfd_create("said", MemfdFlags::CLOEXEC)?;
        Ok((io::stderr().as_fd().try_clone_to_owned()?, said))
    }

    /// Adopts the children of the earlier program in this process.
    pub(super) fn adopt(&mut self, adopted: Vec<Adopted>, handover: Option<&Handover>) -> io::Result<()> {
        // A new service ignores requests that were made to an earlier one.
        if !adopted.is_empty() {
            self.take_up_next();
        }
        for Adopted { living, pid, out, err } in adopted {
            self.processes.add(living.role, ChildProcess::adopt(pid, out, err)?);
        }
        if handover.is_some() {
            self.tell_ready();
        }
        match handover {
            Some(Handover { failure: Some(why), .. }) => self.come_back(why),
            Some(handover) if handover.is_proven => self.plan.handle_proven(),
            _ => self.plan.handle_renew(clock::now().mono),
        }
        Ok(())
    }

    /// Continues after another program in this process has failed.
    fn come_back(&mut self, why: &str) {
        let why = format!("the new program cannot serve as the supervisor: {why}");
        log::error!("cannot restart: {why}");
        self.leave_incident(&why);
        if let Some(request) = self.restarts.request.take() {
            self.write_renewal(Renewal { request, ..Renewal::refused(why) });
        }
        // The controller may run that program. It reads the incident when it is ready again.
        if self.plan.living().is_some_and(|living| living.iter().any(|child| child.role == Role::Controller)) {
            self.retire(Role::Controller);
        }
    }

    /// Asks a process to make room for a new one: an agent ends when it has no task, a controller becomes the present program.
    pub(super) fn retire(&self, role: Role) {
        if role == Role::Controller {
            let successor = self.starter.successor_of_controller();
            if let Err(error) = successor.write(&self.config.paths.state_dir, takeover::CONTROLLER) {
                log::error!("cannot ask the controller to make room: {error}");
            }
        }
        self.processes.signal(role, SENT_RETIRE);
    }

    /// Notes the progress of the renewal for `llts restart`.
    pub(super) fn note_renewal(&self) {
        let Some(request) = &self.restarts.request else { return };
        let (controller, agents_left) =
            self.plan.renewal().map_or((true, 0), |progress| (progress.controller, progress.agents_left));
        if controller && agents_left == 0 {
            log::info!("every process is new");
        }
        self.write_renewal(Renewal { request: request.clone(), controller, agents_left, failure: None });
    }

    fn write_renewal(&self, renewal: Renewal) {
        self.rewrite(|service| service.renewal = Some(renewal));
    }
}
