//! The stages of receivers and their transitions, with the sockets, timers and counts that depend on them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::backlog::Backlog;
use super::complaints::Complaints;
use super::config::PushConfig;
use super::counts::PushCounts;
use super::effect::{Effect, ReceiverId, Timer};
use super::receiver::{DropReason, Receiver, Socket, Stage};
use super::receivers::Receivers;
use super::sockets::Sockets;
use base::timers::Timers;
use base::{IpAddr, Mono, PublicKey, PushAddress};

/// Pause before the next attempt of a receiver that lost its connection or got no socket.
pub(super) const REST: Duration = Duration::from_millis(100);

/// The longest such pause; it doubles with each refusal.
pub(super) const REST_MAX: Duration = Duration::from_secs(2);

/// The receivers with their sockets, effects, counts and complaints.
#[derive(Debug)]
pub(super) struct Lifecycle {
    pub(super) config: PushConfig,
    /// The key that receivers with CURVE must admit.
    our_key: PublicKey,
    pub(super) receivers: Receivers,
    pub(super) backlog: Backlog,
    pub(super) sockets: Sockets,
    pub(super) timers: Timers<Timer>,
    pub(super) counts: PushCounts,
    complaints: Complaints,
    pub(super) effects: VecDeque<Effect>,
}

impl Lifecycle {
    pub(super) fn new(config: PushConfig, our_key: PublicKey) -> Self {
        Self {
            our_key,
            receivers: Receivers::default(),
            backlog: Backlog::new(config.queue(), config.bytes_max()),
            sockets: Sockets::default(),
            timers: Timers::default(),
            counts: PushCounts::default(),
            complaints: Complaints::default(),
            effects: VecDeque::new(),
            config,
        }
    }

    /// Adds an address. If there are too many, the first receiver in the line is dropped, or the result is `None` if
    /// the line is empty.
    pub(super) fn join(&mut self, now: Mono, address: &Arc<PushAddress>) -> Option<ReceiverId> {
        if self.receivers.len() >= self.config.receivers_max() {
            let first = loop {
                let id = self.sockets.leave_line()?;
                if self.receivers.get(id).is_some_and(Receiver::is_waiting) {
                    break id;
                }
            };
            self.give_up(now, first, DropReason::Crowded);
        }
        let id = self.receivers.add(now, address);
        self.sockets.join(id);
        Some(id)
    }

    pub(super) fn connect(&mut self, now: Mono, id: ReceiverId, ip: IpAddr) {
        let Some(receiver) = self.receivers.get_mut(id) else { return };
        receiver.stage = Stage::Open(Socket::new(now));
        self.sockets.handle_opened();
        let PushAddress { port, key, .. } = *receiver.address;
        self.effects.push_back(Effect::Connect { id, ip, port, key });
        // Serve it once, because the shell does not report readiness from before it watched the socket.
        self.serve(id);
        self.arm(id);
    }

    /// No socket could be opened. Descriptors become free when others close; until then the frames wait.
    pub(super) fn fail_to_connect(&mut self, now: Mono, id: ReceiverId, error: &str) {
        if let Some(receiver) = self.receivers.get(id) {
            let complaint = self.complaints.no_socket(now, &receiver.address, error);
            self.effects.extend(complaint.map(Effect::Log));
        }
        self.rest(now, id);
    }

    pub(super) fn serve(&mut self, id: ReceiverId) {
        if let Some(receiver) = self.receivers.get_mut(id)
            && receiver.socket().is_some()
        {
            receiver.send_by = None;
            let has_news = std::mem::take(&mut receiver.has_news);
            self.effects.push_back(Effect::Serve { id, has_news });
        }
    }

    /// The connection is gone, and so is the socket. A receiver without frames is forgotten.
    pub(super) fn lose(&mut self, now: Mono, id: ReceiverId) {
        let Some(receiver) = self.receivers.get_mut(id) else { return };
        if receiver.queue.is_empty() {
            self.remove(id);
            return;
        }
        match receiver.socket() {
            // The connection was refused, so its frames have been waiting since before the attempt.
            Some(socket) if socket.is_connecting() => {
                receiver.is_misunderstood = socket.is_shaking();
                receiver.refusals = receiver.refusals.saturating_add(1);
            }
            Some(_) | None => receiver.waiting_since = now,
        }
        self.rest(now, id);
    }

