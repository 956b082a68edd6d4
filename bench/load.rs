//! The load generator: one thread with one connection for requests and one bound socket for pushes, in one wait.
//!
//! It is built on the [`Endpoint`], so that its own cost is small: there is no thread, and many requests share a write.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use super::BenchError;
use api::wire::client;
use api::wire::client::TaskView;
use base::json::FieldLimits;
use base::{Now, json};
use proc::clock;
use proc::signals::Signals;
use zmtp::endpoint::ConnectionLimits;
use zmtp::engine::{Event, Kind, Limits, Security, Settings};
use zmtp::sockets::{Address, Arrival, Endpoint, PeerId, What};

/// Longer than any wait of a case.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The first listener has the tag 0.
const PUSHES: usize = 0;
const REQUESTS: usize = 1;

/// More than any case has in flight.
const QUEUE_MAX: usize = 1_000_000;

/// A message that has arrived.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The body of an answer.
    Answer(Vec<u8>),
    /// A push.
    Push(Vec<u8>),
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Load {
    endpoint: Endpoint,
    controller: PeerId,
    address: String,
}

impl Load {
    /// Connects to a controller, or to a rival that answers requests.
    pub(crate) fn connect(controller: &str, signals: &mut Signals) -> Result<Self, BenchError> {
        let failed = |what: &str| BenchError::io(format!("{what} {controller}"));
        let address = Address::parse(controller).map_err(|error| BenchError::Unexpected(error.to_string()))?;
        let settings = Settings { kind: Kind::Dealer, limits: limits(), security: Security::Null };
        let places = ConnectionLimits { connections_max: 64, per_address_max: 64, held_bytes_max: usize::MAX };
        let mut endpoint = Endpoint::new(places).map_err(failed("connect to"))?;
        let here = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let bound = endpoint.listen(&here, settings.clone()).map_err(BenchError::io("listen for pushes"))?;
        let controller = endpoint.connect(&address, settings, REQUESTS).map_err(failed("connect to"))?;
        let mut load = Self { endpoint, controller, address: bound.to_string() };
        load.wait_open(signals)?;
        Ok(load)
    }

    fn wait_open(&mut self, signals: &mut Signals) -> Result<(), BenchError> {
        loop {
            let Some(arrival) = self.arrival(&[], signals)? else { unreachable!("nothing else can wake it") };
            if arrival.peer == self.controller && matches!(arrival.what, What::Event(Event::Opened(_))) {
                // This side of the handshake is sent at once: the first request may come much later.
                self.endpoint.flush();
                return Ok(());
            }
            heard(arrival)?;
        }
    }

    /// The endpoint for pushes.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Queues a request, which is sent with the next wait.
    pub(crate) fn send(&mut self, body: &[u8]) -> Result<(), BenchError> {
        let sent = self.endpoint.send(self.controller, &[b"".as_slice(), body]);
        sent.map_err(|why| BenchError::Unexpected(format!("the service accepts no request: {why:?}")))
    }

    /// Sends a request at once; returns the time before it was sent.
    pub(crate) fn send_now(&mut self, body: &[u8]) -> Result<Now, BenchError> {
        let now = clock::now();
        self.send(body)?;
        self.endpoint.flush();
        Ok(now)
    }

    /// Waits for the next answer or push; returns the time of its arrival.
    pub(crate) fn next(&mut self, signals: &mut Signals) -> Result<(Now, Heard), BenchError> {
        loop {
            let Some(arrival) = self.arrival(&[], signals)? else { continue };
            if let Some(heard) = heard(arrival)? {
                return Ok((clock::now(), heard));
            }
        }
    }

    /// Waits until `fd` is readable.
    pub(crate) fn wait_for(&mut self, fd: BorrowedFd<'_>, signals: &mut Signals) -> Result<(), BenchError> {
        while self.arrival(&[fd], signals)?.is_some() {}
        Ok(())
    }

