//! Ended tasks that a manager has taken for its callbacks.

use std::time::Duration;

use redis::Value;

use super::super::link::Call;
use super::super::{reply, scripts, view};
use crate::wire::{Task, words};
use base::tdf::{State, TaskId};

/// Tasks that are taken at once: their callbacks are called one after the other, and other managers wait for them.
pub(super) const COUNT: usize = 16;

/// Bytes of tasks after which no further one is taken: their outputs are held in memory.
const BYTES_MAX: usize = 16 << 20;

/// The tasks of a set that are to be taken.
pub(super) enum Selection<'a> {
    /// From this rank on.
    From(usize),
    Ids(&'a [TaskId]),
}

/// The answer to an attempt to take tasks.
pub(super) struct TakenTasks {
    /// The tasks, and how often the callback of each has failed.
    pub(super) tasks: Vec<(Task, u32)>,
    /// Entries that other managers have, that wait for another attempt, or that are no tasks.
    pub(super) passed: usize,
    /// Entries that were looked at.
    pub(super) looked: usize,
    /// New entries that are no tasks, and why.
    pub(super) poisoned: Vec<(Vec<u8>, String)>,
}

pub(super) fn call(identity: &str, lease: Duration, set: State, selection: &Selection<'_>) -> Call {
    let call = Call::new(scripts::TAKE).arg(identity).arg(lease.as_secs().to_string());
    let call = call.arg(COUNT.to_string()).arg(BYTES_MAX.to_string()).arg(words::state(set));
    match selection {
        Selection::From(rank) => call.arg("from").arg(rank.to_string()),
        Selection::Ids(ids) => ids.iter().fold(call.arg("ids"), |call, id| call.arg(id.to_string())),
    }
}

impl TakenTasks {
    pub(super) fn read(value: Value, set: State) -> Option<Self> {
        let [passed, looked, rows, poisoned] = reply::list(value)?.try_into().ok()?;
        let poisoned = reply::list(poisoned)?.into_iter().map(|row| {
            let [id, sentence] = reply::list(row)?.try_into().ok()?;
            Some((reply::bytes(id)?, reply::text(sentence)?))
        });
        let poisoned = poisoned.collect::<Option<_>>()?;
        let tasks = reply::list(rows)?.into_iter().filter_map(|row| {
            let [id, failures, fields] = reply::list(row)?.try_into().ok()?;
            Some((Task::new(reply::parsed(id)?, Some(set), view::pairs(fields)?), reply::parsed(failures)?))
        });
        Some(Self { tasks: tasks.collect(), passed: reply::parsed(passed)?, looked: reply::parsed(looked)?, poisoned })
    }
}
