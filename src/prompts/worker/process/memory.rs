//! Kills by the kernel of this machine because memory ran out. A shell whose program was killed exits with 137, and so may a program by
//! its own choice: the count of kills distinguishes them.

use std::fs;

use crate::worker::engine::Sign;
use base::ExitCode;

/// Exit code of a shell whose program got SIGKILL.
const KILLED_IN_SHELL: ExitCode = ExitCode(128 + 9);

/// Number of processes that were killed for want of memory since the machine was started; `None` if the kernel does not count them.
pub(super) fn kills() -> Option<u64> {
    read(&fs::read_to_string("/proc/vmstat").ok()?)
}

fn read(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// The sign in the exit code of a run, at whose start `before` processes had been killed.
pub(super) fn sign(exit: ExitCode, before: Option<u64>) -> Option<Sign> {
    (exit == KILLED_IN_SHELL && kills() > before && before.is_some()).then_some(Sign::OutOfMemory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kill_during_the_run_explains_the_exit_code() {
        assert_eq!(read("oom_kill_x 3\nnr_free 7\noom_kill 12\n"), Some(12));
        assert_eq!(read("nr_free 7\n"), None);
        let now = kills();
        assert_eq!(sign(KILLED_IN_SHELL, now), None);
        assert_eq!((sign(KILLED_IN_SHELL, None), sign(ExitCode(-9), Some(0))), (None, None));
        // As if one had happened since.
        if let Some(before) = now.and_then(|count| count.checked_sub(1)) {
            assert_eq!(sign(KILLED_IN_SHELL, Some(before)), Some(Sign::OutOfMemory));
        }
    }
}