    /// Waits for the answer to the only request in flight. Pushes that arrive meanwhile are dropped.
    pub(crate) fn ask(&mut self, body: &[u8], signals: &mut Signals) -> Result<(Duration, Vec<u8>), BenchError> {
        let before = self.send_now(body)?;
        loop {
            if let (now, Heard::Answer(body)) = self.next(signals)? {
                return Ok((now.mono.since(before.mono), body));
            }
        }
    }

    /// Sends the same request `count` times, with `window` requests in flight, and returns the time that this took.
    pub(crate) fn pipeline(
        &mut self,
        body: &[u8],
        (count, window): (usize, usize),
        signals: &mut Signals,
    ) -> Result<Duration, BenchError> {
        let before = clock::now().mono;
        let (mut sent, mut answered) = (0, 0);
        while answered < count {
            while sent < count && sent - answered < window {
                self.send(body)?;
                sent += 1;
            }
            if let (_, Heard::Answer(_)) = self.next(signals)? {
                answered += 1;
            }
        }
        Ok(clock::now().mono.since(before))
    }

    /// As [`Self::pipeline`], and the last answer must be an acceptance.
    pub(crate) fn pipeline_checked(
        &mut self,
        body: &[u8],
        (count, window): (usize, usize),
        signals: &mut Signals,
    ) -> Result<Duration, BenchError> {
        // Only the last answer is parsed, because the cost of parsing all would be measured too. A service that refuses one
        // request refuses all later ones.
        let time = self.pipeline(body, (count.saturating_sub(1), window), signals)?;
        let (last, answer) = self.ask(body, signals)?;
        client::decode(&answer)?;
        Ok(time + last)
    }

    /// The next arrival; `None` if one of `fds` is readable and nothing has arrived.
    fn arrival(&mut self, fds: &[BorrowedFd<'_>], signals: &mut Signals) -> Result<Option<Arrival>, BenchError> {
        let mut until = None;
        loop {
            if let Some(arrival) = self.endpoint.poll_event() {
                return Ok(Some(arrival));
            }
            let now = clock::now().mono;
            let until = *until.get_or_insert(now + PATIENCE);
            if now >= until {
                let seconds = PATIENCE.as_secs();
                return Err(BenchError::Unexpected(format!("the service has sent nothing for {seconds} s")));
            }
            let all: Vec<BorrowedFd<'_>> = std::iter::once(signals.as_fd()).chain(fds.iter().copied()).collect();
            let ready = self.endpoint.wait(now, Some(until), &all);
            if ready[0] && !signals.read().is_empty() {
                return Err(BenchError::Interrupted);
            }
            if ready[1..].contains(&true) {
                return Ok(None);
            }
        }
    }
}

fn heard(arrival: Arrival) -> Result<Option<Heard>, BenchError> {
    match (arrival.tag, arrival.what) {
        (REQUESTS, What::Closed(_)) => Err(BenchError::Unexpected("the service has closed the connection".to_owned())),
        (REQUESTS, What::Event(Event::Message(mut parts))) => Ok(parts.pop().map(Heard::Answer)),
        (PUSHES, What::Event(Event::Message(mut parts))) => Ok(parts.pop().map(Heard::Push)),
        _ => Ok(None),
    }
}

/// The state of a task in a push.
pub(crate) fn task(push: &[u8]) -> Result<TaskView, BenchError> {
    let read = json::parse(push, &FieldLimits::TRUSTED);
    read.map(TaskView::from).map_err(|rejected| BenchError::Unexpected(rejected.refusal.message))
}

/// The limits of the other side, which is a service of the bench itself.
pub(crate) fn limits() -> Limits {
    Limits {
        message_bytes_max: 1 << 26,
        long: None,
        parts_max: 8,
        queue_messages_max: QUEUE_MAX,
        queue_bytes_max: 1 << 30,
        handshake_timeout: PATIENCE,
        stall_timeout: PATIENCE,
        ping_interval: None,
    }
}
