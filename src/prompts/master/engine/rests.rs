//! Limits of the services behind workers, workers that pause, and orders of a person.
//!
//! A limit closes the gates of the prompt and the gate of the worker. All workers of a closed gate rest; a prompt of a closed gate waits.
//! Closed gates and a pause are noted for a restarted master.

use std::time::Duration;

use super::peer::{Peer, Queued, State};
use super::phase::Phase;
use super::{Connection, Destination, Effect, Master, Timer};
use crate::wire::Order;
use base::{Mono, Now, Wall, span};

/// A limit, as a worker reports it.
#[derive(Debug)]
pub(super) struct Limit {
    pub(super) retry_after: Option<Duration>,
    /// No other worker is affected.
    pub(super) is_local: bool,
    pub(super) reason: String,
}

impl Master {
    /// The gates that an earlier master has closed, each with the moment until which it stays closed, and the reason of its pause.
    pub fn restore_rests(&mut self, now: Now, gates: Vec<(String, Wall)>, paused: Option<String>) {
        for (gate, until) in gates {
            if until > now.wall {
                self.close_gate(now, &gate, until.since(now.wall));
            }
        }
        if let Some(reason) = paused {
            self.dispatch.pause(reason);
        }
    }

    /// The file of a limited worker waits again. A worker that names no time is disconnected, as the document demands.
    pub(super) fn usage_limited(&mut self, now: Now, connection: Connection, limit: Limit) {
        let Some(mut held) = self.end_run(now, connection) else { return };
        let Limit { retry_after, is_local, reason } = limit;
        held.limits += u32::from(!is_local);
        self.spend(&held);
        let name = self.name_of(connection);
        self.journal.warn(format!("{} waits again, from {name}: it has met a limit: {reason}", held.file));
        let pause = retry_after.unwrap_or(self.settings.retry_after);
        let own = self.peers.get(connection).and_then(|peer| peer.gate().map(str::to_owned));
        let closes_gates = !is_local && (own.is_some() || !held.front.gates.is_empty());
        if !is_local {
            for gate in held.front.gates.iter().chain(&own) {
                self.close_gate(now, gate, pause);
            }
        }
        let run = held.run.clone();
        if self.peers.get(connection).is_some_and(Peer::tails) {
            self.tails.note_attempt(held.file.clone(), connection);
        }
        self.release(held, Destination::Pending);
        self.acknowledge_report(connection, run);
        match retry_after {
            None => self.disconnect(now, connection, "it has met a limit", None),
            Some(_) if closes_gates => {}
            Some(_) => self.rest(now, connection, now.mono + pause),
        }
        if let Some(peer) = self.peers.get_mut(connection) {
            peer.meet_limit(reason);
        }
    }

    fn close_gate(&mut self, now: Now, gate: &str, pause: Duration) {
        let until = self.gates.close(gate, now.mono + pause);
        self.timers.set(Timer::Gate(gate.to_owned()), until);
        let time = until.since(now.mono);
        self.journal.info(format!("gate {gate} is closed for {}", span(time)));
        self.effects.push_back(Effect::NoteGate(gate.to_owned(), Some(now.wall + time)));
        let idle = |state: &State| matches!(state, State::Idle(_) | State::Resting);
        let of_gate = self.peers.iter().filter(|(_, peer)| peer.gate() == Some(gate) && idle(&peer.state));
        let of_gate: Vec<Connection> = of_gate.map(|(connection, _)| connection).collect();
        for connection in of_gate {
            self.rest(now, connection, until);
        }
    }

    pub(super) fn open_gate(&mut self, gate: String) {
        self.gates.open(&gate);
        self.journal.info(format!("gate {gate} is open again"));
        self.effects.push_back(Effect::NoteGate(gate, None));
    }

    /// A worker without a prompt gets none before this moment.
    fn rest(&mut self, now: Now, connection: Connection, until: Mono) {
        let before = self.timers.get(&Timer::Rest(connection)).unwrap_or_default();
        self.peers.set(connection, State::Resting, now.mono);
        self.timers.set(Timer::Rest(connection), until.max(before));
    }

    /// When the gate of a worker opens, if it is closed.
    pub(super) fn closed_until(&self, connection: Connection) -> Option<Mono> {
        self.gates.closed_until(self.peers.get(connection)?.gate()?)
    }

    /// A worker that has joined rests if its gate is closed.
    pub(super) fn rest_if_limited(&mut self, now: Now, connection: Connection) {
        if let Some(until) = self.closed_until(connection)
            && self.peers.get(connection).is_some_and(|peer| matches!(peer.state, State::Idle(_)))
        {
            self.rest(now, connection, until);
        }
    }

    /// An order of a person.
    pub(super) fn carry_out_order(&mut self, now: Now, connection: Connection, order: Order) {
        self.journal.info(format!("{order:?} is ordered by {}", self.name_of(connection)));
        match order {
            Order::Pause => {
                let reason = "paused by order; llts prompt resume ends it".to_owned();
                self.effects.push_back(Effect::NotePause(Some(reason.clone())));
                self.dispatch.pause(reason);
            }
            Order::Resume => {
                self.phase.drain(false);
                self.dispatch.resume();
                self.effects.push_back(Effect::NotePause(None));
                self.stop_at_cost();
            }
            Order::Drain => {
                self.phase.drain(true);
                self.dispatch.pause("ends when the running prompts have ended".to_owned());
                self.end_if_drained(now);
            }
        }
        self.enqueue(now, connection, Queued::Status);
    }

    pub(super) fn end_if_drained(&mut self, now: Now) {
        if self.phase == Phase::Draining && self.working() == 0 {
            self.journal.info("no prompt is running any more");
            self.handle_stop(now);
        }
    }
}
