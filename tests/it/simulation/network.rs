//! The network between agents and the controller: connections that keep their order and may break.
//!
//! A socket connects again by itself, and tells so, or keeps meanwhile what is sent, as libzmq does. What is on its way on a connection
//! that breaks is lost, or, of what an agent has sent, arrives late: a new connection may overtake the old one's last bytes.

use api::wire::publish;
use api::wire::publish::Published;
use api::wire::requests::kill::TASK_KILL;

use crate::simulation::controller::ReplyTo;
use crate::simulation::dice::{MICRO, MILLI, Nanos, SECOND};
use crate::simulation::event::Event;
use crate::simulation::host::{Host, Input};
use crate::simulation::world::{World, note};

#[derive(Default)]
pub(crate) struct Network {
    connections: Vec<Connection>,
    /// Messages that agents have sent, for the check that a quiet service is quiet.
    pub(crate) sent_up: u64,
}

struct Connection {
    agent: usize,
    /// The life of the controller at its other end.
    life: u64,
    state: State,
    up_free_at: Nanos,
    down_free_at: Nanos,
    /// The controller has been told that it is gone.
    is_told: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    /// The agent is gone; its last words still arrive. Until then the controller does not know.
    Lingering {
        noticed_at: Nanos,
    },
    /// The controller is gone; its last words still arrive.
    Closing {
        life: u32,
    },
    /// Nothing arrives any more. Until then the controller does not know.
    Broken {
        noticed_at: Nanos,
    },
}

/// An agent's end.
#[derive(Default)]
pub(crate) struct Socket {
    connection: Option<usize>,
    pending: Vec<Vec<u8>>,
    attempt: u32,
}

impl World {
    /// Gives an agent's socket up, if it has one, and makes a new one.
    pub(crate) fn connect(&mut self, agent: usize) {
        self.cut(agent);
        self.hosts[agent].socket.pending.clear();
        self.try_connect(agent);
    }

    fn try_connect(&mut self, agent: usize) {
        self.hosts[agent].socket.attempt += 1;
        let attempt = self.hosts[agent].socket.attempt;
        let delay = self.dice.skewed(100 * MICRO..=200 * MILLI);
        self.after(delay, Event::Connected { agent, attempt });
    }

    pub(crate) fn connected(&mut self, agent: usize, attempt: u32) {
        let socket = &self.hosts[agent].socket;
        if socket.attempt != attempt || socket.connection.is_some() || self.hosts[agent].slot.is_none() {
            return;
        }
        let Host { isolated_until, no_way_up_until, no_way_down_until, .. } = self.hosts[agent];
        let is_cut_off = self.now < isolated_until.max(no_way_up_until).max(no_way_down_until);
        let Some(life) = self.server_of_connection().filter(|_| !is_cut_off) else { return self.try_connect(agent) };
        // A socket reads one connection only: what the last one still held is lost.
        for old in self.network.connections.iter_mut().filter(|old| old.agent == agent) {
            if let State::Closing { .. } = old.state {
                old.state = State::Broken { noticed_at: 0 };
            }
        }
        let connection = self.network.connections.len();
        self.network.connections.push(Connection {
            agent,
            life,
            state: State::Open,
            up_free_at: 0,
            down_free_at: 0,
            is_told: false,
        });
        let socket = &mut self.hosts[agent].socket;
        socket.connection = Some(connection);
        let pending = std::mem::take(&mut socket.pending);
        note!(self, "agent {agent} has connection {connection}; {} messages were kept", pending.len());
        for body in pending {
            self.send_on(connection, &body);
        }
        if self.plan.told {
            self.agent_receives(agent, Input::Connected);
        }
    }

    /// The connection of an agent breaks; its socket does not tell.
    pub(crate) fn cut(&mut self, agent: usize) {
        let Some(connection) = self.hosts[agent].socket.connection.take() else { return };
        let noticed_at = if self.dice.chance(500) { self.now } else { self.now + self.dice.skewed(MILLI..=2 * SECOND) };
        let lingers = self.dice.chance(400);
        self.network.connections[connection].state =
            if lingers { State::Lingering { noticed_at } } else { State::Broken { noticed_at } };
        note!(self, "connection {connection} breaks");
    }

    /// The same, and the agent's system connects again.
    pub(crate) fn break_connection(&mut self, agent: usize) {
        if self.hosts[agent].socket.connection.is_some() {
            self.cut(agent);
            self.try_connect(agent);
        }
    }

