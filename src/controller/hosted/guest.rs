//! A system that a controller hosts besides its own ports, as the controller sees it.
//!
//! The controller starts its guests after its store and its ports, and announces each. It knows no more of them than this. The
//! program that puts a controller together chooses them.

use std::error::Error;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use crate::door::Door;
use crate::metrics::Metrics;
use api::config::Config;
use api::wire::rules::Rules;
use proc::own_program::OwnProgram;

/// Starts a guest, if the configuration asks for it.
pub type Host = fn(&mut House<'_>) -> Result<Option<Guest>, Box<dyn Error + Send + Sync>>;

/// The controller that a guest comes to.
pub struct House<'a> {
    /// Its configuration.
    pub config: &'a Config,
    /// The limits of its messages.
    pub rules: &'a Rules,
    /// Its program, for a guest that runs other commands of that program.
    pub program: OwnProgram,
    /// Its measurements. `None` where nothing can read them.
    pub metrics: Option<Arc<Metrics>>,
    /// The listener that a guest of the program before this one in this process has left.
    pub listener: Option<TcpListener>,
}

/// Ends the parts that a guest has besides its door.
pub type Stop = Box<dyn FnOnce() -> io::Result<()>>;

/// A guest that runs.
pub struct Guest {
    /// The text that announces it.
    pub ready: Ready,
    /// Its way to the controller, if its work is tasks of that controller. The thread behind it ends with it.
    pub door: Option<Box<dyn Door>>,
    /// Ends it before the controller closes its doors.
    pub stop_before: Option<Stop>,
    /// Ends it after that.
    pub stop_after: Option<Stop>,
}

/// How a guest is announced.
pub enum Ready {
    /// By a line of its own.
    Line(String),
    /// By the end of the line of the controller.
    Address(String),
}

impl Guest {
    /// A guest whose only part is the thread behind its door.
    #[must_use]
    pub fn behind(door: impl Door + 'static, ready_line: String) -> Self {
        Self { ready: Ready::Line(ready_line), door: Some(Box::new(door)), stop_before: None, stop_after: None }
    }

    /// Makes these calls, in their order.
    pub(crate) fn stop_all(stops: Vec<Stop>) -> io::Result<()> {
        stops.into_iter().try_for_each(|stop| stop())
    }
}
