//! The brand: a number in the resource limits of every process of a run, which a program cannot remove.
//!
//! An environment can be cleared (`env -i`) or overwritten (a daemon that sets its title), a group and a session can be
//! left, and the parents of an orphan are gone. A hard limit is inherited across all of that, only a privileged process
//! can raise it, and any user can read it in `/proc/<pid>/limits`. `RLIMIT_RTTIME` is free for this purpose: it bounds
//! the microseconds for which a real-time task may hold the processor, and a brand allows 146,000 years.

use std::fs;

use rustix::process::{Pid, Resource, getrlimit};

/// Larger than any realistic limit, and below `RLIM_INFINITY` for readers that use signed numbers.
const LOWEST: u64 = 1 << 62;

/// The brand of all runs of one agent process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brand(u64);

impl Brand {
    /// A unique brand. `None` if this process already has such a limit: either it is part of another agent's run, whose
    /// brand must stay, or the user wants that limit.
    #[must_use]
    pub fn fresh() -> Option<Self> {
        getrlimit(Resource::Rttime).maximum.is_none().then(|| Self(LOWEST | (rand::random::<u64>() >> 2)))
    }

    /// The brand with this number, as read from a record.
    pub(super) const fn of(number: u64) -> Option<Self> {
        if number >= LOWEST && number < LOWEST << 1 { Some(Self(number)) } else { None }
    }

    pub(super) const fn number(self) -> u64 {
        self.0
    }

    /// Whether a process has this brand.
    pub(super) fn is_on(self, pid: Pid) -> bool {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"));
        // The soft limit may have been lowered.
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()) == Some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brand_is_a_number_that_a_signed_reader_takes_for_a_large_one() {
        for number in [LOWEST, LOWEST | 0x1234, (LOWEST << 1) - 1] {
            assert_eq!(Brand::of(number).map(Brand::number), Some(number));
            assert!(i64::try_from(number).is_ok());
        }
        assert_eq!([0, LOWEST - 1, u64::MAX, LOWEST << 1].map(Brand::of), [None; 4]);
        assert!(!Brand(LOWEST).is_on(rustix::process::getpid()));
    }
}
