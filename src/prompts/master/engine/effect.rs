//! Inputs and outputs of the master's engine besides the messages: effects, their results, deadlines.

use std::time::Duration;

use super::file::FileName;
use crate::wire::{FromMaster, Front, RequestId, ResultPart, TailQuery};
use base::{Usd, Wall};

/// A connection. The shell assigns the number and never reuses it. A worker is identified by its connection; the id in its JOIN is
/// only a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u64);

/// An instruction to the shell; the order matters. Results come back as events.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Send this message.
    Send(Connection, FromMaster),
    /// Send all queued output and close the connection; then call [`super::Master::handle_closed`].
    Close(Connection),
    /// Drop the connection at once; no event follows.
    Abort(Connection),
    /// Move this file from `pending/` to `working/` and read it; then call [`super::Master::handle_claimed`].
    Claim(FileName),
    /// Move this file out of `working/`; then call [`super::Master::handle_moved`].
    Move(FileName, Destination),
    /// Scan `pending/`: call [`super::Master::handle_room`], then [`super::Master::handle_found`] for each new file, then [`super::Master::handle_scanned`].
    Scan,
    /// Remember across restarts that this file of `pending/` or `working/` has failed this many times; 0 clears it.
    NoteFails(FileName, u32),
    /// Remember across restarts that a worker that resumes has this file, under this request, until the file leaves `working/`; and since
    /// when that worker has had no connection, if it has none.
    NoteRun(FileName, RequestId, Option<Wall>),
    /// Remember across restarts how many runs of this file were lost; 0 clears it.
    NoteLosses(FileName, u32),
    /// Remember across restarts until when a gate is closed; `None` for an open gate.
    NoteGate(String, Option<Wall>),
    /// Remember across restarts the reason of a pause; `None` for its end.
    NotePause(Option<String>),
    /// Remember across restarts the cost of all prompts, and the usual cost of a run.
    NoteCost(Option<Usd>, Option<Usd>),
    /// Remember across restarts the bound of the cost that a person has set.
    NoteCostMax(Option<Usd>),
    /// Keep this part of the results of a run, until its file leaves `working/`.
    StorePart(Box<ResultPart>),
    /// Put the answer of a run in its place for this file and destination, on the disk, if the worker has sent one; then call
    /// [`super::Master::handle_answer_stored`].
    StoreAnswer(RequestId, FileName, Destination),
    /// Read a part of the output of a prompt that no worker has; then call [`super::Master::handle_tail_read`].
    ReadTail(Connection, Box<TailQuery>),
    /// The master has ended.
    Exit,
}

/// The destination of a file from `working/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// `pending/`: the file waits again.
    Pending,
    /// `done/`: the prompt is processed.
    Done,
    /// `failed/`: the prompt is given up.
    Failed {
        /// The reason, if the prompt fails by the master and not by a report.
        reason: Option<String>,
    },
}

/// A file that is in `working/` and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Name in `working/`.
    pub file: FileName,
    /// Front matter of the file.
    pub front: Front,
    /// The text for the worker.
    pub prompt: String,
}

/// Why a file was not claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// The file is not in `pending/` any more.
    Vanished,
    /// The file is in `working/` under this name, but is not a readable prompt.
    Unfit(FileName, String),
    /// The file cannot be moved, and is still in `pending/`.
    Stuck(String),
}

/// Why the answer of a run is not in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// The disk has no room for it; the worker keeps it.
    NoRoom(String),
    /// The worker has sent everything that it has, and a part is missing.
    Torn(String),
}

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The file is at its destination under this name.
    To(FileName),
    /// The file has disappeared from `working/`.
    Vanished,
    /// The file cannot be moved, and is still in `working/`.
    Stuck(String),
}

/// The reason for a deadline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The document's TIMER: files are counted, workers are checked.
    Tick,
    /// A connection has not sent JOIN in time.
    Join(Connection),
    /// A connection with a wrong secret gets its answer.
    Refuse(Connection),
    /// The pause after a message to a worker that does not split the stream ends.
    Pause(Connection),
    /// The document's TIMEOUT_CHECK: a request or a check may not have been acknowledged.
    Acknowledge(Connection, RequestId),
    /// The time limit of a prompt has passed without a report of its worker.
    Run(Connection),
    /// A gate opens, before the workers that rest until then.
    Gate(String),
    /// A worker that has reached the limit of its service may work again.
    Rest(Connection),
    /// A worker without a connection has not come back to its run.
    Lease(RequestId),
    /// A connection has not closed in time.
    Disconnect(Connection),
    /// The master has waited long enough for its connections to close.
    Shutdown,
}

/// The summary at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// How long the master has been running.
    pub running_for: Duration,
    /// Files that were processed, given up, or left.
    pub all: u64,
    /// Files that this master has moved to `done/`.
    pub succeeded: u64,
    /// Files that this master has moved to `failed/`.
    pub failed: u64,
    /// Files among them that have failed because their time was up.
    pub timed_out: u64,
    /// Cost of all prompts, also under earlier masters, as far as workers have reported it.
    pub cost: Option<Usd>,
}

impl Totals {
    /// Files that have not been processed.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.all - self.succeeded - self.failed
    }
}
