//! Virtual time: a queue of events, and the loop that lets them happen one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Mono, Now, Wall};

use crate::simulation::client::{Clients, Order};
use crate::simulation::controller::Server;
use crate::simulation::dice::{Dice, MICRO, Nanos, SECOND, Trace};
use crate::simulation::event::{Defect, Event};
use crate::simulation::host::Host;
use crate::simulation::model::Model;
use crate::simulation::network::Network;
use crate::simulation::plan::Plan;
use crate::simulation::receiver::Receiver;

pub(crate) struct World {
    pub(crate) now: Nanos,
    pub(crate) dice: Dice,
    pub(crate) trace: Trace,
    pub(crate) plan: Plan,
    pub(crate) model: Model,
    pub(crate) network: Network,
    pub(crate) server: Server,
    pub(crate) hosts: Vec<Host>,
    pub(crate) clients: Clients,
    pub(crate) receiver: Receiver,
    pub(crate) defect: Option<Defect>,
    queue: BTreeMap<(Nanos, u64), Event>,
    events: u64,
    /// Nothing goes wrong any more.
    pub(crate) is_calm: bool,
}

/// Far more than any seed needs.
const EVENTS_MAX: u64 = 1_000_000;

/// Writes a line of the trace.
macro_rules! note {
    ($world:expr, $($text:tt)*) => {{
        let now = $world.now;
        $world.trace.line(now, format_args!($($text)*));
    }};
}
pub(crate) use note;

impl World {
    pub(crate) const BEGINS_AT: Nanos = SECOND;

    pub(crate) fn new(seed: u64, shown: bool, defect: Option<Defect>) -> Self {
        let mut dice = Dice::new(seed);
        let plan = Plan::new(&mut dice);
        let hosts = (0..plan.agents).map(|agent| Host::new(agent, &plan)).collect();
        let mut world = Self {
            now: Self::BEGINS_AT,
            dice,
            trace: Trace::new(shown),
            model: Model::new(&plan),
            network: Network::default(),
            server: Server::default(),
            hosts,
            clients: Clients::default(),
            receiver: Receiver::default(),
            defect,
            queue: BTreeMap::new(),
            events: 0,
            is_calm: false,
            plan,
        };
        note!(world, "seed {seed}: {} agents, {} tasks", world.plan.agents, world.plan.tasks.len());
        note!(world, "{:?}", world.plan.weather);
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.after(0, Event::ControllerStarts);
        for agent in 0..self.hosts.len() {
            let delay = self.dice.skewed(0..=SECOND / 10);
            self.after(delay, Event::AgentStarts { agent });
        }
        for (at, fault) in self.plan.faults.clone() {
            self.after(at, Event::Fault(fault));
        }
        for (at, deed) in self.plan.deeds.clone() {
            self.order_after(at, Order::Deed(deed));
        }
        self.begin_submits();
        self.begin_graphs();
        self.begin_changes();
    }

    /// Lets an event happen after some time.
    pub(crate) fn after(&mut self, delay: Nanos, event: Event) {
        self.at(self.now + delay, event);
    }

    pub(crate) fn at(&mut self, at: Nanos, event: Event) {
        self.events += 1;
        self.queue.insert((at.max(self.now), self.events), event);
    }

    /// The time on a wall clock that was right when the simulation began.
    pub(crate) const fn first_wall() -> Wall {
        Wall::from_micros(1_480_000_000_000_000)
    }

    pub(crate) const fn mono(&self) -> Mono {
        Mono::from_nanos(self.now)
    }

    /// Both clocks of a machine whose wall clock is so many seconds off.
    pub(crate) fn clock(&self, offset_seconds: i64) -> Now {
        let wall = Self::first_wall() + Duration::from_nanos(self.now);
        let micros = wall.micros().saturating_add_signed(offset_seconds * 1_000_000);
        Now { mono: self.mono(), wall: Wall::from_micros(micros) }
    }

    /// Lets everything happen up to this time.
    pub(crate) fn pass_until(&mut self, end: Nanos) {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.happen(event);
        }
        self.now = end;
    }

    /// A time of the engines as one of the queue, a little late as the system is.
    pub(crate) fn nanos_of(&self, at: Mono) -> Nanos {
        let ahead = at.since(self.mono());
        self.now + u64::try_from(ahead.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Up { connection, body } => self.arrive_up(connection, body),
            Event::Down { connection, body } => self.arrive_down(connection, body),
            Event::Published { agent, life, frame } => self.hear(agent, life, frame),
            Event::Connected { agent, attempt } => self.connected(agent, attempt),
            Event::Asked { request, attempt } => self.asked(request, attempt),
            Event::Answered { request, attempt, body } => self.answered(request, attempt, &body),
            Event::GiveUp { request, attempt } => self.give_up(request, attempt),
            Event::Submit { plan, parent } => self.submit(plan, parent),
            Event::Graph { plan } => self.submit_graph(plan),
            Event::Order(order) => self.order(order),
            Event::Confirmed { task, seq } => self.confirmed(task, seq),
            Event::ControllerWakes => self.controller_wakes(),
            Event::DeposedWakes => self.deposed_wakes(),
            Event::DeposedEnds => self.deposed_ends(),
            Event::Committed { life } => self.store_commits(life),
            Event::ControllerStarts => self.controller_starts(),
            Event::AgentWakes { agent } => self.agent_wakes(agent),
            Event::AgentStarts { agent } => self.agent_starts(agent),
            Event::AgentResumes { agent } => self.agent_resumes(agent),
            Event::GuardWakes { agent } => self.guard_wakes(agent),
            Event::Tool { agent, run, event } => self.tool_event(agent, run, event),
            Event::Fault(fault) => self.fault(fault),
            Event::Tools(change) => self.change_tools(change),
            Event::Noticed { agent } => self.notice_tools(agent),
        }
        self.model.check_fences(self.now);
        assert!(self.events < EVENTS_MAX, "{EVENTS_MAX} events: something goes on for ever");
    }

    /// A moment that a process needs before it sees what has arrived.
    pub(crate) fn wake_delay(&mut self) -> Nanos {
        self.dice.skewed(10 * MICRO..=SECOND / 500)
    }
}
