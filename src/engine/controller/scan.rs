//! Looking at every task without keeping anyone else waiting: slice by slice, one slice a turn.

use std::collections::VecDeque;

use super::Controller;
use super::effect::{Answer, Effect, Ticket, Timer};
use super::tasks::Tasks;
use crate::protocol::reply::{PageOf, Reply};
use crate::protocol::request::Page;
use crate::protocol::task::Filter;
use crate::protocol::{Code, Refusal};
use crate::types::{Mono, Now, TaskId, TaskRecord};

/// Tasks in one slice: some hundred microseconds, so that other requests hardly notice (HAZARDS row W11).
const SLICE: usize = 2_000;

/// A search that goes on.
#[derive(Debug)]
pub(super) struct Scan {
    ticket: Ticket,
    filter: Filter,
    /// Everything from here on has been seen.
    before: Option<TaskId>,
    matches: usize,
    goal: Goal,
}

#[derive(Debug)]
enum Goal {
    Newest { found: Option<TaskId>, wait_until: Option<Mono> },
    Page { page: Page, limit: usize, records: Vec<TaskRecord> },
}

impl Controller {
    /// Looks for the newest task that matches, and counts the others.
    pub(super) fn scan_newest(&mut self, now: Now, ticket: Ticket, filter: Filter, wait_until: Option<Mono>) -> Answer {
        self.start_scan(now, ticket, filter, Goal::Newest { found: None, wait_until })
    }

    /// TASK/DETAILS: a page of the tasks that match, and how many there are in all.
    pub(super) fn list(&mut self, now: Now, ticket: Ticket, filter: Filter, page: Page) -> Answer {
        let limit = self.page_limit(page.limit);
        self.start_scan(now, ticket, filter, Goal::Page { page, limit, records: Vec::new() })
    }

    fn start_scan(&mut self, now: Now, ticket: Ticket, filter: Filter, goal: Goal) -> Answer {
        let mut scan = Scan { ticket, filter, before: None, matches: 0, goal };
        if scan.step(&self.tasks) {
            return self.scanned(scan);
        }
        if self.scans.len() >= self.settings.scans_max {
            let message = format!("{} searches run already; ask again later", self.scans.len());
            return Reply::Refused(Refusal::new(Code::LimitReached, message)).into();
        }
        self.scans.push_back(scan);
        self.timers.set(Timer::Scan, now.mono);
        Answer::Later
    }

    /// Does one slice of one search; the searches take turns.
    pub(super) fn continue_scans(&mut self, now: Now) {
        let Some(mut scan) = self.scans.pop_front() else { return };
        let ticket = scan.ticket;
        if scan.step(&self.tasks) {
            if let Answer::Now(reply) = self.scanned(scan) {
                self.tasks.effects.push_back(Effect::Reply(ticket, reply));
            }
        } else {
            self.scans.push_back(scan);
        }
        if !self.scans.is_empty() {
            self.timers.set(Timer::Scan, now.mono);
        }
    }

    fn scanned(&mut self, scan: Scan) -> Answer {
        let matches = scan.matches;
        match scan.goal {
            Goal::Page { page: Page { offset, limit: asked }, records, .. } => {
                Reply::Tasks { records, page: PageOf { offset, asked, total: matches } }.into()
            }
            Goal::Newest { found, wait_until } => {
                // The task may have been forgotten since its slice was seen.
                let found = found.filter(|task| self.tasks.get(*task).is_some());
                self.found(scan.ticket, found.map(|task| (task, matches)), wait_until)
            }
        }
    }
}

impl Scan {
    /// Looks at one slice; true when there is nothing more to see.
    fn step(&mut self, tasks: &Tasks) -> bool {
        if self.filter.is_empty() {
            return self.step_without_filter(tasks);
        }
        let mut seen = 0;
        for record in tasks.newest_before(self.before).take(SLICE) {
            seen += 1;
            self.before = Some(record.id);
            if self.filter.matches(record) {
                self.take(record);
            }
        }
        seen < SLICE
    }

    /// Every task matches: no need to look at those beyond the page.
    fn step_without_filter(&mut self, tasks: &Tasks) -> bool {
        for record in tasks.newest_before(self.before).take(SLICE) {
            self.before = Some(record.id);
            self.take(record);
            if self.has_enough() {
                self.matches = tasks.len();
                return true;
            }
        }
        tasks.newest_before(self.before).next().is_none()
    }

    fn take(&mut self, record: &TaskRecord) {
        self.matches += 1;
        match &mut self.goal {
            Goal::Newest { found, .. } => {
                found.get_or_insert(record.id);
            }
            Goal::Page { page, limit, records } => {
                if self.matches > page.offset && records.len() < *limit {
                    records.push(record.clone());
                }
            }
        }
    }

    const fn has_enough(&self) -> bool {
        match &self.goal {
            Goal::Newest { found, .. } => found.is_some(),
            Goal::Page { limit, records, .. } => records.len() >= *limit,
        }
    }
}

/// The searches that are under way, in the order of their turns.
pub(super) type Scans = VecDeque<Scan>;
