//! The words of a namespace: states, fields, keys.

use base::tdf::{State, TaskId};

/// Fields of a task's hash.
pub mod field {
    /// The name of the program.
    pub const PROGRAM: &str = "program";
    /// Where the program comes from.
    pub const SOURCE: &str = "source";
    /// Arguments of the program, as a shell reads them.
    pub const INPUT: &str = "input";
    /// The number of the task.
    pub const ID: &str = "id";
    /// Unix seconds.
    pub const START_AFTER: &str = "start_after";
    /// Unix seconds, or `inf`.
    pub const END_BEFORE: &str = "end_before";
    /// Seconds, or `inf`.
    pub const TIMEOUT: &str = "timeout";
    /// How many rounds may fail before the last one.
    pub const MAX_FAILS: &str = "max_fails";
    /// How many rounds may time out before the last one.
    pub const MAX_TIMEOUTS: &str = "max_timeouts";
    /// The state; archiving leaves it.
    pub const STATE: &str = "state";
    /// The round, from 0.
    pub const ROUND: &str = "round";
    /// Rounds that have failed.
    pub const FAILS: &str = "fails";
    /// Rounds that have timed out.
    pub const TIMEOUTS: &str = "timeouts";
    /// Lines, without a newline at the end.
    pub const LOG: &str = "log";
    /// The namespace.
    pub const NAMESPACE: &str = "namespace";
    /// Of a round: the name of its worker.
    pub const WORKER: &str = "worker";
    /// Of a round: what was written to stdout.
    pub const OUTPUT: &str = "output";
    /// Of a round: what was written to stderr.
    pub const ERROR: &str = "error";
}

/// The name of a state: a field of a round, the value of the field `state`, and the key of the sorted set.
#[must_use]
pub const fn state(state: State) -> &'static str {
    match state {
        State::Open => "open",
        State::Running => "running",
        State::Executed => "executed",
        State::Timeout => "timeout",
        State::TimedOut => "timed_out",
        State::Expired => "expired",
        State::Succeeded => "succeeded",
        State::Failure => "failure",
        State::Failed => "failed",
        State::Archived => "archived",
    }
}

/// The state of this name.
#[must_use]
pub fn parse_state(text: &str) -> Option<State> {
    State::ALL.into_iter().find(|known| state(*known) == text)
}

/// A field of a round.
#[must_use]
pub fn of_round(round: u32, name: &str) -> String {
    format!("{round}:{name}")
}

/// The prefix of all keys of a namespace.
#[must_use]
pub fn prefix(namespace: &str) -> String {
    format!("{namespace}:")
}

/// Channels, after the prefix.
pub mod channel {
    /// A task is open.
    pub const OPEN: &str = "llts:wake";
    /// An llts worker has reported; the message has the facts of the task.
    pub const EXECUTED: &str = "llts:wake:executed";
    /// A task is for the manager; the message is its state and its id.
    pub const ENDED: &str = "llts:wake:ended";
}

/// The state and the id of a message that a task has ended.
#[must_use]
pub fn parse_ended(message: &[u8]) -> Option<(State, TaskId)> {
    let (state, id) = std::str::from_utf8(message).ok()?.split_once(' ')?;
    Some((parse_state(state)?, id.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_one_name() {
        for known in State::ALL {
            assert_eq!(parse_state(state(known)), Some(known));
        }
        assert_eq!(parse_state("Open"), None);
        assert_eq!(parse_ended(b"timed_out 7"), Some((State::TimedOut, TaskId(7))));
        assert_eq!([&b"7"[..], b"ended 7", b"failed x", b"\xff 7"].map(parse_ended), [None; 4]);
    }
}
