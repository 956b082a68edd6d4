//! The supervisor's process: one wait for signals, lines and ends of children, and the nearest deadline. It decides
//! nothing.

mod begin;
mod orders;
mod processes;
mod start;
mod succession;

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use rustix::process::Pid;

use super::child::{ChildProcess, Lines};
use super::ephemeral_dir::{EphemeralDir, KeeperLock};
use super::stop_max;
use crate::plan::{Effect, Plan, Times};
use api::config::Config;
use api::reload::Reload;
use api::service_file::{Renewal, Report, Service};
use api::trust::{Part, Untrusted};
use api::{kept_config, service_file};
use base::{Role, counted};
use proc::idle_stop::IDLE_LINE;
use proc::lending::Lenders;
use proc::lock::{LockError, StateLock};
use proc::logging::LogError;
use proc::process::{Spared, Tree, any_left, reap_orphans, stragglers};
use proc::signals::{RETIRE, SENT_RETIRE, Signals};
use proc::supervised::lease_of;
use proc::systemd::Systemd;
use proc::{clock, incidents, readable};
use zmtp::sockets::{Address, absolute};

use begin::begin;
use processes::Processes;
use start::Starter;
pub use start::host_name;
use succession::Restarts;

/// Prefix for the reason of a child's end, in front of its own last words.
const FAILED: &str = "failed: ";

/// The parameters of a supervisor.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration file, if one was named: its children read the same one.
    pub config: Option<PathBuf>,
    /// The home, unless that is the current folder.
    pub home: Option<PathBuf>,
    /// The copy of the configuration that this supervisor read instead of the file, if there is one.
    pub kept_config: Option<PathBuf>,
    /// Number of agents.
    pub agents: u16,
    /// Whether it ends after a time without work, unless the configuration says otherwise.
    pub until_idle: bool,
    /// The address of a controller outside of this service, as `tcp://IP:PORT`.
    pub elsewhere: Option<String>,
    /// Whether it leaves the terminal.
    pub detached: bool,
    /// The descriptor of the [`Handover`](super::handover::Handover) from the earlier program in this process, if there was one.
    pub handover: Option<i32>,
    /// For a standby that takes the service back after a restart: why the supervisor of the new program ended.
    pub standby: Option<String>,
    /// If set, it ends when its standard input does, and removes this folder.
    pub ephemeral_dir: Option<PathBuf>,
}

/// Why a service does not run.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// Another supervisor runs here.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Another user controls a folder.
    #[error(transparent)]
    Folder(#[from] Untrusted),
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The system refuses a basic resource.
    #[error("cannot start the service: {0}")]
    System(#[from] io::Error),
    /// A part of it did not come up.
    #[error("{0}")]
    Failed(String),
}

/// Runs a service until it is asked to stop. `report` is called once when it is up.
///
/// # Errors
/// When it does not come up; no part of it is left then.
pub fn supervise(
    config: &Config,
    options: &Options,
    reload: &Reload,
    report: impl FnMut(&Report),
) -> Result<(), SupervisorError> {
    if options.detached {
        // EPERM: it is a session leader already.
        let _ = rustix::process::setsid();
    }
    // Dropped after the folder: until that is removed, no other command ends this service.
    let _keeper = options.ephemeral_dir.as_deref().map(KeeperLock::join).transpose()?;
    let folder = options.ephemeral_dir.as_deref().map(EphemeralDir::new);
    let (signals, lock, handover) = begin(config, options)?;
    std::panic::set_hook(Box::new(|panic| log::error!("{panic}")));
    let adopted = match &handover {
        Some(handover) => handover.adopt()?,
        None => {
            start::end_earlier(config, options.standby.as_deref());
            Vec::new()
        }
    };
    let warnings = start::prepare(config, if options.elsewhere.is_some() { Part::Agent } else { Part::Supervisor });
    let lifeline = match options.ephemeral_dir {
        Some(_) => Some(Lines::new(Some(io::stdin().as_fd().try_clone_to_owned()?))?),
        None => None,
    };
    let (now, agents) = (clock::now().mono, options.agents);
    let times = Times { start_max: start::start_max(options.agents), stop_max: stop_max(config) };
    let mut starter = Starter::new(config, options, reload.text())?;
    let lenders = starter.lenders(config.agent.lend_max);
    let (plan, strangers) = match &handover {
        Some(handover) => {
            starter.adopt(handover);
            let living: Vec<_> = adopted.iter().map(|child| child.living).collect();
            let strangers = handover.strangers.iter().copied().filter_map(Pid::from_raw).collect();
            (Plan::adopt(now, agents, options.elsewhere.is_none(), &living, times), strangers)
        }
        None => {
            let plan = match &options.elsewhere {
                Some(_) => Plan::of_agents(now, agents, times),
                None => Plan::new(now, agents, times),
            };
            // Children survive an exec; those of the program before us are not ours to end.
            starter.forget_copy();
            (plan, stragglers(Spared::default()).into_iter().map(|process| process.pid).collect())
        }
    };
    let mut supervisor = Supervisor {
        config,
        lock,
        plan: plan.lending(config.agent.lend_max),
        lenders,
        starter,
        processes: Processes::new(strangers),
        restarts: Restarts::new(handover.as_ref(), options.standby.clone()),
        reload,
        signals,
        lifeline,
        warnings,
        systemd: Systemd::of_environment(),
        order: None,
        report,
    };
    supervisor.adopt(adopted, handover.as_ref())?;
    let result = supervisor.run();
    if !start::end_remains(config, "this service has left processes") {
        // The next process to end the remains finds them by the records in the folder, so the folder stays.
        std::mem::forget(folder);
    }
    result
}

struct Supervisor<'a, F> {
    config: &'a Config,
    lock: StateLock,
    plan: Plan,
    /// Listens to tasks that wait for other tasks; `None` if slots are never lent.
    lenders: Option<Lenders>,
    starter: Starter,
    processes: Processes,
    restarts: Restarts,
    reload: &'a Reload,
    signals: Signals,
    /// The standard input of a service that ends with its starter.
    lifeline: Option<Lines>,
    warnings: Vec<String>,
    /// The connection to systemd, if it started this process.
    systemd: Systemd,
    /// The id of the last order, and whether it is carried out.
    order: Option<(String, bool)>,
    report: F,
}

