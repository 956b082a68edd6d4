//! Tasks that a worker has claimed, as the scripts answer them.

use std::time::Duration;

use redis::Value;

use super::super::reply;
use crate::engine::worker::Assignment;
use crate::wire::Budget;
use base::tdf::number::{float, int};
use base::tdf::{Fence, WorkerName};

pub(super) fn list(value: Value, worker: &WorkerName) -> Option<Vec<Assignment>> {
    reply::list(value)?.into_iter().map(|row| read(row, worker)).collect()
}

fn read(row: Value, worker: &WorkerName) -> Option<Assignment> {
    let [task, round, started, program, source, input, timeout, end_before, used, max] =
        reply::list(row)?.try_into().ok()?;
    let name = |value| reply::bytes(value).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let number = |value| reply::text(value).and_then(|text| float(&text));
    let count = |value| reply::text(value).and_then(|text| int(&text));
    let timeout = number(timeout)?;
    // The server ends a run by it, but it must be a number.
    number(end_before)?;
    let (task, round, started) = (reply::parsed(task)?, reply::parsed(round)?, reply::text(started)?);
    Some(Assignment {
        fence: Fence { task, round, worker: worker.clone(), started },
        program: name(program)?,
        source: name(source)?,
        input: reply::bytes(input)?,
        // A time-out below zero has passed at once, and one beyond all time is none.
        timeout: Duration::try_from_secs_f64(timeout.max(0.0)).ok(),
        timeouts: Budget { used: count(used)?, max: count(max)? },
    })
}
