//! Deliveries on virtual time, to simulated receivers, with every invariant checked after every effect.

#![cfg(test)]

mod admission;
mod chaos;
mod deadlines;
mod flow;
mod host_names;
mod stop;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use base::{AddressPolicy, IpAddr, Mono, PublicKey, PushAddress};

/// Number of turns at one moment after which the delivery is considered to spin.
const TURNS_MAX: usize = 10_000;

const SECOND: Duration = Duration::from_secs(1);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Generous limits: each scenario narrows the one that it tests.
fn config() -> PushConfig {
    PushConfig {
        sockets_max: 512,
        queue_max: 10_000,
        queue_bytes_max: 16_000_000,
        connect_timeout: 60 * SECOND,
        idle_timeout: 60 * SECOND,
        linger: SECOND,
        acknowledgements_max: 0,
        policy: AddressPolicy::everything(),
    }
}

/// The listener at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listener {
    /// Every connection is refused.
    Refuses,
    /// Packets vanish: no answer and no error.
    Vanishes,
    /// The connection is accepted, but no byte arrives.
    Silent,
    /// Some bytes are sent, and the connection is closed.
    Rude,
    /// Frames are taken while there is room.
    Reads,
}

/// A port and the frames that have arrived there.
#[derive(Debug)]
struct Port {
    listener: Listener,
    /// Number of frames that the kernel and the receiver still take.
    room: usize,
    /// Number of frames taken in one service of the socket; a service that could take more reports that.
    per_service: usize,
    /// Whether the stream does not take the last bytes of the frames that the connection has taken.
    keeps_bytes: bool,
    got: Vec<String>,
    /// Frames that the receiver sends back.
    says: VecDeque<Vec<u8>>,
    /// Whether the delivery has been notified and has not read to the end.
    may_read: bool,
    /// Times of the connections.
    connected_at: Vec<Duration>,
}

#[derive(Debug)]
struct SimulatedSocket {
    port: u16,
    is_up: bool,
}

/// A delivery, its network, and the observations.
struct World {
    delivery: Delivery,
    now: Mono,
    ports: BTreeMap<u16, Port>,
    sockets: BTreeMap<ReceiverId, SimulatedSocket>,
    /// Ready sockets, and whether they may be ready for more than writing.
    news: BTreeMap<ReceiverId, bool>,
    /// Whether the process has no descriptors left.
    is_out_of_descriptors: bool,
    /// Names that were asked for and have not been answered.
    asked: Vec<String>,
    /// Ports served in the last turn, in order.
    served: Vec<u16>,
    /// Number of sockets that were opened and closed in the last turn.
    opened: usize,
    closed: usize,
    waits: Vec<Duration>,
    log: Vec<String>,
}

fn address(port: u16) -> Arc<PushAddress> {
    named(&format!("127.0.0.1:{port}"))
}

fn named(target: &str) -> Arc<PushAddress> {
    Arc::new(PushAddress::parse(&format!("tcp://{target}"), &AddressPolicy::everything()).unwrap())
}

