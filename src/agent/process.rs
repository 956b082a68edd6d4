//! The agent's process: one slot, one connection, one loop.
//!
//! The loop waits for the connection, the signals (which include the end of run.sh) and the end of a preparation, all at
//! once. No other thread is on the path of a task whose tool is already known.

mod command;
mod ending;
mod epochs;
mod failure;
mod fetch;
mod growth;
mod guard_keeper;
mod inputs;
mod keep;
mod leftovers;
mod needs;
mod own_tools;
mod preparation;
mod progress;
mod runner;
mod serving;
mod session;
mod sources;
mod stay;

use std::io::Write as _;
use std::os::fd::AsFd;

use nix::sys::signal::Signal;

use super::outputs::Lifetime;
use super::workspace::{Workspace, WorkspaceError};
use crate::slot::{Effect, Ending, Settings, Slot};
use api::config::Config;
use api::reload::Reload;
use api::tools;
use api::tools::ToolsFolder;
use api::transport;
use api::wire::requests::Sender;
use api::wire::requests::kill::TASK_KILL;
use api::wire::{agent, publish};
use base::words::kind::TASK_FINISH;
use base::{AgentId, Now, TaskId};
use proc::guard::GuardPlan;
use proc::lock::LockError;
use proc::own_addresses::own_address;
use proc::process::RecordError;
use proc::signals::{RETIRE, Signals};
use proc::{clock, logging, process};
use zmtp::port::{Denial, SocketError};
use zmtp::sockets::Link;

use epochs::EpochFile;
use guard_keeper::GuardKeeper;
pub use leftovers::{step_out, sweep_after_death};
use runner::Runner;
use session::Sessions;

/// Why an agent cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// An agent of this name is already running here.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The settings of the connection are invalid, or descriptors have run out.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The work folder cannot be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The run records cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The folder of unpacked tools cannot be used.
    #[error(transparent)]
    Cache(#[from] api::tools::CacheError),
    /// The system refuses a basic resource.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
    /// The controller answers, but the keys do not fit.
    #[error("cannot talk to the controller at {endpoint}: {denial}")]
    Denied {
        /// Endpoint of the controller.
        endpoint: String,
        /// The reason of the refusal.
        denial: Denial,
    },
    /// The controller rejects this agent.
    #[error("the controller refuses this agent: {0}")]
    Rejected(String),
}

/// The name of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// Given by its starter. Only one process at a time has such a name, and the next one replaces it.
    Given(AgentId),
    /// Chosen by the agent itself, for one lifetime.
    MadeUp(AgentId),
}

impl Name {
    /// A name for an agent that was given none: `AGENT_<time>_<letters>`, like the ids of tasks (docs/sources/controller.md, 5.2).
    #[must_use]
    pub fn made_up() -> Self {
        let id = TaskId::new(clock::now().wall, rand::random()).to_string();
        // The rest of a task id has digits, a point, an underscore and letters, all of which are valid in a name.
        Self::MadeUp(AgentId::new(&id.replacen("TASK", "AGENT", 1)).unwrap_or_else(|error| unreachable!("{error}")))
    }

    const fn lifetime(&self) -> Lifetime {
        match self {
            Self::Given(_) => Lifetime::Lasting,
            Self::MadeUp(_) => Lifetime::OneLife,
        }
    }

    /// The id.
    #[must_use]
    pub const fn id(&self) -> &AgentId {
        match self {
            Self::Given(id) | Self::MadeUp(id) => id,
        }
    }
}

