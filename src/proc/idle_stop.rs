//! The end of a service without work: the supervisor says in a file of STATE_DIR after which time its controller ends, and the
//! controller says in a line that it does. Only the controller can tell whether a request has come meanwhile, and only the
//! supervisor knows whether a person wants to keep the service.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::files::state_file;

/// The name of the file in STATE_DIR.
const FILE: &str = "idle-stop.json";

/// The line of a controller that ends because it has nothing to do.
pub const IDLE_LINE: &str = "llts controller idle";

/// Says after which time without work the controller ends; it reads that when it starts, and when it is signalled.
pub fn write(state_dir: &Path, limit: Option<Duration>) -> io::Result<()> {
    state_file::replace(&state_dir.join(FILE), &limit)
}

/// The time after which a controller ends; `None` if it does not.
pub fn read(state_dir: &Path) -> Option<Duration> {
    state_file::read(&state_dir.join(FILE)).ok().flatten()
}
