//! The way of a file: from `pending/` to a worker, and from there to `done/`, to `failed/` or back.

use std::collections::BTreeMap;
use std::time::Duration;

use super::dispatch::Claim;
use super::files::{Held, Leaving, Waiting};
use super::leases::CLOSED_GRACE;
use super::peer::{AckKind, State};
use super::{ClaimError, Claimed, Connection, Destination, Effect, FileName, Master, Moved, Timer};
use crate::wire::{FromMaster, Request};
use base::Now;

/// The reason for disconnecting a worker whose connection has ended without a LEAVE.
pub(super) const CLOSED: &str = "its connection has ended";

/// The reason for disconnecting a worker that has not acknowledged its prompt.
pub(super) const UNTAKEN: &str = "it has not acknowledged the prompt in time";

/// The beginning of the reason of a prompt whose run took too long.
pub const TIME_UP: &str = "the run took longer than";

impl Master {
    /// The document's rule after each event: bring idle workers and waiting files together.
    pub(super) fn hand_out(&mut self, now: Now) {
        if !self.may_claim() {
            return;
        }
        let Some(connection) = self.peers.next_idle() else { return };
        let Some((file, waiting)) = self.files.take_next(|gates| self.gates.may_start(gates)) else { return };
        self.peers.set(connection, State::Claiming, now.mono);
        self.effects.push_back(Effect::Claim(file.clone()));
        self.dispatch.begin_claim(Claim { connection, file, waiting });
    }

    /// Whether the next file may be chosen. The choice waits for a file that is being returned, which may be more urgent than all
    /// waiting ones.
    pub(super) fn may_claim(&self) -> bool {
        let has_room = self.peers.sending_bytes() < self.settings.sending_bytes_max;
        let is_open = !self.phase.is_stopping() && self.dispatch.is_open();
        is_open && has_room && !self.files.is_returning() && self.awaited_cost().is_none()
    }

    /// The result of the last [`Effect::Claim`].
    pub fn handle_claimed(&mut self, now: Now, claimed: Result<Claimed, ClaimError>) {
        let Some(Claim { connection, file, waiting }) = self.dispatch.end_claim() else {
            debug_assert!(false, "nothing was claimed");
            return;
        };
        let is_waiting = self.peers.get(connection).is_some_and(|peer| peer.state == State::Claiming);
        if let Ok(Claimed { file: name, .. }) | Err(ClaimError::Unfit(name, _)) = &claimed {
            self.files.renamed(&file, name, waiting.fails);
        } else {
            self.files.forget(&file);
        }
        match claimed {
            Ok(Claimed { file, front, prompt }) => {
                let held = Held { file, front, fails: waiting.fails, limits: waiting.limits, run: None, cost: None };
                // The file may have changed since it was found, and may name other gates.
                if is_waiting && !self.phase.is_stopping() && self.gates.may_start(&held.front.gates) {
                    self.request(now, connection, held, prompt);
                } else {
                    self.be_idle(now, connection);
                    self.release(held, Destination::Pending);
                }
            }
            Err(error) => {
                self.be_idle(now, connection);
                match error {
                    ClaimError::Vanished => self.journal.info(format!("{file} is gone from pending/")),
                    ClaimError::Stuck(reason) => {
                        self.journal
                            .error(format!("{file} cannot be moved to working/ and is left where it is: {reason}"));
                        self.files.set_aside(file);
                    }
                    ClaimError::Unfit(file, reason) => {
                        self.journal.warn(format!("{file} goes to failed/: {reason}"));
                        let (fails, front) = (waiting.fails, waiting.front());
                        let held = Held { file, front, fails, limits: 0, run: None, cost: None };
                        self.release(held, Destination::Failed { reason: Some(reason) });
                    }
                }
            }
        }
        self.hand_out(now);
    }

    fn request(&mut self, now: Now, connection: Connection, mut held: Held, prompt: String) {
        let id = self.expect_ack(now, connection, AckKind::Request, prompt.len());
        held.run = Some(id.clone());
        held.front.timeout = held.front.timeout.or(self.settings.timeout);
        if self.lease_of(connection).is_some() {
            // Before the worker can start it.
            self.effects.push_back(Effect::NoteRun(held.file.clone(), id.clone(), None));
        }
        if let Some(reason) = self.dispatch.count_start(self.settings.starts_max) {
            self.journal.warn(format!("no more prompts are handed out: {reason}"));
        }
        let (file, timeout) = (held.file.as_text().map(str::to_owned), held.front.timeout);
        self.journal.info(format!("{} is handed out to {}", held.file, self.name_of(connection)));
        self.peers.set(connection, State::Requesting(Box::new(held), prompt.len()), now.mono);
        self.send_paced(now, connection, FromMaster::Request(Request { id, prompt, file, timeout }));
        self.send_queued(now, connection);
    }

