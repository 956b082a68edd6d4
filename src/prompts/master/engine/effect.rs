//! Inputs and outputs of the master's engine besides the messages: effects, their results, deadlines.

use std::time::Duration;

use super::file::FileName;
use crate::wire::{FromMaster, Front, RequestId, ResultPart, TailQuery};
use base::{Usd, Wall};

/// A connection. The shell assigns the number and never reuses it. A worker is identified by its connection; its id is only
/// a label.
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
    /// Remember across restarts that this file is with a worker that resumes, under this request, until it leaves `working/`; and since
    /// when that worker has no connection, if it has none.
    NoteRun(FileName, RequestId, Option<Wall>),
    /// Remember across restarts how many runs of this file were lost; 0 clears it.
    NoteLosses(FileName, u32),
    /// Remember across restarts until when a gate is closed; `None` if it is open.
    NoteGate(String, Option<Wall>),
    /// Remember across restarts why no prompt is handed out; `None` if prompts are.
    NotePause(Option<String>),
    /// Remember across restarts what the prompts have cost, and what a run usually costs.
    NoteCost(Option<Usd>, Option<Usd>),
    /// Remember across restarts a bound for it that a person has set.
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
    /// It waits again.
    Pending,
    /// It has been processed.
    Done,
    /// It is given up.
    Failed {
        /// The reason, if the master rather than the worker found it.
        reason: Option<String>,
    },
}

/// A file that is in `working/` and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Its name there.
    pub file: FileName,
    /// Its front matter.
    pub front: Front,
    /// The text for the worker.
    pub prompt: String,
}

/// Why a file was not claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// It is not in `pending/` any more.
    Vanished,
    /// It is in `working/` under this name, but is not a readable prompt.
    Unfit(FileName, String),
    /// It cannot be moved, and is still in `pending/`.
    Stuck(String),
}

/// Why the answer of a run is not in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// The disk does not take it. Its worker has it.
    NoRoom(String),
    /// It has not arrived as a whole, although its worker has sent what it has.
    Torn(String),
}

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is at its destination under this name.
    To(FileName),
    /// It has disappeared from `working/`.
    Vanished,
    /// It cannot be moved, and is still in `working/`.
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
    /// A worker that does not split the stream may get the next message.
    Speak(Connection),
    /// The document's TIMEOUT_CHECK: a request or a check may not have been acknowledged.
    Acknowledge(Connection, RequestId),
    /// A prompt has taken as long as its file allows, without a report of its worker.
    Run(Connection),
    /// A gate opens: before the workers that rest until then.
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
    /// Those of them that have failed because their time was up.
    pub timed_out: u64,
    /// What the prompts have cost, also under earlier masters, as far as it is known.
    pub cost: Option<Usd>,
}

impl Totals {
    /// Files that have not been processed.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.all - self.succeeded - self.failed
    }
}
