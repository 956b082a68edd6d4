//! All addresses that something waits for or that have a socket: frames in, frames out.
//!
//! Who gets one of the sockets is [`super::room`]'s concern; what is due when, and the end, [`super::deadlines`]'s.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::complaints::Complaints;
use super::counts::{Counters, add};
use super::inbox::Inbox;
use super::peer::{Link, Peer, PeerId, Reason};
use super::poller::Poller;
use super::queue::QueueLimits;
use super::resolve::Resolver;
use super::wire::{Flow, Outcome, Wire, Wires};
use crate::types::Mono;
use crate::types::{Host, PushAddress};

/// Pause before an address that lost its connection, or got no socket, tries again.
pub(super) const REST: Duration = Duration::from_millis(100);

/// The longest such pause; it doubles with each refusal.
const REST_MAX: Duration = Duration::from_secs(2);

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

/// The table. `poller`, `wires` and `resolver` are what its sockets need.
pub(super) struct Table {
    pub(super) limits: Limits,
    pub(super) wires: Wires,
    pub(super) poller: Poller,
    pub(super) resolver: Resolver,
    pub(super) inbox: Inbox,
    pub(super) counters: Arc<Counters>,
    pub(super) complaints: Complaints,
    pub(super) peers: BTreeMap<PeerId, Peer>,
    ids: HashMap<Arc<PushAddress>, PeerId>,
    next_id: PeerId,
    /// Who waits for a socket, in order of arrival. It may name peers that have gone.
    pub(super) line: VecDeque<PeerId>,
    /// When the line may move though nothing else happens.
    pub(super) admit_at: Option<Mono>,
    /// Who is to be served in this turn.
    pub(super) marked: VecDeque<PeerId>,
    pub(super) timers: BTreeSet<(Mono, PeerId)>,
    pub(super) bytes: usize,
    pub(super) open_sockets: usize,
}

/// What a table is made of.
pub(super) struct Parts {
    pub(super) limits: Limits,
    pub(super) wires: Wires,
    pub(super) poller: Poller,
    pub(super) resolver: Resolver,
    pub(super) inbox: Inbox,
    pub(super) counters: Arc<Counters>,
}

impl Table {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { limits, wires, poller, resolver, inbox, counters } = parts;
        Self {
            limits,
            wires,
            poller,
            resolver,
            inbox,
            counters,
            complaints: Complaints::default(),
            peers: BTreeMap::new(),
            ids: HashMap::new(),
            next_id: 0,
            line: VecDeque::new(),
            admit_at: None,
            marked: VecDeque::new(),
            timers: BTreeSet::new(),
            bytes: 0,
            open_sockets: 0,
        }
    }

    /// Takes one frame. It goes out in [`Self::serve_marked`] or waits for its address.
    pub(super) fn enqueue(&mut self, now: Mono, address: &Arc<PushAddress>, frame: Vec<u8>) {
        let id = match self.ids.get(address) {
            Some(id) => *id,
            None => match self.join(now, address) {
                Some(id) => id,
                None => return add(&self.counters.dropped_evicted, 1),
            },
        };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.queue.is_empty() {
            peer.waiting_since = now;
        }
        let before = peer.queue.bytes();
        let dropped = peer.queue.push(frame, self.limits.queue);
        self.bytes = self.bytes - before + peer.queue.bytes();
        let is_up = peer.is_up();
        add(&self.counters.dropped_full, dropped);
        if is_up {
            self.mark(id);
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
        self.peers.insert(id, Peer::new(Arc::clone(address), now));
        self.ids.insert(Arc::clone(address), id);
        self.line.push_back(id);
        Some(id)
    }

    /// One address that takes nothing must not use up the memory of all.
    fn drop_from_the_fattest(&mut self) {
        let Some(peer) = self.peers.values_mut().max_by_key(|peer| peer.queue.bytes()) else { return };
        let before = peer.queue.bytes();
        let dropped = peer.queue.drop_half();
        self.bytes = self.bytes - before + peer.queue.bytes();
        add(&self.counters.dropped_full, dropped);
    }

    fn mark(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id)
            && !std::mem::replace(&mut peer.marked, true)
        {
            self.marked.push_back(id);
        }
    }

    /// Serves everyone who has something to send or was not finished with; those who are not finished now are marked anew.
    pub(super) fn serve_marked(&mut self, now: Mono) {
        for id in std::mem::take(&mut self.marked) {
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.marked = false;
                self.serve(now, id, false);
            }
        }
    }

    /// Sends and reads. `woken` says that the poller named the peer.
    pub(super) fn serve(&mut self, now: Mono, id: PeerId, woken: bool) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Link::Open(wire) = &mut peer.link else { return };
        let before = peer.queue.bytes();
        let served = wire.serve((&mut peer.queue, &mut self.inbox), &peer.address, now, woken);
        self.bytes = self.bytes - before + peer.queue.bytes();
        if served.sent + served.received > 0 {
            peer.used = now;
        }
        if peer.is_up() {
            peer.refusals = 0;
        }
        add(&self.counters.sent, served.sent);
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
            Some(Flow::Connecting { .. }) => peer.refusals = peer.refusals.saturating_add(1),
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
    pub(super) fn open(&mut self, now: Mono, id: PeerId, wire: Wire) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let Err(error) = self.poller.add(wire.watched(), id) {
            log::warn!("push: cannot watch a socket: {error}");
            drop(wire);
            return self.rest(now, id);
        }
        peer.link = Link::Open(wire);
        self.open_sockets += 1;
        self.counters.open_sockets.store(self.open_sockets, Ordering::Relaxed);
        // What happened before the socket was watched is not told again.
        self.serve(now, id, false);
    }

    fn close(&mut self, link: Link) {
        let Link::Open(wire) = link else { return };
        // It fails for a descriptor that is not watched only.
        let _ = self.poller.remove(wire.watched().0);
        drop(wire);
        self.open_sockets -= 1;
        self.counters.open_sockets.store(self.open_sockets, Ordering::Relaxed);
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
        let Some((address, frames)) = self.remove(id) else { return };
        if frames == 0 {
            return;
        }
        let counter = match reason {
            Reason::Crowded => &self.counters.dropped_evicted,
            Reason::Unreachable | Reason::NotReading | Reason::Unresolved(_) => &self.counters.dropped_unreachable,
        };
        add(counter, frames);
        self.complaints.dropped(now, &address, reason.text(), frames);
    }

    /// Lets everyone who waits for an answer of the resolver go on.
    pub(super) fn take_answers(&mut self, now: Mono) {
        while let Some(name) = self.resolver.poll_answer(now) {
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
