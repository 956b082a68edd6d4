//! The connection of a client to a server whose messages are JSON objects. It is made in the background, because
//! resolving a name would block. Afterwards the loop uses it without blocking.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::net::sockopt;

use super::json_dial::{DialError, Dialled, Server, dial};
use super::json_wire::{Decoded, Wire};
use crate::json::split::Splitter;
use proc::clock;
use proc::one_job::OneJob;
use proc::readable::PollSet;

/// Time limit for one address. A reachable host answers sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server whose machine is gone sends nothing. The kernel probes after 15 s of silence and gives up after 15 s more,
/// so that a worker does not spend hours on work that another worker has by then.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_PROBES: u32 = 3;
const UNACKNOWLEDGED_MILLIS_MAX: u32 = 30_000;

/// Time limit for the last messages.
const LINGER: Duration = Duration::from_millis(500);

/// Maximum bytes read in one turn, so that a long message does not delay the rest of the turn.
const READ_BYTES: usize = 64 << 10;

/// The connection of a worker to its server, from each attempt to its end.
pub struct ServerLink {
    server: Server,
    /// Maximum bytes of a message from the server.
    read_bytes_max: usize,
    /// Maximum bytes that are queued for a server that does not read.
    out_bytes_max: usize,
    state: State,
}

enum State {
    Closed,
    Dialling(OneJob<Result<Dialled, DialError>>),
    Open(Connection),
}

impl ServerLink {
    /// A link to a server, within these limits in bytes.
    pub const fn new(server: Server, read_bytes_max: usize, out_bytes_max: usize) -> Self {
        Self { server, read_bytes_max, out_bytes_max, state: State::Closed }
    }

    /// Begins an attempt to connect.
    pub fn dial(&mut self) -> Result<(), String> {
        let (server, read_bytes_max) = (self.server.clone(), self.read_bytes_max);
        let attempt = OneJob::start("dial", move || dial(&server, CONNECT_TIMEOUT, read_bytes_max));
        let attempt = attempt.map_err(|error| error.to_string())?;
        self.state = State::Dialling(attempt);
        Ok(())
    }

    /// Adds the descriptor that signals the end of an attempt, or input from the server.
    pub fn add_to<'a>(&'a self, set: &mut PollSet<'a>) -> Option<usize> {
        match &self.state {
            State::Closed => None,
            State::Dialling(attempt) => Some(set.add(attempt.as_fd())),
            State::Open(connection) if connection.out.is_empty() => Some(set.add(connection.stream.as_fd())),
            State::Open(connection) => Some(set.add_both(connection.stream.as_fd())),
        }
    }

    /// The outcome of a finished attempt: our own port, by which the protocol names workers.
    pub fn dialled(&mut self) -> Option<Result<u16, DialError>> {
        let State::Dialling(attempt) = &self.state else { return None };
        let broken = || Err(DialError::Unreachable("the attempt to connect has broken off".to_owned()));
        let outcome = attempt.outcome().unwrap_or_else(broken);
        self.state = State::Closed;
        Some(outcome.and_then(|dialled| {
            let port = dialled.stream.local_addr().map_or(0, |address| address.port());
            let connection = Connection::new(dialled, self.read_bytes_max, self.out_bytes_max);
            let unusable = |error| DialError::Unreachable(format!("cannot use a connection: {error}"));
            self.state = State::Open(connection.map_err(unusable)?);
            Ok(port)
        }))
    }

    /// Reads the available input. An error says why there will be no more; earlier messages can still be taken.
    pub fn receive(&mut self) -> Result<(), String> {
        self.connection().map_or(Ok(()), Connection::receive)
    }

    /// The next received object. An error says why the server cannot be understood.
    pub fn next_object(&mut self) -> Option<Result<&[u8], String>> {
        self.connection()?.splitter.next_object().map_err(|error| error.to_string()).transpose()
    }

    /// Sends a message. The part that cannot be written at once waits for [`Self::flush`].
    pub fn send(&mut self, message: &[u8]) -> Result<(), String> {
        let Some(connection) = self.connection() else { return Ok(()) };
        let bytes = connection.wire.encode(message.to_vec());
        connection.out.extend_from_slice(&bytes);
        connection.flush()
    }

    /// Writes the waiting output, as far as possible.
    pub fn flush(&mut self) -> Result<(), String> {
        self.connection().map_or(Ok(()), Connection::flush)
    }

    /// Whether there is a connection and the kernel has taken all output.
    pub const fn is_flushed(&self) -> bool {
        matches!(&self.state, State::Open(connection) if connection.out.is_empty())
    }

    /// Gives the connection up. Returns false if there is none.
    pub fn lose(&mut self) -> bool {
        matches!(std::mem::replace(&mut self.state, State::Closed), State::Open(_))
    }

    /// Closes the connection after sending the last messages.
    pub fn close(&mut self) {
        if let State::Open(connection) = std::mem::replace(&mut self.state, State::Closed) {
            connection.close();
        }
    }

    const fn connection(&mut self) -> Option<&mut Connection> {
        if let State::Open(connection) = &mut self.state { Some(connection) } else { None }
    }
}

/// An open connection.
struct Connection {
    stream: TcpStream,
    wire: Wire,
    splitter: Splitter,
    read_bytes_max: usize,
    out: Vec<u8>,
    out_bytes_max: usize,
}

impl Connection {
    fn new(dialled: Dialled, read_bytes_max: usize, out_bytes_max: usize) -> io::Result<Self> {
        let Dialled { stream, wire, splitter } = dialled;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEP_ALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, KEEP_ALIVE_PROBES)?;
        sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MILLIS_MAX)?;
        Ok(Self { stream, wire, splitter, read_bytes_max, out: Vec::new(), out_bytes_max })
    }

    fn receive(&mut self) -> Result<(), String> {
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err("it was closed".to_owned()),
            Ok(length) => {
                let bytes = bytes.get(..length).unwrap_or_default();
                let Decoded { answer, refusal, .. } = self.wire.decode(bytes, self.read_bytes_max, &mut self.splitter);
                self.out.extend_from_slice(&answer);
                refusal.map_or_else(|| self.flush(), Err)
            }
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn flush(&mut self) -> Result<(), String> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(length) => drop(self.out.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        if self.out.len() > self.out_bytes_max { Err("its other end does not read".to_owned()) } else { Ok(()) }
    }

    /// Closes it after sending the last messages.
    ///
    /// It is read to its end first: if it were closed with unread input, the kernel would reset it, and the server
    /// might never see the last messages. This takes at most half a second, and hardly any time if the server closes
    /// its side.
    fn close(mut self) {
        if let Err(error) = self.take_leave() {
            log::debug!("the connection ends without a farewell: {error}");
        }
    }

    fn take_leave(&mut self) -> io::Result<()> {
        let until = clock::now().mono + LINGER;
        // Zero would mean no limit.
        let left =
            || Some(until.since(clock::now().mono)).filter(|left| !left.is_zero()).ok_or(io::ErrorKind::TimedOut);
        self.stream.set_nonblocking(false)?;
        while !self.out.is_empty() {
            self.stream.set_write_timeout(Some(left()?))?;
            let length = self.stream.write(&self.out)?;
            self.out.drain(..length);
        }
        self.stream.shutdown(Shutdown::Write)?;
        let mut bytes = [0; 1024];
        loop {
            self.stream.set_read_timeout(Some(left()?))?;
            if self.stream.read(&mut bytes)? == 0 {
                return Ok(());
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
