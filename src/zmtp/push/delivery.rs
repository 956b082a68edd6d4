//! The engine: pushes, reports of sockets, answers and time go in, and effects come out. It connects the parts of the
//! state.

use std::sync::Arc;

use super::config::PushConfig;
use super::counts::PushCounts;
use super::effect::{Effect, Progress, ReceiverId, Served, Timer};
use super::exchange::Exchange;
use super::host_names::{HostNames, Lookup};
use super::inbox::{Inbox, Received};
use super::lifecycle::Lifecycle;
use super::receiver::{DropReason, Due, Receiver, Socket, Stage};
use super::sockets::Room;
use super::turn::{TIMERS_PER_TURN, Turn};
use base::{Host, IpAddr, Mono, PublicKey, PushAddress};

/// Queued frames after which a connected receiver is served at once, so that its queue does not limit the pushes of one
/// turn.
pub(super) const FRAMES_PER_SERVICE: usize = 256;

/// Bytes of a short frame, including its cost. A change of a graph has about 200.
const SHORT_BYTES: usize = 512;

/// Delivers frames to receivers. The [module](super) states the order of the calls.
#[derive(Debug)]
pub struct Delivery {
    pub(super) life: Lifecycle,
    pub(super) names: HostNames,
    pub(super) turn: Turn,
    inbox: Inbox,
    /// Whether a flush is in progress, which serves marked receivers and checks the line; otherwise only a push is.
    is_flushing: bool,
    is_stopping: bool,
}

impl Delivery {
    /// Without frames and sockets. Receivers see `our_key`.
    #[must_use]
    pub fn new(config: PushConfig, our_key: PublicKey) -> Self {
        Self {
            names: HostNames::new(config.policy.clone()),
            turn: Turn::new(),
            inbox: Inbox::new(config.acknowledgements_max),
            life: Lifecycle::new(config, our_key),
            is_flushing: false,
            is_stopping: false,
        }
    }

    /// Takes one frame. If the receiver is connected, the next flush sends it, or it is delayed until `by` at the
    /// latest, to share a write with other frames for the receiver. Otherwise it waits for a connection.
    pub fn handle_push(&mut self, now: Mono, by: Mono, address: &Arc<PushAddress>, frame: Vec<u8>) {
        let Some(id) = self.life.receivers.find(address).or_else(|| self.life.join(now, address)) else {
            self.life.counts.dropped_evicted += 1;
            return;
        };
        let Some(receiver) = self.life.receivers.get_mut(id) else { return };
        if receiver.queue.is_empty() {
            receiver.waiting_since = now;
        }
        self.life.counts.dropped_full += self.life.backlog.push(&mut receiver.queue, now, frame) as u64;
        let is_up = receiver.is_up();
        let is_long = receiver.queue.len().is_multiple_of(FRAMES_PER_SERVICE);
        if is_up && by <= now {
            self.turn.mark(id, receiver);
        } else if is_up && !receiver.is_marked {
            receiver.send_by = Some(receiver.send_by.map_or(by, |before| before.min(by)));
        }
        self.life.arm(id);
        if is_up && is_long {
            // The rest of the queue is bounded after the service.
            self.life.serve(id);
        } else {
            self.life.bound_backlog();
        }
    }

    /// The number of frames of at most [`SHORT_BYTES`] for which the queue of an address has room if half of it stays
    /// free for other frames. An empty queue has room for at least one.
    #[must_use]
    pub fn room(&self, address: &Arc<PushAddress>) -> usize {
        let queue = self.life.receivers.find(address).and_then(|id| self.life.receivers.get(id)).map(|at| &at.queue);
        let (frames, bytes) = queue.map_or((0, 0), |queue| (queue.len(), queue.bytes()));
        let PushConfig { queue_max, queue_bytes_max, .. } = self.life.config;
        let room = (queue_max / 2).saturating_sub(frames);
        let room = room.min((queue_bytes_max / 2).saturating_sub(bytes) / SHORT_BYTES);
        if frames == 0 { room.max(1) } else { room }
    }

