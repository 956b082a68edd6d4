//! Pauses before a failed callback is tried again, and the patience of a command during an outage of Redis.

use std::time::Duration;

/// The longest pause: a callback that is mended is seen within it.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The shortest pause, for rounds without one: a command that fails at once must not be started in a loop.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// How long a command that ends with the answer of Redis, or a component that starts, asks again after a connection that broke: longer
/// than a Redis takes to start again.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// The pause after this many failures of one task's callback, at least one: first one round, then twice as long each time.
#[must_use]
pub fn pause(failures: u32, round_duration: Duration) -> Duration {
    // 2^10 rounds are beyond the longest pause however short a round is.
    let factor = 1_u32 << failures.saturating_sub(1).min(10);
    round_duration.max(PAUSE_MIN).saturating_mul(factor).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_from_one_round_to_a_minute() {
        let pauses = [1, 2, 3, 5, 6, u32::MAX].map(|failures| pause(failures, Duration::from_secs(2)).as_secs());
        assert_eq!(pauses, [2, 4, 8, 32, 60, 60]);
        assert_eq!(pause(1, Duration::ZERO), PAUSE_MIN);
        assert_eq!(pause(1, Duration::from_secs(3600)), PAUSE_MAX);
    }
}
