//! Every use of libzmq in the service, as [`Ports`] and as [`Link`]: `TRANSPORT = "zmq"`. Pushes and clients always use the
//! sockets of llts itself.

#![cfg(feature = "libzmq")]

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use super::port::{
    ANSWER_BYTES_MAX, BACKLOG, Denial, KEEPALIVE_COUNT, KEEPALIVE_IDLE_SECONDS, KEEPALIVE_INTERVAL_SECONDS, LINGER,
    Library, Link, Ports, SocketError, Suspension, Unsendable,
};
use crate::config::{Config, LimitsSection};
use crate::engine::zmtp::PREFIX_BYTES_MAX;
use crate::protocol::requests::report;
use crate::types::{Caller, Mono};

/// The functions that [`super::transport`] uses.
pub(super) const LIBRARY: Library = Library {
    bind: |config, requests, broadcasts, watchable| {
        Ok(Box::new(ZmqPorts::bind(config, requests, broadcasts, watchable)?))
    },
    connect: |config, requests, broadcasts, prefixes| {
        Ok(Box::new(ZmqLink::connect(config, requests, broadcasts, prefixes)?))
    },
};

/// The libzmq context of a process: its threads and sockets.
struct Context(zmq::Context);

impl Context {
    fn new() -> Self {
        Self(zmq::Context::new())
    }

    fn socket(&self, kind: zmq::SocketType, limits: &Limits, endpoint: &str) -> Result<zmq::Socket, SocketError> {
        let made = self.0.socket(kind).and_then(|socket| limits.set(&socket, endpoint).map(|()| socket));
        made.map_err(|source| SocketError::new("make a socket for", endpoint, source))
    }
}

/// The resources that a peer may use.
#[derive(Clone, Debug)]
struct Limits {
    message_bytes_max: usize,
    frames_max: usize,
    queue_max: usize,
    subscriptions_max: usize,
    handshake_timeout: Duration,
    reconnect_interval_max: Duration,
}

impl Limits {
    const fn new(limits: &LimitsSection, message_bytes_max: usize, reconnect_interval_max: Duration) -> Self {
        Self {
            message_bytes_max,
            frames_max: limits.frames_max,
            queue_max: limits.send_queue_max,
            subscriptions_max: limits.subscriptions_max,
            handshake_timeout: limits.handshake_timeout,
            reconnect_interval_max,
        }
    }

    fn set(&self, socket: &zmq::Socket, endpoint: &str) -> zmq::Result<()> {
        let millis = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        let queue = i32::try_from(self.queue_max).unwrap_or(i32::MAX);
        socket.set_ipv6(endpoint.contains('['))?;
        socket.set_linger(millis(LINGER))?;
        socket.set_maxmsgsize(i64::try_from(self.message_bytes_max).unwrap_or(i64::MAX))?;
        socket.set_sndhwm(queue)?;
        socket.set_rcvhwm(queue)?;
        socket.set_handshake_ivl(millis(self.handshake_timeout))?;
        let option = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        socket.set_tcp_keepalive(1)?;
        socket.set_tcp_keepalive_idle(option(KEEPALIVE_IDLE_SECONDS))?;
        socket.set_tcp_keepalive_intvl(option(KEEPALIVE_INTERVAL_SECONDS))?;
        socket.set_tcp_keepalive_cnt(option(KEEPALIVE_COUNT))?;
        socket.set_backlog(BACKLOG)?;
        socket.set_reconnect_ivl_max(millis(self.reconnect_interval_max))
    }
}

fn bind(socket: &zmq::Socket, endpoint: &str) -> Result<String, SocketError> {
    let fail = |source| SocketError::new("bind", endpoint, source);
    socket.bind(endpoint).map_err(fail)?;
    let bound = socket.get_last_endpoint().map_err(fail)?;
    Ok(bound.unwrap_or_else(|_| endpoint.to_owned()))
}

fn connect(socket: &zmq::Socket, endpoint: &str) -> Result<(), SocketError> {
    socket.connect(endpoint).map_err(|source| SocketError::new("connect to", endpoint, source))
}

/// The controller's ports on two sockets of libzmq.
struct ZmqPorts {
    requests: RepPort,
    broadcasts: PubPort,
}

impl ZmqPorts {
    /// Binds both. Messages that begin with `watchable` are worth making only while [`Ports::is_watched`] is true.
    fn bind(
        config: &Config,
        rep_endpoint: &str,
        pub_endpoint: Option<&str>,
        watchable: String,
    ) -> Result<Self, SocketError> {
        let context = Context::new();
        // It cannot look at the first bytes of a frame, so every one may have the size of a submit; longer messages of other
        // kinds are refused when they are read.
        let submits = config.limits.submit_bytes_max.max(config.graph.message_bytes_max());
        let bytes_max = submits.max(report::bytes_max(config.limits.message_bytes_max));
        let limits = &Limits::new(&config.limits, bytes_max, Duration::ZERO);
        Ok(Self {
            requests: RepPort::bind(&context, rep_endpoint, limits)?,
            broadcasts: PubPort::bind(&context, pub_endpoint, watchable, limits)?,
        })
    }
}