    /// The end of every connection of this life of a controller is gone.
    pub(crate) fn break_all(&mut self, life: u64) {
        for agent in 0..self.hosts.len() {
            let is_its = |connection: &mut usize| self.network.connections[*connection].life == life;
            if let Some(connection) = self.hosts[agent].socket.connection.take_if(is_its) {
                let closing = State::Closing { life: self.hosts[agent].life };
                let state = if self.dice.chance(600) { closing } else { State::Broken { noticed_at: 0 } };
                self.network.connections[connection].state = state;
                self.try_connect(agent);
            }
        }
        for connection in self.network.connections.iter_mut().filter(|connection| connection.life == life) {
            if !matches!(connection.state, State::Closing { .. }) {
                connection.state = State::Broken { noticed_at: 0 };
            }
        }
    }

    pub(crate) fn send_up(&mut self, agent: usize, body: Vec<u8>) {
        let socket = &mut self.hosts[agent].socket;
        match socket.connection {
            Some(connection) => self.send_on(connection, &body),
            None if self.plan.told => {}
            None => socket.pending.push(body),
        }
    }

    fn send_on(&mut self, connection: usize, body: &[u8]) {
        self.network.sent_up += 1;
        for _ in 0..self.copies() {
            let agent = self.network.connections[connection].agent;
            let at = (self.now + self.delay()).max(self.hosts[agent].no_way_up_until);
            let link = &mut self.network.connections[connection];
            link.up_free_at = at.max(link.up_free_at + 1);
            let (at, body) = (link.up_free_at, body.to_vec());
            self.at(at, Event::Up { connection, body });
        }
    }

    /// Sends an answer; false when the controller knows that the peer has disconnected.
    pub(crate) fn send_down(&mut self, connection: usize, body: &[u8]) -> bool {
        match self.network.connections[connection].state {
            State::Open => {}
            State::Lingering { noticed_at } | State::Broken { noticed_at } => return self.now < noticed_at,
            State::Closing { .. } => return false,
        }
        for _ in 0..self.copies() {
            let agent = self.network.connections[connection].agent;
            let at = (self.now + self.delay()).max(self.hosts[agent].no_way_down_until);
            let link = &mut self.network.connections[connection];
            link.down_free_at = at.max(link.down_free_at + 1);
            let at = link.down_free_at;
            self.at(at, Event::Down { connection, body: body.to_vec() });
        }
        true
    }

    /// A connection that the controller sees to be gone: nothing of it arrives any more.
    pub(crate) fn poll_closed(&mut self) -> Option<usize> {
        let life = self.life().number;
        let is_news = |link: &Connection| match link.state {
            _ if link.life != life => false,
            State::Lingering { noticed_at } | State::Broken { noticed_at } => {
                !link.is_told && noticed_at.max(link.up_free_at) <= self.now
            }
            State::Open | State::Closing { .. } => false,
        };
        let closed = self.network.connections.iter().position(is_news)?;
        self.network.connections[closed].is_told = true;
        Some(closed)
    }

    pub(crate) fn arrive_up(&mut self, connection: usize, body: Vec<u8>) {
        let Connection { life, state, .. } = self.network.connections[connection];
        let is_of_leader = self.server.life.as_ref().is_some_and(|leader| leader.number == life);
        match state {
            State::Open | State::Lingering { .. } if is_of_leader => self.controller_hears(connection, body),
            State::Open | State::Lingering { .. } if self.is_of_deposed(life) => {
                self.deposed_receives(ReplyTo::Agent { connection }, body);
            }
            State::Open | State::Lingering { .. } | State::Closing { .. } | State::Broken { .. } => {}
        }
    }

    pub(crate) fn arrive_down(&mut self, connection: usize, body: Vec<u8>) {
        let Connection { agent, state, .. } = self.network.connections[connection];
        match state {
            State::Open => self.agent_hears(agent, body),
            State::Closing { life } if self.hosts[agent].life == life => self.agent_hears(agent, body),
            State::Closing { .. } | State::Lingering { .. } | State::Broken { .. } => {}
        }
    }

    /// To every agent that is connected, over other connections than the answers take; some is lost.
    pub(crate) fn publish(&mut self, message: &Published) {
        let frame = publish::encode(message);
        let is_heard = |kind| frame.starts_with(publish::prefix(kind).as_bytes());
        if !is_heard(TASK_KILL.word) {
            return;
        }
        let number = self.life().number;
        for agent in 0..self.hosts.len() {
            let lost = self.dice.chance(self.plan.weather.publish_loss);
            let lost = lost || self.now < self.hosts[agent].no_way_down_until;
            let connection = self.hosts[agent].socket.connection;
            if connection.is_some_and(|link| self.network.connections[link].life == number) && !lost {
                let (delay, life) = (self.delay(), self.hosts[agent].life);
                self.after(delay, Event::Published { agent, life, frame: frame.clone() });
            }
        }
    }
}
