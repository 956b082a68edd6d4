//! What goes in and out of the master's engine beside the messages: effects, what comes back of them, deadlines.

use std::time::Duration;

use super::file::FileName;
use crate::protocol::prompt::{FromMaster, Front, RequestId};

/// A connection. The shell makes the number and never uses it twice: the connection is who a worker is, its id only a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u64);

/// What the shell must do, in order. What can fail comes back as an event.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Send this.
    Send(Connection, FromMaster),
    /// Send what is still to be sent and close the connection; then [`super::Master::handle_closed`].
    Close(Connection),
    /// Drop the connection at once; nothing comes back.
    Abort(Connection),
    /// Move this file from `pending/` to `working/` and read it; then [`super::Master::handle_claimed`].
    Claim(FileName),
    /// Move this file out of `working/`; then [`super::Master::handle_moved`].
    Move(FileName, Destination),
    /// Look through `pending/`: [`super::Master::handle_found`] for each file that is new, then
    /// [`super::Master::handle_scanned`].
    Scan,
    /// Note for a restart that this file of `pending/` or `working/` has failed so often; 0 forgets it.
    NoteFails(FileName, u32),
    /// The master is done.
    Exit,
}

/// Where a file goes from `working/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// It waits again.
    Pending,
    /// It is worked off.
    Done,
    /// It is given up.
    Failed {
        /// Why, if that is the master's finding and not the worker's.
        reason: Option<String>,
    },
}

/// A file that is in `working/` and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Its name there.
    pub file: FileName,
    /// What it asks for.
    pub front: Front,
    /// What the worker gets.
    pub prompt: String,
}

/// Why a file was not claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// It is not in `pending/` any more.
    Vanished,
    /// It is in `working/` under this name, and no prompt can be read from it.
    Unfit(FileName, String),
    /// It cannot be moved, and is still in `pending/`.
    Stuck(String),
}

/// What became of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is at its destination under this name.
    To(FileName),
    /// Somebody has taken it out of `working/`.
    Vanished,
    /// It cannot be moved, and is still in `working/`.
    Stuck(String),
}

/// Why the engine wants to be called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The document's TIMER: files are counted, workers are checked.
    Tick,
    /// A connection has not said JOIN.
    Join(Connection),
    /// A connection that has shown a wrong secret hears so.
    Refuse(Connection),
    /// A worker that does not split the stream may hear the next message.
    Speak(Connection),
    /// The document's TIMEOUT_CHECK: a request or a check may not have been acknowledged.
    Acknowledge(Connection, RequestId),
    /// A prompt has taken as long as its file allows, and its worker has not reported it.
    Run(Connection),
    /// A worker that has reached the limit of its service may work again.
    Rest(Connection),
    /// A gate opens.
    Gate(String),
    /// A connection has not closed.
    Disconnect(Connection),
    /// The master has waited long enough for its connections to close.
    Shutdown,
}

/// What is told at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// How long the master has been running.
    pub running_for: Duration,
    /// Files that were worked off, given up, or left.
    pub all: u64,
    /// Files that this master has moved to `done/`.
    pub succeeded: u64,
    /// Files that this master has moved to `failed/`.
    pub failed: u64,
}

impl Totals {
    /// Files that are not worked off.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.all - self.succeeded - self.failed
    }
}
