//! The port of a server whose messages are JSON objects, and its connections: accepting them, and their input and output.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Interest, Poll, Registry, Token};

use super::json_link::{After, Input, Link};
use super::json_wire::{PortKeys, Wire};
use crate::endpoint::Refusals;
use crate::json::split::FrameError;
use base::{IncidentKind, Loopback, Mono, Now};
use proc::visitor::Visitor;
use proc::{clock, incidents};

/// Bytes of one read.
const BUFFER_BYTES: usize = 64 << 10;

/// Pause before a listener that ran out of descriptors tries again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The limits of each connection.
#[derive(Clone, Copy, Debug)]
pub struct LinkLimits {
    /// Maximum bytes of one message from a peer.
    pub read_bytes_max: usize,
    /// Maximum bytes queued for a peer that does not read.
    pub queued_bytes_max: usize,
}

/// A new connection.
#[derive(Debug)]
pub struct Arrived {
    /// The number of the connection, in order of arrival.
    pub number: u64,
    /// The address of the peer.
    pub address: SocketAddr,
    /// Why it is not served unless it proves a key.
    pub refusal: Option<String>,
}

/// The input of one connection.
#[derive(Debug)]
pub struct Received<T> {
    /// The messages, in their order.
    pub messages: Vec<T>,
    /// Whether it has just proved that it owns an authorised key. This happened before the messages.
    pub is_authorised: bool,
    /// Why it must be closed. This happened after the messages.
    pub refusal: Option<String>,
    /// Whether the peer has closed it, or it is broken.
    pub is_closed: bool,
}

/// The port and its connections. The number of a connection is also its token.
#[derive(Debug)]
pub struct JsonServer {
    listener: TcpListener,
    registry: Registry,
    limits: LinkLimits,
    /// The users of this machine that are served without a key.
    loopback: Loopback,
    refusals: Refusals,
    /// `None` if all connections are plain.
    keys: Option<PortKeys>,
    links: BTreeMap<u64, Link>,
    /// The number of the last connection.
    connections: u64,
    /// Connections whose turn has ended and which may have more input.
    unread: BTreeSet<u64>,
    /// Whether the listener may have more connections to accept.
    has_unaccepted: bool,
    buffer: Vec<u8>,
}

