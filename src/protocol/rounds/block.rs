//! A block of rows as bytes, before its compression.
//!
//! ```text
//! number of texts, then each with its length; then the rows
//! ```
//!
//! A row refers to texts by their numbers, and its times are differences to those of the row before: a row of a service with few
//! tools takes about thirty bytes, and a filter compares numbers instead of texts. The bytes are trusted after their checksum, but
//! whatever they contain, reading them ends with a row or with `None`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use super::numbers::{put, put_difference, take, take_difference};
use crate::types::{FinishedRound, Incident, IncidentKind, Round, RoundOutcome, TaskId, Wall};

/// Bits of the first byte of a row, beside the number of the outcome.
const IS_LAST: u8 = 0x10;
const HAS_EXIT_CODE: u8 = 0x20;
const HAS_STARTED: u8 = 0x40;
const HAS_RUN: u8 = 0x80;
const OUTCOME: u8 = 0x0f;

/// The format of the blocks that are written. Those of format 1 have no machines.
pub const FORMAT: u8 = 2;

/// Texts of a row in format 1.
const TEXTS_OF_1: usize = 6;

/// The earliest and the latest end of the rows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The earliest.
    pub first: Wall,
    /// The latest.
    pub last: Wall,
}

impl Span {
    /// A span of one moment.
    #[must_use]
    pub const fn of(at: Wall) -> Self {
        Self { first: at, last: at }
    }

    /// The shortest span that contains another moment as well.
    #[must_use]
    pub fn with(self, at: Wall) -> Self {
        Self { first: self.first.min(at), last: self.last.max(at) }
    }
}

/// Collects the rows of a block.
#[derive(Debug, Default)]
pub struct BlockWriter {
    numbers: HashMap<Box<str>, u64>,
    texts: Vec<u8>,
    rows: Vec<u8>,
    count: u32,
    span: Option<Span>,
    last_id: u64,
    last_end: u64,
}

impl BlockWriter {
    /// Number of rows.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The earliest and the latest end; `None` without a row.
    #[must_use]
    pub const fn span(&self) -> Option<Span> {
        self.span
    }

    /// Bytes of the block.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.texts.len() + self.rows.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a row.
    pub fn push(&mut self, row: &FinishedRound<'_>) {
        let texts = [&row.tool, &row.command, &row.job, &row.given_id, &row.agent, &row.line, &row.host];
        let texts = texts.map(|text| self.number_of(text));
        let out = &mut self.rows;
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(
            row.outcome.number()
                | flag(row.is_last, IS_LAST)
                | flag(row.exit_code.is_some(), HAS_EXIT_CODE)
                | flag(row.started_at.is_some(), HAS_STARTED)
                | flag(row.ran.is_some(), HAS_RUN),
        );
        let (id, end) = (row.task.wall().micros(), row.ended_at.micros());
        put_difference(out, id, self.last_id);
        out.extend_from_slice(&row.task.letters());
        put(out, u64::from(row.round.0));
        put_difference(out, end, self.last_end);
        texts.into_iter().for_each(|number| put(out, number));
        put_difference(out, row.submitted_at.micros(), id);
        put(out, micros(row.waited));
        if let Some(started) = row.started_at {
            put_difference(out, started.micros(), end);
        }
        if let Some(ran) = row.ran {
            put(out, micros(ran));
        }
        if let Some(code) = row.exit_code {
            put_difference(out, i64::from(code).cast_unsigned(), 0);
        }
        (self.last_id, self.last_end) = (id, end);
        self.count += 1;
        self.span = Some(self.span.map_or(Span::of(row.ended_at), |span| span.with(row.ended_at)));
    }

    fn number_of(&mut self, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(text.into(), number);
        put(&mut self.texts, text.len() as u64);
        self.texts.extend_from_slice(text.as_bytes());
        number
    }

    /// The bytes of the block.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len() + 10);
        put(&mut out, self.numbers.len() as u64);
        out.extend_from_slice(&self.texts);
        out.extend_from_slice(&self.rows);
        out
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A row whose texts are numbers of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    flags: u8,
    id: u64,
    letters: [u8; TaskId::SUFFIX_LEN],
    /// The number of the round.
    pub round: Round,
    /// Moment of its end.
    pub ended_at: Wall,
    /// How it ended.
    pub outcome: RoundOutcome,
    /// The numbers of the tool, the command, the job, the given id, the agent, the line and the machine.
    texts: [u32; 7],
    submitted_at: Wall,
    /// See [`FinishedRound::waited`].
    pub waited: Duration,
    started_at: Option<Wall>,
    /// See [`FinishedRound::ran`].
    pub ran: Option<Duration>,
    exit_code: Option<i32>,
}

/// A text of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// [`FinishedRound::tool`]
    Tool,
    /// [`FinishedRound::job`]
    Job = 2,
    /// [`FinishedRound::given_id`]
    GivenId,
    /// [`FinishedRound::agent`]
    Agent,
    /// [`FinishedRound::host`]
    Host = 6,
}

impl Row {
    /// The number of a text in its block; 0 is the empty text.
    #[must_use]
    pub const fn text(&self, text: Text) -> u32 {
        self.texts[text as usize]
    }

