//! What a process knows of the supervisor that has started it, and what it says to that.

use std::time::Duration;

/// Variable by which every process of a service is known, whatever it does: what is left of a supervisor that was killed is
/// found by it. Its name keeps a client that a tool starts from taking it for a key.
pub(super) const MARK: &str = "LLTS_RUN_SERVICE";

/// Whether a supervisor has started this process.
#[must_use]
pub fn is_supervised() -> bool {
    std::env::var_os(MARK).is_some()
}

/// What a line begins with by which an agent says when the lease of its run is over for good.
const LEASE_LINE: &str = "llts agent lease: ";

/// What an agent says to its supervisor of the lease of its run: when it is over for good, as time since the boot, or that there
/// is none.
#[must_use]
pub fn lease_line(end: Option<Duration>) -> String {
    format!("{LEASE_LINE}{}\n", end.map_or_else(|| "none".to_owned(), |end| end.as_nanos().to_string()))
}

/// Reads such a line.
pub(super) fn lease_of(line: &str) -> Option<Option<Duration>> {
    let end = line.strip_prefix(LEASE_LINE)?;
    Some(end.parse().ok().map(Duration::from_nanos))
}
