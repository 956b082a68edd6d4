//! The consequences of ends for other tasks: terms that are met, tasks that can never start, and jobs that stop.
//!
//! | event | consequence |
//! |---|---|
//! | a task ends | each term about it is met, or cannot be met any more |
//! | a term is met | it is struck from its task; after the last one, the task may start |
//! | a term cannot be met | its task ends as SKIPPED, which is an end for the tasks that wait for that one |
//! | too many tasks of a job fail | its waiting tasks end as SKIPPED |
//!
//! One end may concern any number of tasks, so the consequences are a queue of work, and each turn does a slice of it. The queue is
//! not stored: a restart judges every unmet term by the present state of the tasks. A finished task is not forgotten before its end
//! has been worked off.

pub(crate) mod dependants;
pub(crate) mod end_logs;
pub(crate) mod job_status;
pub(crate) mod jobs;
pub(crate) mod orders;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Controller;
use super::graphs::root;
use crate::readers::waits::Subject;
use crate::turn::effect::{Record, Timer};
use base::{
    GraphId, JobName, JobStop, KillCause, Now, Outcome, Phase, Prior, TaskId, TaskRecord, TaskState, Term, Wanted,
    words,
};
use dependants::{Dependants, Edge};
use end_logs::EndLogs;
use jobs::{Job, Jobs};

/// Maximum number of tasks that one turn changes. Each takes some microseconds, with its record and its push.
const SLICE: usize = 200;

/// The relations between tasks: their jobs, and the tasks that wait for others.
#[derive(Debug)]
pub(crate) struct Relations {
    pub(crate) jobs: Jobs,
    /// The terms that waiting tasks wait for.
    pub(crate) dependants: Dependants,
    /// Waiting tasks with terms that were met since the task was stored. A restart judges these terms again by the tasks that they
    /// name, so the waiting tasks are stored only before one of those is forgotten. To store a record for each term that is met
    /// would cost the square of the number of terms, because the record contains all of them.
    met_unstored: BTreeSet<TaskId>,
    pub(crate) backlog: Backlog,
    /// The ends of the jobs that clients read.
    pub(crate) end_logs: EndLogs,
}

impl Relations {
    /// Relations without a job. `number` is one from which no earlier controller has numbered its logs of ends.
    pub(crate) fn numbered_from(number: u64) -> Self {
        Self {
            jobs: Jobs::default(),
            dependants: Dependants::default(),
            met_unstored: BTreeSet::new(),
            backlog: Backlog::default(),
            end_logs: EndLogs::numbered_from(number),
        }
    }

    pub(crate) fn job(&self, name: &JobName) -> Option<&Job> {
        self.jobs.get(name)
    }

    pub(crate) fn job_mut(&mut self, name: &JobName) -> Option<&mut Job> {
        self.jobs.get_mut(name)
    }

    /// A term of a waiting task is met, and the task is not stored for that.
    pub(crate) fn note_met(&mut self, task: TaskId) {
        self.met_unstored.insert(task);
    }

    /// The waiting tasks with terms that were met since the task was stored.
    pub(crate) fn take_met(&mut self) -> BTreeSet<TaskId> {
        std::mem::take(&mut self.met_unstored)
    }

    /// The time that most runs of the job of a task did not exceed.
    pub(crate) fn usual(&self, record: &TaskRecord) -> Option<Duration> {
        self.job(&record.membership()?.name)?.usual_run_time()
    }

    /// A turn has ended: the next one does its share of work.
    pub(crate) const fn begin_turn(&mut self) {
        self.backlog.left = SLICE;
    }
}

/// The work that earlier ends have left.
#[derive(Debug)]
pub(crate) struct Backlog {
    ends: VecDeque<End>,
    stops: VecDeque<Stop>,
    /// The work that is left for this turn.
    left: usize,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { ends: VecDeque::new(), stops: VecDeque::new(), left: SLICE }
    }
}

impl Backlog {
    /// Whether ends are still to be worked off.
    pub(crate) fn has_ends(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Whether this turn is to do more of this work.
    pub(crate) fn has_work(&self) -> bool {
        self.left > 0 && !self.is_empty()
    }

    /// Whether no consequence is left to be carried out.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.stops.is_empty()
    }
}

/// The end of a task that others may wait for.
#[derive(Debug)]
struct End {
    task: TaskId,
    outcome: Outcome,
    job: Option<JobName>,
    /// The youngest task of that moment: younger ones have seen the end when they were accepted.
    until: TaskId,
}

