//! Waiting for what no event announces.

use std::time::Duration;

use llts::shell::clock;

/// Everything that a test waits for happens in far less; a test that fails shall not hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something holds, and names it if it does not.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = clock::now().mono + PATIENCE;
    while !holds() {
        assert!(clock::now().mono < until, "never: {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
