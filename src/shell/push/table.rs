//! All addresses that something waits for or that have a socket: frames in, frames out.
//!
//! What is done in one turn is [`super::turn`]'s concern; who gets one of the sockets, [`super::room`]'s; what is due when, and
//! the end, [`super::deadlines`]'s.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use super::complaints::Complaints;
use super::counts::PushCounts;
use super::inbox::Inbox;
use super::peer::{Link, Peer, PeerId, Reason};
use super::poller::Poller;
use super::queue::QueueLimits;
use super::resolve::Resolver;
use super::turn::Slice;
use super::wire::{Flow, Outcome, Wire};
use crate::engine::zmtp::KeyPair;
use crate::shell::metrics::times;
use crate::types::Mono;
use crate::types::{Host, PushAddress};

/// Pause before an address that lost its connection, or got no socket, tries again.
pub(super) const REST: Duration = Duration::from_millis(100);

/// The longest such pause; it doubles with each refusal.
const REST_MAX: Duration = Duration::from_secs(2);

/// Frames after which an address that can take them is served at once: what a turn pushes to it is not limited by its queue.
const FRAMES_PER_SERVICE: usize = 256;

/// The limits that the table keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) sockets_max: usize,
    /// Addresses with and without a socket.
    pub(super) peers_max: usize,
    pub(super) queue: QueueLimits,
    /// Bytes that wait for all addresses together.
    pub(super) bytes_max: usize,
    pub(super) connect_timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) linger: Duration,
}

/// The table. `poller`, `keys` and `resolver` are what its sockets need.
pub(super) struct Table {
    pub(super) limits: Limits,
    /// What is proved to receivers that want CURVE.
    pub(super) keys: KeyPair,
    pub(super) poller: Poller,
    pub(super) resolver: Resolver,
    pub(super) inbox: Inbox,
    counts: PushCounts,
    /// How long the frames that were sent have waited.
    pub(super) waited: Histogram,
    pub(super) complaints: Complaints,
    pub(super) peers: BTreeMap<PeerId, Peer>,
    ids: HashMap<Arc<PushAddress>, PeerId>,
    next_id: PeerId,
    /// Who waits for a socket, in order of arrival. It may name peers that have gone.
    pub(super) line: VecDeque<PeerId>,
    /// Something has happened that may let the first in the line go on.
    pub(super) line_may_move: bool,
    /// When the line may move though nothing else happens.
    pub(super) admit_at: Option<Mono>,
    /// Who is to be served, in this turn or a later one.
    pub(super) marked: VecDeque<PeerId>,
    /// What is left of this turn.
    pub(super) slice: Slice,
    pub(super) timers: BTreeSet<(Mono, PeerId)>,
    pub(super) bytes: usize,
    pub(super) open_sockets: usize,
    /// Of the open sockets, those that are not connected so far.
    pub(super) connecting: usize,
}

impl Table {
    pub(super) fn new(limits: Limits, keys: KeyPair, resolver: Resolver, inbox: Inbox) -> io::Result<Self> {
        Ok(Self {
            waited: times(),
            limits,
            keys,
            poller: Poller::new(&resolver)?,
            resolver,
            inbox,
            counts: PushCounts::default(),
            complaints: Complaints::default(),
            peers: BTreeMap::new(),
            ids: HashMap::new(),
            next_id: 0,
            line: VecDeque::new(),
            line_may_move: false,
            admit_at: None,
            marked: VecDeque::new(),
            slice: Slice::WHOLE,
            timers: BTreeSet::new(),
            bytes: 0,
            open_sockets: 0,
            connecting: 0,
        })
    }

    /// What has become of the frames so far.
    pub(super) const fn counts(&self) -> PushCounts {
        let Inbox { received, discarded, .. } = self.inbox;
        PushCounts { received, discarded, open_sockets: self.open_sockets, ..self.counts }
    }

