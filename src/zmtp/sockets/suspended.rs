//! The listeners and connections of the controller's ports as data, with which another version of the program in the
//! same process continues them. No connection is refused or closed meanwhile: a client that has sent a request gets its
//! answer from the new program.
//!
//! Connections of agents are left out. The requests that an agent has parked at the controller are gone, and the end of
//! its connection tells it to ask again.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use super::address::Address;
use super::peer::{Peer, PeerId};
use super::reactor::Endpoint;
use super::stream::{Listener, Stream};
use crate::engine::{Connection, Kind, Subscriptions};
use crate::port::{SuspendedListener, SuspendedPeer, SuspendedPorts, Suspension};
use proc::takeover::descriptor;

impl Endpoint {
    /// Ends the endpoint, with listeners of these types and addresses. A connection that is marked as exempt is closed.
    pub(super) fn suspend(
        mut self,
        listeners: &[(Kind, String)],
        mut subscriptions: impl FnMut(PeerId) -> Option<Subscriptions>,
    ) -> Suspension {
        let mut suspension = Suspension::default();
        for (listening, (kind, address)) in self.accepting.listeners.drain(..).zip(listeners) {
            // Dropping the listener would remove the file of a socket.
            let listener = std::mem::ManuallyDrop::new(listening.listener);
            match rustix::io::fcntl_dupfd_cloexec(listener.as_fd(), 3) {
                Ok(fd) => {
                    let (kind, address) = (kind.name().to_owned(), address.clone());
                    suspension.ports.listeners.push(SuspendedListener { kind, address, fd: fd.as_raw_fd() });
                    suspension.kept.push(fd);
                }
                // Without its listener, no connection can be continued either.
                Err(error) => {
                    log::warn!("{address} cannot be handed over: {error}");
                    return suspension;
                }
            }
        }
        let reading = self.reading.take();
        for (id, peer) in self.peers.drain() {
            let Some(connection) = peer.connection.suspend().filter(|_| !peer.info.is_exempt()) else { continue };
            let unread = reading.as_ref().filter(|(reading, _)| *reading == id);
            let unread = unread.map(|(_, bytes)| self.input[bytes.clone()].to_vec()).unwrap_or_default();
            let fd = OwnedFd::from(peer.stream);
            suspension.ports.peers.push(SuspendedPeer {
                listener: peer.tag,
                fd: fd.as_raw_fd(),
                address: peer.address,
                connection,
                subscriptions: subscriptions(id).unwrap_or_default(),
                unread,
            });
            suspension.kept.push(fd);
        }
        suspension
    }
}

impl SuspendedPorts {
    /// Continues the listener of this type at an address, if there is one. Returns its index and its actual address.
    pub(super) fn take_listener(
        &self,
        kind: Kind,
        wanted: &Address,
    ) -> Option<(usize, io::Result<(Listener, Address)>)> {
        let (number, found, fd) = self.listeners.iter().enumerate().find_map(|(number, listener)| {
            let address = Address::parse(&listener.address).ok()?;
            let is_it = match (&address, wanted) {
                (Address::Tcp(found), Address::Tcp(wanted)) => {
                    found.ip() == wanted.ip() && (wanted.port() == 0 || wanted.port() == found.port())
                }
                (found, wanted) => found == wanted,
            };
            (is_it && listener.kind == kind.name()).then_some((number, address, listener.fd))
        })?;
        Some((number, descriptor(fd).and_then(|fd| Ok((Listener::adopt(fd, &found)?, found)))))
    }

    /// Continues the listener of the HTTP door, if there is one.
    pub fn take_http(&mut self) -> Option<TcpListener> {
        self.http.take().and_then(|fd| descriptor(fd).ok()).map(TcpListener::from)
    }

    /// The connections, each with the index of its old listener.
    pub(super) fn take_peers(&mut self) -> impl Iterator<Item = (usize, Resumable)> + use<> {
        std::mem::take(&mut self.peers).into_iter().map(|peer| (peer.listener, Resumable(peer)))
    }
}

/// A connection that can be continued.
pub(super) struct Resumable(SuspendedPeer);

impl Endpoint {
    /// Continues a connection of the listener with this tag. Returns its id and its subscriptions; `None` if it does
    /// not fit the current settings, for example another set of keys, and is closed.
    pub(super) fn resume(&mut self, tag: usize, Resumable(suspended): Resumable) -> Option<(PeerId, Subscriptions)> {
        let fd = descriptor(suspended.fd).ok()?;
        let settings = self.accepting.listeners.get(tag)?.settings.clone();
        let stream = match self.accepting.listeners.get(tag)?.listener {
            Listener::Tcp(_) => Stream::Tcp(TcpStream::from(fd)),
            Listener::Ipc(..) => Stream::Ipc(UnixStream::from(fd)),
        };
        let connection = Connection::resume(self.now, settings, suspended.connection, rand::random())?;
        if connection.peer().is_some_and(|other| !self.accepting.is_welcome(&other)) {
            return None;
        }
        let (place, refusal) = self.place_of(tag, &stream);
        let mut peer = Peer { place, refusal, ..Peer::new(self.now, stream, connection, tag, suspended.address) };
        if peer.connection.peer().is_some() && peer.refusal.is_none() {
            peer.info.opened(self.now);
        }
        let id = self.insert(peer).ok()?;
        self.accepting.admission.enter(id, &self.peers[id].info);
        // At most one connection has unread bytes. They fit, because a program has read them at once.
        if let Some(room) = self.input.get_mut(..suspended.unread.len()).filter(|room| !room.is_empty()) {
            room.copy_from_slice(&suspended.unread);
            self.reading = Some((id, 0..suspended.unread.len()));
        }
        self.mark_ready(id);
        Some((id, suspended.subscriptions))
    }
}
