//! Waiting for what no event announces.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Everything that a test waits for happens in far less; a test that fails shall not hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something holds, and names it if it does not.
#[track_caller]
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    within(PATIENCE, || what, holds);
}

/// The same with another patience, and a text that is made when it is at its end.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "the clock of llts is not known here")]
pub fn within<D: Display>(patience: Duration, what: impl Fn() -> D, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < patience, "never: {}", what());
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Lets a time pass, where that is what is tested.
pub fn pass(time: Duration) {
    let (_keep, never) = std::sync::mpsc::channel::<()>();
    let _ = never.recv_timeout(time);
}

/// Waits until something is there, and returns it.
#[track_caller]
pub fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    eventually(what, || {
        found = look();
        found.is_some()
    });
    found.expect("it was waited for")
}
