//! An agent's process around the real engine, and its supervisor: how it starts, wakes up, ends and is started again.
//!
//! Its actions while it is awake are in [`crate::agent`].

use std::time::Duration;

use agent::slot::{Ending, Hold, Settings, Slot};
use base::{AgentId, KnownEpoch, Labels, Now, Session};

use crate::simulation::dice::{MILLI, Nanos, SECOND};
use crate::simulation::event::{Defect, Event};
use crate::simulation::network::Socket;
use crate::simulation::plan::{HEARTBEAT, KILL_COUNT, KILL_INTERVAL, Plan, STOP_TIMEOUT, STRAGGLER_GRACE};
use crate::simulation::tool::ToolRun;
use crate::simulation::tools::Shelf;
use crate::simulation::world::{World, note};

pub(crate) struct Host {
    pub(crate) name: AgentId,
    pub(crate) life: u32,
    pub(crate) session: u64,
    /// The content of the session file: the previous session, unless it ended properly.
    before: Option<u64>,
    pub(crate) slot: Option<Slot>,
    pub(crate) socket: Socket,
    pub(crate) run: Option<ToolRun>,
    pub(crate) inbox: Vec<Input>,
    wake_at: Option<Nanos>,
    pub(crate) crash_in: Option<u64>,
    pub(crate) paused: bool,
    /// No connection before.
    pub(crate) isolated_until: Nanos,
    /// No message of it arrives before, and none for it.
    pub(crate) no_way_up_until: Nanos,
    pub(crate) no_way_down_until: Nanos,
    /// When its guard ends its run, if it does not hear otherwise.
    kill_at: Option<Nanos>,
    pub(crate) clock_offset: i64,
    /// Whether it has the tag that special tasks require.
    special: bool,
    pub(crate) shelf: Shelf,
    /// Whether its heartbeats say that it is busy, and not with what. Only simple agents do that.
    pub(crate) plain: bool,
    /// Whether it is a simple agent, which knows nothing of leases.
    pub(crate) simple: bool,
    /// The highest epochs of controllers that it has served.
    pub(crate) epochs: Vec<KnownEpoch>,
    /// Names that it used before and never will again.
    pub(crate) abandoned: usize,
}

/// The events for which the loop of an agent may wake up.
#[derive(Debug)]
pub(crate) enum Input {
    /// There is a connection to the controller.
    Connected,
    Answer(Vec<u8>),
    Broadcast(Vec<u8>),
    /// run.sh, or a process that it left behind, has ended.
    ChildEnded,
    Stop,
    Prepared,
    /// The tools folder has changed.
    Tools,
}

/// Why a turn of an agent was its last.
pub(crate) enum End {
    Killed,
    Exit(Ending),
}

impl Host {
    pub(crate) fn new(index: usize, plan: &Plan) -> Self {
        Self {
            name: name(index, 0),
            life: 0,
            session: 0,
            before: None,
            slot: None,
            socket: Socket::default(),
            run: None,
            inbox: Vec::new(),
            wake_at: None,
            crash_in: None,
            paused: false,
            isolated_until: 0,
            no_way_up_until: 0,
            no_way_down_until: 0,
            kill_at: None,
            clock_offset: 0,
            special: plan.special[index],
            shelf: Shelf::new(&plan.tools.had[index], plan.tools.telling[index]),
            plain: plan.plain[index],
            simple: plan.simple[index],
            epochs: Vec::new(),
            abandoned: 0,
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            agent: self.name.clone(),
            session: Session(self.session),
            replaces: self.before.map(Session),
            epochs: self.epochs.clone(),
            ip: "127.0.0.1".to_owned(),
            tools: self.shelf.tells.then(|| self.shelf.list()),
            tags: Labels::parse(if self.special { "special" } else { "" }).expect("a name of ours"),
            heartbeat_interval: Duration::from_nanos(HEARTBEAT),
            kill_interval: Duration::from_nanos(KILL_INTERVAL),
            kill_count: KILL_COUNT,
            straggler_grace: Duration::from_nanos(STRAGGLER_GRACE),
            foreign_process_timeout: Duration::from_mins(1),
            stop_timeout: Duration::from_nanos(STOP_TIMEOUT),
        }
    }
}

fn name(index: usize, abandoned: usize) -> AgentId {
    AgentId::new(&format!("agent-{index}-{abandoned}")).expect("a name of ours")
}

impl World {
    pub(crate) fn agent_now(&self, agent: usize) -> Now {
        self.clock(self.hosts[agent].clock_offset)
    }

    pub(crate) fn slot(&mut self, agent: usize) -> &mut Slot {
        self.hosts[agent].slot.as_mut().expect("the agent runs")
    }

