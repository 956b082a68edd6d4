//! The move of a task after one event: the hops between states, the rounds that their moments belong to, and the counters.
//!
//! Time-outs and failures pass through `timeout` and `failure`, as the original's do; both hops are one move, so that a task is never
//! seen there. A round ends when it has failed or timed out: `round := fails + timeouts` (docs/sources/tdf.md, 2). A worker that is lost
//! or gives a task back ends no round.

use crate::wire::words::{field, of_round};
use crate::wire::{Budget, Hop};
use base::tdf::State;

/// The hops of one event, in order.
pub type Move = Vec<Hop>;

/// A worker has run the program.
#[must_use]
pub fn executed(round: u32) -> Move {
    vec![hop(State::Running, State::Executed, round)]
}

/// A run took longer than `timeout`: another round, or the last one has been.
#[must_use]
pub fn timed_out(round: u32, timeouts: Budget) -> Move {
    let used = timeouts.used.saturating_add(1);
    let mut first = hop(State::Running, State::Timeout, round);
    first.changes.push((field::TIMEOUTS.to_owned(), used.to_string()));
    vec![first, after(State::Timeout, round, Budget { used, ..timeouts }, true)]
}

/// An executed task wrote nothing to stderr.
#[must_use]
pub fn succeeded(round: u32) -> Move {
    vec![hop(State::Executed, State::Succeeded, round)]
}

/// An executed task wrote to stderr: another round, or the last one has been.
#[must_use]
pub fn failed(round: u32, fails: Budget) -> Move {
    let used = fails.used.saturating_add(1);
    let mut first = hop(State::Executed, State::Failure, round);
    first.changes.push((field::FAILS.to_owned(), used.to_string()));
    vec![first, after(State::Failure, round, Budget { used, ..fails }, true)]
}

/// The task was not finished by `end_before`.
#[must_use]
pub fn expired(from: State, round: u32) -> Move {
    vec![hop(from, State::Expired, round)]
}

/// The manager has handled the task.
#[must_use]
pub fn archived(from: State, round: u32) -> Move {
    vec![hop(from, State::Archived, round)]
}

/// A worker has stopped before it started the program.
#[must_use]
pub fn given_back(round: u32, worker: &str) -> Move {
    vec![Hop { note: format!("given back by worker {worker}"), ..hop(State::Running, State::Open, round) }]
}

/// A run was lost with its worker: the same round waits again. Beyond `max` losses the round has failed, and no other follows.
#[must_use]
pub fn lost(from: Option<State>, round: u32, worker: Option<&str>, losses: Budget, fails: Budget) -> Move {
    let by = worker.map_or_else(|| "found in no set".to_owned(), |worker| format!("worker {worker} lost"));
    if losses.used < losses.max {
        return vec![Hop { from, note: by, ..hop(State::Running, State::Open, round) }];
    }
    let error = format!("{by}; that is one loss more than the {} that are allowed\n", losses.max);
    let changes = vec![(of_round(round, field::OUTPUT), String::new()), (of_round(round, field::ERROR), error)];
    let executed = Hop { from, changes, note: by, ..hop(State::Running, State::Executed, round) };
    let mut failure = hop(State::Executed, State::Failure, round);
    failure.changes.push((field::FAILS.to_owned(), fails.used.saturating_add(1).to_string()));
    vec![executed, failure, hop(State::Failure, State::Failed, round)]
}

/// The second hop of a time-out or a failure that an original component has left undone. With `bump`, the round has not been raised
/// yet.
#[must_use]
pub fn completed(from: State, round: u32, budget: Budget, bump: bool) -> Move {
    vec![after(from, round, budget, bump)]
}

