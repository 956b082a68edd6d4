//! REQ sockets of libzmq, as in users' programs: one request of each in flight, all in one thread.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use super::BenchError;
use super::load::PATIENCE;
use base::Mono;
use proc::clock;
use proc::signals::Signals;

/// Several REQ sockets.
pub(crate) struct Requesters {
    sockets: Vec<zmq::Socket>,
}

impl Requesters {
    pub(crate) fn connect(endpoint: &str, count: usize) -> Result<Self, BenchError> {
        let context = zmq::Context::new();
        let connect = |_| {
            let socket = context.socket(zmq::REQ)?;
            socket.set_linger(0)?;
            // A request to a controller that was killed is sent again.
            socket.set_req_relaxed(true)?;
            socket.set_req_correlate(true)?;
            socket.connect(endpoint)?;
            Ok(socket)
        };
        Ok(Self { sockets: (0..count).map(connect).collect::<zmq::Result<_>>()? })
    }

    /// The answer to one socket, within `patience`; `None` if there is none.
    pub(crate) fn ask(
        &self,
        body: &[u8],
        patience: Duration,
        signals: &mut Signals,
    ) -> Result<Option<Vec<u8>>, BenchError> {
        let socket = &self.sockets[0];
        socket.send(body, 0)?;
        let until = clock::now().mono + patience;
        while wait(std::slice::from_ref(socket), until, signals)? {
            if let Some(mut parts) = received(socket)? {
                return Ok(parts.pop());
            }
        }
        Ok(None)
    }

    /// Sends `count` requests through all sockets, and returns the time of each.
    pub(crate) fn times(&self, body: &[u8], count: usize, signals: &mut Signals) -> Result<Vec<Duration>, BenchError> {
        let mut times = Vec::with_capacity(count);
        let mut sent_at = vec![clock::now().mono; self.sockets.len()];
        let mut sent = 0;
        for (socket, at) in self.sockets.iter().zip(&mut sent_at).take(count) {
            *at = clock::now().mono;
            socket.send(body, 0)?;
            sent += 1;
        }
        while times.len() < count {
            if !wait(&self.sockets, clock::now().mono + PATIENCE, signals)? {
                return Err(BenchError::Unexpected("a request was not answered".to_owned()));
            }
            for (socket, at) in self.sockets.iter().zip(&mut sent_at) {
                if received(socket)?.is_none() {
                    continue;
                }
                let now = clock::now().mono;
                times.push(now.since(*at));
                if sent < count {
                    *at = now;
                    socket.send(body, 0)?;
                    sent += 1;
                }
            }
        }
        Ok(times)
    }
}

fn received(socket: &zmq::Socket) -> Result<Option<Vec<Vec<u8>>>, BenchError> {
    match socket.recv_multipart(zmq::DONTWAIT) {
        Ok(parts) => Ok(Some(parts)),
        // EFSM: this socket has no request in flight.
        Err(zmq::Error::EAGAIN | zmq::Error::EFSM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until a socket has an answer; `false` when the time has passed.
fn wait(sockets: &[zmq::Socket], until: Mono, signals: &mut Signals) -> Result<bool, BenchError> {
    loop {
        let mut items: Vec<zmq::PollItem<'_>> = sockets.iter().map(|socket| socket.as_poll_item(zmq::POLLIN)).collect();
        items.push(zmq::PollItem::from_fd(signals.as_fd().as_raw_fd(), zmq::POLLIN));
        let left = until.since(clock::now().mono);
        let millis = i64::try_from(left.as_millis().saturating_add(1)).unwrap_or(i64::MAX);
        match zmq::poll(&mut items, millis) {
            Ok(_) | Err(zmq::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [sockets @ .., signal] = items.as_slice() else { unreachable!("there is at least the signals'") };
        if signal.is_readable() && !signals.read().is_empty() {
            return Err(BenchError::Interrupted);
        }
        if sockets.iter().any(zmq::PollItem::is_readable) {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}
