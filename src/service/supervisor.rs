//! The service of one machine: a controller and its agents, each a process that is started again when it dies.
//!
//! [`supervise`] is the main loop: one thread around one wait. [`launch`] starts a supervisor and waits until it reports that the service
//! is up; [`stop()`] ends the service. One service runs per STATE_DIR: the supervisor holds its lock.
//!
//! | module | what it does |
//! |---|---|
//! | [`plan`](crate::plan) | decides which processes to start and stop, and when |
//! | [`turn`] | waits for events, reports them to the plan, carries out its effects |
//! | [`child`] | one process: its start, its output lines, its end |
//! | [`service_file`](api::service_file) | `service.json`: the running service, for `down` and for clients |
//! | [`handover`] | the exec of another version of the program, which keeps the same child processes |
//! | [`standby`] | goes back to the old program if the new supervisor dies soon after a restart |
//! | [`renew`] | asks a running service to restart with another program, and follows the progress |
//! | [`order`](mod@order) | changes a running service: its number of agents, and whether it ends without work |
//! | [`launch`] | starts a supervisor and reads its report |
//! | [`stop()`] | ends the service of a STATE_DIR |
//! | [`ephemeral_dir`] | the folder of an ephemeral service, and the cleanup after its keepers were killed |

mod child;
mod ephemeral_dir;
mod handover;
mod launch;
mod order;
mod pinned;
mod renew;
mod standby;
mod stop;
mod turn;

pub use ephemeral_dir::{
    Abandoned, EPHEMERAL_LOG, EPHEMERAL_PREFIX, EPHEMERAL_STATE, EPHEMERAL_WORK, KeeperLock, end_abandoned,
    end_ephemeral,
};
pub use handover::{READINESS, Unready, check_readiness, go_back};
pub use launch::{Launch, LaunchError, Launched};
pub use order::{Order, order, settled, stand_by, starting};
pub use renew::{RenewError, renew};
pub use standby::why_needed;
pub use stop::{STANDBY_LOCK, StopError, Stopped, stop};
pub use turn::{Options, SupervisorError, host_name, supervise};

use std::time::Duration;

use api::config::Config;
pub use api::service_file::{Renewal, Report, Service, holder, lasting_holder, log_file};

/// The maximum number of agents on one machine; a larger number is taken for a typing error.
pub const AGENTS_MAX: u16 = 1000;

/// How long a process may take to end after a request: an agent goes through the whole kill ladder of its task and waits for its
/// controller.
fn stop_max(config: &Config) -> Duration {
    let agent = &config.agent;
    agent.kill_interval * agent.kill_count + agent.stop_timeout + config.push.linger + Duration::from_secs(2)
}
