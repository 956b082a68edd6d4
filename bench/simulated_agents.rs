//! Simulated agents: the engine of real agents, without processes. An assigned task ends at once.
//!
//! [`serve_one`] is one agent on one link, like a real one; [`serve_many`] runs any number of agents in one
//! loop, each with its two connections.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::os::fd::AsFd as _;
use std::time::Duration;

use super::BenchError;
use super::echo::announce;
use super::load::limits;
use super::part::Part;
use super::service::Service;
use ::agent::slot::{Effect, Exited, Settings as SlotSettings, Slot};
use api::config::Config;
use api::transport;
use api::wire::requests::Sender;
use api::wire::requests::kill::TASK_KILL;
use api::wire::{agent, publish};
use base::{AgentId, ExitCode, Labels, Mono, Now, RunResult, Session};
use proc::clock;
use proc::signals::Signals;
use zmtp::endpoint::ConnectionLimits;
use zmtp::engine::{Event, Kind, Security, Settings};
use zmtp::sockets::{Address, Arrival, Endpoint, PeerId, What};

/// The topics that an agent subscribes to.
fn prefixes() -> [String; 1] {
    [publish::prefix(TASK_KILL.word)]
}

/// Starts agents of this service in a process of their own, and waits until all are registered.
pub(crate) fn start(service: &Service, agents: usize, signals: &mut Signals) -> Result<Part, BenchError> {
    let (part, line) = Part::start(&["serve-agents", "--count", &agents.to_string()], &service.keys(), signals)?;
    if line == READY {
        Ok(part)
    } else {
        Err(BenchError::Unexpected(format!("unexpected output of the simulated agents: {line:?}")))
    }
}

const READY: &str = "ready";

/// One agent without processes.
struct SimulatedAgent {
    slot: Slot,
    sender: Sender,
}

impl SimulatedAgent {
    fn new(config: &Config, number: usize) -> Result<Self, BenchError> {
        let name = AgentId::new(&format!("simulated-{number}"));
        let name = name.map_err(|error| BenchError::Unexpected(error.to_string()))?;
        let session = Session(1);
        let settings = SlotSettings {
            agent: name.clone(),
            session,
            replaces: None,
            ip: "127.0.0.1".to_owned(),
            tags: Labels::default(),
            tools: None,
            epochs: Vec::new(),
            heartbeat_interval: config.agent.heartbeat_interval,
            kill_interval: config.agent.kill_interval,
            kill_count: config.agent.kill_count,
            straggler_grace: config.agent.straggler_grace,
            foreign_process_timeout: config.agent.foreign_process_timeout,
            stop_timeout: config.agent.stop_timeout,
        };
        Ok(Self { slot: Slot::new(settings, clock::now()), sender: Sender::new(name, session) })
    }

    fn handle_message(&mut self, now: Now, body: &[u8]) {
        if let Some(answer) = agent::decode(body) {
            self.slot.handle_answer(now, answer);
        }
    }

    /// Carries out all pending work; returns whether the controller has registered the agent meanwhile.
    fn carry_out(&mut self, now: Now, mut send: impl FnMut(Vec<u8>)) -> bool {
        let mut is_ready = false;
        self.slot.handle_timeout(now);
        while let Some(effect) = self.slot.poll_effect(now) {
            match effect {
                Effect::Send(message) => send(agent::encode(&self.sender, &message)),
                Effect::Prepare(_) => self.slot.handle_prepared(now, Ok(())),
                Effect::Spawn => {
                    self.slot.handle_spawned(now, Ok(()));
                    self.slot.handle_exited(now, nothing_left());
                }
                Effect::CheckTree => self.slot.handle_tree(now, false, 0),
                Effect::Remove => self.slot.handle_removed(now),
                Effect::Ready => is_ready = true,
                // There is no process that could be signalled or aborted, and a measurement does not outlive its
                // controller.
                Effect::Signal(_)
                | Effect::TellToFinish
                | Effect::ReadAgain(_)
                | Effect::Keep
                | Effect::AbortKeep
                | Effect::Unended
                | Effect::AbortPrepare
                | Effect::AbortStart
                | Effect::Cancel { .. }
                | Effect::Reconnect
                | Effect::Exit(_)
                | Effect::Lease(_)
                | Effect::ToolsFolder(_)
                | Effect::Remember(_)
                | Effect::Read(_)
                | Effect::LookAtProgress
                | Effect::TrimOutputs => {}
            }
        }
        is_ready
    }

    fn deadline(&self) -> Option<Mono> {
        self.slot.poll_timeout().map(|(at, _)| at)
    }
}

fn nothing_left() -> Exited {
    Exited { result: RunResult::of(ExitCode(0), String::new()), provided: None }
}

/// Runs one agent until standard input ends.
///
/// # Errors
/// When the connection cannot be made.
pub(crate) fn serve_one(config: &Config) -> Result<(), BenchError> {
    let mut link = transport::connect(config, &prefixes())?;
    let mut agent = SimulatedAgent::new(config, 0)?;
    let stdin = std::io::stdin();
    while !link.is_connected() {
        link.wait(clock::now().mono, None, &[]);
    }
    loop {
        if agent.carry_out(clock::now(), |body| link.send(body)) {
            announce(READY)?;
        }
        if link.wait(clock::now().mono, agent.deadline(), &[stdin.as_fd()])[0] {
            return Ok(());
        }
        let now = clock::now();
        while let Some(body) = link.receive_answer() {
            agent.handle_message(now, &body);
        }
        while link.receive_broadcast().is_some() {}
    }
}

