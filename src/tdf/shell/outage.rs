//! An outage of Redis for a blocking caller: the pauses between attempts, and one log line at the beginning and at the end.

use std::time::Duration;

use super::error::RedisError;
use crate::engine::backoff;
use base::Mono;
use proc::{clock, readable};

/// The first pause before another attempt, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Whether Redis is away, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// The first failed attempt, and the number of all.
    since: Option<(Mono, u32)>,
    /// The last sentence that was logged.
    logged: String,
}

impl Outage {
    /// An attempt has failed. Logs a new reason, and returns the pause before the next attempt.
    pub(super) fn fail(&mut self, error: &RedisError) -> Duration {
        let (since, attempts) = self.since.unwrap_or((clock::now().mono, 0));
        self.since = Some((since, attempts + 1));
        let sentence = error.to_string();
        // A connection may fail in a new way at each attempt, which is no new reason.
        let is_new = if error.is_away() { attempts == 0 } else { self.logged != sentence };
        if is_new {
            log::warn!("{sentence}; trying again");
            self.logged = sentence;
        }
        PAUSES.0.saturating_mul(1 << attempts.min(10)).min(PAUSES.1)
    }

    /// How long it is away.
    fn lasted(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |(since, _)| clock::now().mono.since(since))
    }

    /// An attempt has succeeded.
    pub(super) fn end(&mut self) {
        if let Some((since, _)) = self.since.take() {
            log::info!("Redis is back after {:.1} s", clock::now().mono.since(since).as_secs_f64());
            self.logged.clear();
        }
    }
}

/// Makes a call that is safe to repeat again while its error `is_passing`, for [`backoff::PATIENCE`]: a caller that is to end with the
/// answer cannot wait for ever.
pub(super) fn patiently<T>(
    is_passing: impl Fn(&RedisError) -> bool,
    mut call: impl FnMut() -> Result<T, RedisError>,
) -> Result<T, RedisError> {
    let mut outage = Outage::default();
    loop {
        match call() {
            Err(error) if is_passing(&error) && outage.lasted() < backoff::PATIENCE => {
                let pause = outage.fail(&error);
                readable::wait([], Some(pause));
            }
            answer => {
                if answer.is_ok() {
                    outage.end();
                }
                return answer;
            }
        }
    }
}
