//! All peers of one loop.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use slotmap::{Key as _, KeyData, SlotMap};

use super::accept::{Accepting, Counts};
use super::address::Address;
use super::peer::{Chunk, Peer};
use super::poller::{Poller, Ready};
use super::stream::Stream;
use crate::engine::endpoint::{BufferBudget, ConnectionLimits};
use crate::engine::zmtp::{Connection, DisconnectReason, Event, Settings};
use crate::shell::clock;
use crate::types::Mono;

slotmap::new_key_type! {
    /// Names a peer. It is never used again: the place of one that has gone gets another generation.
    pub struct PeerId;
}

impl PeerId {
    /// As bytes, for a message that must find its way back.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        self.data().as_ffi().to_be_bytes().to_vec()
    }

    /// What [`Self::to_bytes`] gave; `None` for what cannot be one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(KeyData::from_ffi(u64::from_be_bytes(bytes.try_into().ok()?)).into())
    }
}

/// Says to which of the owner's sockets a peer belongs: the number of the listener, or what the owner chose.
pub type Tag = usize;

/// Bytes of one peer that are read before the others get their turn.
const CHUNK_BYTES: usize = 16_384;

/// Chunks that are read in one turn, of all peers together: whatever they send, timers and other descriptors are not far.
const CHUNKS_PER_TURN: usize = 64;

/// Bytes that are read in one turn. A chunk may hold thousands of commands that bring no event, such as PING.
const BYTES_PER_TURN: usize = 16 * CHUNK_BYTES;

/// Events of one turn. A subscription has three bytes at least, so what was read in a turn may hold a hundred thousand of them.
const EVENTS_PER_TURN: usize = 1024;

/// Keys of listeners for the poller; those of peers have a small number in their lower half.
const LISTENER_KEY: u64 = u64::MAX - 1000;

/// That of the news of the keys.
pub(super) const KEYS_KEY: u64 = LISTENER_KEY - 1;

/// Something that a peer has done.
#[derive(Debug)]
pub struct Arrival {
    /// Which one.
    pub peer: PeerId,
    /// Of which socket.
    pub tag: Tag,
    /// What.
    pub what: What,
}

/// See [`Arrival`].
#[derive(Debug, PartialEq, Eq)]
pub enum What {
    /// It said something.
    Event(Event),
    /// It has gone, or was cut; the reason, where one is known. Nothing follows.
    Closed(Option<DisconnectReason>),
}

/// Listeners and peers; see the [module](super).
///
/// A turn: [`Self::wait`]; [`Self::poll_event`] until it is `None` or the turn has been long enough; sends; [`Self::flush`].
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
    input: Box<[u8]>,
    /// Whose bytes `input` holds, and which of them are not read so far.
    reading: Option<(PeerId, Range<usize>)>,
}

impl Endpoint {
    /// An endpoint without peers.
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

    /// Listens; the first call gives the tag 0, the next one 1. Gives back the address with the port that was taken for 0.
    ///
    /// # Errors
    /// When the address is in use or is not ours.
    pub fn listen(&mut self, address: &Address, settings: Settings) -> io::Result<Address> {
        let (listener, bound) = super::stream::Listener::bind(address)?;
        let tag = self.accepting.listeners();
        self.poller.add(&listener, LISTENER_KEY + tag as u64, false)?;
        self.accepting.add(listener, settings);
        Ok(bound)
    }

    /// Begins to connect; the peer opens, or is closed, later.
    ///
    /// # Errors
    /// When descriptors have run out, or the connection is refused at once.
    pub fn connect(&mut self, address: &Address, settings: Settings, tag: Tag) -> io::Result<PeerId> {
        self.now = clock::now().mono;
        let connection = Connection::new(self.now, settings, rand::random());
        let mut peer = Peer::new(self.now, Stream::connect(address)?, connection, tag, None);
        // It is writable when it is there.
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

    /// Connections that are open, or about to be.
    pub fn connections(&self) -> usize {
        self.peers.len()
    }

    /// Waits for news of peers, for one of `fds`, or for the deadline; says which of `fds` are readable.
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
        }
        (self.chunks_left, self.bytes_left) = (CHUNKS_PER_TURN, BYTES_PER_TURN);
        self.events_left = EVENTS_PER_TURN;
        ready
    }

    /// Counts what a peer makes us hold.
    ///
    /// | a peer | is counted | stands still |
    /// |---|---|---|
    /// | has half a message here | yes | from its first byte, or from the message before |
    /// | takes nothing of what waits for it | yes | from the last byte that it took |
    /// | has something to be written in this turn | yes | no: [`Self::flush`] comes first |
    pub(super) fn count(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id) {
            let (bytes, waiting) = (peer.connection.held(), peer.connection.output().len());
            let is_still = bytes > waiting || (peer.is_blocked && waiting > 0);
            self.budget.count(id, &mut peer.share, bytes, is_still);
        }
    }

    /// Counts it when it may have become more, and makes room.
    pub(super) fn note_held(&mut self, id: PeerId) {
        self.count(id);
        if self.budget.is_over() {
            self.flush();
        }
    }

    /// Cuts who has stood still the longest, until there is room.
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

    /// What a peer has done; `None` when nobody has anything more to say in this turn, or the turn has been long enough.
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
                None => self.read()?,
            };
            // It may have been cut while its last words were looked at.
            let Some(peer) = self.peers.get_mut(id) else { continue };
            let mut input = &self.input[bytes.clone()];
            let outcome = peer.connection.handle_input(self.now, &mut input);
            let rest = bytes.end - input.len()..bytes.end;
            match outcome {
                // The key may have been taken away during the handshake.
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

    /// Reads a chunk of the next peer that has one.
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
                    // Less than was asked for: the kernel has no more, and will tell when it has.
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

    /// What has become of connections so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.accepting.counts
    }
}
