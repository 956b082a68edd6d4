//! The supervisor becomes another version of its program ([`super::super::handover`]), after its controller has tried it.

use std::io;

use super::Supervisor;
use crate::engine::supervisor::Role;
use crate::shell::clock;
use crate::shell::signals::SENT_RETIRE;
use crate::shell::store;
use crate::shell::supervisor::child::ChildProcess;
use crate::shell::supervisor::handover::{self, Adopted, Given, Handover};
use crate::shell::supervisor::service::{Renewal, Report, Service};
use crate::shell::takeover::{self, Successor};

/// A request for another program.
pub(super) enum Succession {
    /// It is on its way, behind the signal.
    Wanted,
    /// The controller tries the program.
    Tried(Successor),
    /// The program serves as the controller.
    Proven(Successor),
}

impl<F: FnMut(&Report)> Supervisor<'_, F> {
    /// Obeys a request for another program as soon as every process of the service is known. Returns whether the request went a
    /// step further, or was refused.
    pub(super) fn hand_over(&mut self) -> bool {
        if self.plan.living().is_none() {
            return false;
        }
        match self.succession.take() {
            Some(Succession::Wanted) => self.begin_succession(),
            Some(Succession::Proven(successor)) => {
                let why = self.become_program(&successor, true);
                // The controller serves as the program that this process cannot become.
                self.starter.reject();
                self.retire(Role::Controller);
                self.refuse(successor, why);
            }
            other => {
                self.succession = other;
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
        let checked = match self.is_ephemeral {
            true => Err("it ends with the command that has started it".to_owned()),
            false => self
                .handover(&successor, false)
                .and_then(|handover| handover::is_ready(&mut self.starter.supervisor(&successor.program), &handover)),
        };
        if let Err(why) = checked {
            return self.refuse(successor, why);
        }
        // It is told of by the effect that follows.
        self.starter.try_program(&successor.program);
        if self.plan.handle_try(clock::now().mono) {
            self.succession = Some(Succession::Tried(successor));
            return;
        }
        let why = self.become_program(&successor, false);
        self.starter.reject();
        self.refuse(successor, why);
    }

    /// The program that the controller tries does not work.
    pub(super) fn reject(&mut self, why: &str) {
        self.starter.reject();
        let Some(Succession::Tried(successor)) = self.succession.take() else { return };
        let mut why = format!("{} was tried, but {why}", successor.program.display());
        if let Err(error) = store::check_version(&self.config.paths.state_dir) {
            // The present program would fail at every start.
            self.starter.try_program(&successor.program);
            why = format!("{why}; it has changed the store already ({error}), so it is started again");
        }
        self.refuse(successor, why);
    }

    /// The program that the controller tries works.
    pub(super) fn prove(&mut self) {
        if let Some(Succession::Tried(successor)) = self.succession.take() {
            self.succession = Some(Succession::Proven(successor));
        }
    }

    fn refuse(&mut self, successor: Successor, why: String) {
        log::error!("cannot restart: {why}");
        let renewal = Renewal { request: successor.id, controller: false, agents_left: 0, failure: Some(why) };
        self.write_renewal(renewal);
        self.take_up_next();
    }

    /// Takes up a request that arrived during another one. Its signal was ignored then; its file is still there.
    fn take_up_next(&mut self) {
        if Successor::is_left(&self.config.paths.state_dir, takeover::SUPERVISOR) {
            self.succession.get_or_insert(Succession::Wanted);
        }
    }

    /// The processes, and what is known of them.
    fn handover(&self, successor: &Successor, is_proven: bool) -> Result<Handover, String> {
        let given = self.given()?;
        let mut handover = Handover::new(successor.id.clone(), self.lock.as_fd(), &given);
        handover.endpoints = self.starter.endpoints().cloned();
        handover.socket_is_open = self.starter.socket_is_open();
        handover.strangers = self.strangers.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
        handover.is_proven = is_proven;
        Ok(handover)
    }

    fn given(&self) -> Result<Vec<Given<'_>>, String> {
        let living = self.plan.living().ok_or("it is stopping")?;
        let given = living.into_iter().filter_map(|living| {
            let child = self.children.get(&living.role)?;
            Some(Given { living, pid: child.pid(), out: child.out.fd(), err: child.err.fd() })
        });
        Ok(given.collect())
    }

    /// Returns why it failed.
    fn become_program(&mut self, successor: &Successor, is_proven: bool) -> String {
        match self.starter.start_standby() {
            Ok(standby) => self.strangers.push(standby),
            Err(error) => {
                return format!("the process that would go back to the present program cannot be started: {error}");
            }
        }
        let (handover, given) = match (self.handover(successor, is_proven), self.given()) {
            (Ok(handover), Ok(given)) => (handover, given),
            (Err(why), _) | (_, Err(why)) => return why,
        };
        let pipes = given.iter().flat_map(|child| [child.out, child.err]).flatten();
        let kept: Vec<_> = pipes.chain([self.lock.as_fd()]).collect();
        let mut command = self.starter.supervisor(&successor.program);
        let error = takeover::exec(command.arg("--handover"), &handover, &kept);
        format!("{} cannot be started: {error}", successor.program.display())
    }

    /// Takes over the children of the program before this one in this process.
    pub(super) fn adopt(&mut self, adopted: Vec<Adopted>, is_proven: bool) -> io::Result<()> {
        // A new service does not obey a request to one before it.
        if !adopted.is_empty() {
            self.take_up_next();
        }
        for Adopted { living, pid, out, err } in adopted {
            self.children.insert(living.role, ChildProcess::adopt(pid, out, err)?);
        }
        match is_proven {
            true => self.plan.handle_proven(),
            false => self.plan.handle_renew(clock::now().mono),
        }
        Ok(())
    }

    /// Asks a process to make room for a new one: an agent ends when it has no task, a controller becomes the present program.
    pub(super) fn retire(&self, role: Role) {
        if role == Role::Controller {
            let successor = Successor { id: String::new(), program: self.starter.controller_program().to_owned() };
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
