//! The thread that writes.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use super::folder::{Appender, Folder};
use super::jobs::{Asked, Job, Progress};
use super::{HistoryLimits, old, recovery};
use crate::history::rules::{Day, Keeper};
use api::wire::rounds::of_record::finished_round;
use base::{Incident, IncidentKind, Mono, Now, Round, TaskRecord};
use proc::{clock, logging};

/// How long ended rounds wait to be fetched together, unless a question or a flush comes. Each wake-up would take a core from the
/// threads that hand out tasks.
const FETCH_INTERVAL: Duration = Duration::from_millis(100);

/// After this many written rounds, some MB, the size of the files is looked at.
const SHRINK_ROUNDS: u64 = 50_000;

pub(super) struct Writer {
    pub(super) keeper: Keeper,
    folder: Folder,
    pub(super) appender: Appender,
    limits: HistoryLimits,
    progress: Arc<Progress>,
    asks: Sender<Asked>,
    /// When to fetch the rounds that have ended, if there are any.
    fetch_at: Option<Mono>,
    /// The number of the last round that was fetched.
    fetched: u64,
    /// Questions that wait for the next write.
    asked: Vec<Asked>,
    /// The days whose files of earlier versions are to be converted, the newest one last.
    old_days: Vec<Day>,
    converted: Converted,
    /// Rounds that were not there before, since the size of the files was looked at.
    added: u64,
    /// The day of the last look at that size; `None` to look again.
    shrunk_on: Option<Day>,
    /// The day whose file alone is larger than all files together may be.
    too_large: Option<Day>,
}

/// The files of earlier versions that are done, and their rounds.
#[derive(Debug, Default)]
struct Converted {
    days: usize,
    rounds: usize,
}

impl Writer {
    pub(super) fn new(folder: Folder, limits: HistoryLimits, progress: Arc<Progress>, asks: Sender<Asked>) -> Self {
        Self {
            keeper: Keeper::new(limits.keep_days),
            appender: Appender::new(folder.clone(), limits.syncs),
            folder,
            limits,
            progress,
            asks,
            fetch_at: None,
            fetched: 0,
            asked: Vec::new(),
            old_days: Vec::new(),
            converted: Converted::default(),
            added: 0,
            shrunk_on: None,
            too_large: None,
        }
    }