    /// Closes the socket, if any; the receiver joins the line a little later, or much later if it was refused often.
    fn rest(&mut self, now: Mono, id: ReceiverId) {
        let refusals = self.receivers.get(id).map_or(0, |receiver| receiver.refusals);
        let rest = (REST * 2_u32.saturating_pow(refusals.saturating_sub(1))).min(REST_MAX);
        self.set_stage(id, Stage::Resting { until: now + rest });
    }

    /// Closes the socket, if any; the receiver goes to the end of the line.
    pub(super) fn rejoin(&mut self, now: Mono, id: ReceiverId) {
        self.set_stage(id, Stage::Waiting { since: now });
        self.sockets.join(id);
    }

    fn set_stage(&mut self, id: ReceiverId, stage: Stage) {
        if let Some(receiver) = self.receivers.get_mut(id) {
            let before = std::mem::replace(&mut receiver.stage, stage);
            self.close(id, &before);
            self.arm(id);
        }
    }

    fn close(&mut self, id: ReceiverId, stage: &Stage) {
        if let Stage::Open(socket) = stage {
            self.sockets.handle_closed(socket.flow());
            self.effects.push_back(Effect::Close(id));
        }
    }

    /// Forgets a receiver and closes its socket.
    pub(super) fn remove(&mut self, id: ReceiverId) -> Option<Receiver> {
        let receiver = self.receivers.remove(id)?;
        self.timers.clear(&Timer::Receiver(id));
        self.close(id, &receiver.stage);
        Some(receiver)
    }

    /// Drops the frames of a receiver and closes its socket. A later push starts anew.
    pub(super) fn give_up(&mut self, now: Mono, id: ReceiverId, reason: DropReason) {
        let Some(receiver) = self.remove(id) else { return };
        let reason = if reason == DropReason::Unreachable { receiver.unreachable() } else { reason };
        let frames = self.backlog.drop_all(&receiver.queue);
        if frames == 0 {
            return;
        }
        let count = match reason {
            DropReason::Crowded => &mut self.counts.dropped_evicted,
            DropReason::Unreachable | DropReason::Handshake | DropReason::NotReading | DropReason::Unresolved(_) => {
                &mut self.counts.dropped_unreachable
            }
        };
        *count += frames as u64;
        let why = |address: &PushAddress| reason.text(address, self.our_key);
        let complaints = self.complaints.dropped(now, receiver.address, frames, why);
        self.effects.extend(complaints.into_iter().flatten().map(Effect::Log));
    }

    /// Sets the timer of a receiver. If the deadline was postponed, that is noticed when the timer is due.
    pub(super) fn arm(&mut self, id: ReceiverId) {
        if let Some((at, _)) = self.receivers.get(id).and_then(|receiver| receiver.due(&self.config)) {
            self.timers.set_earlier(Timer::Receiver(id), at);
        }
    }

    /// Drops frames from the longest queues until the total is within its limit: a receiver that does not read must not
    /// use up the memory of all.
    pub(super) fn bound_backlog(&mut self) {
        while self.backlog.is_over()
            && let Some((id, receiver)) = self.receivers.with_longest_queue()
        {
            self.counts.dropped_full += self.backlog.drop_half(&mut receiver.queue) as u64;
            // If the only frame was dropped, the socket is now idle.
            self.arm(id);
        }
    }

    /// Whether no frame is queued and connections have written all frames that they have taken.
    pub(super) fn is_drained(&self) -> bool {
        self.backlog.is_empty() && self.receivers.iter().all(|(_, receiver)| receiver.is_drained())
    }

    pub(super) fn close_all(&mut self, now: Mono) {
        for id in self.receivers.ids_of(|_| true) {
            self.give_up(now, id, DropReason::Unreachable);
        }
    }
}