    /// A claim has failed, or a rest has ended: the worker takes the next file. A worker that is being disconnected stays
    /// so.
    pub(super) fn be_idle(&mut self, now: Now, connection: Connection) {
        let waits = |state: &State| matches!(state, State::Claiming | State::Resting);
        if self.peers.get(connection).is_some_and(|peer| waits(&peer.state)) {
            let end = self.idle_state(connection);
            self.peers.set(connection, end, now.mono);
            self.send_queued(now, connection);
        }
    }

    /// A file leaves `working/`, and no worker has it any more.
    pub(super) fn release(&mut self, held: Held, destination: Destination) {
        let Held { file, front, fails, limits, run: _, cost: _ } = held;
        let waiting = Waiting { priority: front.priority, gates: front.gates, fails, limits };
        self.effects.push_back(Effect::Move(file.clone(), destination.clone()));
        self.files.leave(file, waiting, destination);
    }

    /// A run has failed: the file waits again as often as it allows.
    pub(super) fn fail(&mut self, mut held: Held, reason: Option<String>) {
        held.fails = held.fails.saturating_add(1);
        let again = held.fails <= held.front.max_fails;
        if again {
            self.journal.info(format!(
                "{} waits again after failure {} of {} that it may have",
                held.file, held.fails, held.front.max_fails
            ));
        }
        self.release(held, if again { Destination::Pending } else { Destination::Failed { reason } });
    }

    /// The time limit of a file has passed. The run counts as failed; its worker may go on.
    pub(super) fn run_too_long(&mut self, now: Now, connection: Connection) {
        let Some(held) = self.end_run(now, connection) else { return };
        let seconds = held.front.timeout.unwrap_or_default().as_secs_f64();
        self.journal.warn(format!(
            "{} took longer than its {seconds} s; disconnecting {}",
            held.file,
            self.name_of(connection)
        ));
        self.progress.count_timed_out();
        let name = self.name_of(connection);
        self.fail(held, Some(format!("{TIME_UP} the {seconds} s that it is allowed, at {name}")));
        self.disconnect(now, connection, "its run took too long", None);
    }

    /// The result of an [`Effect::Move`].
    pub fn handle_moved(&mut self, now: Now, file: &FileName, moved: Moved) {
        if let Moved::Stuck(reason) = &moved {
            // The file is safe in working/, and counts as work until it is moved.
            self.journal.error(format!("{file} cannot be moved out of working/ and is tried again: {reason}"));
            self.files.stay(file);
            return self.hand_out(now);
        }
        let Some(Leaving { waiting, destination, .. }) = self.files.left(file) else {
            debug_assert!(false, "{file} was not moved");
            return;
        };
        if let Moved::To(name) = &moved
            && name != file
        {
            self.journal.info(format!("{file} is called {name} from now on: there was one of its name"));
        }
        self.move_losses(file, &moved, &destination);
        let is_result =
            matches!((&moved, &destination), (Moved::To(_), Destination::Done | Destination::Failed { .. }));
        match (moved, destination) {
            (Moved::To(file), Destination::Pending) => self.files.insert(file, waiting),
            (Moved::To(_), Destination::Done) => self.progress.count_done(),
            (Moved::To(file), Destination::Failed { .. }) => self.progress.count_failed(file),
            (Moved::Vanished | Moved::Stuck(_), _) => self.journal.warn(format!("{file} is gone from working/")),
        }
        self.files.forget(file);
        self.move_tails(now, file);
        if is_result {
            self.tails.forget_attempt(file);
            self.count_files_if_none_is_known();
        }
        self.end_if_drained(now);
        self.hand_out(now);
    }

