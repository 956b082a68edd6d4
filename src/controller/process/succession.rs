//! A controller becomes another version of its program ([`takeover`]): it stops as usual, but its lock stays held, and its
//! successor continues the listeners and the connections of clients ([`Suspension`]). So no client loses a request.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ControllerError;
use api::kept_config;
use proc::lock::StateLock;
use proc::takeover;
use proc::takeover::{Successor, descriptor};
use zmtp::port::{SuspendedPorts, Suspension};

/// The option before the state.
const OPTION: &str = "--handover";

/// The name of the lock of a controller in STATE_DIR.
pub const LOCK: &str = "controller";

/// The state of a controller for its successor.
#[derive(Deserialize, Serialize)]
struct Succession {
    /// The descriptor of its lock.
    lock: i32,
    ports: SuspendedPorts,
}

/// The lock of this controller, and the ports of its predecessor in this process, if it has one.
pub(super) fn begin(state_dir: &Path, handover: Option<i32>) -> Result<(StateLock, SuspendedPorts), ControllerError> {
    let Some(number) = handover else { return Ok((StateLock::acquire(state_dir, LOCK)?, SuspendedPorts::default())) };
    let Succession { lock, ports } = takeover::state(number)?;
    log::info!("succeeding another program");
    log::debug!("{ports:?}");
    Ok((StateLock::adopt(descriptor(lock)?), ports))
}

/// Becomes the other program. Returns if that fails: then this process ends, and its supervisor starts another one.
pub(super) fn succeed(successor: &Successor, lock: &StateLock, suspension: Suspension) {
    let Suspension { ports, kept } = suspension;
    let lock = lock.as_fd();
    let mut command = takeover::same_arguments(&successor.program, OPTION);
    let kept: Vec<_> = kept.iter().map(OwnedFd::as_fd).chain([lock]).collect();
    if let Some(kept) = &successor.kept_config {
        command.env(kept_config::VARIABLE, kept);
    }
    let error = takeover::exec(&mut command, &Succession { lock: lock.as_raw_fd(), ports }, &kept);
    log::error!("{} cannot be started: {error}", successor.program.display());
}
