//! The endpoint: all listeners and peers of one loop.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use slotmap::{Key as _, KeyData, SlotMap};

use super::address::Address;
use super::listeners::{Accepting, Counts};
use super::peer::{Chunk, Peer, PeerId, Tag};
use super::poller::{Poller, Ready};
use super::stream::{Listener, Stream};
use crate::endpoint::{BufferBudget, ConnectionLimits};
use crate::engine::{Connection, DisconnectReason, Event, Settings};
use base::{IncidentKind, Mono};
use proc::{clock, incidents};

/// Bytes read from one peer before the others have their turn.
const CHUNK_BYTES: usize = 16_384;

/// Maximum chunks read in one turn from all peers together, so that timers and other descriptors are not delayed for long.
const CHUNKS_PER_TURN: usize = 64;

/// Maximum bytes read in one turn. A chunk may contain thousands of commands that cause no event, such as PING.
const BYTES_PER_TURN: usize = 16 * CHUNK_BYTES;

/// Maximum events of one turn. A subscription may be as short as three bytes, so the input of one turn may contain
/// almost a hundred thousand.
const EVENTS_PER_TURN: usize = 1024;

/// The first poller key of listeners. Keys of peers have a small number in their lower half, so they do not collide.
const LISTENER_KEY: u64 = u64::MAX - 1000;

/// The poller key of the key folder.
pub(super) const KEYS_KEY: u64 = LISTENER_KEY - 1;

/// An event of a peer.
#[derive(Debug)]
pub struct Arrival {
    /// The peer.
    pub peer: PeerId,
    /// The tag of its socket.
    pub tag: Tag,
    /// The event.
    pub what: What,
}

/// The kind of an [`Arrival`].
#[derive(Debug, PartialEq, Eq)]
pub enum What {
    /// An event of the protocol.
    Event(Event),
    /// It is gone or was disconnected, for this reason if it is known. No further event follows.
    Closed(Option<DisconnectReason>),
}

/// Listeners and peers; see the [module](super).
///
/// A turn: [`Self::wait`]; [`Self::poll_event`] until it returns `None`; sends; [`Self::flush`].
#[derive(Debug)]
pub struct Endpoint {
    pub(super) poller: Poller,
    pub(super) now: Mono,
    pub(super) peers: SlotMap<PeerId, Peer>,
    pub(super) accepting: Accepting,
    pub(super) budget: BufferBudget<PeerId>,
    pub(super) ready: VecDeque<PeerId>,
    pub(super) unsent: Vec<PeerId>,
    pub(super) timers: BTreeSet<(Mono, PeerId)>,
    pub(super) closed: VecDeque<Arrival>,
    chunks_left: usize,
    bytes_left: usize,
    events_left: usize,
    pub(super) input: Box<[u8]>,
    /// The peer whose data is in `input`, and the unparsed range.
    pub(super) reading: Option<(PeerId, Range<usize>)>,
}