impl<F: FnMut(&Report)> Supervisor<'_, F> {
    fn run(mut self) -> Result<(), SupervisorError> {
        log::info!("supervisor of {}", counted(self.starter.agents(), "agent"));
        loop {
            while let Some(effect) = self.plan.poll_effect() {
                if let Effect::Quit(failure) = effect {
                    return self.quit(failure);
                }
                self.carry_out(&effect);
            }
            // The effects of a step are carried out before the wait.
            if self.hand_over() {
                continue;
            }
            self.wait();
            self.hear_signals();
            self.hear_lifeline();
            self.hear_children();
            self.hear_lenders();
            self.plan.handle_timeout(clock::now().mono);
            self.systemd.handle_timeout(clock::now().mono);
            self.finish_order();
        }
    }

    fn quit(self, failure: Option<String>) -> Result<(), SupervisorError> {
        // A failed start leaves this file, and so does a trial that wrote it while the service stopped.
        if let Err(error) = service_file::remove(&self.config.paths.state_dir) {
            log::error!("cannot remove the service file: {error}");
        }
        kept_config::forget(&self.config.paths.state_dir);
        log::info!("stopped");
        failure.map_or(Ok(()), |reason| Err(SupervisorError::Failed(reason)))
    }

    fn carry_out(&mut self, effect: &Effect) {
        match *effect {
            Effect::Start(role) => match self.begin(role) {
                Ok(child) => {
                    log::info!("{role} is process {}", child.pid());
                    self.processes.add(role, child);
                }
                Err(error) => {
                    log::error!("{role} cannot be started: {error}");
                    self.plan.handle_ended(clock::now().mono, role, &format!("cannot be started: {error}"));
                }
            },
            Effect::Terminate(role) => self.processes.signal(role, rustix::process::Signal::TERM),
            Effect::Kill(role) => {
                log::warn!("{role} does not end; it is killed");
                self.processes.signal(role, rustix::process::Signal::KILL);
            }
            Effect::Fence(role) => {
                log::warn!("{role} does not end its run, whose lease has expired: it is killed");
                self.processes.signal(role, rustix::process::Signal::KILL);
            }
            Effect::EndOrphans => {
                let ended = Tree::of_orphans().kill(Spared::trees(&self.processes.known()));
                if ended.found > 0 {
                    log::warn!("ended {} processes that were left behind", ended.found);
                }
                self.look_for_orphans();
            }
            Effect::Retire(role) => self.retire(role),
            Effect::NoteRenewal => self.note_renewal(),
            Effect::Reject(ref why) => self.reject(why),
            Effect::Proven => self.prove(),
            Effect::Announce => self.announce(),
            Effect::Quit(_) => unreachable!("the caller takes it"),
        }
    }

    /// Starts a process.
    fn begin(&self, role: Role) -> io::Result<ChildProcess> {
        if role == Role::Controller {
            self.tell_limit();
        }
        self.starter.start(role)
    }

    fn announce(&mut self) {
        let Some(mut service) = self.present() else { return };
        service.warnings = std::mem::take(&mut self.warnings);
        service.warnings.extend(self.starter.moved(self.config));
        service.renewal = self.restarts.take_failure().map(Renewal::refused);
        self.write(&service);
        log::info!("up: controller {}, publisher {}", service.controller, service.publisher);
        self.tell_ready();
        (self.report)(&Report::Up(Box::new(service)));
    }

    /// The service file for the present state.
    fn present(&self) -> Option<Service> {
        let ours = Service::ours(self.starter.endpoints()?, self.starter.agents(), Vec::new());
        let order = self.order.as_ref().and_then(|(id, is_done)| is_done.then(|| id.clone()));
        let socket = self.starter.open_socket().map(|path| absolute(&Address::Ipc(path.to_owned()).to_string()));
        Some(Service {
            socket,
            idle_stop: self.starter.limit(self.config).map(|limit| limit.as_secs_f64()),
            order,
            ..ours
        })
    }

    /// Tells systemd that the service is up.
    fn tell_ready(&self) {
        self.systemd.ready(&counted(self.starter.agents(), "agent"));
    }

    /// Writes the service file. An error is only logged: clients that know the port do not need the file.
    fn write(&self, service: &Service) {
        if let Err(error) = service.write(&self.config.paths.state_dir) {
            log::error!("cannot write the service file: {error}");
        }
    }

    /// Stops the service. Clients cannot use it from here on.
    fn stop(&mut self) {
        if let Err(error) = service_file::remove(&self.config.paths.state_dir) {
            log::error!("cannot remove the service file: {error}");
        }
        self.systemd.stopping();
        self.plan.handle_stop(clock::now().mono);
    }

    /// Sleeps until an event or a deadline.
    fn wait(&self) {
        let due = self.plan.poll_timeout().map(|(due, _)| due).into_iter().chain(self.systemd.poll_timeout()).min();
        let due = due.map(|due| due.since(clock::now().mono));
        let children = self.processes.descriptors();
        let lifeline = self.lifeline.as_ref().and_then(Lines::fd);
        // The result does not matter: each descriptor is checked afterwards.
        let lenders = self.lenders.iter().flat_map(Lenders::descriptors);
        readable::wait(std::iter::once(self.signals.as_fd()).chain(lifeline).chain(children).chain(lenders), due);
    }

    fn hear_signals(&mut self) {
        let signals = self.signals.read();
        if signals.contains(&Signal::SIGCHLD) {
            self.processes.reap_strangers();
        }
        for signal in signals.iter().filter(|signal| **signal != Signal::SIGCHLD) {
            if *signal == RETIRE {
                if self.take_order() {
                    // The signals of a restart and of an order may have been merged.
                    self.take_up_next();
                    continue;
                }
                // A trial ends first; a request that comes meanwhile waits in its file.
                self.restarts.want();
                continue;
            }
            if *signal == Signal::SIGHUP && Reload::signal().is_some() {
                self.reload();
                continue;
            }
            log::info!("{signal}: stopping");
            self.stop();
        }
    }

    /// Reads the configuration again, and tells all processes that are ready to do the same. A process that is starting
    /// reads it anyway.
    fn reload(&self) {
        self.systemd.reloading();
        self.reload.reload(&self.config.log);
        for living in self.plan.living().into_iter().flatten().filter(|living| living.ready) {
            self.processes.signal(living.role, rustix::process::Signal::HUP);
        }
        self.tell_ready();
    }

    /// The starter has ended when our standard input ends.
    fn hear_lifeline(&mut self) {
        let Some(lifeline) = self.lifeline.as_mut().filter(|lifeline| lifeline.fd().is_some()) else { return };
        lifeline.read();
        if lifeline.fd().is_none() {
            log::info!("the starter of this service has ended: stopping");
            self.stop();
        }
    }

    /// Reads lines before ends: the last line is the reason of an end.
    fn hear_children(&mut self) {
        let now = clock::now().mono;
        let (mut ended, mut is_idle) = (Vec::new(), false);
        for (role, child) in self.processes.children() {
            let end = child.try_wait();
            for line in child.out.read() {
                if self.starter.handle_line(role, &line) {
                    self.plan.handle_ready(now, role);
                    if role == Role::Controller && incidents::are_left(&self.config.paths.state_dir) {
                        child.signal(SENT_RETIRE);
                    }
                } else if role == Role::Controller && line == IDLE_LINE {
                    is_idle = true;
                } else if let Some(end) = lease_of(&line) {
                    let end = end.map(|end| now + end.saturating_sub(clock::since_boot()));
                    self.plan.handle_lease(role, end);
                }
            }
            for line in child.err.read() {
                log::warn!("{role}: {line}");
                child.note_line(&line);
            }
            if let Some(end) = end {
                log::info!("{role} {end}");
                let reason = child.last_words().map_or(end, |words| format!("{FAILED}{words}"));
                ended.push((role, reason));
            }
        }
        if is_idle {
            self.end_idle();
        }
        for (role, reason) in ended {
            self.processes.remove(role);
            self.tell_of_agent(role, &reason);
            self.plan.handle_ended(now, role, &reason);
        }
        self.look_for_orphans();
    }

    fn hear_lenders(&mut self) {
        let Some(lenders) = &mut self.lenders else { return };
        for (role, waits) in lenders.changes(&self.processes.roles()) {
            self.plan.handle_waits(clock::now().mono, role, waits);
        }
    }

    fn look_for_orphans(&mut self) {
        if !self.plan.has_orphans() {
            return;
        }
        let known = self.processes.known();
        reap_orphans(&known);
        if !any_left(&known) {
            self.plan.handle_orphans_gone(clock::now().mono);
        }
    }
}