impl World {
    fn new(config: PushConfig) -> Self {
        Self {
            delivery: Delivery::new(config, PublicKey::from_bytes([7; 32])),
            now: Mono::default(),
            ports: BTreeMap::new(),
            sockets: BTreeMap::new(),
            news: BTreeMap::new(),
            is_out_of_descriptors: false,
            asked: Vec::new(),
            served: Vec::new(),
            opened: 0,
            closed: 0,
            waits: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Puts a listener at a port; connections to the previous one are lost.
    fn listen(&mut self, port: u16, listener: Listener) {
        self.disconnect(port);
        let new = || Port {
            listener,
            room: usize::MAX,
            per_service: usize::MAX,
            keeps_bytes: false,
            got: vec![],
            says: VecDeque::new(),
            may_read: false,
            connected_at: vec![],
        };
        self.ports.entry(port).or_insert_with(new).listener = listener;
    }

    /// The listener loses its connections, but would accept them again.
    fn disconnect(&mut self, port: u16) {
        for (id, socket) in &mut self.sockets {
            if socket.port == port {
                // 0 is the port of a lost connection.
                socket.port = 0;
                self.news.insert(*id, true);
            }
        }
    }

    fn port(&mut self, port: u16) -> &mut Port {
        self.ports.get_mut(&port).unwrap()
    }

    /// The receiver at a port reads this many more frames.
    fn read(&mut self, port: u16, frames: usize) {
        let room = &mut self.port(port).room;
        *room = room.saturating_add(frames);
        self.announce(port, false);
    }

    /// The receiver at a port sends something back.
    fn say(&mut self, port: u16, frames: impl IntoIterator<Item = Vec<u8>>) {
        self.port(port).says.extend(frames);
        self.announce(port, true);
    }

    fn announce(&mut self, port: u16, is_readable: bool) {
        for (id, _) in self.sockets.iter().filter(|(_, socket)| socket.port == port) {
            *self.news.entry(*id).or_default() |= is_readable;
        }
    }

    /// Pushes without a flush.
    fn queue(&mut self, address: &Arc<PushAddress>, by: Duration, text: &str) {
        self.delivery.handle_push(self.now, self.now + by, address, text.into());
        self.perform();
    }

    /// Pushes in the way of a turn of the controller.
    fn push_to(&mut self, address: &Arc<PushAddress>, texts: impl IntoIterator<Item = impl ToString>) {
        for text in texts {
            self.queue(address, Duration::ZERO, &text.to_string());
        }
        self.flush();
    }

    fn push(&mut self, port: u16, texts: impl IntoIterator<Item = impl ToString>) {
        self.push_to(&address(port), texts);
    }

    fn flush(&mut self) {
        self.delivery.handle_flush();
        self.perform();
    }

    fn turn(&mut self) {
        self.served.clear();
        (self.opened, self.closed) = (0, 0);
        self.delivery.handle_turn();
        for (id, is_readable) in std::mem::take(&mut self.news) {
            self.delivery.handle_ready(id, is_readable);
        }
        self.delivery.handle_timeout(self.now);
        self.flush();
        self.delivery.sanity_check();
    }

    /// The resolver answers.
    fn resolve(&mut self, name: &str, ips: &[&str]) {
        self.asked.retain(|asked| asked != name);
        let ips = ips.iter().map(|ip| ip.parse::<IpAddr>().unwrap()).collect();
        self.delivery.handle_resolved(self.now, name, ips);
        self.delivery.sanity_check();
    }

    /// Runs turns as a loop does, for this long.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        let mut turns = 0;
        loop {
            let deadline = self.delivery.poll_timeout(self.now).map(|(at, _)| at);
            if !self.news.is_empty() || deadline.is_some_and(|at| at <= self.now) {
                turns += 1;
                assert!(turns < TURNS_MAX, "it spins: {:?}", self.delivery.poll_timeout(self.now));
                self.turn();
            } else if let Some(at) = deadline.filter(|at| *at <= end) {
                (self.now, turns) = (at, 0);
                self.turn();
            } else {
                self.now = end;
                return;
            }
        }
    }

    /// Runs turns until a point of time.
    fn run_to(&mut self, time: Duration) {
        let start = Mono::default();
        self.run((start + time).since(self.now));
    }

    fn perform(&mut self) {
        while let Some(effect) = self.delivery.poll_effect(self.now) {
            match effect {
                Effect::Connect { id, port, .. } => self.connect(id, port),
                Effect::Serve { id, has_news } => self.serve(id, has_news),
                Effect::Close(id) => {
                    self.closed += usize::from(self.sockets.remove(&id).is_some());
                    self.news.remove(&id);
                }
                Effect::Resolve(name) => self.asked.push(name),
                Effect::Log(complaint) => self.log.push(complaint.to_string()),
            }
            // A check looks at every receiver.
            if self.ports.len() < 100 {
                self.delivery.sanity_check();
            }
        }
        assert_eq!(self.sockets.len(), self.delivery.counts().open_sockets);
    }

    fn connect(&mut self, id: ReceiverId, port: u16) {
        if self.is_out_of_descriptors {
            self.delivery.handle_connect_failed(self.now, id, "too many open files");
            return;
        }
        let time = self.now.since(Mono::default());
        self.opened += 1;
        if let Some(port) = self.ports.get_mut(&port) {
            port.connected_at.push(time);
        }
        self.sockets.insert(id, SimulatedSocket { port, is_up: false });
    }

    fn serve(&mut self, id: ReceiverId, has_news: bool) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let Some(exchange) = self.delivery.exchange(self.now, id) else { panic!("{socket:?} has no receiver") };
        self.served.push(socket.port);
        let listener = self.ports.get(&socket.port).map_or(Listener::Refuses, |port| port.listener);
        let mut served = Served { is_drained: true, is_reached: socket.is_up, ..Served::default() };
        match listener {
            Listener::Refuses => served.progress = Progress::Lost,
            Listener::Vanishes => {}
            Listener::Silent => served.is_reached = true,
            Listener::Rude => (served.progress, served.is_reached) = (Progress::Lost, true),
            Listener::Reads if !std::mem::replace(&mut socket.is_up, true) => {
                // The answer to the greeting is an event.
                served.is_reached = true;
                self.news.insert(id, true);
            }
            Listener::Reads => {
                if let Some(port) = self.ports.get_mut(&socket.port) {
                    port.exchange(exchange, self.now, has_news, &mut served, &mut self.waits);
                }
            }
        }
        self.delivery.handle_served(self.now, id, &served);
    }