impl Endpoint {
    /// An endpoint without listeners and peers.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn new(limits: ConnectionLimits) -> io::Result<Self> {
        Ok(Self {
            poller: Poller::new()?,
            now: clock::now().mono,
            peers: SlotMap::with_key(),
            budget: BufferBudget::new(limits.held_bytes_max),
            accepting: Accepting::new(limits),
            ready: VecDeque::new(),
            unsent: Vec::new(),
            timers: BTreeSet::new(),
            closed: VecDeque::new(),
            chunks_left: CHUNKS_PER_TURN,
            bytes_left: BYTES_PER_TURN,
            events_left: EVENTS_PER_TURN,
            input: vec![0; CHUNK_BYTES].into_boxed_slice(),
            reading: None,
        })
    }

    /// Listens on an address. The first call uses the tag 0, the next one 1. Returns the address with the actual port
    /// instead of 0.
    ///
    /// # Errors
    /// When the address is in use or not local.
    pub fn listen(&mut self, address: &Address, settings: Settings) -> io::Result<Address> {
        let (listener, bound) = Listener::bind(address)?;
        self.listen_with(listener, settings)?;
        Ok(bound)
    }

    /// As [`Self::listen`], with an existing listener.
    pub(super) fn listen_with(&mut self, listener: Listener, settings: Settings) -> io::Result<()> {
        let tag = self.accepting.listeners();
        self.poller.add(&listener, LISTENER_KEY + tag as u64, false)?;
        self.accepting.add(listener, settings);
        Ok(())
    }

    /// Begins to connect. An event later says whether that succeeds.
    ///
    /// # Errors
    /// When descriptors have run out, or the connection is refused at once.
    pub fn connect(&mut self, address: &Address, settings: Settings, tag: Tag) -> io::Result<PeerId> {
        self.now = clock::now().mono;
        let connection = Connection::new(self.now, settings, rand::random());
        let mut peer = Peer::new(self.now, Stream::connect(address)?, connection, tag, None);
        // It becomes writable when it is connected.
        peer.is_blocked = true;
        self.insert(peer)
    }

    pub(super) fn insert(&mut self, peer: Peer) -> io::Result<PeerId> {
        let id = self.peers.insert(peer);
        let peer = &self.peers[id];
        if let Err(error) = self.poller.add(&peer.stream, id.data().as_ffi(), peer.is_blocked) {
            self.peers.remove(id);
            return Err(error);
        }
        self.mark_unsent(id);
        self.arm(id);
        Ok(id)
    }

    /// Number of connections that are open or in progress.
    pub fn connections(&self) -> usize {
        self.peers.len()
    }

    /// Number of connections on which agents send requests.
    #[must_use]
    pub fn exempted(&self) -> usize {
        self.peers.values().filter(|peer| peer.info.is_exempt()).count()
    }

    /// Waits for events of peers, for one of `fds`, or for the deadline. Returns which of `fds` are readable.
    pub fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool> {
        self.now = now;
        self.flush();
        let timer = self.timers.first().map(|(at, _)| *at);
        let at = if self.has_work() {
            Some(now)
        } else {
            deadline.into_iter().chain(timer).chain(self.accepting.poll_timeout()).min()
        };
        let (ready, news) = self.poller.wait(fds, at.map(|at| at.since(now)));
        self.now = clock::now().mono;
        for news in news {
            self.note(news);
        }
        self.look_at_keys();
        self.accept();
        self.handle_timeout();
        if let Some(line) = self.accepting.refusals.handle_timeout(self.now) {
            log::warn!("{line}");
            incidents::note(IncidentKind::Refused, line);
        }
        (self.chunks_left, self.bytes_left) = (CHUNKS_PER_TURN, BYTES_PER_TURN);
        self.events_left = EVENTS_PER_TURN;
        ready
    }

    /// Updates the bytes that a peer makes us hold.
    ///
    /// | a peer that | counts | is stalled |
    /// |---|---|---|
    /// | has sent an incomplete message | yes | since the first byte of it, or the previous message |
    /// | reads none of its output | yes | since the last byte that it took |
    /// | has output to be written in this turn | yes | no: [`Self::flush`] comes first |
    pub(super) fn count(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id) {
            let (bytes, waiting) = (peer.connection.held(), peer.connection.output().len());
            let is_still = bytes > waiting || (peer.is_blocked && waiting > 0);
            self.budget.count(id, &mut peer.share, bytes, is_still);
        }
    }

    /// Updates the count when it may have grown, and makes room.
    pub(super) fn note_held(&mut self, id: PeerId) {
        self.count(id);
        if self.budget.is_over() {
            self.flush();
        }
    }

    /// Disconnects the longest-stalled peers until the total is within the limit.
    pub(super) fn make_room(&mut self) {
        while let Some(oldest) = self.budget.longest_still() {
            self.disconnect(oldest, &DisconnectReason::Crowded);
        }
    }

    fn has_work(&mut self) -> bool {
        let can_accept = self.accepting.has_callers(self.now) && self.has_place();
        can_accept || self.reading.is_some() || !self.ready.is_empty() || !self.closed.is_empty()
    }

    fn note(&mut self, news: Ready) {
        if news.key == KEYS_KEY {
            return self.accepting.keys_changed();
        }
        if let Some(tag) = news.key.checked_sub(LISTENER_KEY).and_then(|tag| usize::try_from(tag).ok()) {
            return self.accepting.called(tag);
        }
        let id = PeerId::from(KeyData::from_ffi(news.key));
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.has_ended |= news.ended;
        if news.writable && peer.is_blocked {
            self.write(id);
        }
        if news.readable || news.ended {
            self.mark_ready(id);
        }
    }

    pub(super) fn mark_ready(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id)
            && !std::mem::replace(&mut peer.is_ready, true)
        {
            self.ready.push_back(id);
        }
    }

    /// The next event of a peer; `None` when no peer has more input, or the turn has been long enough.
    pub fn poll_event(&mut self) -> Option<Arrival> {
        loop {
            if self.events_left == 0 {
                return None;
            }
            if let Some(closed) = self.closed.pop_front() {
                self.events_left -= 1;
                return Some(closed);
            }
            let (id, bytes) = match self.reading.take() {
                Some(reading) => reading,
                None => match self.read() {
                    Some(reading) => reading,
                    // Reading may have found the end of a connection.
                    None if !self.closed.is_empty() => continue,
                    None => return None,
                },
            };
            // It may have been disconnected since its last input was parsed.
            let Some(peer) = self.peers.get_mut(id) else { continue };
            let mut input = &self.input[bytes.clone()];
            let outcome = peer.connection.handle_input(self.now, &mut input);
            let rest = bytes.end - input.len()..bytes.end;
            match outcome {
                // The key may have been removed during the handshake.
                Ok(Some(Event::Opened(other))) if !self.accepting.is_welcome(&other) => self.revoke(id, other),
                Ok(Some(event)) => {
                    let tag = peer.tag;
                    self.events_left -= 1;
                    self.budget.moved(&mut peer.share);
                    peer.note(self.now, &event);
                    self.reading = Some((id, rest));
                    self.mark_unsent(id);
                    return Some(Arrival { peer: id, tag, what: What::Event(event) });
                }
                Ok(None) => {
                    self.mark_unsent(id);
                    self.arm(id);
                    self.note_held(id);
                }
                Err(reason) => self.disconnect(id, &reason),
            }
        }
    }

    /// Reads a chunk from the next ready peer.
    fn read(&mut self) -> Option<(PeerId, Range<usize>)> {
        while self.chunks_left > 0
            && self.bytes_left > 0
            && let Some(id) = self.ready.pop_front()
        {
            let Some(peer) = self.peers.get_mut(id) else { continue };
            peer.is_ready = false;
            if peer.connection.is_clogged() && peer.is_blocked {
                peer.is_held_back = true;
                continue;
            }
            match peer.read(&mut self.input) {
                Chunk::Bytes(count) => {
                    self.chunks_left -= 1;
                    self.bytes_left = self.bytes_left.saturating_sub(count);
                    // Fewer bytes than requested: the kernel has no more, and will report new ones.
                    if count == self.input.len() || peer.has_ended {
                        self.mark_ready(id);
                    }
                    return Some((id, 0..count));
                }
                Chunk::Nothing => {}
                Chunk::Over(error) => {
                    log::debug!("a peer is gone: {}", error.map_or("it closed".to_owned(), |error| error.to_string()));
                    let why = peer.connection.meaning_of_end();
                    self.remove(id, why);
                }
            }
        }
        None
    }

    /// Counters of connections since the start.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.accepting.counts
    }
}