/// The stop of a job: its waiting tasks up to `until` are to end.
#[derive(Debug)]
struct Stop {
    job: JobName,
    seen: Option<TaskId>,
    until: TaskId,
}

/// The fate of a term.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Met,
    Open,
    /// It cannot be met, for this reason.
    Unmeetable(String),
    /// Its subject is not known.
    Unknown,
}

impl Controller {
    /// The fate of a term of this task, by the present state of its subject.
    pub(crate) fn fate(&self, dependant: TaskId, term: &Term) -> Fate {
        match &term.of {
            Prior::Task(task) => match self.tasks.get(*task).map(|record| &record.state) {
                None => Fate::Unknown,
                Some(TaskState::Finished { outcome, .. }) => {
                    fate_by(term.wanted, format_args!("task {task}"), *outcome)
                }
                Some(_) => Fate::Open,
            },
            Prior::Job(name) if let Some(graph) = self.graphs.of_job(name) => match graph.outcome() {
                Some(outcome) if graph.has_ended => fate_by(term.wanted, format_args!("graph {}", graph.id), outcome),
                _ => Fate::Open,
            },
            Prior::Job(name) => match self.relations.job(name) {
                None => Fate::Unknown,
                Some(job) => self.fate_of_job(job, dependant, term.wanted),
            },
        }
    }

    fn fate_of_job(&self, job: &Job, dependant: TaskId, wanted: Wanted) -> Fate {
        let is_older = |task: &TaskId| *task < dependant;
        let is_open = job.oldest_unfinished().filter(is_older).is_some();
        match wanted {
            Wanted::Success => match job.oldest_unsuccessful().filter(is_older) {
                Some(task) => {
                    let outcome = self.outcome_of(task).unwrap_or(Outcome::Failed);
                    fate_by(wanted, format_args!("task {task}"), outcome)
                }
                None if is_open => Fate::Open,
                None => Fate::Met,
            },
            Wanted::End if is_open => Fate::Open,
            Wanted::End => Fate::Met,
            Wanted::Failure if job.oldest_failed().filter(is_older).is_some() => Fate::Met,
            Wanted::Failure if is_open => Fate::Open,
            Wanted::Failure => Fate::Unmeetable("all its tasks have finished, and none of them has failed".to_owned()),
        }
    }

    fn outcome_of(&self, task: TaskId) -> Option<Outcome> {
        match self.tasks.get(task)?.state {
            TaskState::Finished { outcome, .. } => Some(outcome),
            _ => None,
        }
    }

    /// Whether all terms of a finished task may still be met.
    pub(crate) fn may_start(&self, record: &TaskRecord) -> bool {
        record.unmet.is_empty()
            || record.after().iter().zip(0..).all(|(term, number)| match self.fate(record.id, term) {
                Fate::Met | Fate::Open => true,
                // A subject that is not known any more has ended; a term that it met stays met.
                Fate::Unknown => !record.unmet.contains(&number),
                Fate::Unmeetable(_) => false,
            })
    }

    /// A finished task is to wait again. It also waits for its terms again, if it has never got past them. Terms whose subject is
    /// not known any more stay as they are.
    pub(crate) fn renew_terms(&mut self, task: TaskId) {
        let Some(record) = self.tasks.get(task).filter(|record| !record.unmet.is_empty()) else { return };
        let is_unmet =
            |number: &u16, term: &Term| record.unmet.contains(number) || self.fate(task, term) != Fate::Unknown;
        let unmet = (0..).zip(record.after()).filter(|(number, term)| is_unmet(number, term)).map(|(number, _)| number);
        let unmet = unmet.collect();
        self.tasks.set_unmet(task, unmet);
    }

    /// Judges every unmet term of a waiting task: those that are met are struck; if one cannot be met, the task ends.
    pub(crate) fn judge_terms(&mut self, now: Now, task: TaskId) {
        let Some(record) = self.tasks.get(task).filter(|record| record.phase() == Phase::Waiting) else { return };
        let relations = record.relations.clone();
        for number in record.unmet.clone() {
            let term = relations.as_ref().and_then(|relations| relations.after.get(usize::from(number)));
            let Some(term) = term else { continue };
            let fate = self.fate(task, term);
            if !self.decide(now, Edge { dependant: task, term: number }, fate) {
                return;
            }
        }
    }

