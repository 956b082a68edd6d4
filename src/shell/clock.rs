//! The only place that asks what time it is.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use crate::types::{Mono, Now, Wall};

/// What the monotonic clock shows when the process starts. Moments before that can be told then: when a run started that a former
/// controller handed out. Ten years are the longest time that anything is set to.
const BEFORE: Duration = Duration::from_secs(10 * 366 * 86_400);

/// Reads both clocks.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place that the rule names")]
pub fn now() -> Now {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let mono = Mono::from_nanos(u64::try_from((BEFORE + START.elapsed()).as_nanos()).unwrap_or(u64::MAX));
    // A clock before 1970 reads as 1970: ids and times stay well-formed.
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Now { mono, wall: Wall::from_micros(u64::try_from(wall.as_micros()).unwrap_or(u64::MAX)) }
}

/// The same for what leases rest on: the monotonic clock goes on while the machine is suspended. Its moments are never compared
/// with those of [`now`].
#[must_use]
pub fn now_with_suspend() -> Now {
    Now { mono: Mono::from_nanos(0) + BEFORE + since_boot(), wall: now().wall }
}

/// A moment of [`now_with_suspend`] as other processes of this machine know it: from its start on.
#[must_use]
pub fn from_boot(mono: Mono) -> Duration {
    mono.since(Mono::from_nanos(0) + BEFORE)
}

/// How long the machine has run, with the time that it was suspended, as the kernel notes when a process starts.
#[must_use]
pub fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gate that lets one start in a day must know, after a restart, that the last start was an hour ago.
    #[test]
    fn a_moment_before_the_start_of_the_process_can_be_told() {
        let (now, day) = (now().mono, Duration::from_secs(86_400));
        assert_eq!(now.since(now.before(day)), day);
    }
}
