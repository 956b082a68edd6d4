//! The messages that a connection may send in each state, and their consequences.

use std::time::Duration;

use super::files::Held;
use super::handout::CLOSED;
use super::peer::{Access, AckKind, Peer, Queued, Report, State};
use super::rests::Limit;
use super::{Connection, Destination, Effect, Master, STRANGERS_MAX, Timer};
use crate::wire::{FromMaster, FromWorker, MessageError, Offer, Order, RequestId};
use api::config::is_secret;
use base::{Now, Origin};

/// Grace time for a worker's own report after the time limit of its prompt. The worker applies that limit, too, and its report
/// contains more than a disconnection would. SIGTERM, SIGKILL two seconds later and the report take less than this.
const RUN_GRACE: Duration = Duration::from_secs(5);

/// The answer to a wrong secret.
const WRONG_SECRET: &str = "the secret is missing or wrong; it is SECRET of [prompt] at the master";

/// Characters of a worker's reason that are logged.
const REASON_CHARS_MAX: usize = 200;

impl Master {
    /// A peer has connected.
    pub fn handle_connected(&mut self, now: Now, connection: Connection, origin: Origin) {
        let places = self.settings.workers_max.saturating_add(STRANGERS_MAX).min(self.settings.connections_max);
        let is_full = self.peers.len() >= places;
        if self.phase.is_stopping() || (is_full && !self.make_room(now)) {
            if !self.phase.is_stopping() {
                self.log_refusal(now, &origin.to_string(), "all places are taken by workers (WORKERS_MAX, ulimit -n)");
            }
            return self.effects.push_back(Effect::Abort(connection));
        }
        self.peers.insert(connection, Peer::new(now.mono, origin));
        self.timers.set(Timer::Join(connection), now.mono + self.settings.join_timeout);
    }

    /// The peer has proved that it has an authorised key, and needs no secret.
    pub fn handle_authorised(&mut self, connection: Connection) {
        if let Some(peer) = self.peers.get_mut(connection) {
            peer.authorise();
        }
    }

    /// The peer is not served, for this reason, unless it proves that it has an authorised key.
    pub fn handle_stranger(&mut self, connection: Connection, why: String) {
        if let Some(peer) = self.peers.get_mut(connection) {
            peer.require_key(why);
        }
    }

    /// Drops one connection that has not joined or is being closed: the oldest of the address with the most such
    /// connections, so that an address which only guesses, or sends nothing, keeps no worker out. `false` if all
    /// connections belong to workers.
    fn make_room(&mut self, now: Now) -> bool {
        let Some(stranger) = self.peers.most_crowded() else { return false };
        self.log_refusal(now, &self.name_of(stranger), "it is not a worker, and another connection needs its place");
        self.take_back(now, stranger, "another connection needs its place", None);
        self.effects.push_back(Effect::Abort(stranger));
        self.forget(stranger);
        true
    }

    /// A connection is gone: closed by its peer, broken, or closed on request of [`Effect::Close`].
    pub fn handle_closed(&mut self, now: Now, connection: Connection) {
        let Some(peer) = self.peers.get(connection) else { return };
        if peer.state != State::Disconnecting {
            if peer.worker.is_some() {
                self.journal.info(format!("{} is gone", peer.name()));
            }
            let lease = self.grace_of(connection);
            self.take_back(now, connection, CLOSED, lease);
        }
        self.forget(connection);
        self.hand_out(now);
    }

