//! The only place that reads the time.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use base::{Mono, Now, Wall};

/// The value of the monotonic clock when the process starts, so that earlier moments can be represented, such as the
/// start of a run that an earlier controller dispatched. Ten years are the longest duration that can be set.
const BEFORE: Duration = Duration::from_secs(10 * 366 * 86_400);

/// Reads both clocks.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the time")]
pub fn now() -> Now {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let mono = Mono::from_nanos(u64::try_from((BEFORE + START.elapsed()).as_nanos()).unwrap_or(u64::MAX));
    // A clock before 1970 reads as 1970: ids and times stay well-formed.
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Now { mono, wall: Wall::from_micros(u64::try_from(wall.as_micros()).unwrap_or(u64::MAX)) }
}

/// Reads both clocks for leases: this monotonic clock continues while the machine is suspended. Its moments must never
/// be compared with those of [`now`].
#[must_use]
pub fn now_with_suspend() -> Now {
    Now { mono: Mono::from_nanos(0) + BEFORE + since_boot(), wall: now().wall }
}

/// A moment of [`now_with_suspend`] as the time since the boot, which other processes of this machine can compare.
#[must_use]
pub fn from_boot(mono: Mono) -> Duration {
    mono.since(Mono::from_nanos(0) + BEFORE)
}

/// How long the machine has run, including suspends, as the kernel records the start of a process.
#[must_use]
pub fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// The monotonic clock of the system, for programs that compare it with their reading.
#[must_use]
pub fn since_start_of_monotonic() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a restart, a gate that allows one start per day must know that the last start was an hour ago.
    #[test]
    fn a_moment_before_the_start_of_the_process_can_be_told() {
        let (now, day) = (now().mono, Duration::from_secs(86_400));
        assert_eq!(now.since(now.before(day)), day);
    }
}