    /// Applies the fate of a term. False if that has ended the task.
    fn decide(&mut self, now: Now, edge: Edge, fate: Fate) -> bool {
        let why = match fate {
            Fate::Open => return true,
            Fate::Met => {
                self.meet_term(now, edge);
                return true;
            }
            Fate::Unmeetable(why) => why,
            Fate::Unknown => "it is not known any more".to_owned(),
        };
        let terms = self.tasks.get(edge.dependant).map_or(&[][..], TaskRecord::after);
        let term = terms.get(usize::from(edge.term)).map(ToString::to_string).unwrap_or_default();
        let sentence = format!("the term {term} of {} cannot be met: {why}", words::AFTER);
        self.skip(now, edge.dependant, sentence.into());
        false
    }

    fn skip(&mut self, now: Now, task: TaskId, why: Arc<str>) {
        self.kill(now, task, &KillCause::Skipped(why));
    }

    /// A task has finished: notes what that means for others, which [`Self::settle_relations`] carries out.
    pub(crate) fn relatives_of(&mut self, now: Now, task: TaskId) {
        let Some(record) = self.tasks.get(task) else { return };
        // The end of a task of a graph decides nothing for those that wait for the graph.
        let is_of_a_step = record.place().is_some();
        let job = record.membership().map(|member| member.name.clone()).filter(|_| !is_of_a_step);
        if !self.relations.dependants.is_empty()
            && let Some(outcome) = self.outcome_of(task)
        {
            let (job, until) = (job.clone(), self.tasks.last_id());
            self.relations.backlog.ends.push_back(End { task, outcome, job, until });
        }
        let Some(name) = job else { return };
        let Some(job) = self.relations.job(&name) else { return };
        if job.has_ended() {
            self.answer_waiters(&Subject::Job(name.clone()));
        }
        self.stop_at_limit(now, &name);
    }

    /// A graph has ended: notes what that means for the tasks that wait for it.
    pub(crate) fn relatives_of_graph(&mut self, id: GraphId) {
        if self.relations.dependants.is_empty() {
            return;
        }
        let Some(graph) = self.graphs.get(id) else { return };
        if let Some(outcome) = graph.outcome() {
            let end = End { task: root(id), outcome, job: Some(graph.job.clone()), until: self.tasks.last_id() };
            self.relations.backlog.ends.push_back(end);
        }
    }

    /// Does the work that is left for this turn.
    pub(crate) fn settle_relations(&mut self, now: Now) {
        while self.relations.backlog.has_work() {
            self.relations.backlog.left -= 1;
            if !self.work_off_end(now) {
                self.work_off_stop(now);
            }
        }
    }

    /// Sets the deadline for the work of the next turn.
    pub(crate) fn plan_relations(&mut self, now: Now) {
        if !self.relations.backlog.is_empty() {
            self.turn.set_timer(Timer::Relations, now.mono);
        }
    }

    /// Decides the next term that an ended task affects. False if no end is left.
    fn work_off_end(&mut self, now: Now) -> bool {
        let Some(end) = self.relations.backlog.ends.front() else { return false };
        let (task, outcome, dependants) = (end.task, end.outcome, &self.relations.dependants);
        let by = |wanted| match self.graphs.of_root(task) {
            Some(graph) => fate_by(wanted, format_args!("graph {}", graph.id), outcome),
            None => fate_by(wanted, format_args!("task {task}"), outcome),
        };
        if let Some(edge) = dependants.next_of_task(task, end.until) {
            let fate = by(self.term(edge).map_or(Wanted::End, |term| term.wanted));
            self.decide(now, edge, fate);
            return true;
        }
        if let Some(name) = &end.job {
            if let Some(edge) = dependants.next_of_job(name, task, outcome, end.until) {
                let fate = by(self.term(edge).map_or(Wanted::End, |term| term.wanted));
                self.decide(now, edge, fate);
                return true;
            }
            let oldest = self.relations.job(name).and_then(Job::oldest_unfinished);
            if let Some(edge) = dependants.next_without_tasks(name, oldest)
                && let Some(term) = self.term(edge)
            {
                let fate = self.fate(edge.dependant, term);
                self.decide(now, edge, fate);
                return true;
            }
        }
        self.relations.backlog.ends.pop_front();
        true
    }

    fn term(&self, edge: Edge) -> Option<&Term> {
        self.tasks.get(edge.dependant)?.after().get(usize::from(edge.term))
    }

