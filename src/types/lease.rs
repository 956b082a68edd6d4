//! The lease of an exclusive run: for how long it may go on while its agent and the controller do not hear each other.
//!
//! | moment | at the agent, counted from when it sent its last answered heartbeat | at the controller, from when it heard the agent |
//! |---|---|---|
//! | [`Lease::term`] | the kill ladder begins ([`held_term`]: a little before) | the agent is lost |
//! | and [`kill_time`] | the guard ends what is left with SIGKILL, also of a stopped agent | |
//! | and [`kill_budget`] | | the next round may start |
//!
//! A message is sent before it is heard, so the agent is always ahead of the controller. Neither needs the clock of the other.

use std::time::Duration;

use super::{Mono, Session};

/// From the last SIGKILL to the end of the last process: a guard that is woken late, a scan of a busy machine's `/proc`.
const KILL_SLACK: Duration = Duration::from_secs(1);

/// Two clocks differ by less than this part of what they count.
const DRIFT_SHARE: u32 = 100;

/// What a run that shares its task with no other one is held by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// For how long the run may go on after its agent was heard: two heartbeat intervals of the controller.
    pub term: Duration,
    /// What its agent needs after that to end its last process.
    pub kill_budget: Duration,
    /// The life of the agent that holds it: only that one can say that the run is over.
    pub session: Session,
}

impl Lease {
    /// When no process of the run is left, if its agent was heard last at this moment.
    #[must_use]
    pub fn end(&self, heard: Mono) -> Mono {
        heard + self.term + self.kill_budget
    }
}

/// For how long an agent holds a lease of this term: a little less, because its clock may be slow.
#[must_use]
pub fn held_term(term: Duration) -> Duration {
    term - term / DRIFT_SHARE
}

/// From the first signal to a run to the last SIGKILL to anything that it has started.
#[must_use]
pub fn kill_time(kill_interval: Duration, kill_count: u32, straggler_grace: Duration) -> Duration {
    let to_the_kill = if kill_count > 1 { kill_interval } else { Duration::ZERO };
    to_the_kill + straggler_grace
}

/// From the first signal to a run to the end of its last process.
#[must_use]
pub fn kill_budget(kill_interval: Duration, kill_count: u32, straggler_grace: Duration) -> Duration {
    kill_time(kill_interval, kill_count, straggler_grace) + KILL_SLACK
}