impl Ports for ZmqPorts {
    fn suspend(self: Box<Self>) -> Option<Suspension> {
        self.close();
        None
    }

    fn requests(&self) -> &str {
        &self.requests.endpoint
    }

    fn broadcasts(&self) -> &str {
        &self.broadcasts.endpoint
    }

    fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool> {
        let mut ready = wait(&[&self.requests.socket, &self.broadcasts.socket], fds, now, deadline);
        if ready[1] {
            self.broadcasts.receive();
        }
        ready.split_off(2)
    }

    fn receive(&mut self) -> Option<Vec<Vec<u8>>> {
        self.requests.receive()
    }

    fn poll_closed(&mut self) -> Option<Vec<u8>> {
        // libzmq does not report disconnects of a ROUTER's peers. The engine drops parked requests when their time has
        // passed.
        None
    }

    fn exempt(&mut self, _: &[u8]) {}

    // libzmq tells the address of a peer, but not whose socket that is.
    fn caller(&self, _: &[u8]) -> Option<Caller> {
        None
    }

    fn send(&mut self, frames: Vec<Vec<u8>>, _: Duration) -> Result<(), Unsendable> {
        // libzmq decides itself when to write.
        self.requests.send(frames)
    }

    fn publish(&mut self, frame: Vec<u8>) {
        self.broadcasts.send(frame);
    }

    fn is_watched(&self) -> bool {
        self.broadcasts.watched
    }

    fn connections(&self) -> usize {
        // libzmq does not report this number.
        0
    }

    fn flush(&mut self) {}

    fn close(self: Box<Self>) {}
}

/// The port for requests: a ROUTER, so that answers may come late and in any order.
struct RepPort {
    socket: zmq::Socket,
    endpoint: String,
    /// The maximum number of frames in a message, including the one that identifies the peer.
    frames_max: usize,
}

impl RepPort {
    fn bind(context: &Context, endpoint: &str, limits: &Limits) -> Result<Self, SocketError> {
        let socket = context.socket(zmq::ROUTER, limits, endpoint)?;
        // Without it, an answer to a peer that has disconnected would vanish silently.
        socket.set_router_mandatory(true).map_err(|source| SocketError::new("set up", endpoint, source))?;
        let endpoint = bind(&socket, endpoint)?;
        Ok(Self { socket, endpoint, frames_max: limits.frames_max + 1 })
    }

    /// The next message, if there is one. A message with too many frames is reduced to its first frame, which gets no
    /// answer: it is not a request with some proxies in between, but an attack (HAZARDS row W6).
    fn receive(&self) -> Option<Vec<Vec<u8>>> {
        let mut frames = Vec::with_capacity(3);
        let mut is_too_long = false;
        loop {
            // An error here concerns one message of an untrusted peer; the next wait reports further messages.
            let frame = self.socket.recv_bytes(zmq::DONTWAIT).ok()?;
            is_too_long |= frames.len() >= self.frames_max;
            if is_too_long {
                frames.truncate(1);
            } else {
                frames.push(frame);
            }
            if !self.socket.get_rcvmore().unwrap_or(false) {
                return Some(frames);
            }
        }
    }

    fn send(&self, frames: Vec<Vec<u8>>) -> Result<(), Unsendable> {
        self.socket.send_multipart(frames, zmq::DONTWAIT).map_err(|error| match error {
            zmq::Error::EAGAIN => Unsendable::Full,
            _ => Unsendable::NoPeer,
        })
    }
}

/// The port for broadcasts: an XPUB, which reports the subscriptions of its peers.
struct PubPort {
    socket: zmq::Socket,
    endpoint: String,
    /// The prefix of the messages that are made only while there is a subscriber.
    watchable: String,
    subscriptions: BTreeSet<Vec<u8>>,
    /// The maximum number of subscriptions of all subscribers together.
    subscriptions_max: usize,
    watched: bool,
}

/// The maximum number of subscriptions read in one turn: a peer may send them without end.
const SUBSCRIPTIONS_PER_TURN: usize = 1024;

impl PubPort {
    fn bind(
        context: &Context,
        endpoint: Option<&str>,
        watchable: String,
        limits: &Limits,
    ) -> Result<Self, SocketError> {
        let socket = context.socket(zmq::XPUB, limits, endpoint.unwrap_or_default())?;
        // A socket that is not bound has no subscribers.
        let endpoint = endpoint.map_or_else(|| Ok("off".to_owned()), |endpoint| bind(&socket, endpoint))?;
        let subscriptions_max = limits.subscriptions_max;
        Ok(Self { socket, endpoint, watchable, subscriptions: BTreeSet::new(), subscriptions_max, watched: false })
    }

