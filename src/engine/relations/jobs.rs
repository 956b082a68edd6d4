//! The jobs: for each, its tasks and their standing, kept up to date by every change of a task.
//!
//! A job exists as long as one of its tasks is known. All but its [`JobMemo`] follows from its tasks, so a restart counts them
//! again. A change of a task costs O(log n) in the tasks of its job; a task without a job costs nothing here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::tasks::figures::usual;
use api::wire::task;
use base::{
    Distribution, JobMemo, JobName, JobStop, JobView, KillCause, Membership, Mono, Outcome, Phase, PushAddress, TaskId,
    TaskRecord, TaskState, Wall,
};

/// The state of a task, as far as its job counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    phase: Phase,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    outcome: Outcome,
    /// Whether it counts for the limit of failures: a submit that was refused stops no job.
    is_failure: bool,
    at: Wall,
    ran: Option<Duration>,
}

impl Standing {
    pub(crate) fn of(record: &TaskRecord) -> Self {
        let end = match &record.state {
            TaskState::Finished { at, outcome, run } => {
                let times = run.as_ref().map(|(run, _)| run.times);
                let ran = times.and_then(|times| Some(times.end.unwrap_or(*at).since(times.run?)));
                let is_refused = record.kill.as_ref().is_some_and(|kill| kill.cause == KillCause::Unstored);
                Some(End { outcome: *outcome, is_failure: outcome.is_failure() && !is_refused, at: *at, ran })
            }
            _ => None,
        };
        Self { phase: record.shown_phase(), end }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Job {
    members: BTreeSet<TaskId>,
    /// Number of tasks that have a command.
    commands: usize,
    unfinished: BTreeSet<TaskId>,
    /// Tasks whose outcome is a failure.
    failed: BTreeSet<TaskId>,
    skipped: BTreeSet<TaskId>,
    phases: [usize; Phase::ALL.len()],
    outcomes: [usize; Outcome::ALL.len()],
    run_times: Distribution,
    /// The latest end of a task.
    last_end: Wall,
    /// Number of failed tasks since [`JobMemo::counted_from`].
    fails: u32,
    /// The addresses that want the state of the job, each with the number of tasks that name it.
    receivers: BTreeMap<Arc<PushAddress>, usize>,
    pub(crate) memo: JobMemo,
    pub(crate) pace: Pace,
}

/// Whether the state of a job must be published, and may be.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Number of the last published state.
    pub(crate) seq: u64,
    /// Whether the job has changed since then.
    pub(crate) is_dirty: bool,
    /// Whether that state still waits for the commit that it depends on.
    pub(crate) is_leaving: bool,
    /// The next one is not published before this moment.
    pub(crate) rests_until: Option<Mono>,
}

impl Job {
    /// The oldest task younger than `after` that has not finished.
    pub(crate) fn next_unfinished(&self, after: Option<TaskId>) -> Option<TaskId> {
        next(&self.unfinished, after)
    }

    /// The oldest task younger than `after` that failed or was skipped.
    pub(crate) fn next_unsuccessful(&self, after: Option<TaskId>) -> Option<TaskId> {
        let candidates = [&self.failed, &self.skipped].map(|tasks| next(tasks, after));
        candidates.into_iter().flatten().min()
    }

    /// The oldest task that has not finished.
    pub(crate) fn oldest_unfinished(&self) -> Option<TaskId> {
        self.unfinished.first().copied()
    }

    /// The oldest task whose outcome is a failure.
    pub(crate) fn oldest_failed(&self) -> Option<TaskId> {
        self.failed.first().copied()
    }

    /// The oldest task that failed or was skipped.
    pub(crate) fn oldest_unsuccessful(&self) -> Option<TaskId> {
        self.next_unsuccessful(None)
    }

    /// The tasks older than `before`, newest first.
    pub(crate) fn newest_before(&self, before: Option<TaskId>) -> impl Iterator<Item = TaskId> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.members.range((Unbounded, before.map_or(Unbounded, Excluded))).rev().copied()
    }

    /// Whether one of its tasks has a command.
    pub(crate) const fn has_command(&self) -> bool {
        self.commands > 0
    }

    /// Number of tasks that have not finished.
    pub(crate) fn unfinished(&self) -> usize {
        self.unfinished.len()
    }