/// Runs an agent until it gets SIGTERM or SIGINT, or its controller rejects it. An agent without a supervisor gets a
/// `guard`.
///
/// # Errors
/// [`AgentError`], when it cannot start or is rejected.
pub fn run(config: &Config, name: &Name, guard: Option<GuardPlan>, reload: &Reload) -> Result<(), AgentError> {
    // Before the first thread, so that all threads leave these signals to the loop.
    let own = [Signal::SIGTERM, Signal::SIGINT, RETIRE, Signal::SIGCHLD, tools::CHANGE_SIGNAL];
    let mut signals = Signals::install(&[&own, Reload::signal().as_slice()].concat())?;
    // Before the agent becomes a subreaper.
    let guard_keeper = GuardKeeper::start(guard);
    process::become_subreaper()?;
    proc::limits::raise_descriptor_limit()?;
    let sessions = Sessions::begin(&config.paths.state_dir.join("agents"), name)?;
    let lifetime = name.lifetime();
    let name = name.id();
    let session = sessions.present;
    let epochs = EpochFile::new(&config.paths.state_dir.join("agents"));
    let ip = own_address(config.controller.requests.map(|address| address.ip()));
    // Error sentences of a run contain this path, and their reader may be in any folder.
    let tools_dir = std::path::absolute(&config.paths.tools_dir)?;
    let tools = ToolsFolder::open(tools_dir.clone(), tools_list_bytes_max(config), config.agent.heartbeat_interval);
    let tools = tools.with_notices();
    let runner = Runner::start(config, (name, lifetime), session, ip, tools_dir)?;
    if let Some(max) = config.agent.processes_max {
        // Last: at the limit, the agent could not start its own threads.
        process::limit_processes(max).map_err(std::io::Error::from)?;
    }
    let link = connect(config)?;
    let settings = Settings {
        agent: name.clone(),
        session,
        epochs: epochs.read(),
        replaces: sessions.before,
        tags: config.agent.tags.clone(),
        tools: Some(tools.tools().clone()),
        ip: ip.to_string(),
        heartbeat_interval: config.agent.heartbeat_interval,
        kill_interval: config.agent.kill_interval,
        kill_count: config.agent.kill_count,
        straggler_grace: config.agent.straggler_grace,
        foreign_process_timeout: config.agent.foreign_process_timeout,
        stop_timeout: config.agent.stop_timeout,
    };
    log::info!("agent {name} of controller {}", transport::agent_endpoint(config));
    let sender = Sender::new(name.clone(), session);
    let slot = Slot::new(settings, clock::now_with_suspend());
    let agent = Agent { link, sender, slot, epochs, runner, tools, guard_keeper, is_heard: false, denial: None };
    let served = agent.serve(&mut signals, &|| drop(reload.reload(&config.log)));
    let (ending, guard_keeper, runner) =
        served.map_err(|denial| AgentError::Denied { endpoint: transport::agent_endpoint(config), denial })?;
    match ending {
        Ending::Left => sessions.end(),
        Ending::Unconfirmed => {}
        Ending::Rejected(reason) => return Err(AgentError::Rejected(reason)),
    }
    guard_keeper.release();
    runner.close();
    Ok(())
}

/// Checks whether an agent can use the work folder of this configuration, as at its start.
///
/// # Errors
/// When it cannot.
pub fn check_work_folder(config: &Config) -> Result<(), AgentError> {
    Ok(Workspace::open(&config.paths.work_dir).map(drop)?)
}

fn connect(config: &Config) -> Result<Link, SocketError> {
    // Not TASK/INFORM: a free agent is parked, and waking all agents for each task costs six times the wake of one.
    let prefixes = [TASK_KILL.word, TASK_FINISH].map(publish::prefix);
    transport::connect(config, &prefixes)
}

struct Agent {
    link: Link,
    sender: Sender,
    slot: Slot,
    epochs: EpochFile,
    runner: Runner,
    tools: ToolsFolder,
    guard_keeper: GuardKeeper,
    /// Whether the controller has answered.
    is_heard: bool,
    /// The reason of the last refusal since then.
    denial: Option<Denial>,
}

/// The events that woke the loop.
struct Ready {
    signals: bool,
    prepared: bool,
    outputs: bool,
}

impl Agent {
    fn serve(mut self, signals: &mut Signals, reload: &dyn Fn()) -> Result<(Ending, GuardKeeper, Runner), Denial> {
        loop {
            if let Some(ending) = self.finish_turn() {
                self.runner.tidy();
                return Ok((ending, self.guard_keeper, self.runner));
            }
            // All pending messages have been sent before this.
            self.runner.tidy();
            if self.look_at_tools() {
                continue;
            }
            self.guard_keeper.replace_guard(clock::now().mono, self.runner.is_idle());
            if self.runner.has_no_folder() {
                self.slot.handle_stop(clock::now_with_suspend());
                continue;
            }
            let ready = self.wait(signals);
            self.receive();
            self.check_denial()?;
            let now = clock::now_with_suspend();
            if ready.signals {
                self.handle_signals(now, signals, reload);
            }
            if ready.prepared {
                self.runner.prepared(&mut self.slot);
            }
            if ready.outputs {
                self.runner.serve(&mut self.slot);
            }
            self.runner.set_contact(self.link.is_connected());
            self.runner.handle_timeout(&mut self.slot);
            self.slot.handle_timeout(now);
        }
    }

