//! The interface for the controller's loop. Only [`Pusher::stop`] waits for the network.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use super::poller::{Poller, Ready};
use super::resolve::Resolver;
use super::wire::Wire;
use crate::engine::KeyPair;
use crate::push::{ANSWERS_PER_TURN, Complaint, Delivery, Effect, PushConfig, PushCounts, Received, ReceiverId};
use base::{IncidentKind, Mono, PublicKey, PushAddress};
use proc::{clock, incidents};

/// Pushes frames to addresses, in order for each address.
///
/// The loop that owns it waits for its descriptor until [`Self::poll_timeout`], then calls [`Self::turn`] and drains
/// [`Self::poll_acknowledgement`]. It calls [`Self::push`] any number of times, and [`Self::flush`] once after them. At
/// the end it calls [`Self::stop`], the only call that waits.
pub struct Pusher {
    engine: Delivery,
    wires: HashMap<ReceiverId, Box<Wire>>,
    /// The key pair that is proved to receivers that require CURVE.
    keys: KeyPair,
    poller: Poller,
    resolver: Resolver,
    /// How long the sent frames waited, in seconds.
    waited: Option<Histogram>,
}

impl Pusher {
    /// Starts the thread that looks up host names. `keys` are proved to receivers that require CURVE.
    ///
    /// # Errors
    ///
    /// When descriptors or threads have run out.
    pub fn start(config: PushConfig, keys: KeyPair) -> io::Result<Self> {
        let resolver = Resolver::start()?;
        Ok(Self {
            engine: Delivery::new(config, keys.public()),
            wires: HashMap::new(),
            keys,
            poller: Poller::new(&resolver)?,
            resolver,
            waited: None,
        })
    }

    /// Queues a frame for an address. It never fails: frames that cannot be delivered are counted.
    pub fn push(&mut self, now: Mono, address: &Arc<PushAddress>, frame: Vec<u8>) {
        self.push_by(now, now, address, frame);
    }

    /// As [`Self::push`], for a frame that may be held back until `by`, so that it shares a write with other frames for
    /// the same address.
    pub fn push_by(&mut self, now: Mono, by: Mono, address: &Arc<PushAddress>, frame: Vec<u8>) {
        self.engine.handle_push(now, by, address, frame);
        self.perform(now);
    }

    /// The number of short frames for which the queue of an address has room, if half of it stays free for other frames.
    #[must_use]
    pub fn room(&self, address: &Arc<PushAddress>) -> usize {
        self.engine.room(address)
    }

    /// Sends the queued frames to addresses that accept them, with one write for each address, within the budget of
    /// this turn. Later turns send the rest.
    pub fn flush(&mut self, now: Mono) {
        self.engine.handle_flush();
        self.perform(now);
    }

    /// Does a bounded part of the pending work after a wait. `readable` says whether the wait found the descriptor
    /// readable.
    pub fn turn(&mut self, now: Mono, readable: bool) {
        let ready = if readable { self.poller.wait(Duration::ZERO) } else { Ready::default() };
        self.turn_with(now, ready);
    }

    /// When [`Self::turn`] must be called even if the descriptor is not readable; `Some(now)` while work is pending.
    #[must_use]
    pub fn poll_timeout(&self, now: Mono) -> Option<Mono> {
        self.engine.poll_timeout(now).map(|(at, _)| at)
    }

    /// The next frame that a receiver has sent back.
    pub fn poll_acknowledgement(&mut self) -> Option<Received> {
        self.engine.poll_acknowledgement()
    }