impl JsonServer {
    /// Opens the port. Its events have this token, and the connections are numbered from the one after `first`.
    ///
    /// # Errors
    /// The port is in use, or the address is not local.
    pub fn listen(
        poll: &Poll,
        address: SocketAddr,
        token: Token,
        first: u64,
        limits: LinkLimits,
        loopback: Loopback,
    ) -> io::Result<Self> {
        let mut listener = TcpListener::bind(address)?;
        poll.registry().register(&mut listener, token, Interest::READABLE)?;
        Ok(Self {
            listener,
            registry: poll.registry().try_clone()?,
            limits,
            loopback,
            refusals: Refusals::default(),
            keys: None,
            links: BTreeMap::new(),
            connections: first,
            unread: BTreeSet::new(),
            has_unaccepted: false,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Secures the port. Events of the key folder have this token; the caller then calls [`Self::note_keys`].
    ///
    /// # Errors
    /// When the folder cannot be watched.
    pub fn secure(&mut self, keys: PortKeys, token: Token) -> io::Result<()> {
        if let Some(news) = keys.folder.news() {
            self.registry.register(&mut SourceFd(&news.as_raw_fd()), token, Interest::READABLE)?;
        }
        self.keys = Some(keys);
        Ok(())
    }

    /// The key folder has an event.
    pub fn note_keys(&mut self) {
        if let Some(keys) = &mut self.keys {
            keys.folder.note_news();
        }
    }

    /// Checks the keys, if that is due: after an event, and every second. Returns the connections whose keys are no longer authorised.
    pub fn look_at_keys(&mut self, now: Now) -> Vec<u64> {
        let Some(keys) = &mut self.keys else { return Vec::new() };
        if !keys.folder.take_due(now.mono) {
            return Vec::new();
        }
        keys.folder.look(now.wall);
        let keys = keys.folder.keys();
        self.links.iter().filter(|(_, link)| link.wire.is_revoked(&keys)).map(|(number, _)| *number).collect()
    }

    /// The address of the port.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The port has an event.
    pub const fn note_listener(&mut self) {
        self.has_unaccepted = true;
    }

    /// When the next turn is due without an event.
    pub fn timeout(&self, now: Mono) -> Option<Duration> {
        if !self.unread.is_empty() {
            return Some(Duration::ZERO);
        }
        let keys = self.keys.as_ref().map(|keys| keys.folder.look_at().since(now));
        self.has_unaccepted.then_some(ACCEPT_PAUSE).into_iter().chain(keys).min()
    }

    /// The next new connection.
    pub fn accept(&mut self) -> Option<Arrived> {
        while self.has_unaccepted {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    let refusal = Visitor::of_stream(&stream).refusal(self.loopback);
                    if let Some(number) = self.add(stream, address) {
                        self.note(refusal.as_ref());
                        return Some(Arrived { number, address, refusal });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.has_unaccepted = false,
                // The connection was gone before it could be accepted.
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                }
                Err(error) => {
                    log::warn!("cannot take a connection: {error}; trying again");
                    return None;
                }
            }
        }
        None
    }

    /// Logs a refusal, unless there are many. At a port with keys, a connection may still prove a key, so its refusal
    /// is not logged.
    fn note(&mut self, refusal: Option<&String>) {
        let now = clock::now().mono;
        let line = refusal.filter(|_| self.keys.is_none()).map(|why| format!("a connection is refused: {why}"));
        let line = line.and_then(|line| self.refusals.turned_away(now, line));
        for line in self.refusals.handle_timeout(now).into_iter().chain(line) {
            log::warn!("{line}");
            incidents::note(IncidentKind::Refused, line);
        }
    }

    fn add(&mut self, mut stream: TcpStream, from: SocketAddr) -> Option<u64> {
        self.connections += 1;
        let token = Token(usize::try_from(self.connections).unwrap_or(usize::MAX));
        let interest = Interest::READABLE | Interest::WRITABLE;
        let ready = stream.set_nodelay(true).and_then(|()| self.registry.register(&mut stream, token, interest));
        if let Err(error) = ready {
            log::warn!("cannot take a connection: {error}");
            return None;
        }
        let LinkLimits { read_bytes_max, queued_bytes_max } = self.limits;
        let wire = self.keys.as_mut().map_or(Wire::Plain, |keys| keys.wire(from));
        self.links.insert(self.connections, Link::new(stream, wire, read_bytes_max, queued_bytes_max));
        Some(self.connections)
    }

    /// Takes the connections whose turn has ended and which may have more input.
    pub fn take_unread(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.unread)
    }

    /// Reads the available input of a connection, up to a turn's worth. A closed connection stays for the answers to
    /// its last messages, until [`Self::abort`].
    pub fn receive<T>(&mut self, number: u64, parse: impl Fn(Result<&[u8], FrameError>) -> T) -> Received<T> {
        let mut received = Received { messages: Vec::new(), is_authorised: false, refusal: None, is_closed: false };
        let Some(link) = self.links.get_mut(&number) else { return received };
        let after = link.receive(&mut self.buffer, |input| match input {
            Input::Object(object) => received.messages.push(parse(object)),
            Input::Key(key) => {
                log::debug!("connection {number} has the key {key}");
                received.is_authorised = true;
            }
            Input::Refused(reason) => received.refusal = Some(reason),
        });
        match after {
            After::More => {
                self.unread.insert(number);
            }
            After::Drained | After::Closed => {}
        }
        received.is_closed = after == After::Closed;
        received
    }

    /// Sends a message, or queues it. Returns false if the connection is broken or does not read. It is then forgotten.
    pub fn send(&mut self, number: u64, message: Vec<u8>) -> bool {
        self.with(number, |link| link.send(message))
    }

    /// Sends as much of the queue as the peer takes. Returns false if the connection is broken. It is then forgotten.
    pub fn flush(&mut self, number: u64) -> bool {
        self.with(number, Link::flush)
    }

    /// Sends the queue and then the end of the stream. The peer's own end is reported as the end of the connection.
    /// Returns false if the connection is broken. It is then forgotten.
    pub fn close(&mut self, number: u64) -> bool {
        self.with(number, Link::close)
    }

    /// Forgets a connection.
    pub fn abort(&mut self, number: u64) {
        if let Some(mut link) = self.links.remove(&number) {
            // Closing the stream would also remove it from the wait, only later.
            let _ = self.registry.deregister(&mut link.stream);
        }
    }

    /// Whether there is such a connection.
    pub fn has(&self, number: u64) -> bool {
        self.links.contains_key(&number)
    }

    fn with(&mut self, number: u64, act: impl FnOnce(&mut Link) -> io::Result<()>) -> bool {
        let Some(link) = self.links.get_mut(&number) else { return false };
        let outcome = act(link);
        if let Err(error) = &outcome {
            log::debug!("connection {number}: {error}");
            self.abort(number);
        }
        outcome.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use super::*;
    use crate::curve_keys::{KeyFolder, LOOK_INTERVAL};
    use crate::engine::{ClientKeys, KeyPair};
    use crate::json::json_dial::{Server, dial};
    use base::{CurveServerFiles, Wall};

    const LISTENER: Token = Token(0);
    const NEWS: Token = Token(1);
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The key of a worker is replaced behind a link, of which the kernel tells nothing.
    #[test]
    fn a_removed_key_closes_its_connection_without_an_event_of_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let [secret_key, authorised_keys, target] =
            ["secret", "authorised", "target"].map(|name| place.path().join(name));
        let [own, first, second] = [1, 2, 3].map(|seed| KeyPair::from_bytes([seed; 32]));
        fs::write(&secret_key, own.secret_text()).unwrap();
        fs::set_permissions(&secret_key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(&authorised_keys).unwrap();
        fs::write(&target, first.public().to_string()).unwrap();
        std::os::unix::fs::symlink(&target, authorised_keys.join("worker")).unwrap();
        let folder = KeyFolder::open(&CurveServerFiles { secret_key, authorised_keys }).unwrap();

        let mut poll = Poll::new().unwrap();
        let limits = LinkLimits { read_bytes_max: 1000, queued_bytes_max: 1000 };
        let address = "127.0.0.1:0".parse().unwrap();
        let mut server = JsonServer::listen(&poll, address, LISTENER, 9, limits, Loopback::Open).unwrap();
        server.secure(PortKeys { folder, plain_from_anywhere: false }, NEWS).unwrap();
        let port = server.address().unwrap().port();
        let keys = Some(Arc::new(ClientKeys { pair: first, server: own.public() }));
        let client = std::thread::spawn(move || dial(&Server { host: "127.0.0.1".into(), port, keys }, PATIENCE, 1000));
        let mut events = mio::Events::with_capacity(8);
        let mut authorised = None;
        while authorised.is_none() {
            poll.poll(&mut events, Some(PATIENCE)).unwrap();
            server.note_listener();
            while server.accept().is_some() {}
            let number = events.iter().map(|event| event.token().0 as u64).find(|number| *number > 9);
            authorised = number.filter(|number| server.receive(*number, |_| ()).is_authorised);
        }
        let _connection = client.join().unwrap().unwrap();

        fs::write(&target, second.public().to_string()).unwrap();
        let now = clock::now();
        let later = Now { mono: now.mono + LOOK_INTERVAL, wall: Wall::from_micros(now.wall.micros() + 1_000_000) };
        assert!(server.timeout(now.mono).is_some_and(|rest| rest <= LOOK_INTERVAL));
        assert_eq!(server.look_at_keys(later), authorised.into_iter().collect::<Vec<_>>());
    }
}