    /// Adds the rounds of stored tasks that the files lack, and notes the start. Returns that note. A controller that was deposed
    /// notes no stop, nor does one whose store was copied while it ran: neither has crashed, and `is_excused` says so.
    pub(super) fn begin(&mut self, now: Now, stored: &[TaskRecord], is_excused: bool) -> Incident {
        match recovery::missing(&self.folder, &mut self.appender, stored) {
            Ok(missing) => {
                for (record, round) in &missing {
                    if let Some(row) = finished_round(record, *round) {
                        self.keeper.handle_round(now, row);
                    }
                    self.write(now);
                }
                if !missing.is_empty() {
                    log::info!(
                        "{} finished rounds of the store were not in the history: they are added",
                        missing.len()
                    );
                }
            }
            Err(error) => log::warn!("the history cannot be compared with the store: {error}"),
        }
        let (kind, text) = match recovery::last_of_life(&self.folder) {
            Some(IncidentKind::Started | IncidentKind::Crashed) if !is_excused => (
                IncidentKind::Crashed,
                "the controller has started; the one before was not stopped: killed, or crashed",
            ),
            _ => (IncidentKind::Started, "the controller has started"),
        };
        let start = Incident { at: now.wall, kind, text: text.to_owned() };
        self.keeper.handle_incident(now, start.clone());
        match self.folder.old_days(Day::first_kept(now.wall, self.limits.keep_days)) {
            Ok(days) => self.old_days = days,
            Err(error) => log::warn!("the history of earlier versions cannot be converted: {error}"),
        }
        start
    }

    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            let now = clock::now();
            self.turn(now);
            let convert_at = (!self.old_days.is_empty()).then_some(now.mono);
            let due = [self.keeper.poll_timeout(), self.fetch_at, convert_at].into_iter().flatten().min();
            let received = match due {
                Some(at) => jobs.recv_timeout(at.since(now.mono)),
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Err(RecvTimeoutError::Timeout) => self.fetch(clock::now()),
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(job) => self.take(clock::now(), job),
            }
        }
        let now = clock::now();
        self.fetch(now);
        self.keeper.handle_flush(now);
        self.turn(now);
        self.progress.end();
    }

    pub(super) fn take(&mut self, now: Now, job: Job) {
        if !matches!(job, Job::Rounds) {
            self.fetch(now);
        }
        match job {
            Job::Rounds => self.fetch_at = Some(now.mono + FETCH_INTERVAL),
            Job::Incident(incident) => self.keeper.handle_incident(now, incident),
            Job::Ask(asked) => {
                self.keeper.handle_flush(now);
                self.asked.push(asked);
            }
            Job::Damaged(day) => {
                if let Err(error) = self.appender.repair(day) {
                    log::warn!("the damaged history of {day} cannot be repaired: {error}");
                }
            }
            Job::Flush => self.keeper.handle_flush(now),
            Job::Stop => {}
        }
    }

    /// Takes the rounds that have ended since the last time.
    fn fetch(&mut self, now: Now) {
        self.fetch_at = None;
        let (last, rounds) = {
            let mut ended = self.progress.ended();
            (ended.last, std::mem::take(&mut ended.rounds))
        };
        self.add(now, last, &rounds);
    }

    /// Adds rounds, and the number of the last one.
    pub(super) fn add(&mut self, now: Now, last: u64, rounds: &[(Round, Box<TaskRecord>)]) {
        self.fetched = last;
        for (round, record) in rounds {
            if let Some(row) = finished_round(record, *round) {
                self.keeper.handle_round(now, row);
            }
        }
    }

    /// Writes what is due, converts a file of an earlier version, and passes the questions on that waited for all of that.
    pub(super) fn turn(&mut self, now: Now) {
        let left_out = self.progress.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            self.keeper.handle_overflow(now, left_out, "rounds end faster than they are written");
        }
        self.write(now);
        logging::write(self.keeper.take_log());
        let is_written = self.keeper.is_at_rest();
        self.progress.set(is_written.then_some(self.fetched), self.keeper.is_in_trouble());
        self.convert();
        if self.old_days.is_empty() {
            for asked in self.asked.drain(..) {
                // The reader ends before us only by a panic, which the log shows.
                let _ = self.asks.send(asked);
            }
            self.shrink(now);
        }
    }

    fn write(&mut self, now: Now) {
        self.keeper.handle_timeout(now);
        while let Some((day, batch)) = self.keeper.poll_write(now) {
            match self.appender.append(day, batch) {
                Ok(added) => {
                    self.added += added as u64;
                    self.keeper.handle_written(now, day);
                }
                Err(error) => self.keeper.handle_trouble(now, &error.to_string()),
            }
        }
    }

    /// Converts the newest file of an earlier version. If the controller is killed meanwhile, the next one finds it again, and writes
    /// no row twice.
    fn convert(&mut self) {
        let Some(day) = self.old_days.pop() else { return };
        let path = self.folder.old_path_of(day);
        let mut rounds = 0;
        let read = old::read(&path, |batch| {
            rounds += batch.rounds.len();
            self.appender.append(day, &batch).map(drop)
        });
        let removed = read.and_then(|is_damaged| {
            self.appender.settle()?;
            if is_damaged {
                let aside = self.folder.set_aside(&path)?;
                log::warn!(
                    "{} is damaged: it is kept as {}, and {rounds} rounds of it were read",
                    path.display(),
                    aside.display()
                );
            } else {
                fs::remove_file(&path)?;
            }
            Ok(())
        });
        match removed {
            Ok(()) => {
                self.converted.days += 1;
                self.converted.rounds += rounds;
            }
            Err(error) => {
                log::warn!("{} cannot be converted: {error}; the next start tries again", path.display());
            }
        }
        let Converted { days, rounds } = self.converted;
        if self.old_days.is_empty() && days > 0 {
            log::info!("the history of an earlier version is converted to SQLite: {rounds} rounds of {days} days");
        }
    }

    /// Removes the days that are too many or too large, at the first turn of a day and after some rounds.
    fn shrink(&mut self, now: Now) {
        let today = Day::of(now.wall);
        if self.shrunk_on == Some(today) && self.added < SHRINK_ROUNDS {
            return;
        }
        (self.shrunk_on, self.added) = (Some(today), 0);
        let HistoryLimits { keep_days, keep_bytes_max, .. } = self.limits;
        self.appender.close();
        match self.folder.shrink(Day::first_kept(now.wall, keep_days), today, keep_bytes_max) {
            Ok(left) if left > keep_bytes_max && self.too_large != Some(today) => {
                self.too_large = Some(today);
                log::warn!(
                    "the history of this day alone takes {left} bytes, more than HISTORY_KEEP_BYTES_MAX ({keep_bytes_max}); the \
                     present day is kept as a whole"
                );
            }
            Ok(_) => {}
            Err(error) => log::warn!("old files of the history cannot be removed: {error}"),
        }
    }
}
