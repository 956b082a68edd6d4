//! The connection to a master: made in the background, because resolving a name cannot be waited for; used by the loop, which it
//! never blocks.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::net::sockopt;

use super::background::Background;
use crate::protocol::prompt::{FromMaster, FromWorker, MASTER_FRAME_BYTES_MAX, MessageError, Splitter};

/// For one address; a host that is there answers sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A master whose machine is gone says nothing: the kernel asks after 15 s of silence and gives up after 15 s more, so that the
/// command of a prompt that others have by now does not run for hours.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_PROBES: u32 = 3;
const UNACKNOWLEDGED_MILLIS_MAX: u32 = 30_000;

/// Bytes that wait for a master that does not read. All that a worker says are some lines.
const OUT_BYTES_MAX: usize = 1 << 20;

/// How long the last words may take.
const LINGER: Duration = Duration::from_millis(500);

/// A master that goes on talking to who is leaving has some messages to say, not more.
const LAST_READS_MAX: u32 = 1024;

/// Bytes that one turn reads, so that a long prompt does not hold up the rest of the turn.
const READ_BYTES: usize = 64 << 10;

/// An attempt to connect.
pub(super) type Dial = Background<Result<TcpStream, String>>;

/// Begins an attempt.
pub(super) fn start_dial(host: &str, port: u16) -> io::Result<Dial> {
    let host = host.to_owned();
    Background::start("dial", move || dial(&host, port))
}

fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| format!("cannot resolve {host}: {error}"))?;
    let mut last = format!("{host} has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = format!("cannot connect to {address}: {error}"),
        }
    }
    Err(last)
}

/// A connection. Readable when the master has said something, or is gone.
pub(super) struct Connection {
    stream: TcpStream,
    splitter: Splitter,
    out: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEP_ALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, KEEP_ALIVE_PROBES)?;
        sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MILLIS_MAX)?;
        Ok(Self { stream, splitter: Splitter::new(MASTER_FRAME_BYTES_MAX), out: Vec::new() })
    }

    /// Our own port, by which the document's workers name themselves.
    pub(super) fn port(&self) -> u16 {
        self.stream.local_addr().map_or(0, |address| address.port())
    }

    /// Takes in what has come. The error says why there will be no more.
    pub(super) fn receive(&mut self) -> Result<(), String> {
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err("it was closed".to_owned()),
            Ok(length) => {
                self.splitter.push(bytes.get(..length).unwrap_or_default());
                Ok(())
            }
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The next message of what was received. The error says why the master cannot be understood.
    pub(super) fn next_message(&mut self) -> Result<Option<FromMaster>, String> {
        while let Some(object) = self.splitter.next_object().map_err(|error| error.to_string())? {
            match FromMaster::parse(object) {
                Ok(message) => return Ok(Some(message)),
                Err(error @ MessageError::UnknownType(_)) => log::warn!("a message of the master: {error}"),
                Err(MessageError::Malformed(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Says something. What cannot be written at once waits for [`Self::flush`].
    pub(super) fn send(&mut self, message: &FromWorker) -> Result<(), String> {
        self.out.extend_from_slice(&message.encode());
        self.flush()
    }

    /// Whether something waits to be written.
    pub(super) fn is_behind(&self) -> bool {
        !self.out.is_empty()
    }

    /// Writes what waits, as far as it can be.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(length) => drop(self.out.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        if self.out.len() > OUT_BYTES_MAX { Err("the master does not read".to_owned()) } else { Ok(()) }
    }

    /// Closes it, with the last words on their way.
    ///
    /// It is read to its end first: closed with something unread, the kernel would reset it, and the master might never see
    /// what was said last. Takes half a second at the most, with a master that answers by closing its side no time at all.
    pub(super) fn close(mut self) {
        if let Err(error) = self.take_leave() {
            log::debug!("the connection ends without a farewell: {error}");
        }
    }

    fn take_leave(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(LINGER))?;
        self.stream.write_all(&self.out)?;
        self.stream.shutdown(Shutdown::Write)?;
        self.stream.set_read_timeout(Some(LINGER))?;
        let mut bytes = [0; 1024];
        for _ in 0..LAST_READS_MAX {
            if self.stream.read(&mut bytes)? == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