    fn wait(&mut self, signals: &Signals) -> Ready {
        let mut fds = vec![signals.as_fd(), self.runner.preparations().as_fd()];
        let of_outputs = fds.len();
        fds.extend(self.runner.outputs());
        let others = fds.len();
        // These only wake the loop.
        fds.extend(self.guard_keeper.fds());
        // The link waits by the clock that stops while the machine is suspended.
        let (now, slot_now) = (clock::now().mono, clock::now_with_suspend().mono);
        let slot_deadline = self.slot.poll_timeout().map(|(at, _)| now + at.since(slot_now));
        let deadline = slot_deadline.into_iter().chain(self.tools.deadline()).chain(self.runner.deadline()).min();
        let ready = self.link.wait(now, deadline, &fds);
        Ready { signals: ready[0], prepared: ready[1], outputs: ready[of_outputs..others].contains(&true) }
    }

    fn receive(&mut self) {
        if self.link.take_connected() {
            self.slot.handle_connected(clock::now_with_suspend());
        }
        while let Some(body) = self.link.receive_answer() {
            (self.is_heard, self.denial) = (true, None);
            match agent::decode(&body) {
                // The time is read for each message: one may arrive while another is handled.
                Some(answer) => self.slot.handle_answer(clock::now_with_suspend(), answer),
                None => log::warn!("an answer of the controller cannot be read: {} bytes", body.len()),
            }
        }
        while let Some(frame) = self.link.receive_broadcast() {
            if let Some(message) = publish::decode(&frame) {
                self.slot.handle_published(clock::now_with_suspend(), message);
            }
        }
    }

    /// A refusal ends an agent that starts, because its configuration is wrong. An agent that has worked tries again: it may have
    /// a run, and its key may be authorised again.
    fn check_denial(&mut self) -> Result<(), Denial> {
        let Some(denial) = self.link.take_denial() else { return Ok(()) };
        if !self.is_heard {
            return Err(denial);
        }
        if self.denial.replace(denial) != Some(denial) {
            log::warn!("cannot talk to the controller any more: {denial}; trying again");
        }
        Ok(())
    }

    fn handle_signals(&mut self, now: Now, signals: &mut Signals, reload: &dyn Fn()) {
        for signal in signals.read() {
            if signal == Signal::SIGCHLD {
                self.runner.reap(now, &mut self.slot);
            } else if signal == tools::CHANGE_SIGNAL {
                self.tools.notice();
            } else if signal == Signal::SIGHUP {
                reload();
            } else if signal == RETIRE {
                log::info!("{signal}: stopping as soon as there is no task");
                self.slot.handle_retire(now);
            } else {
                log::info!("{signal}: stopping");
                self.slot.handle_stop(now);
            }
        }
    }

    /// Reports the present tools to the engine, if they have changed. True if the engine must send a report.
    fn look_at_tools(&mut self) -> bool {
        let now = clock::now();
        let has_changed = match self.runner.take_missed() {
            Some(tool) => self.tools.missed(now, &tool),
            None => self.tools.check_if_due(now),
        };
        has_changed && self.slot.handle_tools(now, self.tools.tools().clone())
    }

    /// Carries out the engine's decisions. `Some` when the agent has ended.
    fn finish_turn(&mut self) -> Option<Ending> {
        loop {
            logging::write(self.slot.take_log());
            let now = clock::now_with_suspend();
            match self.slot.poll_effect(now)? {
                Effect::Send(message) => self.link.send(agent::encode(&self.sender, &message)),
                Effect::Reconnect => self.link.reconnect(),
                Effect::Remember(known) => self.epochs.remember(known),
                Effect::Ready => announce(&self.sender.agent),
                Effect::Lease(hold) => {
                    self.runner.set_hold(hold);
                    self.guard_keeper.set_hold(hold);
                }
                Effect::Exit(ending) => {
                    log::info!("agent {} stops", self.sender.agent);
                    return Some(ending);
                }
                effect => self.runner.run(now, effect, &mut self.slot),
            }
        }
    }
}

/// Maximum bytes of the list of tools: it is one field of one message that also has other fields.
fn tools_list_bytes_max(config: &Config) -> usize {
    config.limits.field_value_bytes_max.min(config.limits.message_bytes_max / 2)
}

fn announce(name: &AgentId) {
    log::info!("agent {name} ready");
    let mut out = std::io::stdout();
    // The starter of the agent may have stopped reading.
    let _ = writeln!(out, "llts agent ready: {name}").and_then(|()| out.flush());
}
