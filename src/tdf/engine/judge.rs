//! The judgement of a task by its facts, for the rounds of a server. Time only goes forward, so that a decision stays true until its
//! move is made; the fence of the move catches everything else.

use super::moves::{self, Move};
use crate::wire::facts::{Run, Stderr};
use crate::wire::words::{field, of_round};
use crate::wire::{Budget, Facts};
use base::tdf::State;

/// The decision about a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing before this moment in unix seconds, unless its entry changes.
    Wait(f64),
    /// This move.
    Move(Move),
    /// This move, because the worker was lost, which is counted.
    Lost(Move),
    /// The entry in `open` gets another score.
    Rescore(f64),
    /// The entry is a duplicate: the task is also in the set of its state.
    Stray,
    /// A task in `running` without a time of its start.
    NoStart,
}

/// How long after the deadline of a run a worker that holds its lease may report the time-out itself: the time in which its program is
/// ended. Seconds.
const REPORT_GRACE: f64 = 10.0;

/// The moment of a decision, and the facts beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Unix seconds, by the clock of Redis.
    pub now: f64,
    /// When this entry was first seen: a worker whose clock is ahead has no run that began later.
    pub first_seen: f64,
    /// How many workers a task may lose.
    pub max_losses: u32,
    /// From when the end of a lease counts, in unix seconds: [`super::lease::Presence::judged_from`].
    pub leases_from: f64,
}

/// The decision about a task that is in the set of its facts.
#[must_use]
pub fn judge(facts: &Facts, at: Moment) -> Verdict {
    if facts.is_stray {
        return Verdict::Stray;
    }
    match facts.set {
        Some(State::Open) => open(facts, at.now),
        Some(State::Running) => running(facts, at),
        Some(State::Executed) => executed(facts, at.now),
        Some(from @ State::Timeout) => Verdict::Move(complete(facts, from, facts.timeouts)),
        Some(from @ State::Failure) => Verdict::Move(complete(facts, from, facts.fails)),
        Some(State::TimedOut | State::Expired | State::Succeeded | State::Failed | State::Archived) | None => {
            Verdict::Wait(f64::INFINITY)
        }
    }
}

/// The decision about a task that is in no set, although its state names one. `None` if nothing is to be done.
#[must_use]
pub fn adopt(facts: &Facts, max_losses: u32) -> Option<Verdict> {
    let state = facts.state?;
    Some(match state {
        // The entry of the task is gone: no report counts, and no other component will move the task on.
        State::Running => {
            let losses = Budget { used: facts.losses.into(), max: max_losses.into() };
            Verdict::Lost(moves::lost(None, facts.round, None, losses, facts.fails))
        }
        State::Timeout | State::Failure => {
            let budget = if state == State::Timeout { facts.timeouts } else { facts.fails };
            let mut hops = complete(facts, state, budget);
            if let Some(first) = hops.first_mut() {
                first.from = None;
            }
            Verdict::Move(hops)
        }
        // The manager has taken the task out and not archived it, or no component has written this state.
        State::Archived => return None,
        State::Open | State::Executed | State::TimedOut | State::Expired | State::Succeeded | State::Failed => {
            let has_error = facts.stderr != Stderr::Missing;
            Verdict::Move(moves::restored(state, facts.round, facts.has_output, has_error))
        }
    })
}

fn open(facts: &Facts, now: f64) -> Verdict {
    if facts.end_before < now {
        return Verdict::Move(moves::expired(State::Open, facts.round));
    }
    // The score orders the claims, and one in the future hides a task from them.
    let wanted = if facts.start_after > now { facts.start_after } else { facts.score.min(now) };
    #[expect(clippy::float_cmp, reason = "a score is the same double or another one")]
    if wanted == facts.score { Verdict::Wait(facts.end_before) } else { Verdict::Rescore(wanted) }
}

fn running(facts: &Facts, at: Moment) -> Verdict {
    if facts.end_before < at.now {
        return Verdict::Move(moves::expired(State::Running, facts.round));
    }
    let Some(run) = &facts.run else { return Verdict::NoStart };
    let started = run.started_at.min(at.first_seen);
    let deadline = started + facts.timeout;
    let lease = lease_end(facts, run);
    let lease_end = lease.max(at.leases_from);
    // A worker that lives ends its program at the deadline, and reports the time-out with what the program has written.
    let times_out = if lease.is_finite() { lease_end.clamp(deadline, deadline + REPORT_GRACE) } else { deadline };
    if times_out < at.now {
        return Verdict::Move(moves::timed_out(facts.round, facts.timeouts));
    }
    if lease_end < at.now {
        let losses = Budget { used: facts.losses.into(), max: at.max_losses.into() };
        let worker = run.worker.as_deref();
        return Verdict::Lost(moves::lost(Some(State::Running), facts.round, worker, losses, facts.fails));
    }
    Verdict::Wait(facts.end_before.min(times_out).min(lease_end))
}

/// When the worker of this run is lost. An original worker that has taken the task over has no lease.
fn lease_end(facts: &Facts, run: &Run) -> f64 {
    match &facts.lease {
        Some((fence, end))
            if fence.round == facts.round
                && fence.started == run.started
                && Some(fence.worker.as_str()) == run.worker.as_deref() =>
        {
            *end
        }
        _ => f64::INFINITY,
    }
}

fn executed(facts: &Facts, now: f64) -> Verdict {
    // The end of the run counts, not the time of this judgement.
    let ended_at = facts.executed_at.map_or(now, |at| at.min(now));
    Verdict::Move(if facts.end_before < ended_at {
        moves::expired(State::Executed, facts.round)
    } else {
        match facts.stderr {
            Stderr::Empty => moves::succeeded(facts.round),
            Stderr::Written => moves::failed(facts.round, facts.fails),
            Stderr::Missing => {
                let mut hops = moves::failed(facts.round, facts.fails);
                let error = (of_round(facts.round, field::ERROR), "no result of this round was reported\n".to_owned());
                let output = (of_round(facts.round, field::OUTPUT), String::new());
                if let Some(first) = hops.first_mut() {
                    first.changes.push(error);
                    first.changes.extend((!facts.has_output).then_some(output));
                }
                hops
            }
        }
    })
}

/// The original's server raises the round before the first hop of a time-out, its worker after it: the counters tell which it was.
fn complete(facts: &Facts, from: State, budget: Budget) -> Move {
    let ended = facts.fails.used.saturating_add(facts.timeouts.used);
    moves::completed(from, facts.round, budget, i64::from(facts.round) < ended)
}

#[cfg(test)]
mod tests;