    /// Whether every task has finished.
    pub(crate) fn has_ended(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Whether it ended at this moment or later, or has not ended.
    pub(crate) fn is_recent(&self, since: Wall) -> bool {
        !self.has_ended() || self.last_end >= since
    }

    pub(crate) const fn stopped(&self) -> Option<JobStop> {
        self.memo.stopped
    }

    /// Whether the tasks have failed so often that the job must stop, and has not yet.
    pub(crate) fn must_stop(&self) -> bool {
        self.memo.stopped.is_none() && self.memo.fails_max.is_some_and(|max| self.fails >= max)
    }

    /// The time that most of the runs did not exceed, if there were enough of them.
    pub(crate) fn usual_run_time(&self) -> Option<Duration> {
        usual(&self.run_times)
    }

    pub(crate) const fn fails(&self) -> u32 {
        self.fails
    }

    /// Number of different receivers, or 0 if this address is one of them.
    pub(crate) fn other_receivers(&self, address: &Arc<PushAddress>) -> usize {
        if self.receivers.contains_key(address) { 0 } else { self.receivers.len() }
    }

    pub(crate) fn receivers(&self) -> impl Iterator<Item = &Arc<PushAddress>> {
        self.receivers.keys()
    }

    fn count(&mut self, task: TaskId, standing: Standing) {
        self.phases[standing.phase as usize] += 1;
        let Some(End { outcome, is_failure, at, ran }) = standing.end else {
            self.unfinished.insert(task);
            return;
        };
        self.outcomes[outcome as usize] += 1;
        self.last_end = self.last_end.max(at);
        ran.into_iter().for_each(|ran| self.run_times.add(ran));
        if outcome.is_failure() {
            self.failed.insert(task);
            self.fails += u32::from(is_failure && at >= self.memo.counted_from);
        } else if outcome == Outcome::Skipped {
            self.skipped.insert(task);
        }
    }

    fn discount(&mut self, task: TaskId, standing: Standing) {
        self.phases[standing.phase as usize] -= 1;
        let Some(End { outcome, is_failure, at, ran }) = standing.end else {
            self.unfinished.remove(&task);
            return;
        };
        self.outcomes[outcome as usize] -= 1;
        ran.into_iter().for_each(|ran| self.run_times.remove(ran));
        if outcome.is_failure() {
            self.failed.remove(&task);
            self.fails -= u32::from(is_failure && at >= self.memo.counted_from);
        } else if outcome == Outcome::Skipped {
            self.skipped.remove(&task);
        }
    }
}

fn next(tasks: &BTreeSet<TaskId>, after: Option<TaskId>) -> Option<TaskId> {
    use std::ops::Bound::{Excluded, Unbounded};
    tasks.range((after.map_or(Unbounded, Excluded), Unbounded)).next().copied()
}

#[derive(Debug, Default)]
pub(crate) struct Jobs {
    jobs: BTreeMap<JobName, Job>,
    /// The jobs by their oldest task.
    by_age: BTreeSet<(TaskId, JobName)>,
    /// Memos of an earlier controller, until their jobs are known.
    restored: BTreeMap<JobName, JobMemo>,
    /// Jobs that have changed since the last call of [`Self::take_changed`].
    changed: BTreeSet<JobName>,
}

impl Jobs {
    pub(crate) fn get(&self, name: &JobName) -> Option<&Job> {
        self.jobs.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &JobName) -> Option<&mut Job> {
        self.jobs.get_mut(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The memo that an earlier controller has stored, before any task of the job.
    pub(crate) fn restore(&mut self, name: JobName, memo: JobMemo) {
        self.restored.insert(name, memo);
    }

    /// The memos whose jobs have no task any more.
    pub(crate) fn take_orphans(&mut self) -> impl Iterator<Item = JobName> + use<> {
        std::mem::take(&mut self.restored).into_keys()
    }

    /// The names of all jobs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &JobName> {
        self.jobs.keys()
    }

    /// The names, newest job first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &JobName> {
        self.by_age.iter().rev().map(|(_, name)| name)
    }

    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The jobs that have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<JobName> {
        std::mem::take(&mut self.changed)
    }

    /// A task is known from here on.
    pub(crate) fn add(&mut self, member: &Membership, record: &TaskRecord) {
        let name = &member.name;
        if !self.jobs.contains_key(name) {
            let memo = self.restored.remove(name).unwrap_or_default();
            let pace = Pace { seq: memo.seq_max, ..Pace::default() };
            self.jobs.insert(name.clone(), Job { memo, pace, ..Job::default() });
            self.by_age.insert((record.id, name.clone()));
        }
        let Some(job) = self.jobs.get_mut(name) else { return };
        job.members.insert(record.id);
        job.commands += usize::from(task::has_command(record));
        if let Some(address) = record.address.as_ref().filter(|_| member.is_pushed) {
            *job.receivers.entry(Arc::clone(address)).or_default() += 1;
        }
        job.count(record.id, Standing::of(record));
        self.changed.insert(name.clone());
    }