    /// Whether no frame waits for its receiver.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.life.is_drained()
    }

    /// A turn of the loop begins, with a full budget.
    pub const fn handle_turn(&mut self) {
        self.turn.renew();
    }

    /// A socket is ready; `is_readable` unless it is only writable.
    pub fn handle_ready(&mut self, id: ReceiverId, is_readable: bool) {
        if let Some(receiver) = self.life.receivers.get_mut(id) {
            receiver.has_news |= is_readable;
            self.turn.mark(id, receiver);
        }
    }

    /// A host name has been looked up. It has no addresses if `ips` is empty. Receivers that wait for it rejoin the line.
    pub fn handle_resolved(&mut self, now: Mono, name: &str, ips: Vec<IpAddr>) {
        self.names.handle_resolved(now, name, ips);
        let asks = |receiver: &Receiver| {
            matches!(receiver.stage, Stage::Resolving)
                && matches!(&receiver.address.host, Host::Name(asked) if asked == name)
        };
        for id in self.life.receivers.ids_of(asks) {
            self.life.rejoin(now, id);
        }
    }

    /// Handles everything that is due, within the budget of a turn.
    pub fn handle_timeout(&mut self, now: Mono) {
        for _ in 0..TIMERS_PER_TURN {
            match self.life.timers.pop_due(now) {
                Some(Timer::Receiver(id)) => self.handle_due(now, id),
                Some(Timer::Admission) => self.life.sockets.wake_line(),
                Some(Timer::Linger) => self.life.close_all(now),
                Some(Timer::Unfinished) | None => return,
            }
        }
    }

    /// Sends the pushed frames, one write for each receiver, and begins to connect, within the budget of the turn.
    pub fn handle_flush(&mut self) {
        self.turn.flush();
        self.is_flushing = true;
    }

    /// The frames of a receiver whose socket is being served; `None` if it has none.
    pub fn exchange(&mut self, now: Mono, id: ReceiverId) -> Option<Exchange<'_>> {
        let Receiver { address, queue, stage: Stage::Open(Socket { pace, .. }), .. } =
            self.life.receivers.get_mut(id)?
        else {
            return None;
        };
        pace.tick(now);
        Some(Exchange { address, queue, backlog: &mut self.life.backlog, pace, inbox: &mut self.inbox })
    }

    /// A socket has been served.
    pub fn handle_served(&mut self, now: Mono, id: ReceiverId, served: &Served) {
        let Some(receiver) = self.life.receivers.get_mut(id) else { return };
        let Stage::Open(socket) = &mut receiver.stage else { return };
        let before = socket.flow();
        socket.handle_served(now, served);
        let flow = socket.flow();
        if !socket.is_connecting() {
            (receiver.refusals, receiver.is_misunderstood) = (0, false);
        }
        self.life.sockets.handle_flow(before, flow);
        if served.sent + served.received > 0 {
            receiver.used_at = now;
            self.life.sockets.wake_line();
        }
        self.turn.spend(served.bytes);
        self.life.counts.sent += served.sent as u64;
        match served.progress {
            Progress::Settled => self.life.arm(id),
            Progress::More => self.turn.mark(id, receiver),
            Progress::Lost => self.life.lose(now, id),
        }
        self.life.bound_backlog();
    }

    /// No socket could be opened for a receiver. Descriptors become free when others close; until then its frames wait.
    pub fn handle_connect_failed(&mut self, now: Mono, id: ReceiverId, error: &str) {
        self.life.fail_to_connect(now, id, error);
    }

    /// Gives up receivers that have had enough time to answer. Delivery to all others continues for at most the linger
    /// time.
    pub fn handle_stop(&mut self, now: Mono) {
        self.is_stopping = true;
        self.life.timers.set(Timer::Linger, now + self.life.config.linger);
        let grace = self.life.config.grace();
        let is_dead = |receiver: &Receiver| receiver.connecting_since().is_some_and(|at| now.since(at) >= grace);
        for id in self.life.receivers.ids_of(is_dead) {
            self.life.give_up(now, id, DropReason::Unreachable);
        }
    }

    /// Whether everything has been delivered or dropped since [`Self::handle_stop`], and every socket is closed.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopping && self.life.receivers.len() == 0
    }

    /// The next deadline and its reason. It is `now` while there is work that no event announces.
    #[must_use]
    pub fn poll_timeout(&self, now: Mono) -> Option<(Mono, Timer)> {
        if self.turn.has_more() || self.life.sockets.may_admit() {
            return Some((now, Timer::Unfinished));
        }
        self.life.timers.next().map(|(at, timer)| (at, *timer))
    }

    /// The next effect. It is decided only after the result of the previous one, on which it may depend.
    pub fn poll_effect(&mut self, now: Mono) -> Option<Effect> {
        loop {
            if let Some(effect) = self.life.effects.pop_front() {
                return Some(effect);
            }
            if !self.advance(now) {
                return None;
            }
        }
    }

    /// The next frame that a receiver has sent back.
    pub fn poll_acknowledgement(&mut self) -> Option<Received> {
        self.inbox.pop()
    }

    /// Counters of frames since the start.
    #[must_use]
    pub const fn counts(&self) -> PushCounts {
        let Inbox { received, discarded, .. } = self.inbox;
        PushCounts { received, discarded, open_sockets: self.life.sockets.open(), ..self.life.counts }
    }

    /// Takes one step of a flush, or the last step of a stop. Returns false if there is none.
    fn advance(&mut self, now: Mono) -> bool {
        if self.is_flushing {
            if let Some(id) = self.turn.next() {
                if let Some(receiver) = self.life.receivers.get_mut(id) {
                    receiver.is_marked = false;
                    self.life.serve(id);
                }
                return true;
            }
            self.is_flushing = self.admit_next(now);
            if self.is_flushing {
                return true;
            }
        }
        let is_over = self.is_stopping && !self.is_stopped() && self.life.is_drained();
        if is_over {
            self.life.close_all(now);
        }
        is_over
    }

    fn handle_due(&mut self, now: Mono, id: ReceiverId) {
        let Some(receiver) = self.life.receivers.get_mut(id) else { return };
        match receiver.due(&self.life.config) {
            Some((at, due)) if at <= now => match due {
                Due::Serve => self.turn.mark(id, receiver),
                Due::CloseIdle => drop(self.life.remove(id)),
                Due::GiveUp(reason) => self.life.give_up(now, id, reason),
                Due::Rejoin => self.life.rejoin(now, id),
            },
            Some(_) | None => self.life.arm(id),
        }
    }

    /// Handles the first receiver in the line. Returns false if the line stays as it is.
    fn admit_next(&mut self, now: Mono) -> bool {
        if !self.life.sockets.may_admit() {
            self.life.sockets.rest_line();
            return false;
        }
        // Without budget the line is not put to rest: it may move in the next turn.
        let Some(id) = self.life.sockets.first_in_line().filter(|_| self.turn.take_admission()) else { return false };
        let Some(ip) = self.ip_of_first(now, id) else {
            self.life.sockets.leave_line();
            return true;
        };
        let has_room = self.make_room(now, id);
        if has_room {
            self.life.sockets.leave_line();
            self.life.connect(now, id, ip);
        } else {
            self.life.sockets.rest_line();
        }
        has_room
    }

    /// The address for the first receiver in the line; `None` if it is gone, or leaves the line for another reason.
    fn ip_of_first(&mut self, now: Mono, id: ReceiverId) -> Option<IpAddr> {
        let receiver = self.life.receivers.get_mut(id).filter(|receiver| receiver.is_waiting())?;
        if receiver.queue.is_empty() {
            self.life.remove(id);
            return None;
        }
        let name = match &receiver.address.host {
            Host::Ip(ip) => return Some(*ip),
            Host::Name(name) => name,
        };
        match self.names.look_up(now, name, receiver.address.port) {
            Lookup::Found(ip) => return Some(ip),
            Lookup::Ask => {
                self.life.effects.push_back(Effect::Resolve(name.clone()));
                receiver.stage = Stage::Resolving;
            }
            Lookup::Asked => receiver.stage = Stage::Resolving,
            Lookup::Failed(why) => self.life.give_up(now, id, DropReason::Unresolved(why)),
        }
        None
    }

    /// Makes room for one more socket if possible. Otherwise sets the timer for the next attempt.
    fn make_room(&mut self, now: Mono, newcomer: ReceiverId) -> bool {
        self.life.timers.clear(&Timer::Admission);
        let since = match self.life.receivers.get(newcomer).map(|receiver| &receiver.stage) {
            Some(Stage::Waiting { since }) => *since,
            Some(Stage::Resolving | Stage::Resting { .. } | Stage::Open(_)) | None => now,
        };
        match self.life.sockets.room(now, since, &self.life.receivers, &self.life.config) {
            Room::Free => return true,
            Room::TakeFrom(id) => {
                if self.life.receivers.get(id).and_then(Receiver::connecting_since).is_some() {
                    // The receiver may be alive behind a slow network, so its frames keep their time limit.
                    self.life.rejoin(now, id);
                } else {
                    self.life.give_up(now, id, DropReason::Crowded);
                }
                return true;
            }
            Room::From(at) => self.life.timers.set(Timer::Admission, at),
            Room::None => {}
        }
        false
    }
}
