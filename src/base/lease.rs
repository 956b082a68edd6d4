//! The lease of an exclusive run: how long it may continue while its agent and the controller are out of contact.
//!
//! | deadline | at the agent, counted from the sending of its last answered heartbeat | at the controller, counted from the last message of the agent |
//! |---|---|---|
//! | [`Lease::term`] | the kill ladder begins ([`held_term`]: a little before) | the agent is lost |
//! | and [`kill_time`] | the guard ends the rest with SIGKILL, also that of a stopped agent | |
//! | and [`kill_budget`] | | the next round may start |
//!
//! A message is sent before it is received, so the agent always acts before the controller. Neither needs the other's
//! clock.

use std::time::Duration;

use super::{Mono, Session};

/// Time from the last SIGKILL to the end of the last process. It allows for a guard that wakes late and a scan of
/// `/proc` on a busy machine.
const KILL_SLACK: Duration = Duration::from_secs(1);

/// Divisor of a measured time: two clocks drift apart by less than the result.
const DRIFT_SHARE: u32 = 100;

/// The lease of a run whose task must not have another run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// How long the run may continue after the last message of its agent: two heartbeat intervals of the controller.
    pub term: Duration,
    /// Time that its agent then needs to end its last process.
    pub kill_budget: Duration,
    /// The session of the agent that holds it: only this session can report the end of the run.
    pub session: Session,
}

impl Lease {
    /// The moment by which no process of the run is left, if the agent's last message came at `heard`.
    #[must_use]
    pub fn end(&self, heard: Mono) -> Mono {
        heard + self.term + self.kill_budget
    }
}

/// How long an agent holds a lease of this term: slightly less, because its clock may be slow.
#[must_use]
pub fn held_term(term: Duration) -> Duration {
    term - term / DRIFT_SHARE
}

/// Time from the first signal to a run until the last SIGKILL to any process that it has started.
#[must_use]
pub fn kill_time(kill_interval: Duration, kill_count: u32, straggler_grace: Duration) -> Duration {
    let to_the_kill = if kill_count > 1 { kill_interval } else { Duration::ZERO };
    to_the_kill + straggler_grace
}

/// Time from the first signal to a run until the end of its last process.
#[must_use]
pub fn kill_budget(kill_interval: Duration, kill_count: u32, straggler_grace: Duration) -> Duration {
    kill_time(kill_interval, kill_count, straggler_grace) + KILL_SLACK
}
