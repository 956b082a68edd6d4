//! The agent's process: one slot, one connection, one loop.
//!
//! The loop waits for the connection, the signals, which tell of the end of run.sh, and the end of a preparation, all at once,
//! and has no other thread on the path of a task whose tool is known already.

mod guarding;
mod leftovers;
mod preparation;
mod runner;
mod session;

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use nix::sys::signal::Signal;

use super::clock;
use super::guard::GuardPlan;
use super::lock::LockError;
use super::process::{self, RecordError};
use super::signals::Signals;
use super::transport::{self, Link, SocketError};
use super::workspace::WorkspaceError;
use crate::config::Config;
use crate::engine::slot::{Effect, Ending, Settings, Slot};
use crate::protocol::request::Sender;
use crate::protocol::words::kind;
use crate::protocol::{agent, publish};
use crate::types::{AgentId, Now, TaskId};

use guarding::Guarding;
pub use leftovers::sweep_after_death;
use runner::Runner;
use session::Sessions;

/// Why an agent cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// An agent of this name runs here already.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The connection cannot even be tried.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The work folder cannot be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The run records cannot be kept.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The folder of unpacked tools cannot be used.
    #[error(transparent)]
    Cache(#[from] super::tools::CacheError),
    /// The system refuses something that every process may have.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
    /// The controller does not want this agent.
    #[error("the controller refuses this agent: {0}")]
    Rejected(String),
}

/// A name for an agent that was given none: `AGENT_<time>_<letters>`, as the ids of tasks (facts, 1.4).
fn fresh_name() -> AgentId {
    let id = TaskId::new(clock::now().wall, rand::random()).to_string();
    // The rest of a task id holds digits, a point, an underscore and letters: all of them may stand in a name.
    AgentId::new(&id.replacen("TASK", "AGENT", 1)).unwrap_or_else(|error| unreachable!("{error}"))
}

/// Runs an agent until it gets SIGTERM or SIGINT, or its controller says so. One without a supervisor gets a `guard`.
///
/// # Errors
/// [`AgentError`], when it cannot start or is not wanted.
pub fn run(config: &Config, name: Option<AgentId>, guard: Option<GuardPlan>) -> Result<(), AgentError> {
    // Before any thread is started, so that all of them leave these signals to the loop.
    let mut signals = Signals::install(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD])?;
    // Before the agent adopts what detaches from it.
    let guarding = Guarding::start(guard);
    process::become_subreaper()?;
    super::limits::raise_descriptor_limit()?;
    let sessions = Sessions::begin(&config.paths.state_dir.join("agents"), name.as_ref())?;
    let name = name.unwrap_or_else(fresh_name);
    let session = sessions.present;
    let ip = own_address(config.controller.ip);
    let runner = Runner::start(config, session, ip)?;
    if let Some(max) = config.agent.processes_max {
        // Last of all: at the limit, the agent could not start its own threads.
        process::limit_processes(max).map_err(std::io::Error::from)?;
    }
    let link = connect(config)?;
    let settings = Settings {
        agent: name.clone(),
        session,
        replaces: sessions.before,
        tags: config.agent.tags.clone(),
        ip: ip.to_string(),
        heartbeat_interval: config.agent.heartbeat_interval,
        kill_interval: config.agent.kill_interval,
        kill_count: config.agent.kill_count,
        straggler_grace: config.agent.straggler_grace,
        stop_timeout: config.agent.stop_timeout,
    };
    log::info!("agent {name} of controller {}", transport::agent_endpoint(config));
    let sender = Sender { agent: name, session };
    let slot = Slot::new(settings, clock::now_with_suspend());
    let agent = Agent { link, sender, slot, runner, guarding };
    let (ending, guarding) = agent.serve(&mut signals);
    match ending {
        Ending::Left => sessions.end(),
        Ending::Unheard => {}
        Ending::Rejected(reason) => return Err(AgentError::Rejected(reason)),
    }
    guarding.release();
    Ok(())
}

