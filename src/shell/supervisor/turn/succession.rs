//! The supervisor becomes another version of its program ([`super::super::handover`]).

use std::io;

use super::Supervisor;
use crate::engine::supervisor::Role;
use crate::shell::clock;
use crate::shell::signals::SENT_RETIRE;
use crate::shell::supervisor::child::ChildProcess;
use crate::shell::supervisor::handover::{self, Adopted, Given, Handover};
use crate::shell::supervisor::service::{Renewal, Report, Service};
use crate::shell::takeover::{self, Successor};

impl<F: FnMut(&Report)> Supervisor<'_, F> {
    /// Obeys a request for another program as soon as every process of the service is known. Returns only if the request is
    /// refused, or has to wait.
    pub(super) fn hand_over(&mut self) {
        if !self.is_succession_wanted || self.plan.living().is_none() {
            return;
        }
        self.is_succession_wanted = false;
        let successor = match Successor::take(&self.config.paths.state_dir, takeover::SUPERVISOR) {
            Ok(successor) => successor,
            Err(error) => return log::error!("cannot read the request for a restart: {error}"),
        };
        log::info!("restart with {}", successor.program.display());
        let why = match self.is_ephemeral {
            true => "it ends with the command that has started it".to_owned(),
            false => self.become_program(&successor),
        };
        log::error!("cannot restart: {why}");
        let renewal = Renewal { request: successor.id, controller: false, agents_left: 0, failure: Some(why) };
        self.write_renewal(renewal);
    }

    /// Returns why it failed.
    fn become_program(&mut self, successor: &Successor) -> String {
        let Some(living) = self.plan.living() else { return "it is stopping".to_owned() };
        let given = living.into_iter().filter_map(|living| {
            let child = self.children.get(&living.role)?;
            Some(Given { living, pid: child.pid(), out: child.out.fd(), err: child.err.fd() })
        });
        let given: Vec<_> = given.collect();
        let mut handover = Handover::new(successor.id.clone(), self.lock.as_fd(), &given);
        handover.endpoints = self.starter.endpoints().cloned();
        handover.socket_is_open = self.starter.socket_is_open();
        handover.strangers = self.strangers.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
        if let Err(why) = handover::is_ready(&mut self.starter.supervisor(&successor.program), &handover) {
            return why;
        }
        let pipes = given.iter().flat_map(|child| [child.out, child.err]).flatten();
        let kept: Vec<_> = pipes.chain([self.lock.as_fd()]).collect();
        let mut command = self.starter.supervisor(&successor.program);
        let error = takeover::exec(command.arg("--handover"), &handover, &kept);
        format!("{} cannot be started: {error}", successor.program.display())
    }

    /// Takes over the children of the program before this one in this process.
    pub(super) fn adopt(&mut self, adopted: Vec<Adopted>) -> io::Result<()> {
        for Adopted { living, pid, out, err } in adopted {
            self.children.insert(living.role, ChildProcess::adopt(pid, out, err)?);
        }
        self.plan.handle_renew(clock::now().mono);
        Ok(())
    }

    /// Asks a process to make room for a new one: an agent ends when it has no task, a controller becomes the present program.
    pub(super) fn retire(&self, role: Role) {
        if role == Role::Controller {
            let successor = Successor { id: String::new(), program: self.starter.program().to_owned() };
            if let Err(error) = successor.write(&self.config.paths.state_dir, takeover::CONTROLLER) {
                log::error!("cannot ask the controller to make room: {error}");
            }
        }
        self.signal(role, SENT_RETIRE);
    }

    /// Notes the progress of the renewal for `llts restart`.
    pub(super) fn note_renewal(&self) {
        let Some(request) = &self.request else { return };
        let (controller, agents_left) =
            self.plan.renewal().map_or((true, 0), |progress| (progress.controller, progress.agents_left));
        if controller && agents_left == 0 {
            log::info!("every process is new");
        }
        self.write_renewal(Renewal { request: request.clone(), controller, agents_left, failure: None });
    }

    fn write_renewal(&self, renewal: Renewal) {
        let state_dir = &self.config.paths.state_dir;
        let Some(endpoints) = self.starter.endpoints() else { return };
        let started = Service::read(state_dir).map(|service| service.started);
        let ours = Service::ours(endpoints, self.agents, Vec::new());
        let service = Service { started: started.unwrap_or(ours.started), renewal: Some(renewal), ..ours };
        if let Err(error) = service.write(state_dir) {
            log::error!("cannot write the service file: {error}");
        }
    }
}
