//! One peer: its stream, its protocol, and where it stands in the lists of the endpoint.

use std::io;
use std::net::IpAddr;

use super::reactor::Tag;
use super::stream::Stream;
use crate::engine::endpoint::{ConnectionInfo, Share};
use crate::engine::zmtp::{Connection, Event};
use crate::types::{Mono, Neighbourhood};

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) stream: Stream,
    pub(super) connection: Connection,
    pub(super) tag: Tag,
    /// Of its machine, if it came in by a listener.
    pub(super) address: Option<IpAddr>,
    /// Its place among all connections, and whether it gives way.
    pub(super) info: ConnectionInfo,
    /// Stands in the list of those to be read.
    pub(super) is_ready: bool,
    /// Stands in the list of those to be written to.
    pub(super) is_unsent: bool,
    /// When what waits for it is written although nothing more has come.
    pub(super) write_by: Option<Mono>,
    /// The stream takes nothing at present; we are told when it does.
    pub(super) is_blocked: bool,
    /// Not read until it has taken what waits for it.
    pub(super) is_held_back: bool,
    /// It has sent its last byte: read until that comes.
    pub(super) has_ended: bool,
    /// The deadline that stands in the table of timers.
    pub(super) armed: Option<Mono>,
    /// What it makes us hold, as it was counted last.
    pub(super) share: Share,
}

/// What a read has brought.
#[derive(Debug)]
pub(super) enum Chunk {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for the present.
    Nothing,
    /// The stream is over; `None` when it ended in peace.
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
        }
    }

    /// Notes that it has said something.
    pub(super) fn note(&mut self, now: Mono, event: &Event) {
        match event {
            Event::Opened(_) => self.info.opened(now, self.connection.subscribes()),
            Event::Message(_) => self.info.heard(now, true),
            Event::Subscribed(_) | Event::Cancelled(_) => self.info.heard(now, false),
        }
    }

    /// Where it comes from, for a log.
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

    /// Writes what the stream takes.
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
