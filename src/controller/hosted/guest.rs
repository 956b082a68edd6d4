//! A system that a controller hosts beside its own ports, as the controller sees it.
//!
//! The controller starts its guests after its store, its ports and its HTTP door, and announces each by its line. It knows no more of
//! them than this: the program that puts a controller together says which there are.

use std::error::Error;
use std::io;

use crate::door::Door;
use api::config::Config;

/// Starts a guest, if the configuration asks for it.
pub type Host = fn(&Config) -> Result<Option<Guest>, Box<dyn Error + Send + Sync>>;

/// Ends what a guest has besides its door.
pub type Stop = Box<dyn FnOnce() -> io::Result<()>>;

/// A guest that runs.
pub struct Guest {
    /// The line that announces it.
    pub ready_line: String,
    /// Its way to the controller, if its work is tasks of that controller. The thread behind it ends with it.
    pub door: Option<Box<dyn Door>>,
    /// Ends it before the controller closes its doors.
    pub stop_before: Option<Stop>,
    /// Ends it after that.
    pub stop_after: Option<Stop>,
}

impl Guest {
    /// A guest whose only part is the thread behind its door.
    #[must_use]
    pub fn behind(door: impl Door + 'static, ready_line: String) -> Self {
        Self { ready_line, door: Some(Box::new(door)), stop_before: None, stop_after: None }
    }

    /// Makes these calls, in their order.
    pub(crate) fn stop_all(stops: Vec<Stop>) -> io::Result<()> {
        stops.into_iter().try_for_each(|stop| stop())
    }
}