fn connect(config: &Config) -> Result<Box<dyn Link>, SocketError> {
    // Not TASK/INFORM: this agent is parked whenever its slot is free, and waking all of them for each task costs six
    // times the wake of one.
    let prefixes = [publish::prefix(kind::TASK_KILL), publish::prefix(kind::AGENT_STOP)];
    transport::connect(config, &prefixes)
}

/// The address by which this machine reaches the controller.
fn own_address(controller: IpAddr) -> IpAddr {
    let local = |any: SocketAddr| {
        let socket = UdpSocket::bind(any)?;
        // Nothing is sent: the kernel only chooses the way.
        socket.connect((controller, 9))?;
        socket.local_addr()
    };
    let any = if controller.is_ipv4() { SocketAddr::from(([0; 4], 0)) } else { SocketAddr::from(([0_u16; 8], 0)) };
    local(any).map_or(controller, |address| address.ip())
}

struct Agent {
    link: Box<dyn Link>,
    sender: Sender,
    slot: Slot,
    runner: Runner,
    guarding: Guarding,
}

/// What the loop was woken by.
struct Ready {
    signals: bool,
    prepared: bool,
}

impl Agent {
    fn serve(mut self, signals: &mut Signals) -> (Ending, Guarding) {
        loop {
            if let Some(ending) = self.finish_turn() {
                self.runner.tidy();
                return (ending, self.guarding);
            }
            // When all that anybody waits for has been said.
            self.runner.tidy();
            self.guarding.tend(clock::now().mono, self.runner.is_idle());
            let ready = self.wait(signals);
            self.receive();
            let now = clock::now_with_suspend();
            if ready.signals {
                self.handle_signals(now, signals);
            }
            if ready.prepared {
                self.runner.prepared(&mut self.slot);
            }
            self.slot.handle_timeout(now);
        }
    }

    fn wait(&mut self, signals: &Signals) -> Ready {
        let mut fds = vec![signals.as_fd(), self.runner.preparations().as_fd()];
        // Last, because nothing is asked of it but to wake the loop.
        fds.extend(self.guarding.fds());
        // The link waits by the clock that stands still while the machine is suspended.
        let (now, slot_now) = (clock::now().mono, clock::now_with_suspend().mono);
        let deadline = self.slot.poll_timeout().map(|(at, _)| now + at.since(slot_now));
        let ready = self.link.wait(now, deadline, &fds);
        Ready { signals: ready[0], prepared: ready[1] }
    }

    fn receive(&mut self) {
        while let Some(body) = self.link.receive_answer() {
            match agent::decode(&body) {
                // The time of each message: one may come while another is handled.
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

    fn handle_signals(&mut self, now: Now, signals: &mut Signals) {
        for signal in signals.read() {
            if signal == Signal::SIGCHLD {
                self.runner.reap(now, &mut self.slot);
            } else {
                log::info!("{signal}: stopping");
                self.slot.handle_stop(now);
            }
        }
    }

    /// Does what the engine has decided. `Some` when the agent is done.
    fn finish_turn(&mut self) -> Option<Ending> {
        loop {
            let now = clock::now_with_suspend();
            match self.slot.poll_effect(now)? {
                Effect::Send(message) => self.link.send(agent::encode(&self.sender, &message)),
                Effect::Reconnect => {
                    if let Err(error) = self.link.reconnect() {
                        log::error!("{error}");
                    }
                }
                Effect::Ready => announce(&self.sender.agent),
                Effect::Lease(hold) => {
                    self.runner.set_hold(hold);
                    self.guarding.set_hold(hold);
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

fn announce(name: &AgentId) {
    log::info!("agent {name} ready");
    let mut out = std::io::stdout();
    // Whoever started the agent may have stopped to listen.
    let _ = writeln!(out, "llts agent ready: {name}").and_then(|()| out.flush());
}