    /// A message has arrived.
    pub fn handle_message(&mut self, now: Now, connection: Connection, message: FromWorker) {
        let Some(peer) = self.peers.get(connection) else { return };
        match (&peer.state, message) {
            // The file of this worker already waits for another one.
            (State::Disconnecting, _) => self.ignored += 1,
            (_, FromWorker::Leave) => self.disconnect(now, connection, "it leaves", None),
            // Each connection may try one secret.
            (State::Guessed, _) => self.ignored += 1,
            (_, FromWorker::Status { secret }) => self.send_status(now, connection, secret.as_deref()),
            (_, FromWorker::Order { order, secret }) => {
                if self.admit_client(now, connection, secret.as_deref()) {
                    self.carry_out_order(now, connection, order);
                }
            }
            (_, FromWorker::Budget { max, secret }) => {
                if self.admit_client(now, connection, secret.as_deref()) {
                    self.set_cost_max(max);
                    self.carry_out_order(now, connection, Order::Resume);
                }
            }
            (State::Stranger, FromWorker::Tail { query, secret }) => {
                if self.admit_client(now, connection, secret.as_deref()) {
                    self.tail(now, connection, *query);
                }
            }
            (State::Stranger, FromWorker::Join { worker, secret, splits, offer }) => {
                self.join(now, connection, &worker, secret.as_deref(), splits, &offer);
            }
            (State::Stranger, _) => self.refuse(now, connection, "the first message must be JOIN"),
            (_, FromWorker::Join { .. }) => {
                // The sender is a worker already. It may wait for the answer, so it gets one.
                self.ignored += 1;
                self.enqueue(now, connection, Queued::JoinAck);
            }
            (_, FromWorker::RequestAck(request)) => self.acknowledged(now, connection, &request, AckKind::Request),
            (_, FromWorker::CheckAck(request)) => self.acknowledged(now, connection, &request, AckKind::Check),
            // An earlier report waits until its answer is stored.
            (
                State::Working(_, Some(_)),
                FromWorker::Done { .. }
                | FromWorker::Failed { .. }
                | FromWorker::UsageLimited { .. }
                | FromWorker::Result(_),
            ) => self.ignored += 1,
            (State::Working(..), FromWorker::Done { .. }) => self.reported(now, connection, Report::Done),
            (State::Working(..), FromWorker::Failed { reason, is_loss: true }) => self.lost(now, connection, &reason),
            (State::Working(..), FromWorker::Failed { reason, is_loss: false }) => {
                self.reported(now, connection, Report::Failed(reason));
            }
            (State::Working(..), FromWorker::UsageLimited { retry_after, is_local, reason }) => {
                let reason = reason.chars().take(REASON_CHARS_MAX).collect();
                self.usage_limited(now, connection, Limit { retry_after, is_local, reason });
            }
            (State::Working(held, _), FromWorker::Result(part)) if held.run.as_ref() == Some(&part.run) => {
                return self.effects.push_back(Effect::StorePart(part));
            }
            (_, FromWorker::Cost { run, cost }) => self.record_cost(connection, &run, cost),
            (_, FromWorker::TailPart(part)) => self.tail_part(now, connection, *part),
            // A worker without a prompt, or one that has not acknowledged its prompt, refers to a prompt that it has
            // already reported.
            (
                _,
                FromWorker::Done { .. }
                | FromWorker::Failed { .. }
                | FromWorker::UsageLimited { .. }
                | FromWorker::Tail { .. }
                | FromWorker::Result(_),
            ) => {
                self.ignored += 1;
            }
        }
        self.hand_out(now);
    }

    /// The received text is not a message that a worker may send.
    pub fn handle_bad_message(&mut self, now: Now, connection: Connection, error: &MessageError) {
        let Some(peer) = self.peers.get(connection) else { return };
        match (error, &peer.state) {
            // A later version of a worker may send messages that are unknown here.
            (
                MessageError::UnknownType(_),
                State::Guessed | State::Settling | State::Idle(_) | State::Resting | State::Claiming,
            )
            | (MessageError::UnknownType(_), State::Requesting(..) | State::Working(..))
            | (_, State::Disconnecting) => self.ignored += 1,
            (MessageError::UnknownType(_), State::Stranger) | (MessageError::Malformed(_), _) => {
                self.refuse(now, connection, &error.to_string());
            }
        }
        self.hand_out(now);
    }

    fn join(
        &mut self,
        now: Now,
        connection: Connection,
        label: &str,
        secret: Option<&str>,
        splits: bool,
        offer: &Offer,
    ) {
        if !self.admit(now, connection, secret) {
            return;
        }
        if self.peers.workers() >= self.settings.workers_max {
            let max = self.settings.workers_max;
            return self.refuse(now, connection, &format!("there are {max} workers already (WORKERS_MAX)"));
        }
        self.timers.clear(&Timer::Join(connection));
        self.peers.join(connection, label, splits, offer, now.mono);
        self.journal.info(format!("{} has joined", self.name_of(connection)));
        self.rest_if_limited(now, connection);
        if splits && offer.resumes {
            self.welcome(now, connection, offer);
        } else {
            self.send_paced(now, connection, FromMaster::JoinAck);
        }
    }

    /// Refuses the sender of a request, unless it has a key or the secret, or needs neither. True if it is admitted.
    fn admit(&mut self, now: Now, connection: Connection, shown: Option<&str>) -> bool {
        let Some(peer) = self.peers.get(connection) else { return false };
        match (&self.settings.secret, peer.access()) {
            (_, Access::Authorised) | (None, Access::Secret) => return true,
            (Some(secret), _) if is_secret(secret, shown.unwrap_or_default()) => return true,
            (Some(_), _) => self.refuse_secret(now, connection),
            (None, Access::Key(why)) => {
                let reason = format!("{why}, or a SECRET of [prompt] on both sides");
                self.refuse(now, connection, &reason);
            }
        }
        false
    }

    fn send_status(&mut self, now: Now, connection: Connection, secret: Option<&str>) {
        if self.admit_client(now, connection, secret) {
            self.enqueue(now, connection, Queued::Status);
        }
    }

    /// Admits a client that makes a request or gives an order.
    fn admit_client(&mut self, now: Now, connection: Connection, secret: Option<&str>) -> bool {
        if !self.admit(now, connection, secret) {
            return false;
        }
        if self.timers.is_set(&Timer::Join(connection)) {
            // A client that keeps asking may stay.
            self.timers.set(Timer::Join(connection), now.mono + self.settings.join_timeout);
        }
        true
    }

    /// Sends the reason, and closes the connection.
    pub(super) fn refuse(&mut self, now: Now, connection: Connection, reason: &str) {
        self.log_refusal(now, &self.name_of(connection), reason);
        self.reject(now, connection, reason);
    }

