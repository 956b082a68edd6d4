//! The requests of those who look after tasks, agents and gates: explain, retry, hold, drain, gates.

use super::request;
use crate::protocol::request::GateChange;
use crate::protocol::words::{self, kind};
use crate::types::{Fields, Pace, Scalar, Wall};

/// Asks why a task stands where it does.
#[must_use]
pub fn explain(task: &str) -> Fields {
    request(kind::TASK_EXPLAIN).with(words::TASK_ID, task)
}

/// Asks for another round of a task that has finished.
#[must_use]
pub fn retry(task: &str) -> Fields {
    request(kind::TASK_RETRY).with(words::TASK_ID, task)
}

/// Keeps a task from starting, or lets it.
#[must_use]
pub fn hold(task: &str, hold: bool) -> Fields {
    request(if hold { kind::TASK_HOLD } else { kind::TASK_RELEASE }).with(words::TASK_ID, task)
}

/// Gives an agent no more tasks, or does again.
#[must_use]
pub fn drain(agent: &str, drain: bool) -> Fields {
    request(kind::AGENT_DRAIN).with(words::AGENT_ID, agent).with(words::DRAIN, drain)
}

/// Asks how a gate stands.
#[must_use]
pub fn gate(name: &str) -> Fields {
    request(kind::GATE_QUERY).with(words::GATE, name)
}

/// Asks how all gates stand.
#[must_use]
pub fn gates() -> Fields {
    request(kind::GATE_QUERY)
}

/// Changes what a gate lets pass.
#[must_use]
pub fn set_gate(name: &str, change: &GateChange) -> Fields {
    let mut fields = request(kind::GATE_SET).with(words::GATE, name);
    if let Some(max) = change.running_max {
        fields.set(words::MAX_RUNNING, max.map_or(Scalar::Null, Scalar::from));
    }
    match change.pace {
        None => {}
        Some(None) => fields.set(words::MAX_STARTS, Scalar::Null),
        Some(Some(Pace { starts, interval })) => {
            fields.set(words::MAX_STARTS, starts);
            fields.set(words::INTERVAL, interval.as_secs_f64());
        }
    }
    if let Some(until) = change.closed_until {
        fields.set(words::CLOSED_UNTIL, until.as_ref().map_or(Scalar::Null, |at: &Wall| at.unix_seconds().into()));
    }
    fields
}