/// A task that is in no set goes back into the one that its hash names. What a report has left out is added first: an original
/// server dies of an executed task without it.
#[must_use]
pub fn restored(to: State, round: u32, has_output: bool, has_error: bool) -> Move {
    let mut back = Hop { from: None, note: "found in no set".to_owned(), ..hop(to, to, round) };
    if to == State::Executed && !has_output {
        back.changes.push((of_round(round, field::OUTPUT), String::new()));
    }
    if to == State::Executed && !has_error {
        back.changes.push((of_round(round, field::ERROR), "the result of this round was lost\n".to_owned()));
    }
    vec![back]
}

/// The hop after a time-out or a failure whose counter has been raised.
fn after(from: State, round: u32, budget: Budget, bump: bool) -> Hop {
    if budget.used > budget.max {
        return hop(from, if from == State::Timeout { State::TimedOut } else { State::Failed }, round);
    }
    let next = if bump { round.saturating_add(1) } else { round };
    Hop { changes: vec![(field::ROUND.to_owned(), next.to_string())], ..hop(from, State::Open, next) }
}

fn hop(from: State, to: State, round: u32) -> Hop {
    Hop { from: Some(from), to, round, changes: Vec::new(), note: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(hops: &[Hop]) -> Vec<(State, State, u32)> {
        hops.iter().map(|hop| (hop.from.unwrap(), hop.to, hop.round)).collect()
    }

    fn changes(hops: &[Hop]) -> Vec<(&str, &str)> {
        hops.iter().flat_map(|hop| &hop.changes).map(|(field, value)| (field.as_str(), value.as_str())).collect()
    }

    #[test]
    fn a_time_out_within_its_budget_begins_another_round() {
        let hops = timed_out(2, Budget { used: 1, max: 2 });
        assert_eq!(path(&hops), [(State::Running, State::Timeout, 2), (State::Timeout, State::Open, 3)]);
        assert_eq!(changes(&hops), [("timeouts", "2"), ("round", "3")]);
        let hops = timed_out(2, Budget { used: 2, max: 2 });
        assert_eq!(path(&hops), [(State::Running, State::Timeout, 2), (State::Timeout, State::TimedOut, 2)]);
        assert_eq!(changes(&hops), [("timeouts", "3")]);
    }

    #[test]
    fn the_first_failure_is_the_last_one_without_a_budget() {
        let hops = failed(0, Budget { used: 0, max: 0 });
        assert_eq!(path(&hops), [(State::Executed, State::Failure, 0), (State::Failure, State::Failed, 0)]);
        let hops = failed(0, Budget { used: 0, max: 1 });
        assert_eq!(path(&hops), [(State::Executed, State::Failure, 0), (State::Failure, State::Open, 1)]);
        assert_eq!(changes(&hops), [("fails", "1"), ("round", "1")]);
        assert_eq!(failed(0, Budget { used: 0, max: -1 })[1].to, State::Failed);
    }

    #[test]
    fn a_loss_changes_no_counter_until_there_are_too_many() {
        let fails = Budget { used: 0, max: 5 };
        let hops = lost(Some(State::Running), 1, Some("w"), Budget { used: 2, max: 3 }, fails);
        assert_eq!(path(&hops), [(State::Running, State::Open, 1)]);
        assert_eq!((changes(&hops), hops[0].note.as_str()), (vec![], "worker w lost"));
        let hops = lost(Some(State::Running), 1, Some("w"), Budget { used: 3, max: 3 }, fails);
        let last = hops.last().unwrap();
        assert_eq!((hops.len(), last.to, last.round), (3, State::Failed, 1));
        let error = "worker w lost; that is one loss more than the 3 that are allowed\n";
        assert_eq!(changes(&hops), [("1:output", ""), ("1:error", error), ("fails", "1")]);
    }

    #[test]
    fn what_is_put_into_executed_has_output_and_error() {
        assert_eq!(changes(&restored(State::Executed, 4, true, true)), []);
        let hops = restored(State::Executed, 4, false, false);
        assert_eq!(hops[0].changes[0], ("4:output".to_owned(), String::new()));
        assert_eq!(hops[0].changes[1].0, "4:error");
    }
}
