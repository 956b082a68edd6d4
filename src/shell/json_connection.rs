//! The connection of a client to a server whose messages are JSON objects: made in the background, because resolving a name
//! would block; used by the loop, which it never blocks.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::net::sockopt;

use super::one_job::OneJob;
use crate::protocol::prompt::{FrameError, Splitter};

/// Time limit for one address; a reachable host answers sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server whose machine has gone sends nothing: the kernel probes after 15 s of silence and gives up after 15 s more, so
/// that a worker does not run for hours what another worker has by then.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_PROBES: u32 = 3;
const UNACKNOWLEDGED_MILLIS_MAX: u32 = 30_000;

/// Time limit for the last messages.
const LINGER: Duration = Duration::from_millis(500);

/// A server may have some more messages for a leaving client, but not this many.
const LAST_READS_MAX: u32 = 1024;

/// Bytes that one turn reads, so that a long message does not delay the rest of the turn.
const READ_BYTES: usize = 64 << 10;

/// An attempt to connect.
pub(super) type Dial = OneJob<Result<TcpStream, String>>;

/// Begins an attempt to connect.
pub(super) fn start_dial(host: &str, port: u16) -> io::Result<Dial> {
    let host = host.to_owned();
    OneJob::start("dial", move || dial(&host, port))
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

/// A connection. Readable when the server has sent something, or has gone.
pub(super) struct Connection {
    stream: TcpStream,
    splitter: Splitter,
    out: Vec<u8>,
    /// Bytes that are queued for a server that does not read, at most.
    out_bytes_max: usize,
}

impl Connection {
    /// A connection that reads messages of at most `read_bytes_max`, and gives a server up that leaves more than
    /// `out_bytes_max` unread.
    pub(super) fn new(stream: TcpStream, read_bytes_max: usize, out_bytes_max: usize) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEP_ALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, KEEP_ALIVE_PROBES)?;
        sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MILLIS_MAX)?;
        Ok(Self { stream, splitter: Splitter::new(read_bytes_max), out: Vec::new(), out_bytes_max })
    }

    /// Our own port, which is the name of the document's workers.
    pub(super) fn port(&self) -> u16 {
        self.stream.local_addr().map_or(0, |address| address.port())
    }

    /// Reads the available input. The error says why there will be no more.
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

    /// The next received object.
    pub(super) fn next_object(&mut self) -> Result<Option<&[u8]>, FrameError> {
        self.splitter.next_object()
    }

    /// Sends a message. The part that cannot be written at once waits for [`Self::flush`].
    pub(super) fn send(&mut self, message: &[u8]) -> Result<(), String> {
        self.out.extend_from_slice(message);
        self.flush()
    }

    /// Whether output is waiting to be written.
    pub(super) fn is_behind(&self) -> bool {
        !self.out.is_empty()
    }

    /// Writes the waiting output, as far as possible.
    pub(super) fn flush(&mut self) -> Result<(), String> {
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
    /// It is read to its end first: if it were closed with unread input, the kernel would reset it, and the server might
    /// never see the last messages. This takes at most half a second; with a server that answers by closing its side, no
    /// time at all.
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