    /// Records the changes of subscriptions.
    fn receive(&mut self) {
        for _ in 0..SUBSCRIPTIONS_PER_TURN {
            let Ok(frame) = self.socket.recv_bytes(zmq::DONTWAIT) else { break };
            match frame.split_first() {
                Some((1, prefix))
                    if prefix.len() <= PREFIX_BYTES_MAX && self.subscriptions.len() < self.subscriptions_max =>
                {
                    self.subscriptions.insert(prefix.to_vec());
                }
                Some((0, prefix)) => {
                    self.subscriptions.remove(prefix);
                }
                _ => {}
            }
        }
        let watchable = self.watchable.as_bytes();
        let asks = |prefix: &Vec<u8>| prefix.starts_with(watchable) || watchable.starts_with(prefix);
        self.watched = self.subscriptions.iter().any(asks);
    }

    fn send(&self, frame: Vec<u8>) {
        if let Err(error) = self.socket.send(frame, zmq::DONTWAIT) {
            log::debug!("a broadcast is lost: {error}");
        }
    }
}

/// An agent's connection on two sockets of libzmq.
struct ZmqLink {
    target: Target,
    requests: zmq::Socket,
    broadcasts: zmq::Socket,
}

/// The endpoint of a link, and the options needed to connect.
struct Target {
    context: Context,
    requests: String,
    broadcasts: Option<String>,
    prefixes: Vec<String>,
    limits: Limits,
}

impl Target {
    fn connect(&self) -> Result<(zmq::Socket, zmq::Socket), SocketError> {
        let requests = self.context.socket(zmq::DEALER, &self.limits, &self.requests)?;
        connect(&requests, &self.requests)?;
        let endpoint = self.broadcasts.as_deref().unwrap_or_default();
        let broadcasts = self.context.socket(zmq::SUB, &self.limits, endpoint)?;
        for prefix in &self.prefixes {
            broadcasts
                .set_subscribe(prefix.as_bytes())
                .map_err(|source| SocketError::new("subscribe at", endpoint, source))?;
        }
        if self.broadcasts.is_some() {
            connect(&broadcasts, endpoint)?;
        }
        Ok((requests, broadcasts))
    }
}

impl ZmqLink {
    /// Connects; an answer shows whether there is a controller.
    fn connect(
        config: &Config,
        rep_endpoint: &str,
        pub_endpoint: Option<&str>,
        prefixes: &[String],
    ) -> Result<Self, SocketError> {
        let target = Target {
            context: Context::new(),
            requests: rep_endpoint.to_owned(),
            broadcasts: pub_endpoint.map(str::to_owned),
            prefixes: prefixes.to_vec(),
            limits: Limits::new(&config.limits, ANSWER_BYTES_MAX, config.agent.reconnect_interval_max),
        };
        let (requests, broadcasts) = target.connect()?;
        Ok(Self { target, requests, broadcasts })
    }
}

impl Link for ZmqLink {
    fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool> {
        wait(&[&self.requests, &self.broadcasts], fds, now, deadline).split_off(2)
    }

    fn is_connected(&self) -> bool {
        // libzmq does not report this without a monitor, and queues the messages in any case.
        true
    }

    fn take_connected(&mut self) -> bool {
        false
    }

    fn send(&mut self, body: Vec<u8>) {
        if let Err(error) = self.requests.send_multipart([Vec::new(), body], zmq::DONTWAIT) {
            log::debug!("a message to the controller is lost: {error}");
        }
    }

    fn receive_answer(&mut self) -> Option<Vec<u8>> {
        loop {
            let mut frames = self.requests.recv_multipart(zmq::DONTWAIT).ok()?;
            if let (Some(body), 1) = (frames.pop(), frames.len()) {
                return Some(body);
            }
        }
    }

    fn receive_broadcast(&mut self) -> Option<Vec<u8>> {
        self.broadcasts.recv_bytes(zmq::DONTWAIT).ok()
    }

    fn take_denial(&mut self) -> Option<Denial> {
        // It has no keys, and libzmq does not report denials of the other side.
        None
    }

    fn reconnect(&mut self) -> Result<(), SocketError> {
        (self.requests, self.broadcasts) = self.target.connect()?;
        Ok(())
    }
}

/// Waits until one of them is readable or the deadline has passed; returns which are, sockets first.
fn wait(sockets: &[&zmq::Socket], fds: &[BorrowedFd<'_>], now: Mono, deadline: Option<Mono>) -> Vec<bool> {
    let sockets = sockets.iter().map(|socket| socket.as_poll_item(zmq::POLLIN));
    let fds = fds.iter().map(|fd| zmq::PollItem::from_fd(fd.as_raw_fd(), zmq::POLLIN));
    let mut items: Vec<zmq::PollItem<'_>> = sockets.chain(fds).collect();
    // Rounded up: the deadline must have passed when the wait returns, or the loop would spin.
    let millis =
        deadline.map_or(-1, |at| i64::try_from(at.since(now).as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX));
    // EINTR: a signal also arrives through its descriptor, so the next turn handles it.
    let _ = zmq::poll(&mut items, millis);
    items.iter().map(|item| item.get_revents().contains(zmq::POLLIN)).collect()
}
