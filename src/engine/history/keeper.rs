//! The writer's part: the blocks that are being filled, and when they are written.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::incidents::Incidents;
use crate::engine::journal::{Journal, LogLine};
use crate::protocol::rounds::block::{self, BlockWriter, Span};
use crate::types::{FinishedRound, Incident, IncidentKind, Mono, Now, Wall};

/// How long a row may wait for others of its block. A row that was not written when a controller is killed is made again from
/// the store, so this only bounds how often a slow service writes.
const FILL_TIME: Duration = Duration::from_secs(2);

/// Rows of a block: it is read and decompressed as a whole, and larger ones hardly compress better.
const BLOCK_ROWS_MAX: u32 = 4096;

/// Bytes of a block before its compression, which a few long texts may fill sooner.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// How long a write that failed is not tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Rows that may wait while nothing can be written: about 20 MB. Further ones are counted; the store still has their tasks, so
/// that the next start of the controller makes them again.
const ROWS_MAX: u64 = 200_000;

const MICROS_OF_A_DAY: u64 = 86_400_000_000;

/// A day of UTC: the number of days since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub u64);

impl Day {
    /// The day of a moment.
    #[must_use]
    pub const fn of(at: Wall) -> Self {
        Self(at.micros() / MICROS_OF_A_DAY)
    }

    /// Its first moment.
    #[must_use]
    pub const fn begin(self) -> Wall {
        Wall::from_micros(self.0.saturating_mul(MICROS_OF_A_DAY))
    }

    /// The earliest day that is kept at this moment: whole days are kept before the present one.
    #[must_use]
    pub const fn first_kept(now: Wall, keep_days: u32) -> Self {
        Self(Self::of(now).0.saturating_sub(keep_days as u64))
    }
}

/// Year, month and day of the Gregorian calendar, as the name of a file has them.
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The calendar repeats every 400 years of 146,097 days; years begin in March, so that a leap day is the last of its year.
        let days = self.0 + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// A text that is not a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a date of the form 2026-01-31")]
pub struct NoDate;

impl FromStr for Day {
    type Err = NoDate;

    fn from_str(text: &str) -> Result<Self, NoDate> {
        let mut numbers = text.split('-').map(|part| part.parse::<u64>().ok().filter(|_| part.len() >= 2));
        let mut number = || numbers.next().flatten().ok_or(NoDate);
        let (year, month, day) = (number()?, number()?, number()?);
        if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(NoDate);
        }
        let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let (era, of_era) = (year / 400, year % 400);
        let of_year = (153 * from_march + 2) / 5 + day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
        // The 31st of a shorter month is shown as another date.
        days.checked_sub(719_468).map(Self).filter(|day| day.to_string() == text).ok_or(NoDate)
    }
}

/// The rows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Finished rounds.
    Rounds,
    /// Incidents.
    Incidents,
}

/// A block to append to the file of a day.
#[derive(Debug, PartialEq, Eq)]
pub struct Write {
    /// The day.
    pub day: Day,
    /// Its rows.
    pub kind: WriteKind,
    /// Number of rows.
    pub count: u32,
    /// The earliest and the latest moment.
    pub span: Span,
    /// Its bytes, not compressed.
    pub bytes: Vec<u8>,
}

/// See the [module](super).
#[derive(Debug)]
pub struct Keeper {
    keep_days: u32,
    filling: BTreeMap<Day, BlockWriter>,
    /// Blocks to write, oldest first.
    full: VecDeque<(Day, BlockWriter)>,
    incidents: Incidents,
    /// Rows in all blocks.
    rows: u64,
    /// When everything is to be written.
    due: Option<Mono>,
    trouble: Option<Trouble>,
    journal: Journal,
}

/// Nothing can be written.
#[derive(Debug)]
struct Trouble {
    since: Wall,
    why: String,
    retry_at: Mono,
    /// Rows that found no room meanwhile.
    missing: u64,
}

impl Keeper {
    /// Keeps so many days.
    #[must_use]
    pub fn new(keep_days: u32) -> Self {
        Self {
            keep_days,
            filling: BTreeMap::new(),
            full: VecDeque::new(),
            incidents: Incidents::default(),
            rows: 0,
            due: None,
            trouble: None,
            journal: Journal::default(),
        }
    }

