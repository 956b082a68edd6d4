//! The service of one machine: a controller and its agents, each a process, started again when it dies.
//!
//! [`supervise`] is the process that stays: one thread around one wait. [`launch`] starts such a process and waits until it
//! says that the service is up; [`stop()`] ends it. One service runs per STATE_DIR: the supervisor holds its lock.
//!
//! | module | what it does |
//! |---|---|
//! | [`engine::supervisor`](crate::engine::supervisor) | decides whom to start and stop, and when |
//! | [`turn`] | waits for events, tells them to the plan, does what it says |
//! | [`child`] | one process: its start, its lines, its end |
//! | [`service`] | `service.json`: what runs here, for `down` and for clients |
//! | [`launch`] | starts a supervisor and hears its report |
//! | [`stop()`] | ends the service of a STATE_DIR |
//! | [`guest`] | the folder of a service that is hosted for one command, and its end when all its keepers were killed |

mod child;
mod guest;
mod launch;
mod service;
mod stop;
mod turn;

pub use guest::{Abandoned, GUEST_LOG, GUEST_PREFIX, GUEST_STATE, GUEST_WORK, GuestLock, end_abandoned};
pub use launch::{Launch, LaunchError, Launched};
pub use service::{Report, Service};
pub use stop::{StopError, Stopped, end_guest, stop};
pub use turn::{Options, SupervisorError, host_name, log_file, supervise};

use std::path::Path;
use std::time::Duration;

use crate::config::Config;
use crate::shell::lock::{Holder, StateLock};

/// More agents than this on one machine is a slip of the finger.
pub const AGENTS_MAX: u16 = 1000;

/// The name of the lock in STATE_DIR.
const LOCK: &str = "service";

/// Variable by which every process of a service is known, whatever it does: what is left of a supervisor that was killed is
/// found by it. Its name keeps a client that a tool starts from taking it for a key.
const MARK: &str = "LLTS_RUN_SERVICE";

/// Whoever runs the service of this STATE_DIR.
#[must_use]
pub fn holder(state_dir: &Path) -> Option<Holder> {
    StateLock::holder(state_dir, LOCK)
}

/// Whether a supervisor has started this process.
#[must_use]
pub fn is_parent() -> bool {
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
fn lease_of(line: &str) -> Option<Option<Duration>> {
    let end = line.strip_prefix(LEASE_LINE)?;
    Some(end.parse().ok().map(Duration::from_nanos))
}

/// How long a process may take to end after it was asked to: an agent goes through the whole kill ladder of its task, and waits
/// for its controller.
fn stop_max(config: &Config) -> Duration {
    let agent = &config.agent;
    agent.kill_interval * agent.kill_count + agent.stop_timeout + config.push.linger + Duration::from_secs(2)
}