    /// Whether no frame waits for its receiver.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.engine.is_drained()
    }

    /// The number of frames by their outcome, since the start.
    #[must_use]
    pub const fn counts(&self) -> PushCounts {
        self.engine.counts()
    }

    /// From now on, records in this histogram how long each frame waited, in seconds.
    pub fn measure(&mut self, waited: Histogram) {
        self.waited = Some(waited);
    }

    /// Delivers the frames queued for reachable addresses, for at most the linger time, then closes all sockets.
    pub fn stop(mut self) -> PushCounts {
        self.drain();
        self.counts()
    }

    fn turn_with(&mut self, now: Mono, ready: Ready) {
        self.engine.handle_turn();
        for (id, is_readable) in ready.news {
            self.engine.handle_ready(id, is_readable);
        }
        if ready.answered {
            for _ in 0..ANSWERS_PER_TURN {
                let Some((name, ips)) = self.resolver.poll_answer() else { break };
                self.engine.handle_resolved(now, &name, ips);
            }
        }
        self.engine.handle_timeout(now);
        self.flush(now);
    }

    fn perform(&mut self, now: Mono) {
        while let Some(effect) = self.engine.poll_effect(now) {
            match effect {
                Effect::Connect { id, ip, port, key } => {
                    if let Err(error) = self.connect(now, id, SocketAddr::new(ip, port), key) {
                        self.engine.handle_connect_failed(now, id, &error.to_string());
                    }
                }
                Effect::Serve { id, has_news } => self.serve(now, id, has_news),
                Effect::Close(id) => self.close(id),
                Effect::Resolve(name) => self.resolver.ask(name),
                Effect::Log(complaint @ Complaint::NoSocket { .. }) => log::warn!("{complaint}"),
                Effect::Log(complaint @ (Complaint::Dropped { .. } | Complaint::Unnamed(_))) => {
                    log::info!("{complaint}");
                    incidents::note(IncidentKind::PushDropped, complaint.to_string());
                }
            }
        }
    }

    fn connect(&mut self, now: Mono, id: ReceiverId, target: SocketAddr, key: Option<PublicKey>) -> io::Result<()> {
        let wire = Wire::open(target, &self.keys, key, now)?;
        self.poller.add(wire.watched(), id)?;
        self.wires.insert(id, Box::new(wire));
        Ok(())
    }

    fn serve(&mut self, now: Mono, id: ReceiverId, has_news: bool) {
        if let Some(wire) = self.wires.get_mut(&id)
            && let Some(exchange) = self.engine.exchange(now, id)
        {
            let served = wire.serve(exchange, self.waited.as_ref(), now, has_news);
            self.engine.handle_served(now, id, &served);
        }
    }

    fn close(&mut self, id: ReceiverId) {
        if let Some(wire) = self.wires.remove(&id) {
            // This fails only for a descriptor that is not watched.
            let _ = self.poller.remove(wire.watched().0);
        }
    }

    fn drain(&mut self) {
        let mut now = clock::now().mono;
        self.engine.handle_stop(now);
        self.perform(now);
        while !self.engine.is_stopped() {
            let deadline = self.poll_timeout(now).unwrap_or(now);
            let ready = self.poller.wait(deadline.since(now));
            now = clock::now().mono;
            self.turn_with(now, ready);
        }
    }
}

/// Readable while a socket has events or the resolver has an answer.
impl AsFd for Pusher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.drain();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use base::{AddressPolicy, Host};

    fn config() -> PushConfig {
        let seconds = Duration::from_secs(60);
        PushConfig {
            sockets_max: 2,
            queue_max: 100,
            queue_bytes_max: 100_000,
            connect_timeout: seconds,
            idle_timeout: seconds,
            linger: seconds,
            acknowledgements_max: 0,
            // The other addresses of a name, such as ::1, must not be used.
            policy: AddressPolicy { allow: vec!["127.0.0.1/32".parse().unwrap()], own: vec![] },
        }
    }

    fn start(config: PushConfig) -> Pusher {
        Pusher::start(config, KeyPair::from_bytes([1; 32])).unwrap()
    }

    fn receiver() -> (zmq::Socket, Arc<PushAddress>) {
        let socket = zmq::Context::new().socket(zmq::DEALER).unwrap();
        socket.set_rcvhwm(0).unwrap();
        socket.set_rcvtimeo(60_000).unwrap();
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        let bound: SocketAddr = endpoint.strip_prefix("tcp://").unwrap().parse().unwrap();
        (socket, Arc::new(PushAddress { host: Host::Ip(bound.ip()), port: bound.port(), key: None }))
    }

    #[test]
    fn frames_for_a_name_wait_until_it_is_resolved() {
        let (receiver, address) = receiver();
        let mut pusher = start(config());
        // The parser turns localhost into an IP address; here it represents any name that resolves.
        let named = Arc::new(PushAddress { host: Host::Name("localhost".into()), port: address.port, key: None });
        for frame in ["first", "second"] {
            pusher.push(clock::now().mono, &named, frame.into());
        }
        assert_eq!(pusher.stop().sent, 2);
        assert_eq!(receiver.recv_string(0).unwrap().unwrap(), "first");
        assert_eq!(receiver.recv_string(0).unwrap().unwrap(), "second");
        assert_eq!(address.host, Host::Ip(Ipv4Addr::LOCALHOST.into()));
    }
}
