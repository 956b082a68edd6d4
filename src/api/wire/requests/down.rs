//! SERVICE/PAUSE: hands out no task for some seconds, while a client waits for the running ones before it stops the service.

use std::time::Duration;

use super::stats::TaskCounts;
use super::{Ask, Kind, Request, words};
use crate::wire::typed::seconds;

/// A client that has disappeared must not hold the service up for longer.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Hands out no task for `__INTERVAL__` seconds. The answer is that of TASK/STATISTIC.
pub const SERVICE_PAUSE: Kind = Kind::order("SERVICE/PAUSE", |reader| {
    let interval = seconds(&reader.fields, words::INTERVAL)?.unwrap_or(PAUSE_MAX);
    Ok(Request::Pause(interval.min(PAUSE_MAX)))
});

/// Requests a pause, which replaces an earlier one.
#[must_use]
pub fn pause(interval: Duration) -> Ask<TaskCounts> {
    SERVICE_PAUSE.ask().with(words::INTERVAL, interval.as_secs_f64())
}