    /// So many tasks of a job have failed that nothing more of it may start.
    pub(crate) fn stop_job(&mut self, name: &JobName) {
        let Some(job) = self.relations.job_mut(name) else { return };
        let stop = JobStop { fails: job.fails() };
        job.memo.stopped = Some(stop);
        self.turn.info(format!("job {name}: {stop}"));
        self.store_memo(name);
        self.sweep_stopped(name);
    }

    /// The waiting tasks of a stopped job are to end.
    pub(crate) fn sweep_stopped(&mut self, name: &JobName) {
        self.relations.backlog.stops.push_back(Stop { job: name.clone(), seen: None, until: self.tasks.last_id() });
    }

    /// A stopped job goes on: no more of its tasks are to end.
    pub(crate) fn forget_stop(&mut self, name: &JobName) {
        self.relations.backlog.stops.retain(|stop| stop.job != *name);
    }

    pub(crate) fn store_memo(&mut self, name: &JobName) {
        if let Some(job) = self.relations.job(name) {
            let record = Record::Job(name.clone(), Some(job.memo));
            self.turn.store(record);
        }
    }

    /// Looks at one task of a stopped job.
    fn work_off_stop(&mut self, now: Now) {
        let Relations { backlog, jobs, .. } = &mut self.relations;
        let Some(stop) = backlog.stops.front_mut() else { return };
        let job = jobs.get(&stop.job);
        let next = job.and_then(|job| job.next_unfinished(stop.seen)).filter(|task| *task <= stop.until);
        let Some(task) = next else {
            self.relations.backlog.stops.pop_front();
            return;
        };
        stop.seen = Some(task);
        if self.tasks.get(task).is_some_and(|record| record.phase() == Phase::Waiting) {
            self.skip_if_stopped(now, task);
        }
    }

    /// Ends a waiting task whose job has been stopped. True if it was one.
    pub(crate) fn skip_if_stopped(&mut self, now: Now, task: TaskId) -> bool {
        let member = self.tasks.get(task).and_then(TaskRecord::membership);
        let stop = member.and_then(|member| self.relations.job(&member.name)?.stopped());
        let Some(stop) = stop else { return false };
        self.skip(now, task, stop.to_string().into());
        true
    }

    /// Continues after a restart: judges all unmet terms, and stops the jobs whose limit of failures is reached.
    pub(crate) fn restore_relations(&mut self, now: Now) {
        let waits = |record: &&TaskRecord| record.phase() == Phase::Waiting && !record.unmet.is_empty();
        let mut waiting: Vec<_> = self.tasks.newest_before(None).filter(waits).map(|record| record.id).collect();
        waiting.reverse();
        for task in waiting {
            self.judge_terms(now, task);
        }
        for name in self.relations.jobs.names().cloned().collect::<Vec<_>>() {
            let Some(job) = self.relations.job(&name) else { continue };
            let (is_stopped, must_stop) = (job.stopped().is_some(), job.must_stop());
            if must_stop {
                self.stop_job(&name);
            } else if is_stopped {
                self.sweep_stopped(&name);
            }
        }
        for name in self.relations.jobs.take_orphans() {
            self.turn.store(Record::Job(name, None));
        }
    }

    /// Checks that a task waits only for ends that can still happen, and that no stopped job has waiting tasks.
    pub(crate) fn check_relations(&self) {
        if !self.relations.backlog.is_empty() {
            assert!(self.turn.has_timer(&Timer::Relations), "the consequences of an end are never carried out");
            return;
        }
        for record in self.tasks.newest_before(None).filter(|record| record.phase() == Phase::Waiting) {
            for number in &record.unmet {
                let term = &record.after()[usize::from(*number)];
                let fate = self.fate(record.id, term);
                assert_eq!(fate, Fate::Open, "task {} waits for {term}", record.id);
            }
            let stop = record.membership().and_then(|member| self.relations.job(&member.name)?.stopped());
            assert_eq!(stop, None, "task {} of a stopped job waits", record.id);
        }
    }
}

/// The fate of a term after the end of one task, or of one graph.
fn fate_by(wanted: Wanted, subject: fmt::Arguments<'_>, outcome: Outcome) -> Fate {
    if wanted.is_met_by(outcome) {
        return Fate::Met;
    }
    Fate::Unmeetable(format!("{subject} ended as {}", words::outcome(outcome)))
}
