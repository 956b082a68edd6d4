//! The rival of a request: a ROUTER that answers each message with a fixed number of bytes, and does nothing else.

use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use super::BenchError;
use super::load::limits;
use super::part::Part;
use base::Loopback;
use proc::clock;
use proc::signals::Signals;
use zmtp::endpoint::ConnectionLimits;
use zmtp::engine::Security;
use zmtp::sockets::{PortSettings, Ports};

const HERE: &str = "tcp://127.0.0.1:0";

/// The sockets that answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Echo {
    /// The ports of a controller.
    Own,
    /// A ROUTER of libzmq.
    Zmq,
}

/// An echo in a process of its own, and its endpoint.
pub(crate) fn start(of: Echo, answer_bytes: usize, signals: &mut Signals) -> Result<(Part, String), BenchError> {
    let of = match of {
        Echo::Own => "own",
        Echo::Zmq => "zmq",
    };
    Part::start(&["serve-echo", "--of", of, "--answer-bytes", &answer_bytes.to_string()], &[], signals)
}

/// Answers until standard input ends. The first line on stdout is its endpoint.
///
/// # Errors
/// When no port is free.
pub(crate) fn serve(of: Echo, answer_bytes: usize) -> Result<(), BenchError> {
    let answer = vec![b'x'; answer_bytes];
    match of {
        Echo::Zmq => serve_zmq(&answer),
        Echo::Own => serve_own(&answer),
    }
}

pub(crate) fn announce(line: &str) -> Result<(), BenchError> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(BenchError::io("write to stdout"))
}

/// As simply as libzmq permits: a socket, a receive, a send.
fn serve_zmq(answer: &[u8]) -> Result<(), BenchError> {
    let socket = zmq::Context::new().socket(zmq::ROUTER)?;
    socket.bind(HERE)?;
    announce(&socket.get_last_endpoint()?.unwrap_or_default())?;
    let stdin = std::io::stdin();
    loop {
        match socket.recv_multipart(zmq::DONTWAIT) {
            Ok(mut parts) => {
                if let Some(body) = parts.last_mut() {
                    *body = answer.to_vec();
                }
                socket.send_multipart(parts, 0)?;
            }
            Err(zmq::Error::EAGAIN) => {
                let own = zmq::PollItem::from_fd(stdin.as_fd().as_raw_fd(), zmq::POLLIN);
                let mut items = [socket.as_poll_item(zmq::POLLIN), own];
                zmq::poll(&mut items, -1)?;
                if items[1].get_revents() != zmq::PollEvents::empty() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn serve_own(answer: &[u8]) -> Result<(), BenchError> {
    let places = ConnectionLimits { connections_max: 1024, per_address_max: 1024, held_bytes_max: usize::MAX };
    let settings = PortSettings {
        limits: limits(),
        security: Security::Null,
        places,
        local: None,
        local_may_fail: false,
        subscriptions_max: 10,
        loopback: Loopback::SameUser,
    };
    let mut ports = Ports::bind(HERE, HERE, String::new(), &settings)?;
    announce(ports.requests())?;
    let stdin = std::io::stdin();
    loop {
        if ports.wait(clock::now().mono, None, &[stdin.as_fd()])[0] {
            return Ok(());
        }
        while let Some(mut parts) = ports.receive() {
            if let Some(body) = parts.last_mut() {
                *body = answer.to_vec();
            }
            if ports.send(&parts, Duration::ZERO).is_err() {
                log::debug!("a peer disconnected before its answer");
            }
        }
        ports.flush();
    }
}
