//! Ending a service without work: the supervisor sets the idle time of its controller in a file in STATE_DIR, and the
//! controller announces its end in a line. Only the controller knows whether a request has arrived meanwhile, and only
//! the supervisor knows whether a person wants to keep the service.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::files::state_file;

/// The name of the file in STATE_DIR.
const FILE: &str = "idle-stop.json";

/// The line of a controller that ends because it has nothing to do.
pub const IDLE_LINE: &str = "llts controller idle";

/// Sets the time without work after which the controller ends. It reads this when it starts and when it is signalled.
pub fn write(state_dir: &Path, limit: Option<Duration>) -> io::Result<()> {
    state_file::replace(&state_dir.join(FILE), &limit)
}

/// The time without work after which a controller ends; `None` if it does not.
pub fn read(state_dir: &Path) -> Option<Duration> {
    state_file::read(&state_dir.join(FILE)).ok().flatten()
}