    fn counts(&self) -> PushCounts {
        self.delivery.counts()
    }

    fn time(&self) -> Duration {
        self.now.since(Mono::default())
    }

    fn got(&self, port: u16) -> Vec<&str> {
        self.ports[&port].got.iter().map(String::as_str).collect()
    }

    /// Checks that a port got exactly these frames.
    #[track_caller]
    fn expect(&self, port: u16, texts: impl IntoIterator<Item = impl ToString>) {
        let texts: Vec<String> = texts.into_iter().map(|text| text.to_string()).collect();
        assert_eq!(self.ports[&port].got, texts, "at port {port}");
    }

    /// Runs until this holds, and returns the time.
    #[track_caller]
    fn run_until(&mut self, holds: impl Fn(&Self) -> bool) -> Duration {
        for _ in 0..TURNS_MAX {
            if holds(self) {
                return self.time();
            }
            if self.news.is_empty() {
                let (at, _) = self.delivery.poll_timeout(self.now).expect("something is due");
                self.now = self.now.max(at);
            }
            self.turn();
        }
        panic!("it never holds: {:?}", self.counts());
    }
}

impl Port {
    fn exchange(
        &mut self,
        mut exchange: Exchange<'_>,
        now: Mono,
        has_news: bool,
        served: &mut Served,
        waits: &mut Vec<Duration>,
    ) {
        (served.is_up, served.is_reached) = (true, true);
        self.may_read |= has_news;
        while self.may_read && exchange.may_receive() {
            let Some(frame) = self.says.pop_front() else {
                self.may_read = false;
                break;
            };
            exchange.handle_received(&frame);
            served.received += 1;
        }
        for _ in 0..self.per_service {
            let Some(frame) = exchange.poll_transmit() else { break };
            if self.room == 0 {
                served.is_blocked = true;
                break;
            }
            self.room -= 1;
            let text = String::from_utf8(frame.to_vec()).unwrap();
            served.bytes += text.len();
            self.got.push(text);
            waits.push(exchange.handle_transmitted(now));
            served.sent += 1;
        }
        served.has_written = served.sent > 0;
        let has_more = exchange.poll_transmit().is_some();
        if has_more && !served.is_blocked {
            served.progress = Progress::More;
        }
        served.is_blocked |= self.keeps_bytes;
        // Frames that come next are encoded ahead.
        served.is_drained = !has_more && !self.keeps_bytes;
    }
}
