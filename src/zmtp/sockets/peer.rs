//! One peer: its stream, its protocol, and its position in the lists of the endpoint.

use std::io;
use std::net::IpAddr;

use slotmap::{Key as _, KeyData, SlotMap};

use super::stream::Stream;
use crate::endpoint::{ConnectionInfo, ConnectionTable, Share};
use crate::engine::{Connection, Event};
use base::{CallerPlace, Mono, Neighbourhood};

slotmap::new_key_type! {
    /// Identifies a peer. It is never reused: a new peer in the same slot has another generation.
    pub struct PeerId;
}

impl PeerId {
    /// The id as bytes, for the return address of a message.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        self.data().as_ffi().to_be_bytes().to_vec()
    }

    /// The inverse of [`Self::to_bytes`]; `None` for other bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(KeyData::from_ffi(u64::from_be_bytes(bytes.try_into().ok()?)).into())
    }
}

/// The socket that a peer belongs to: the index of the listener, or a number that the owner of the endpoint chose.
pub type Tag = usize;

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) stream: Stream,
    pub(super) connection: Connection,
    pub(super) tag: Tag,
    /// Address of its machine, if it was accepted by a listener.
    pub(super) address: Option<IpAddr>,
    /// Its place, as found when it was accepted.
    pub(super) place: CallerPlace,
    /// Why it is not served, if it is not.
    pub(super) refusal: Option<String>,
    /// The facts about it for admission.
    pub(super) info: ConnectionInfo,
    /// Whether it is in the list of peers to read from.
    pub(super) is_ready: bool,
    /// Whether it is in the list of peers to write to.
    pub(super) is_unsent: bool,
    /// Latest time to write output that was held back for batching.
    pub(super) write_by: Option<Mono>,
    /// Whether the stream currently takes no bytes. The poller reports when it does again.
    pub(super) is_blocked: bool,
    /// Whether nothing is read from it until it has taken its output.
    pub(super) is_held_back: bool,
    /// Whether it has sent its last byte, so that it is read until the end.
    pub(super) has_ended: bool,
    /// The deadline in the table of timers.
    pub(super) armed: Option<Mono>,
    /// The bytes that it makes us hold, as last counted.
    pub(super) share: Share,
}

/// The result of a read.
#[derive(Debug)]
pub(super) enum Chunk {
    /// This many bytes.
    Bytes(usize),
    /// Nothing is available.
    Nothing,
    /// The stream has ended; `None` for an orderly end.
    Over(Option<io::Error>),
}

impl Peer {
    pub(super) fn new(now: Mono, stream: Stream, connection: Connection, tag: Tag, address: Option<IpAddr>) -> Self {
        Self {
            info: ConnectionInfo::new(now, address.map(Neighbourhood::of), connection.subscribes()),
            is_ready: false,
            is_unsent: false,
            write_by: None,
            is_blocked: false,
            is_held_back: false,
            has_ended: false,
            armed: None,
            share: Share::default(),
            stream,
            connection,
            tag,
            address,
            place: CallerPlace::Elsewhere,
            refusal: None,
        }
    }

    /// Updates its facts after an event.
    pub(super) fn note(&mut self, now: Mono, event: &Event) {
        match event {
            // It stays a connection in its handshake for admission, which gives way first.
            Event::Opened(_) if self.refusal.is_some() => {}
            Event::Opened(_) => self.info.opened(now),
            Event::Message(_) | Event::TooLong(..) => self.info.heard(now, true),
            Event::Subscribed(_) | Event::Cancelled(_) => self.info.heard(now, false),
        }
    }

    /// Its origin, for a log.
    pub(super) fn origin(&self) -> String {
        self.address.map_or_else(|| "of this machine's socket".to_owned(), |ip| format!("of {ip}"))
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> Chunk {
        match self.stream.read(buffer) {
            Ok(0) => Chunk::Over(None),
            Ok(count) => Chunk::Bytes(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Chunk::Nothing,
            Err(error) => Chunk::Over(Some(error)),
        }
    }

    /// Writes as much output as the stream takes.
    pub(super) fn write(&mut self, now: Mono) -> io::Result<()> {
        self.is_blocked = false;
        while !self.connection.output().is_empty() {
            match self.stream.write(self.connection.output()) {
                Ok(count) => self.connection.handle_written(now, count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl ConnectionTable<PeerId> for SlotMap<PeerId, Peer> {
    fn info(&mut self, id: PeerId) -> Option<&mut ConnectionInfo> {
        self.get_mut(id).map(|peer| &mut peer.info)
    }

    fn count(&self) -> usize {
        self.len()
    }
}