/// Runs many agents in one loop until standard input ends.
///
/// # Errors
/// When a connection cannot be made.
pub(crate) fn serve_many(config: &Config, count: usize) -> Result<(), BenchError> {
    proc::limits::raise_descriptor_limit().map_err(BenchError::io("raise the limit of descriptors"))?;
    SimulatedAgents::connect(config, count)?.serve().map(|never| match never {})
}

/// The number of connections made at once: no more than the controller's backlog.
const CONNECT_STEP: usize = 256;

struct SimulatedAgents {
    endpoint: Endpoint,
    agents: Vec<(SimulatedAgent, Option<PeerId>)>,
    deadlines: BTreeSet<(Mono, usize)>,
    ready: usize,
}

impl SimulatedAgents {
    fn connect(config: &Config, count: usize) -> Result<Self, BenchError> {
        let agents = (0..count).map(|number| Ok((SimulatedAgent::new(config, number)?, None)));
        let agents = agents.collect::<Result<Vec<_>, BenchError>>()?;
        let places =
            ConnectionLimits { connections_max: 2 * count, per_address_max: 2 * count, held_bytes_max: usize::MAX };
        let endpoint = Endpoint::new(places).map_err(BenchError::io("make a poller"))?;
        let mut all = Self { endpoint, agents, deadlines: BTreeSet::new(), ready: 0 };
        for first in (0..count).step_by(CONNECT_STEP) {
            let last = count.min(first + CONNECT_STEP);
            for number in first..last {
                // The services of the bench have both ports.
                all.dial(number, &config.controller.rep_endpoint().unwrap_or_default(), Kind::Dealer)?;
                all.dial(number, &config.controller.pub_endpoint().unwrap_or_default(), Kind::Sub)?;
            }
            while all.agents[first..last].iter().any(|(_, peer)| peer.is_none()) {
                all.turn()?;
            }
        }
        Ok(all)
    }

    fn dial(&mut self, number: usize, endpoint: &str, kind: Kind) -> Result<(), BenchError> {
        let address = Address::parse(endpoint).map_err(|error| BenchError::Unexpected(error.to_string()))?;
        let settings = Settings { kind, limits: limits(), security: Security::Null };
        let connected = self.endpoint.connect(&address, settings, number);
        connected.map(drop).map_err(BenchError::io(format!("connect agent {number}")))
    }

    fn serve(mut self) -> Result<Infallible, BenchError> {
        let mut is_announced = false;
        loop {
            if !is_announced && self.ready == self.agents.len() {
                announce(READY)?;
                is_announced = true;
            }
            self.turn()?;
        }
    }

    fn turn(&mut self) -> Result<(), BenchError> {
        let stdin = std::io::stdin();
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        if self.endpoint.wait(clock::now().mono, deadline, &[stdin.as_fd()])[0] {
            return Err(BenchError::Interrupted);
        }
        let now = clock::now();
        while let Some(arrival) = self.endpoint.poll_event() {
            self.take(now, arrival)?;
        }
        while let Some((_, number)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now.mono) {
            self.deadlines.pop_first();
            self.carry_out(now, number);
        }
        self.endpoint.flush();
        Ok(())
    }

    fn take(&mut self, now: Now, Arrival { peer, tag: number, what }: Arrival) -> Result<(), BenchError> {
        match what {
            What::Event(Event::Opened(other)) if other.kind == Kind::Router => {
                self.agents[number].1 = Some(peer);
                self.carry_out(now, number);
            }
            What::Event(Event::Opened(_)) => {
                for prefix in prefixes() {
                    self.endpoint.subscribe(peer, prefix.as_bytes());
                }
            }
            What::Event(Event::Message(mut parts)) if self.agents[number].1 == Some(peer) => {
                if let Some(body) = parts.pop() {
                    self.agents[number].0.handle_message(now, &body);
                    self.carry_out(now, number);
                }
            }
            What::Event(_) => {}
            What::Closed(_) => {
                return Err(BenchError::Unexpected(format!(
                    "the controller has closed a connection of agent {number}"
                )));
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, now: Now, number: usize) {
        let Self { endpoint, agents, deadlines, ready } = self;
        let (agent, Some(peer)) = &mut agents[number] else { return };
        if let Some(at) = agent.deadline() {
            deadlines.remove(&(at, number));
        }
        let is_ready = agent.carry_out(now, |body| {
            if endpoint.send(*peer, &[Vec::new(), body]).is_err() {
                log::debug!("a message of agent {number} is lost");
            }
        });
        *ready += usize::from(is_ready);
        if let Some(at) = agent.deadline() {
            deadlines.insert((at, number));
        }
    }
}

/// The connections of an agent.
pub(crate) const CONNECTIONS_PER_AGENT: usize = 2;

/// The time between two heartbeats of a simulated agent.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);
