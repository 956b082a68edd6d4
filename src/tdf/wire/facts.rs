//! The facts of a task for a decision of a server: a few fields of its hash, and the entries of our own keys.

use super::words::{field, parse_state};
use base::tdf::number::{float, int};
use base::tdf::{Fence, State, TaskId, WorkerName};

/// Why an entry of a set cannot be handled as a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Poison {
    /// There is no hash, or the key has another type.
    #[error("the task has no hash")]
    NoHash,
    /// The hash lacks a field.
    #[error("the field {0} is missing")]
    Missing(&'static str),
    /// A field cannot be read.
    #[error("the field {field} is {value:?}; {expected} is expected")]
    Bad {
        /// The name of the field.
        field: &'static str,
        /// The value, shortened.
        value: String,
        /// A description of a valid value.
        expected: &'static str,
    },
}

/// The count of an event of a task, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The counter.
    pub used: i64,
    /// The bound; a counter above it ends the task.
    pub max: i64,
}

/// A run, from the hash.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// `R:running` as it is written.
    pub started: String,
    /// The start in unix seconds.
    pub started_at: f64,
    /// `R:worker`, if it is text.
    pub worker: Option<String>,
}

/// The field `R:error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stderr {
    /// The field is missing: an original worker has reported for another round.
    Missing,
    /// Nothing was written to stderr.
    Empty,
    /// Something was written to stderr.
    Written,
}

/// The facts of a task at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The task.
    pub task: TaskId,
    /// The set of the entry; `None` for a task in no set.
    pub set: Option<State>,
    /// The score of the entry.
    pub score: f64,
    /// The field `state`.
    pub state: Option<State>,
    /// The field `round`.
    pub round: u32,
    /// Unix seconds.
    pub start_after: f64,
    /// Unix seconds.
    pub end_before: f64,
    /// Seconds.
    pub timeout: f64,
    /// Rounds that failed.
    pub fails: Budget,
    /// Rounds that timed out.
    pub timeouts: Budget,
    /// The run of this round, if one has begun.
    pub run: Option<Run>,
    /// `R:executed` in unix seconds.
    pub executed_at: Option<f64>,
    /// Whether `R:output` is there.
    pub has_output: bool,
    /// `R:error`
    pub stderr: Stderr,
    /// The run that holds an llts lease, and its end in unix seconds.
    pub lease: Option<(Fence, f64)>,
    /// Runs whose worker was lost.
    pub losses: u32,
    /// Whether the task is also in the set that its state names, and that is another one.
    pub is_stray: bool,
}

/// The texts of one task in the order in which the scripts send them; a field that is missing is `None`.
pub type Row = Vec<Option<Vec<u8>>>;

/// Length of a row. Behind it may stand the name of a missing field that only workers read.
const COLUMNS: usize = 20;

/// Fields that no decision needs and each claim does.
const UNREAD: [&str; 6] = ["program", "source", "input", "id", "namespace", "log"];

/// Values in messages.
const SHOWN_CHARS_MAX: usize = 40;

impl Facts {
    /// Reads a row: id, set, score, the nine fields of the task, five of its round, the lease, the losses, and whether the entry is a stray.
    ///
    /// # Errors
    /// The id, if the row has one, and what is wrong with the task.
    pub fn parse(row: &Row) -> Result<Self, (Option<TaskId>, Poison)> {
        let task = text(row, 0).and_then(|id| id.parse().ok());
        let Some(task) = task else { return Err((None, bad("id", row, 0, "a whole number"))) };
        Self::of_row(task, row).map_err(|poison| (Some(task), poison))
    }

    fn of_row(task: TaskId, row: &Row) -> Result<Self, Poison> {
        if row.len() < COLUMNS || row[3..12].iter().all(Option::is_none) {
            return Err(Poison::NoHash);
        }
        let real = |name, at| {
            let value = text(row, at).and_then(|text| float(&text));
            value.ok_or_else(|| bad(name, row, at, "a number"))
        };
        let whole = |name, at| {
            let value = text(row, at).and_then(|text| int(&text));
            value.ok_or_else(|| bad(name, row, at, "a whole number"))
        };
        let lacks = text(row, COLUMNS).and_then(|name| UNREAD.into_iter().find(|field| *field == name));
        if let Some(field) = lacks {
            return Err(Poison::Missing(field));
        }
        // Fields of a round are found by the text of its number.
        let round = text(row, 4).and_then(|text| text.parse::<u32>().ok().filter(|round| round.to_string() == text));
        let run = match (text(row, 12), text(row, 12).and_then(|text| float(&text))) {
            (Some(started), Some(started_at)) => Some(Run { started, started_at, worker: text(row, 13) }),
            _ => None,
        };
        let stderr = match text(row, 16).as_deref() {
            None => Stderr::Missing,
            Some("0") => Stderr::Empty,
            Some(_) => Stderr::Written,
        };
        Ok(Self {
            task,
            set: text(row, 1).and_then(|text| parse_state(&text)),
            score: text(row, 2).and_then(|text| float(&text)).unwrap_or_default(),
            state: text(row, 3).and_then(|text| parse_state(&text)),
            round: round.ok_or_else(|| bad(field::ROUND, row, 4, "a whole number"))?,
            start_after: real(field::START_AFTER, 5)?,
            end_before: real(field::END_BEFORE, 6)?,
            timeout: real(field::TIMEOUT, 7)?,
            fails: Budget { max: whole(field::MAX_FAILS, 8)?, used: whole(field::FAILS, 10)? },
            timeouts: Budget { max: whole(field::MAX_TIMEOUTS, 9)?, used: whole(field::TIMEOUTS, 11)? },
            run,
            executed_at: text(row, 14).and_then(|text| float(&text)),
            has_output: row[15].is_some(),
            stderr,
            lease: lease(task, row),
            losses: text(row, 18).and_then(|text| text.parse().ok()).unwrap_or_default(),
            is_stray: row[19].is_some(),
        })
    }
}

/// `ROUND STARTED EXPIRY WORKER`, as the claim has written it.
fn lease(task: TaskId, row: &Row) -> Option<(Fence, f64)> {
    let text = text(row, 17)?;
    let mut words = text.splitn(3, ' ');
    let (round, started, worker) = (words.next()?, words.next()?, words.next()?);
    let (expiry, worker) = worker.split_once(' ')?;
    let fence =
        Fence { task, round: round.parse().ok()?, worker: WorkerName::new(worker).ok()?, started: started.to_owned() };
    Some((fence, float(expiry)?))
}

fn text(row: &Row, at: usize) -> Option<String> {
    row.get(at)?.clone().and_then(|bytes| String::from_utf8(bytes).ok())
}

fn bad(field: &'static str, row: &Row, at: usize, expected: &'static str) -> Poison {
    match row.get(at).and_then(Option::as_ref) {
        None => Poison::Missing(field),
        Some(value) => {
            let value = String::from_utf8_lossy(value).chars().take(SHOWN_CHARS_MAX).collect();
            Poison::Bad { field, value, expected }
        }
    }
}
