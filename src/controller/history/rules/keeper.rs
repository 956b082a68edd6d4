//! The writer's part: the rows that wait, and when they are written.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::incidents::Incidents;
use base::journal::{Journal, LogLine};
use base::{FinishedRound, Incident, IncidentKind, Mono, Now, Wall};

/// How long a row may wait for others: a transaction costs as much as hundreds of rows. If a controller is killed before it has
/// written a row, the next one makes the row again from the store.
const FILL_TIME: Duration = Duration::from_secs(2);

/// With this many rounds, a day does not wait for more.
const BATCH_ROUNDS: usize = 4096;

/// How long a write that failed is not tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of rows that wait while nothing can be written: about 80 MB. Further ones are counted; the store still has their
/// tasks, so the next start of the controller makes them again.
const ROUNDS_MAX: u64 = 200_000;

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

/// The rows of a day that are written together: all of them, or none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Rounds, in the order of their ends.
    pub rounds: Vec<FinishedRound<'static>>,
    /// Incidents, in the order of their moments.
    pub incidents: Vec<Incident>,
}

/// See the [module](super).
#[derive(Debug)]
pub struct Keeper {
    keep_days: u32,
    batches: BTreeMap<Day, Batch>,
    incidents: Incidents,
    /// Rounds in all batches.
    rounds: u64,
    /// When all batches are to be written; `None` without one.
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
    /// A keeper of this many days.
    #[must_use]
    pub fn new(keep_days: u32) -> Self {
        Self {
            keep_days,
            batches: BTreeMap::new(),
            incidents: Incidents::default(),
            rounds: 0,
            due: None,
            trouble: None,
            journal: Journal::default(),
        }
    }

    /// A round has ended.
    pub fn handle_round(&mut self, now: Now, round: FinishedRound<'_>) {
        let day = Day::of(round.ended_at);
        if day < Day::first_kept(now.wall, self.keep_days) {
            return;
        }
        if self.rounds >= ROUNDS_MAX {
            return self.handle_overflow(now, 1, "rows come faster than they are written");
        }
        self.rounds += 1;
        let batch = self.batches.entry(day).or_default();
        batch.rounds.push(round.into_owned());
        let due = if batch.rounds.len() >= BATCH_ROUNDS { now.mono } else { now.mono + FILL_TIME };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// This many rounds are not written before the next start of the controller.
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
        if self.incidents.admit(now.mono, incident.kind) {
            self.add_incident(now, incident);
        }
    }

    fn add_incident(&mut self, now: Now, incident: Incident) {
        self.batches.entry(Day::of(incident.at)).or_default().incidents.push(incident);
        self.due = Some(now.mono);
    }

    /// Everything is to be written.
    pub fn handle_flush(&mut self, now: Now) {
        if !self.batches.is_empty() {
            self.due = Some(now.mono);
        }
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
        let others: Vec<_> = self.incidents.handle_timeout(now).collect();
        others.into_iter().for_each(|incident| self.add_incident(now, incident));
    }

    fn write_at(&self) -> Option<Mono> {
        let due = self.due?;
        Some(self.trouble.as_ref().map_or(due, |trouble| due.max(trouble.retry_at)))
    }

    /// The next deadline.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        [self.write_at(), self.incidents.poll_timeout()].into_iter().flatten().min()
    }

    /// The next rows to write, until [`Self::handle_written`] confirms them.
    #[must_use]
    pub fn poll_write(&self, now: Now) -> Option<(Day, &Batch)> {
        let (day, batch) =
            self.batches.first_key_value().filter(|_| self.write_at().is_some_and(|at| at <= now.mono))?;
        Some((*day, batch))
    }

    /// The rows of this day are written.
    pub fn handle_written(&mut self, now: Now, day: Day) {
        if let Some(batch) = self.batches.remove(&day) {
            self.rounds -= batch.rounds.len() as u64;
        }
        if self.batches.is_empty() {
            self.due = None;
        }
        if let Some(Trouble { since, why, missing, .. }) = self.trouble.take() {
            let missing = match missing {
                0 => "no round is missing".to_owned(),
                missing => format!("{missing} rounds are missing until the next start of the controller"),
            };
            let text = format!("the history could not be written since {since}: {why}; {missing}");
            self.journal.info(format!("the history is written again; {missing}"));
            self.handle_incident(now, Incident { at: now.wall, kind: IncidentKind::HistoryLag, text });
        }
    }

    /// The rows cannot be written; it is tried again.
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
        self.batches.is_empty()
    }

    /// The log lines since the last call.
    pub fn take_log(&mut self) -> VecDeque<LogLine> {
        self.journal.take()
    }
}