    /// Takes one frame. It goes out in [`Self::flush`], by then at the latest, or waits for its address.
    pub(super) fn enqueue(&mut self, now: Mono, by: Mono, address: &Arc<PushAddress>, frame: Vec<u8>) {
        let id = match self.ids.get(address) {
            Some(id) => *id,
            None => match self.join(now, address) {
                Some(id) => id,
                None => {
                    self.counts.dropped_evicted += 1;
                    return;
                }
            },
        };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.queue.is_empty() {
            peer.waiting_since = now;
        }
        let before = peer.queue.bytes();
        let dropped = peer.queue.push(now, frame, self.limits.queue);
        self.bytes = self.bytes - before + peer.queue.bytes();
        self.counts.dropped_full += dropped as u64;
        if peer.is_up() {
            let is_long = peer.queue.len().is_multiple_of(FRAMES_PER_SERVICE);
            if by <= now {
                self.mark(id);
            } else if !peer.is_marked {
                peer.send_by = Some(peer.send_by.map_or(by, |before| before.min(by)));
            }
            if is_long {
                self.serve(now, id);
            }
        }
        self.arm(id);
        if self.bytes > self.limits.bytes_max {
            self.drop_from_the_fattest();
        }
    }

    fn join(&mut self, now: Mono, address: &Arc<PushAddress>) -> Option<PeerId> {
        if self.peers.len() >= self.limits.peers_max {
            self.drop_first_in_line(now)?;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.peers.insert(id, Peer::new(Arc::clone(address), now, &self.waited));
        self.ids.insert(Arc::clone(address), id);
        self.stand_in_line(id);
        Some(id)
    }

    /// One address that takes nothing must not use up the memory of all.
    fn drop_from_the_fattest(&mut self) {
        let Some(peer) = self.peers.values_mut().max_by_key(|peer| peer.queue.bytes()) else { return };
        let before = peer.queue.bytes();
        let dropped = peer.queue.drop_half();
        self.bytes = self.bytes - before + peer.queue.bytes();
        self.counts.dropped_full += dropped as u64;
    }

    /// Sends and reads.
    pub(super) fn serve(&mut self, now: Mono, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Link::Open(wire) = &mut peer.link else { return };
        let (flow, before) = (wire.flow(), peer.queue.bytes());
        let has_news = std::mem::take(&mut peer.has_news);
        peer.send_by = None;
        let served = wire.serve((&mut peer.queue, &mut self.inbox), &peer.address, now, has_news);
        let flow_after = wire.flow();
        self.bytes = self.bytes - before + peer.queue.bytes();
        let moved = served.sent + served.received > 0;
        if moved {
            peer.used = now;
        }
        if peer.is_up() {
            (peer.refusals, peer.is_misunderstood) = (0, false);
        }
        self.connecting -= usize::from(flow.is_connecting());
        self.connecting += usize::from(flow_after.is_connecting());
        self.line_may_move |= moved || flow != flow_after;
        self.slice.spend(served.bytes);
        self.counts.sent += served.sent as u64;
        match served.outcome {
            Outcome::Settled => self.arm(id),
            Outcome::More => self.mark(id),
            Outcome::Lost => self.lose(now, id),
        }
    }

    /// The connection is gone. libzmq would connect again for ever, for nothing if nothing waits; and after an error in the
    /// protocol it never would. So the socket goes in either case.
    fn lose(&mut self, now: Mono, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.queue.is_empty() {
            self.remove(id);
            return;
        }
        match peer.flow() {
            // It was refused: its frames have waited before.
            Some(Flow::Connecting { .. }) => {
                peer.refusals = peer.refusals.saturating_add(1);
                peer.is_misunderstood = matches!(&peer.link, Link::Open(wire) if wire.is_shaking());
            }
            Some(Flow::Up { .. } | Flow::Full { .. }) | None => peer.waiting_since = now,
        }
        self.rest(now, id);
    }

    /// Closes the socket, if there is one, and comes back to the line a little later, or much later if it was refused often.
    pub(super) fn rest(&mut self, now: Mono, id: PeerId) {
        let refusals = self.peers.get(&id).map_or(0, |peer| peer.refusals);
        let rest = (REST * 2_u32.saturating_pow(refusals.saturating_sub(1))).min(REST_MAX);
        self.relink(id, Link::Resting { until: now + rest });
    }

    /// Closes the socket, if there is one, and goes to the end of the line.
    pub(super) fn rejoin(&mut self, now: Mono, id: PeerId) {
        self.relink(id, Link::Line { since: now });
        self.stand_in_line(id);
    }

    fn stand_in_line(&mut self, id: PeerId) {
        // Behind others it waits as they do.
        self.line_may_move |= self.line.is_empty();
        self.line.push_back(id);
    }

    fn relink(&mut self, id: PeerId, link: Link) {
        if let Some(peer) = self.peers.get_mut(&id) {
            let link = std::mem::replace(&mut peer.link, link);
            self.close(link);
            self.arm(id);
        }
    }

    /// Opens the socket of a peer that is next in the line.
    pub(super) fn open(&mut self, now: Mono, id: PeerId, wire: Box<Wire>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let Err(error) = self.poller.add(wire.watched(), id) {
            log::warn!("push: cannot watch a socket: {error}");
            drop(wire);
            return self.rest(now, id);
        }
        peer.link = Link::Open(wire);
        self.open_sockets += 1;
        self.connecting += 1;
        // What happened before the socket was watched is not told again.
        self.serve(now, id);
    }

    fn close(&mut self, link: Link) {
        let Link::Open(wire) = link else { return };
        // It fails for a descriptor that is not watched only.
        let _ = self.poller.remove(wire.watched().0);
        self.open_sockets -= 1;
        self.connecting -= usize::from(wire.flow().is_connecting());
        self.line_may_move = true;
    }

    /// Forgets a peer and closes its socket, which goes on delivering for the linger time. Gives back what had waited.
    pub(super) fn remove(&mut self, id: PeerId) -> Option<(Arc<PushAddress>, usize)> {
        let peer = self.peers.remove(&id)?;
        self.ids.remove(&peer.address);
        if let Some(at) = peer.armed {
            self.timers.remove(&(at, id));
        }
        self.bytes -= peer.queue.bytes();
        self.close(peer.link);
        Some((peer.address, peer.queue.len()))
    }

    /// Drops what waits for an address, closes its socket, counts and says so. A later push begins anew.
    pub(super) fn give_up(&mut self, now: Mono, id: PeerId, reason: Reason) {
        let reason = match self.peers.get(&id) {
            Some(peer) if reason == Reason::Unreachable => peer.unreachable(),
            Some(_) | None => reason,
        };
        let Some((address, frames)) = self.remove(id) else { return };
        if frames == 0 {
            return;
        }
        let count = match reason {
            Reason::Crowded => &mut self.counts.dropped_evicted,
            Reason::Unreachable | Reason::Handshake | Reason::NotReading | Reason::Unresolved(_) => {
                &mut self.counts.dropped_unreachable
            }
        };
        *count += frames as u64;
        self.complaints.dropped(now, &address, &reason.text(&address, self.keys.public()), frames);
    }

    /// Takes so many answers of the resolver at the most, and lets everyone who waits for one of them go on.
    pub(super) fn take_answers(&mut self, now: Mono, answers_max: usize) {
        for _ in 0..answers_max {
            let Some(name) = self.resolver.poll_answer(now) else { return };
            let asks = |peer: &Peer| {
                matches!(peer.link, Link::Resolving)
                    && matches!(&peer.address.host, Host::Name(asked) if *asked == name)
            };
            let asking: Vec<PeerId> = self.peers.iter().filter(|(_, peer)| asks(peer)).map(|(id, _)| *id).collect();
            for id in asking {
                self.rejoin(now, id);
            }
        }
    }
}