    /// The standing of a task has changed.
    pub(crate) fn moved(&mut self, name: &JobName, task: TaskId, before: Standing, after: Standing) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if before.end.is_none() && after.end.is_none() {
            job.phases[before.phase as usize] -= 1;
            job.phases[after.phase as usize] += 1;
        } else {
            job.discount(task, before);
            job.count(task, after);
        }
        if !self.changed.contains(name) {
            self.changed.insert(name.clone());
        }
    }

    /// A task is forgotten. True if that was the last one of its job, which is gone with it.
    pub(crate) fn remove(&mut self, member: &Membership, record: &TaskRecord) -> bool {
        let name = &member.name;
        let Some(job) = self.jobs.get_mut(name) else { return false };
        let oldest = job.members.first().copied();
        job.members.remove(&record.id);
        job.commands -= usize::from(task::has_command(record));
        job.discount(record.id, Standing::of(record));
        if let Some(address) = record.address.as_ref().filter(|_| member.is_pushed)
            && let Some(count) = job.receivers.get_mut(address)
        {
            *count -= 1;
            if *count == 0 {
                job.receivers.remove(address);
            }
        }
        if oldest == Some(record.id) {
            self.by_age.remove(&(record.id, name.clone()));
            let Some(next) = job.members.first() else {
                self.jobs.remove(name);
                self.changed.remove(name);
                return true;
            };
            self.by_age.insert((*next, name.clone()));
        }
        self.changed.insert(name.clone());
        false
    }

    /// The state of a job has changed for another reason than its tasks.
    pub(crate) fn touch(&mut self, name: &JobName) {
        if self.jobs.contains_key(name) {
            self.changed.insert(name.clone());
        }
    }

    /// The failures up to now do not count any more.
    pub(crate) fn count_anew(&mut self, name: &JobName, now: Wall) {
        if let Some(job) = self.jobs.get_mut(name) {
            // The clock may have been set back since the last end.
            job.memo.counted_from = now.max(job.last_end + Duration::from_micros(1));
            job.fails = 0;
        }
    }

    /// The state of a job.
    pub(crate) fn view(&self, name: &JobName, submitted_at: impl Fn(TaskId) -> Wall) -> Option<JobView> {
        let job = self.jobs.get(name)?;
        let oldest = job.members.first()?;
        Some(JobView {
            name: name.clone(),
            phases: job.phases,
            outcomes: job.outcomes,
            submitted_at: submitted_at(*oldest),
            ended_at: job.has_ended().then_some(job.last_end),
            run_times: job.run_times.quantiles(),
            stopped: job.stopped(),
        })
    }

    /// Checks the counts against the tasks.
    pub(crate) fn sanity_check<'a>(&self, records: impl Iterator<Item = &'a TaskRecord>) {
        let mut counted = Self::default();
        for (name, job) in &self.jobs {
            counted.restore(name.clone(), job.memo);
        }
        for record in records {
            if let Some(member) = record.membership() {
                counted.add(member, record);
            }
        }
        assert!(self.jobs.keys().eq(counted.jobs.keys()), "jobs without tasks, or tasks without jobs");
        for (name, job) in &self.jobs {
            let again = &counted.jobs[name];
            assert_eq!((job.phases, job.outcomes), (again.phases, again.outcomes), "the counts of job {name}");
            assert_eq!(job.members, again.members, "the tasks of job {name}");
            assert_eq!(job.commands, again.commands, "the commands of job {name}");
            assert_eq!(job.unfinished, again.unfinished, "the unfinished tasks of job {name}");
            assert_eq!(job.failed, again.failed, "the failed tasks of job {name}");
            assert_eq!(job.skipped, again.skipped, "the skipped tasks of job {name}");
            assert_eq!(job.run_times, again.run_times, "the run times of job {name}");
            assert_eq!(job.receivers, again.receivers, "the receivers of job {name}");
            assert_eq!(job.fails, again.fails, "the failures of job {name}");
        }
        let oldest = self.jobs.iter().filter_map(|(name, job)| Some((*job.members.first()?, name.clone())));
        assert_eq!(self.by_age, oldest.collect(), "the order of the jobs");
    }
}