    fn reject(&mut self, now: Now, connection: Connection, reason: &str) {
        if self.peers.get(connection).is_some_and(Peer::may_receive) {
            self.effects.push_back(Effect::Send(connection, FromMaster::Refused(reason.to_owned())));
        }
        self.disconnect(now, connection, "it is refused", None);
    }

    /// Logs a refusal, unless another one was logged recently.
    fn log_refusal(&mut self, now: Now, name: &str, reason: &str) {
        match self.refusals.take_line(now.mono) {
            None => {}
            Some(0) => self.journal.warn(format!("{name} is refused: {reason}")),
            Some(more) => {
                self.journal
                    .warn(format!("{name} is refused: {reason}; {more} more were refused since the last such line"));
            }
        }
    }

    /// Delays the answer to a wrong secret, but not the check of the next one: otherwise guesses would keep out a worker
    /// with the right secret at the same address, and all processes of a machine share one address.
    fn refuse_secret(&mut self, now: Now, connection: Connection) {
        if self.peers.get(connection).is_none_or(|peer| peer.state != State::Stranger) {
            return self.refuse(now, connection, WRONG_SECRET);
        }
        self.log_refusal(now, &self.name_of(connection), WRONG_SECRET);
        self.timers.clear(&Timer::Join(connection));
        self.peers.set(connection, State::Guessed, now.mono);
        self.timers.set(Timer::Refuse(connection), now.mono + self.settings.refusal_pause);
    }

    /// The pause after a wrong secret has passed.
    pub(super) fn reject_guess(&mut self, now: Now, connection: Connection) {
        self.reject(now, connection, WRONG_SECRET);
    }

    /// A label of a connection for people.
    pub(super) fn name_of(&self, connection: Connection) -> String {
        self.peers.get(connection).map(Peer::name).unwrap_or_default()
    }

    pub(super) fn done(&mut self, now: Now, connection: Connection) {
        let (name, took) = (self.name_of(connection), self.time_in_state(now, connection));
        if let Some(held) = self.end_run(now, connection) {
            self.progress.note(now, took);
            let seconds = took.as_secs_f64();
            self.spend(&held);
            self.journal.info(format!("{} is done by {name} after {seconds:.1} s", held.file));
            let run = held.run.clone();
            self.release(held, Destination::Done);
            self.acknowledge_report(connection, run);
        }
    }

    pub(super) fn failed(&mut self, now: Now, connection: Connection, reason: &str) {
        let (name, took) = (self.name_of(connection), self.time_in_state(now, connection));
        if let Some(held) = self.end_run(now, connection) {
            self.progress.note(now, took);
            let seconds = took.as_secs_f64();
            let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
            self.journal.info(format!("{} has failed at {name} after {seconds:.1} s: {reason}", held.file));
            // The worker applies the same limit.
            if held.front.timeout.is_some_and(|limit| took >= limit) {
                self.progress.count_timed_out();
            }
            self.spend(&held);
            let run = held.run.clone();
            self.fail(held, None);
            self.acknowledge_report(connection, run);
        }
    }

    /// The command of a worker was killed from outside, or its answer is lost: the prompt waits again, as if its worker were lost.
    pub(super) fn lost(&mut self, now: Now, connection: Connection, reason: &str) {
        let name = self.name_of(connection);
        if let Some(held) = self.end_run(now, connection) {
            let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
            let run = held.run.clone();
            self.lose(held, &format!("its run at {name} was lost: {reason}"));
            self.acknowledge_report(connection, run);
        }
    }

    fn time_in_state(&self, now: Now, connection: Connection) -> Duration {
        self.peers.get(connection).map(|peer| now.mono.since(peer.since)).unwrap_or_default()
    }

    fn acknowledged(&mut self, now: Now, connection: Connection, request: &RequestId, kind: AckKind) {
        let Some(peer) = self.peers.get_mut(connection) else { return };
        if !peer.acknowledge(request, kind) {
            self.ignored += 1;
            return;
        }
        self.timers.clear(&Timer::Acknowledge(connection, request.clone()));
        if kind == AckKind::Request {
            self.start_run(now, connection);
        }
    }

    fn start_run(&mut self, now: Now, connection: Connection) {
        let timeout = self.peers.get(connection).and_then(|peer| peer.held()?.front.timeout);
        self.limit_run(now, connection, timeout);
        self.peers.start_run(connection, now.mono);
        if let Some(file) = self.peers.get(connection).and_then(|peer| Some(peer.held()?.file.clone())) {
            self.move_tails(now, &file);
        }
    }

    pub(super) fn limit_run(&mut self, now: Now, connection: Connection, timeout: Option<Duration>) {
        if let Some(timeout) = timeout {
            self.timers.set(Timer::Run(connection), now.mono + timeout + RUN_GRACE);
        }
    }

    /// The worker is idle again; returns its file.
    pub(super) fn end_run(&mut self, now: Now, connection: Connection) -> Option<Held> {
        self.timers.clear(&Timer::Run(connection));
        let end = self.idle_state(connection);
        match self.peers.set(connection, end, now.mono)? {
            State::Working(held, _) => Some(*held),
            state => unreachable!("a run ends in {state:?}"),
        }
    }
}
