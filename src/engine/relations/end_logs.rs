//! The ends of the tasks of jobs, in their order, for clients that read them with JOB/RESULTS.
//!
//! A job has a log from the first request of a client until no client has asked for [`KEEP`]. So the end of a task of any other job
//! costs nothing here, and a log costs one id for each end. It is not stored: the number of a log is unique, and after a restart
//! the cursors of earlier logs are refused.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use api::wire::requests::job::results::Cursor;
use base::{JobName, Mono, TaskId};

/// How long a log is kept that no client asks for. A client needs less time to connect again.
const KEEP: Duration = Duration::from_secs(60);

/// Maximum number of ends in one log: as many as a map may have tasks ahead. A reader that is further behind asks for its tasks by
/// their ids.
const ENDS_OF_LOG_MAX: usize = 100_000;

/// Maximum number of ends in all logs, 16 bytes each.
const ENDS_MAX: usize = 1_000_000;

/// Maximum number of logs. A further client asks for its tasks by their ids.
const LOGS_MAX: usize = 1_000;

/// The log of one job.
#[derive(Debug)]
struct EndLog {
    number: u64,
    /// The position of the first end that is kept.
    first: u64,
    ends: VecDeque<TaskId>,
    /// When it is dropped, unless a client asks for it.
    until: Mono,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct EndLogs {
    logs: BTreeMap<JobName, EndLog>,
    last_number: u64,
    /// The number of ends in all logs.
    len: usize,
}

impl EndLogs {
    /// No logs yet. `number` is one with which no earlier controller has begun.
    pub(crate) const fn numbered_from(number: u64) -> Self {
        Self { logs: BTreeMap::new(), last_number: number, len: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.logs.is_empty()
    }

    /// The position after the last end of a job, at which a client begins, and the time at which the log is dropped. `None` if
    /// there is no room for one more log.
    pub(crate) fn begin(&mut self, now: Mono, job: &JobName) -> Option<(Cursor, Mono)> {
        if !self.logs.contains_key(job) {
            if self.logs.len() >= LOGS_MAX {
                return None;
            }
            self.last_number += 1;
            let log = EndLog { number: self.last_number, first: 0, ends: VecDeque::new(), until: now };
            self.logs.insert(job.clone(), log);
        }
        let log = self.logs.get_mut(job)?;
        log.until = log.until.max(now + KEEP);
        Some((Cursor { sequence: log.number, position: log.end() }, log.until))
    }

    /// The number of ends after a cursor; `None` if the log does not have all of them. The log is kept until [`KEEP`] after
    /// `asked_until`.
    pub(crate) fn ask(&mut self, job: &JobName, cursor: Cursor, asked_until: Mono) -> Option<u64> {
        let log = self.logs.get_mut(job).filter(|log| log.has(cursor))?;
        log.until = log.until.max(asked_until + KEEP);
        Some(log.end() - cursor.position)
    }

    /// The ends from a position on, each with the position after it.
    pub(crate) fn ends_from(&self, job: &JobName, cursor: Cursor) -> impl Iterator<Item = (TaskId, u64)> {
        let log = self.logs.get(job).filter(|log| log.has(cursor));
        let ends = log.map(|log| {
            let skipped = usize::try_from(cursor.position - log.first).unwrap_or(usize::MAX);
            log.ends.iter().skip(skipped).copied().zip(cursor.position + 1..)
        });
        ends.into_iter().flatten()
    }

    /// A task of the job has ended. True if the job has a log.
    pub(crate) fn add(&mut self, job: &JobName, task: TaskId) -> bool {
        let Some(log) = self.logs.get_mut(job) else { return false };
        if log.ends.len() >= ENDS_OF_LOG_MAX || self.len >= ENDS_MAX {
            self.len -= usize::from(log.ends.pop_front().is_some());
            log.first += 1;
        }
        if self.len < ENDS_MAX {
            log.ends.push_back(task);
            self.len += 1;
        }
        true
    }

    /// Drops the log of a job if its time has passed; otherwise returns that time.
    pub(crate) fn drop_unread(&mut self, now: Mono, job: &JobName) -> Option<Mono> {
        let log = self.logs.get(job)?;
        if log.until > now {
            return Some(log.until);
        }
        self.len -= log.ends.len();
        self.logs.remove(job);
        None
    }

    /// The jobs with a log.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &JobName> {
        self.logs.keys()
    }

    pub(crate) fn sanity_check(&self) {
        assert_eq!(self.len, self.logs.values().map(|log| log.ends.len()).sum::<usize>(), "the number of logged ends");
        assert!(self.len <= ENDS_MAX && self.logs.len() <= LOGS_MAX, "too many logged ends");
    }
}

impl EndLog {
    /// The position after the last end.
    fn end(&self) -> u64 {
        self.first + self.ends.len() as u64
    }

    /// Whether the log has every end after this cursor.
    fn has(&self, cursor: Cursor) -> bool {
        cursor.sequence == self.number && (self.first..=self.end()).contains(&cursor.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Wall;

    const NOW: Mono = Mono::from_nanos(0);

    fn task(number: usize) -> TaskId {
        TaskId::new(Wall::from_micros(number as u64), [0; 5])
    }

    #[test]
    fn a_log_that_is_full_drops_its_oldest_ends_and_refuses_the_cursors_before_them() {
        let mut logs = EndLogs::numbered_from(7);
        let job = JobName::new("j").unwrap();
        let (begin, _) = logs.begin(NOW, &job).unwrap();
        for number in 0..ENDS_OF_LOG_MAX {
            assert!(logs.add(&job, task(number)));
        }
        assert_eq!(logs.ask(&job, begin, NOW), Some(ENDS_OF_LOG_MAX as u64));
        logs.add(&job, task(ENDS_OF_LOG_MAX));
        logs.sanity_check();
        assert_eq!(logs.ask(&job, begin, NOW), None);
        let next = Cursor { position: 1, ..begin };
        assert_eq!(logs.ask(&job, next, NOW), Some(ENDS_OF_LOG_MAX as u64));
        assert_eq!(logs.ends_from(&job, next).next(), Some((task(1), 2)));
    }

    #[test]
    fn all_logs_together_are_bounded() {
        let mut logs = EndLogs::numbered_from(7);
        let names: Vec<_> = (0..=LOGS_MAX).map(|number| JobName::new(&format!("j{number}")).unwrap()).collect();
        for (number, name) in names.iter().enumerate() {
            assert_eq!(logs.begin(NOW, name).is_some(), number < LOGS_MAX);
        }
        let full = ENDS_MAX / ENDS_OF_LOG_MAX;
        for name in &names[..full] {
            (0..ENDS_OF_LOG_MAX).for_each(|number| assert!(logs.add(name, task(number))));
        }
        let (begin, _) = logs.begin(NOW, &names[full]).unwrap();
        logs.add(&names[full], task(1));
        logs.sanity_check();
        assert_eq!(logs.ask(&names[full], begin, NOW), None, "its end was not kept");
        assert!(logs.begin(NOW, &names[full]).is_some_and(|(cursor, _)| cursor.position == 1));
        assert_eq!(logs.drop_unread(NOW + KEEP, &names[0]), None);
        logs.add(&names[full], task(2));
        logs.sanity_check();
    }
}