    /// The document's disconnection of a worker: its file waits again, or is kept for it for the time of a lease, and its connection
    /// is closed. A second call has no effect. `why` is for the log.
    pub(super) fn disconnect(&mut self, now: Now, connection: Connection, why: &str, lease: Option<Duration>) {
        if self.peers.get(connection).is_none_or(|peer| peer.state == State::Disconnecting) {
            return;
        }
        self.take_back(now, connection, why, lease);
        self.timers.set(Timer::Disconnect(connection), now.mono + self.settings.disconnect_timeout);
        self.effects.push_back(Effect::Close(connection));
    }

    /// Takes the prompt from a worker, whose later messages do not count.
    pub(super) fn take_back(&mut self, now: Now, connection: Connection, why: &str, lease: Option<Duration>) {
        let old = self.peers.set(connection, State::Disconnecting, now.mono);
        for timer in [Timer::Join, Timer::Refuse, Timer::Pause, Timer::Run, Timer::Rest] {
            self.timers.clear(&timer(connection));
        }
        if let Some(peer) = self.peers.get_mut(connection) {
            for request in peer.hang_up() {
                self.timers.clear(&Timer::Acknowledge(connection, request));
            }
        }
        match (old, lease) {
            (Some(State::Working(held, _)), Some(lease)) => {
                let name = self.name_of(connection);
                self.keep_for_worker(now, *held, &name, lease);
            }
            // The worker may have the prompt already. Its acknowledgement is lost with the connection, its run is not.
            (Some(State::Requesting(held, _)), Some(lease)) => {
                let name = self.name_of(connection);
                self.keep_for_worker(now, *held, &name, lease.min(CLOSED_GRACE));
            }
            // Each worker may fail at this prompt, which would be handed out for ever, before all others.
            (Some(State::Requesting(held, _)), None) if why == UNTAKEN => self.lose(*held, why),
            (Some(State::Requesting(held, _)), None) => self.give_again(connection, *held, why),
            // The worker may have been killed by the prompt. Any other end has reasons of its own.
            (Some(State::Working(held, _)), None) if why == CLOSED => self.lose(*held, why),
            (Some(State::Working(held, _)), None) => self.give_again(connection, *held, why),
            // A file that is being claimed is returned in `handle_claimed`.
            (
                Some(
                    State::Stranger
                    | State::Guessed
                    | State::Settling
                    | State::Idle(_)
                    | State::Resting
                    | State::Claiming
                    | State::Disconnecting,
                )
                | None,
                _,
            ) => {}
        }
    }

    fn give_again(&mut self, connection: Connection, held: Held, why: &str) {
        self.journal.info(format!("{} waits again, from {}: {why}", held.file, self.name_of(connection)));
        self.release(held, Destination::Pending);
    }

    /// The worker of a prompt is lost, or its command. A prompt that kills them each time is given up.
    pub(super) fn lose(&mut self, held: Held, why: &str) {
        let losses = self.files.losses(&held.file).saturating_add(1);
        self.note_losses(&held.file, losses);
        if self.settings.losses_max.is_some_and(|max| losses > max) {
            let reason = format!("{losses} runs of this prompt were lost (LOSSES_MAX); the last one: {why}");
            self.journal.warn(format!("{} goes to failed/: {reason}", held.file));
            return self.release(held, Destination::Failed { reason: Some(reason) });
        }
        self.journal.info(format!("{} waits again: {why}", held.file));
        self.release(held, Destination::Pending);
    }

    /// Continues the losses of an earlier master: its last [`Effect::NoteLosses`] for each file.
    pub fn restore_losses(&mut self, losses: BTreeMap<FileName, u32>) {
        self.files.restore_losses(losses);
    }

    /// A file that waits again keeps its losses.
    fn move_losses(&mut self, file: &FileName, moved: &Moved, destination: &Destination) {
        let losses = self.files.losses(file);
        match (moved, destination) {
            (Moved::To(name), Destination::Pending) if name == file => {}
            (Moved::To(name), Destination::Pending) => {
                self.note_losses(file, 0);
                self.note_losses(name, losses);
            }
            _ => self.note_losses(file, 0),
        }
    }

    fn note_losses(&mut self, file: &FileName, losses: u32) {
        if self.files.set_losses(file, losses) {
            self.effects.push_back(Effect::NoteLosses(file.clone(), losses));
        }
    }

    pub(super) fn forget(&mut self, connection: Connection) {
        self.timers.clear(&Timer::Disconnect(connection));
        self.peers.remove(connection);
        self.tails.forget(connection);
    }
}
