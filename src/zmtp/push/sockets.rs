//! Distributes the sockets when more receivers want one than may have one.
//!
//! 1. Receivers that have not answered yet hold at most three quarters of the sockets, so that a flood of dead ones
//!    cannot close all live connections.
//! 2. When there is no free socket, one is taken away. The first choice is the longest unused one without queued
//!    frames, if it has been unused for the grace time, a tenth of `connect_timeout`. The second is the one that has
//!    tried to connect longest, if it has tried for the grace time. The third is the one whose receiver has not read
//!    for the longest time, if for at least `connect_timeout`. Only the last case drops frames. In the second, the
//!    receiver goes to the end of the line, where its frames keep their time limit.
//! 3. Otherwise the newcomer waits in a line. When that is full, the first in it is dropped. A newcomer that has waited
//!    for the grace time takes the longest unused socket even if that was used a moment ago.
//!
//! A connection with frames in progress is closed only as a last resort: a slow receiver would have frames of the old
//! and the new connection at the same time, and would read them alternately.

use std::collections::VecDeque;

use super::config::PushConfig;
use super::effect::ReceiverId;
use super::receiver::{Flow, Receiver, Stage};
use super::receivers::Receivers;
use base::Mono;

/// The number of open sockets, and the line of receivers that want one.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    open: usize,
    /// Number of open sockets that are still connecting.
    connecting: usize,
    /// The waiting receivers in order of arrival. It may name receivers that are gone.
    line: VecDeque<ReceiverId>,
    /// Whether an event may have unblocked the first in the line. The search for a victim looks at every receiver, so
    /// it is not repeated while its result cannot change.
    line_may_move: bool,
}

/// Whether one more socket may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// Yes, once this receiver has given up its socket.
    TakeFrom(ReceiverId),
    /// Not yet, but from this moment on.
    From(Mono),
    /// Not before some event.
    None,
}

impl Sockets {
    pub(super) const fn open(&self) -> usize {
        self.open
    }

    /// A socket begins to connect.
    pub(super) const fn handle_opened(&mut self) {
        self.open += 1;
        self.connecting += 1;
    }

    /// The state of a socket has changed.
    pub(super) fn handle_flow(&mut self, before: Flow, after: Flow) {
        self.connecting -= usize::from(is_connecting(before));
        self.connecting += usize::from(is_connecting(after));
        self.line_may_move |= before != after;
    }

    /// A socket was closed.
    pub(super) fn handle_closed(&mut self, flow: Flow) {
        self.open -= 1;
        self.connecting -= usize::from(is_connecting(flow));
        self.line_may_move = true;
    }

    /// A receiver joins the line.
    pub(super) fn join(&mut self, id: ReceiverId) {
        // Behind others, it cannot be admitted before them.
        self.line_may_move |= self.line.is_empty();
        self.line.push_back(id);
    }

    pub(super) fn first_in_line(&self) -> Option<ReceiverId> {
        self.line.front().copied()
    }

    /// Removes the first receiver of the line.
    pub(super) fn leave_line(&mut self) -> Option<ReceiverId> {
        self.line.pop_front()
    }

    /// Has the line checked again.
    pub(super) const fn wake_line(&mut self) {
        self.line_may_move = true;
    }

    /// Leaves the line unchecked until some event.
    pub(super) const fn rest_line(&mut self) {
        self.line_may_move = false;
    }

    /// Whether a receiver may leave the line.
    pub(super) fn may_admit(&self) -> bool {
        self.line_may_move && !self.line.is_empty()
    }

    /// Whether one more socket may be opened for a newcomer that has been in the line since `since`.
    pub(super) fn room(&self, now: Mono, since: Mono, receivers: &Receivers, config: &PushConfig) -> Room {
        let too_many_connect = self.connecting >= config.connecting_max();
        if !too_many_connect && self.open < config.open_max() {
            return Room::Free;
        }
        match victim(now, since, too_many_connect, receivers, config) {
            Some((at, id)) if at <= now => Room::TakeFrom(id),
            Some((at, _)) => Room::From(at),
            None => Room::None,
        }
    }

    /// Checks the counts and the line against the receivers.
    pub(super) fn sanity_check(&self, receivers: &Receivers, config: &PushConfig) {
        let count = |holds: fn(Flow) -> bool| {
            receivers.iter().filter(|(_, receiver)| receiver.flow().is_some_and(holds)).count()
        };
        assert_eq!((self.open, self.connecting), (count(|_| true), count(is_connecting)));
        assert!(self.open <= config.open_max() && self.connecting <= config.connecting_max());
        let mut line: Vec<ReceiverId> = self.line.iter().copied().filter(|id| receivers.get(*id).is_some()).collect();
        line.sort_unstable();
        assert_eq!(line, receivers.ids_of(Receiver::is_waiting), "a waiting receiver is in the line once");
    }
}

/// The receiver that must give up its socket, and the moment from which it must.
fn victim(
    now: Mono,
    newcomer_since: Mono,
    only_connecting: bool,
    receivers: &Receivers,
    config: &PushConfig,
) -> Option<(Mono, ReceiverId)> {
    let grace = config.grace();
    let open = || receivers.iter().filter(|(_, receiver)| matches!(receiver.stage, Stage::Open(_)));
    let connecting = open().filter_map(|(id, receiver)| Some((receiver.connecting_since()? + grace, id))).min();
    if only_connecting {
        return connecting;
    }
    let idle = open().filter(|(_, receiver)| receiver.queue.is_empty()).min_by_key(|(_, receiver)| receiver.used_at);
    let idle = idle.map(|(id, receiver)| (receiver.used_at.min(newcomer_since) + grace, id));
    let full = open().filter_map(|(id, receiver)| Some((receiver.full_since()? + config.connect_timeout, id))).min();
    let candidates = || [idle, connecting, full].into_iter().flatten();
    candidates().find(|(at, _)| *at <= now).or_else(|| candidates().min())
}

const fn is_connecting(flow: Flow) -> bool {
    matches!(flow, Flow::Connecting { .. })
}
