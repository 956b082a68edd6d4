//! The thread that writes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use super::folder::{Appender, Folder, Replaced};
use super::jobs::{Asked, Job, Progress};
use super::recovery::{self, Missing};
use crate::engine::history::{Day, Keeper};
use crate::protocol::rounds::of_record::finished_round;
use crate::shell::{clock, logging};
use crate::types::{Incident, IncidentKind, Mono, Now, Round, TaskRecord};

/// How long ended rounds wait to be fetched together, unless a question or a flush comes. Each wake-up would take a core from the
/// threads that hand out tasks.
const FETCH_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct Writer {
    keeper: Keeper,
    folder: Folder,
    appender: Appender,
    keep_days: u32,
    progress: Arc<Progress>,
    asks: Sender<Asked>,
    /// When to fetch the rounds that have ended, if there are any.
    fetch_at: Option<Mono>,
    /// The number of the last round that was fetched.
    fetched: u64,
    /// Questions that wait for the next write.
    asked: Vec<Asked>,
    /// The damaged blocks of which rows are being added again.
    replaced: Vec<Replaced>,
    /// Files of earlier days have been removed.
    first_kept: Option<Day>,
}

impl Writer {
    pub(super) const fn new(
        keeper: Keeper,
        folder: Folder,
        appender: Appender,
        keep_days: u32,
        progress: Arc<Progress>,
        asks: Sender<Asked>,
    ) -> Self {
        Self {
            keeper,
            folder,
            appender,
            keep_days,
            progress,
            asks,
            fetch_at: None,
            fetched: 0,
            asked: Vec::new(),
            replaced: Vec::new(),
            first_kept: None,
        }
    }

    /// Adds what the files lack of the stored tasks, and notes the start.
    pub(super) fn begin(&mut self, now: Now, stored: &[TaskRecord]) {
        match recovery::missing(&self.folder, stored) {
            Ok(Missing { rounds: missing, replaced }) => {
                self.replaced = replaced;
                for (record, round) in &missing {
                    if let Some(row) = finished_round(record, *round) {
                        self.keeper.handle_round(now, &row);
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
            Some(IncidentKind::Started | IncidentKind::Crashed) => (
                IncidentKind::Crashed,
                "the controller has started; the one before was not stopped: killed, or crashed",
            ),
            _ => (IncidentKind::Started, "the controller has started"),
        };
        self.keeper.handle_incident(now, Incident { at: now.wall, kind, text: text.to_owned() });
    }

    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            let now = clock::now();
            self.turn(now);
            let due = [self.keeper.poll_timeout(), self.fetch_at].into_iter().flatten().min();
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
                self.keeper.handle_round(now, &row);
            }
        }
    }

    /// Writes what is due, and passes the questions on that waited for it.
    pub(super) fn turn(&mut self, now: Now) {
        let left_out = self.progress.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            self.keeper.handle_overflow(now, left_out, "rounds end faster than they are written");
        }
        self.write(now);
        logging::write(self.keeper.take_log());
        let is_written = self.keeper.is_at_rest();
        if is_written {
            // A controller that is killed before this counts them as missing, too.
            for replaced in std::mem::take(&mut self.replaced) {
                if let Err(error) = self.folder.count_fewer(&replaced) {
                    log::warn!("the rows of a damaged block of the history that were added again still count: {error}");
                }
            }
        }
        self.progress.set(is_written.then_some(self.fetched), self.keeper.is_in_trouble());
        for asked in self.asked.drain(..) {
            // The reader ends before us only by a panic, which the log shows.
            let _ = self.asks.send(asked);
        }
        let first_kept = Day::first_kept(now.wall, self.keep_days);
        if self.first_kept != Some(first_kept) {
            self.first_kept = Some(first_kept);
            if let Err(error) = self.folder.remove_before(first_kept) {
                log::warn!("old files of the history cannot be removed: {error}");
            }
        }
    }

    fn write(&mut self, now: Now) {
        self.keeper.handle_timeout(now);
        while let Some(write) = self.keeper.poll_write(now) {
            match self.appender.append(&write) {
                Ok(()) => self.keeper.handle_written(now, &write),
                Err(error) => self.keeper.handle_trouble(now, &error.to_string()),
            }
        }
    }
}
