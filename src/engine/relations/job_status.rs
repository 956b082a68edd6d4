//! The published states of jobs: at most one in [`INTERVAL`] for each job, and the last one always.
//!
//! | a job is | event | then |
//! |---|---|---|
//! | at rest | it changes | its state is published |
//! | leaving: the published state waits for its commit | it changes | the change is noted |
//! | leaving | the state has left | it rests for the interval |
//! | resting | the interval has passed | its state is published, if it has changed |

use std::time::Duration;

use crate::Controller;
use crate::turn::effect::{Effect, Timer};
use base::{JobName, JobStatus, JobView, Mono, Now, TaskId, TaskRecord};

/// The time between two states of a job. Receivers are promised at most ten in any second, even if the network delays one of them
/// more than the next.
const INTERVAL: Duration = Duration::from_millis(120);

/// Numbers that one record of the store reserves: those of twelve seconds at least.
const RESERVED: u64 = 100;

/// Jobs that ended longer ago are not published again after a restart.
const RECENT: Duration = Duration::from_secs(60);

impl Controller {
    /// Publishes the jobs that have changed in this event, or sets the deadline for that.
    pub(crate) fn publish_jobs(&mut self, now: Now) {
        if !self.relations.jobs.has_changed() {
            return;
        }
        for name in self.relations.jobs.take_changed() {
            if let Some(job) = self.relations.job_mut(&name) {
                job.pace.is_dirty = true;
                self.publish_job(now, name);
            }
        }
    }

    /// Publishes a job that has changed, unless it is leaving or resting.
    pub(crate) fn publish_job(&mut self, now: Now, name: JobName) {
        let Some(job) = self.relations.job_mut(&name) else { return };
        if !job.pace.is_dirty || job.pace.is_leaving {
            return;
        }
        if let Some(at) = job.pace.rests_until.filter(|at| *at > now.mono) {
            return self.turn.set_timer(Timer::JobStatus(name), at);
        }
        (job.pace.is_dirty, job.pace.is_leaving) = (false, true);
        job.pace.seq += 1;
        let (seq, receivers) = (job.pace.seq, job.receivers().cloned().collect());
        if job.memo.seq_max < seq {
            job.memo.seq_max = seq + RESERVED;
            self.store_memo(&name);
        }
        if let Some(view) = self.job_view(&name) {
            let status = JobStatus { view, seq, receivers };
            self.turn.emit(Effect::JobStatus(Box::new(status)));
        }
    }

    /// A published state has left the controller.
    pub fn handle_job_status_left(&mut self, now: Mono, name: &JobName) {
        let Some(job) = self.relations.job_mut(name) else { return };
        job.pace.is_leaving = false;
        let at = now + INTERVAL;
        job.pace.rests_until = Some(at);
        if job.pace.is_dirty {
            self.turn.set_timer(Timer::JobStatus(name.clone()), at);
        }
    }

    /// A published state has not left, because the store is in trouble: another one follows.
    pub(crate) fn handle_job_status_dropped(&mut self, now: Mono, name: &JobName) {
        if let Some(job) = self.relations.job_mut(name) {
            job.pace.is_dirty = true;
        }
        self.handle_job_status_left(now, name);
    }

    /// After a restart, the jobs whose last state may not have left are published again.
    pub(crate) fn publish_restored(&mut self, now: Now) {
        let since = now.wall.before(RECENT);
        for name in self.relations.jobs.take_changed() {
            let Some(job) = self.relations.job_mut(&name).filter(|job| job.is_recent(since)) else { continue };
            job.pace.is_dirty = true;
            self.publish_job(now, name);
        }
    }

    /// The state of a job.
    pub(crate) fn job_view(&self, name: &JobName) -> Option<JobView> {
        let submitted_at =
            |task: TaskId| self.tasks.get(task).map_or(task.wall(), |record: &TaskRecord| record.submitted_at);
        let view = self.relations.jobs.view(name, submitted_at)?;
        // More tasks of a graph will start.
        let ended_at = view.ended_at.filter(|_| !self.is_of_open_graph(name));
        Some(JobView { ended_at, ..view })
    }

    /// Whether a job is that of a graph that has not ended.
    pub(crate) fn is_of_open_graph(&self, name: &JobName) -> bool {
        self.graphs.of_job(name).is_some_and(|graph| !graph.has_ended)
    }

    /// Checks that every change of a job is published.
    pub(crate) fn check_job_statuses(&self) {
        for name in self.relations.jobs.names() {
            let Some(job) = self.relations.job(name) else { continue };
            let is_planned = job.pace.is_leaving || self.turn.has_timer(&Timer::JobStatus(name.clone()));
            assert!(!job.pace.is_dirty || is_planned, "the state of job {name} is never published");
            assert!(job.pace.seq <= job.memo.seq_max, "the numbers of job {name} are not reserved");
        }
    }
}