    /// Whether no other round was to follow.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.flags & IS_LAST != 0
    }

    /// See [`FinishedRound::submitted_at`].
    #[must_use]
    pub const fn submitted_at(&self) -> Wall {
        self.submitted_at
    }

    /// Its task; `None` if the row is damaged.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        TaskId::from_parts(Wall::from_micros(self.id), self.letters)
    }
}

/// A block that is read row by row. Damage ends it early: compare the number of rows.
#[derive(Debug)]
pub struct Block<'a> {
    texts: Vec<&'a str>,
    rows: &'a [u8],
    /// Texts of a row.
    row_texts: usize,
    last_id: u64,
    last_end: u64,
}

impl<'a> Block<'a> {
    /// Reads the texts of a block of a format; `None` if it is damaged.
    #[must_use]
    pub fn new(mut bytes: &'a [u8], format: u8) -> Option<Self> {
        let count = usize::try_from(take(&mut bytes)?).ok()?;
        // A text takes a byte at least.
        let mut texts = Vec::with_capacity(count.min(bytes.len()) + 1);
        texts.push("");
        for _ in 0..count {
            let len = usize::try_from(take(&mut bytes)?).ok()?;
            let (text, rest) = bytes.split_at_checked(len)?;
            texts.push(str::from_utf8(text).ok()?);
            bytes = rest;
        }
        let row_texts = if format == 1 { TEXTS_OF_1 } else { TEXTS_OF_1 + 1 };
        Some(Self { texts, rows: bytes, row_texts, last_id: 0, last_end: 0 })
    }

    /// The numbers of the texts, and the texts. The empty one is the first.
    pub fn texts(&self) -> &[&'a str] {
        &self.texts
    }

    /// The text with this number.
    #[must_use]
    pub fn text(&self, number: u32) -> &'a str {
        self.texts.get(number as usize).copied().unwrap_or_default()
    }

    /// A row with its texts; `None` if it is damaged.
    #[must_use]
    pub fn resolve(&self, row: &Row) -> Option<FinishedRound<'a>> {
        let text = |at: usize| Cow::Borrowed(self.text(row.texts[at]));
        Some(FinishedRound {
            task: row.task()?,
            round: row.round,
            is_last: row.is_last(),
            outcome: row.outcome,
            exit_code: row.exit_code,
            tool: text(0),
            command: text(1),
            job: text(2),
            given_id: text(3),
            agent: text(4),
            host: text(6),
            submitted_at: row.submitted_at,
            waited: row.waited,
            started_at: row.started_at,
            ran: row.ran,
            ended_at: row.ended_at,
            line: text(5),
        })
    }

    fn take_row(&mut self) -> Option<Row> {
        let bytes = &mut self.rows;
        let (&flags, rest) = bytes.split_first()?;
        *bytes = rest;
        let outcome = *RoundOutcome::ALL.get(usize::from(flags & OUTCOME))?;
        let id = take_difference(bytes, self.last_id)?;
        let (letters, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        let round = Round(u32::try_from(take(bytes)?).ok()?);
        let end = take_difference(bytes, self.last_end)?;
        let mut texts = [0; 7];
        for text in texts.iter_mut().take(self.row_texts) {
            *text = u32::try_from(take(bytes)?).ok()?;
        }
        let submitted_at = Wall::from_micros(take_difference(bytes, id)?);
        let waited = Duration::from_micros(take(bytes)?);
        let mut if_set = |bit, base| match flags & bit {
            0 => Some(None),
            _ => take_difference(bytes, base).map(Some),
        };
        let started_at = if_set(HAS_STARTED, end)?.map(Wall::from_micros);
        let ran = if flags & HAS_RUN == 0 { None } else { Some(Duration::from_micros(take(bytes)?)) };
        let exit_code = match flags & HAS_EXIT_CODE {
            0 => None,
            _ => Some(i32::try_from(take_difference(bytes, 0)?.cast_signed()).ok()?),
        };
        (self.last_id, self.last_end) = (id, end);
        let ended_at = Wall::from_micros(end);
        Some(Row {
            flags,
            id,
            letters: *letters,
            round,
            ended_at,
            outcome,
            texts,
            submitted_at,
            waited,
            started_at,
            ran,
            exit_code,
        })
    }
}

impl Iterator for Block<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        self.take_row()
    }
}

/// Incidents as bytes.
#[must_use]
pub fn incidents(incidents: &[Incident]) -> Vec<u8> {
    let mut out = Vec::new();
    for Incident { at, kind, text } in incidents {
        out.push(*kind as u8);
        put(&mut out, at.micros());
        put(&mut out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// Reads incidents until the end, or the first damage.
#[must_use]
pub fn read_incidents(mut bytes: &[u8]) -> Vec<Incident> {
    std::iter::from_fn(|| take_incident(&mut bytes)).collect()
}

fn take_incident(bytes: &mut &[u8]) -> Option<Incident> {
    let (&kind, rest) = bytes.split_first()?;
    *bytes = rest;
    let kind = *IncidentKind::ALL.get(usize::from(kind))?;
    let at = Wall::from_micros(take(bytes)?);
    let len = usize::try_from(take(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(Incident { at, kind, text: str::from_utf8(text).ok()?.to_owned() })
}

#[cfg(test)]
mod tests;