    pub(crate) fn agent_starts(&mut self, agent: usize) {
        let (now, session) = (self.agent_now(agent), self.dice.number() >> 11);
        let host = &mut self.hosts[agent];
        if host.slot.is_some() {
            return;
        }
        host.life += 1;
        host.session = session.max(1);
        host.slot = Some(Slot::new(host.settings(), now));
        note!(self, "agent {agent} starts as {} after {:?}", self.hosts[agent].name, self.hosts[agent].before);
        self.connect(agent);
        self.wake_agent(agent, self.now);
    }

    fn wake_agent(&mut self, agent: usize, at: Nanos) {
        if self.hosts[agent].wake_at.is_none_or(|wake_at| at < wake_at) {
            self.hosts[agent].wake_at = Some(at);
            self.at(at, Event::AgentWakes { agent });
        }
    }

    pub(crate) fn agent_hears(&mut self, agent: usize, body: Vec<u8>) {
        self.agent_receives(agent, Input::Answer(body));
    }

    pub(crate) fn hear(&mut self, agent: usize, life: u32, frame: Vec<u8>) {
        if self.hosts[agent].life == life {
            self.agent_receives(agent, Input::Broadcast(frame));
        }
    }

    pub(crate) fn agent_receives(&mut self, agent: usize, input: Input) {
        if self.hosts[agent].slot.is_some() {
            self.hosts[agent].inbox.push(input);
            let at = self.now + self.wake_delay();
            self.wake_agent(agent, at);
        }
    }

    pub(crate) fn agent_wakes(&mut self, agent: usize) {
        let host = &mut self.hosts[agent];
        if host.slot.is_none() || host.paused || host.wake_at != Some(self.now) {
            return;
        }
        host.wake_at = None;
        match self.agent_turn(agent) {
            Err(End::Killed) => self.agent_dies(agent),
            Err(End::Exit(ending)) => self.agent_exits(agent, &ending),
            Ok(()) => {
                if let Some(at) = self.slot(agent).poll_timeout().map(|(at, _)| at) {
                    let at = self.nanos_of(at);
                    self.wake_agent(agent, at);
                }
            }
        }
    }

    /// kill -9: its supervisor ends what it ran, and starts it again under the same name or another one.
    pub(crate) fn agent_dies(&mut self, agent: usize) {
        if self.hosts[agent].slot.is_none() {
            return;
        }
        note!(self, "agent {agent} is killed");
        let fresh = self.dice.chance(250);
        self.agent_is_gone(agent, fresh, true);
    }

    fn agent_exits(&mut self, agent: usize, ending: &Ending) {
        note!(self, "agent {agent} exits: {ending:?}");
        let refused = matches!(ending, Ending::Rejected(_));
        assert!(refused || self.hosts[agent].run.is_none(), "agent {agent} exits and leaves its run alone");
        self.agent_is_gone(agent, false, *ending != Ending::Left);
    }

    fn agent_is_gone(&mut self, agent: usize, fresh: bool, unheard: bool) {
        self.cut(agent);
        self.end_tree(agent);
        let host = &mut self.hosts[agent];
        host.slot = None;
        host.inbox.clear();
        host.wake_at = None;
        host.crash_in = None;
        host.paused = false;
        host.kill_at = None;
        host.before = unheard.then_some(host.session);
        if fresh {
            host.abandoned += 1;
            host.before = None;
            host.name = name(agent, host.abandoned);
        }
        let delay = self.dice.skewed(20 * MILLI..=3 * SECOND);
        self.after(delay, Event::AgentStarts { agent });
    }

    /// The guard of an agent hears when it is to end the run.
    pub(crate) fn set_hold(&mut self, agent: usize, hold: Option<Hold>) {
        let kill_at = hold.map(|hold| self.nanos_of(hold.kill_at));
        self.hosts[agent].kill_at = kill_at;
        if let Some(at) = kill_at {
            let delay = self.dice.skewed(0..=100 * MILLI);
            self.at(at + delay, Event::GuardWakes { agent });
        }
    }

    /// A supervisor ends the agent whose run goes on, a guard that run.
    pub(crate) fn guard_wakes(&mut self, agent: usize) {
        if self.hosts[agent].kill_at.is_none_or(|at| self.now < at) || self.defect == Some(Defect::NoGuards) {
            return;
        }
        self.hosts[agent].kill_at = None;
        note!(self, "the guard of agent {agent} ends its run");
        if self.dice.chance(500) {
            self.agent_dies(agent);
        } else {
            self.end_run_from_outside(agent);
        }
    }

    pub(crate) fn agent_resumes(&mut self, agent: usize) {
        if std::mem::take(&mut self.hosts[agent].paused) {
            self.hosts[agent].wake_at = None;
            self.wake_agent(agent, self.now);
        }
    }
}