    /// A round has ended.
    pub fn handle_round(&mut self, now: Now, row: &FinishedRound<'_>) {
        let day = Day::of(row.ended_at);
        if day < Day::first_kept(now.wall, self.keep_days) {
            return;
        }
        if self.rows >= ROWS_MAX {
            return self.handle_overflow(now, 1, "rows come faster than they are written");
        }
        self.rows += 1;
        let block = self.filling.entry(day).or_default();
        block.push(row);
        if block.count() >= BLOCK_ROWS_MAX || block.len() >= BLOCK_BYTES_MAX {
            let block = std::mem::take(block);
            self.filling.remove(&day);
            self.full.push_back((day, block));
        }
        self.due.get_or_insert(now.mono + FILL_TIME);
    }

    /// So many rounds are not written before the next start of the controller.
    pub fn handle_overflow(&mut self, now: Now, rounds: u64, why: &str) {
        let trouble = self.trouble.get_or_insert_with(|| {
            self.journal
                .warn(format!("the history is incomplete: {why}; the next start adds what is missing from the store"));
            Trouble { since: now.wall, why: why.to_owned(), retry_at: now.mono, missing: 0 }
        });
        trouble.missing += rounds;
    }

    /// Something happened to the service.
    pub fn handle_incident(&mut self, now: Now, incident: Incident) {
        self.incidents.add(now.mono, incident);
    }

    /// Everything is to be written.
    pub const fn handle_flush(&mut self, now: Now) {
        self.due = Some(now.mono);
        if let Some(trouble) = &mut self.trouble {
            trouble.retry_at = now.mono;
        }
    }

    /// Whether nothing can be written at present.
    #[must_use]
    pub const fn is_in_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    /// Handles what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        self.incidents.handle_timeout(now);
        if self.due.is_some_and(|due| due <= now.mono) {
            self.due = None;
            self.full.extend(std::mem::take(&mut self.filling));
        }
    }

    /// The next deadline.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        let has_work = !self.full.is_empty() || !self.incidents.kept().is_empty();
        let retry = self.trouble.as_ref().filter(|_| has_work).map(|trouble| trouble.retry_at);
        [self.due, retry, self.incidents.poll_timeout()].into_iter().flatten().min()
    }

    /// The next block to write, until [`Self::handle_written`] confirms it.
    #[must_use]
    pub fn poll_write(&self, now: Now) -> Option<Write> {
        if self.trouble.as_ref().is_some_and(|trouble| now.mono < trouble.retry_at) {
            return None;
        }
        if let Some((day, block)) = self.full.front() {
            let (span, bytes) = (block.span()?, block.bytes());
            return Some(Write { day: *day, kind: WriteKind::Rounds, count: block.count(), span, bytes });
        }
        let kept = self.incidents.kept();
        let day = Day::of(kept.first()?.at);
        let of_day: Vec<_> = kept.iter().take_while(|incident| Day::of(incident.at) == day).cloned().collect();
        let span = of_day.iter().fold(Span::of(kept.first()?.at), |span, incident| span.with(incident.at));
        let count = u32::try_from(of_day.len()).ok()?;
        Some(Write { day, kind: WriteKind::Incidents, count, span, bytes: block::incidents(&of_day) })
    }

    /// The block is written.
    pub fn handle_written(&mut self, now: Now, write: &Write) {
        match write.kind {
            WriteKind::Rounds => {
                self.full.pop_front();
                self.rows -= u64::from(write.count);
            }
            WriteKind::Incidents => self.incidents.forget(write.count as usize),
        }
        if let Some(Trouble { since, why, missing, .. }) = self.trouble.take() {
            let missing = match missing {
                0 => "no round is missing".to_owned(),
                missing => format!("{missing} rounds are missing until the next start of the controller"),
            };
            let text = format!("the history could not be written since {since}: {why}; {missing}");
            self.journal.info(format!("the history is written again; {missing}"));
            self.incidents.add(now.mono, Incident { at: now.wall, kind: IncidentKind::HistoryLag, text });
        }
    }

    /// The block cannot be written; it is tried again.
    pub fn handle_trouble(&mut self, now: Now, why: &str) {
        let retry_at = now.mono + RETRY_INTERVAL;
        if let Some(trouble) = &mut self.trouble {
            trouble.retry_at = retry_at;
            return;
        }
        self.journal.warn(format!("the history cannot be written: {why}; it is tried again every second"));
        self.trouble = Some(Trouble { since: now.wall, why: why.to_owned(), retry_at, missing: 0 });
    }

    /// Whether everything is written.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.rows == 0 && self.incidents.kept().is_empty()
    }

    /// The log lines since the last call.
    pub fn take_log(&mut self) -> VecDeque<LogLine> {
        self.journal.take()
    }
}
