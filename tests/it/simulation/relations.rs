//! Jobs and dependencies: what a seed plans, and the rules of both, told from what the controller decides, stores and publishes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base::{JobStatus, Outcome, Phase, Prior, Round, TaskId, TaskRecord, TaskState, Term, Wanted};

use crate::simulation::dice::{Dice, Nanos, SECOND};
use crate::simulation::model::Disk;
use crate::simulation::policy_fields::Deed;
use crate::simulation::world::World;

/// The jobs that tasks may belong to.
const JOBS: usize = 2;

/// States of a job in any second.
const STATUSES_MAX: usize = 10;

pub(crate) fn job_name(job: usize) -> String {
    format!("job-{job}")
}

/// The job and the dependencies of a task, as its submitter sends them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RelationsPlan {
    job: Option<usize>,
    fails_max: Option<u64>,
    terms: Vec<TermPlan>,
}

#[derive(Clone, Copy, Debug)]
struct TermPlan {
    wanted: Wanted,
    /// A job, or one of the tasks that are accepted by then.
    of: Result<usize, usize>,
}

/// A change of all tasks of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobDeed {
    job: usize,
    pub(crate) kind: &'static str,
}

impl JobDeed {
    pub(crate) fn body(self) -> String {
        format!(r#"{{"__TYPE__":"JOB/{}","__JOB__":"{}"}}"#, self.kind, job_name(self.job))
    }
}

/// What a seed plans. Its dice are its own, so that a seed without jobs runs as if there were none.
pub(crate) fn plan(seed: u64, tasks: usize, calm: Nanos) -> (Vec<RelationsPlan>, Vec<(Nanos, Deed)>) {
    let mut dice = Dice::new(seed ^ 0x6a6f_6273);
    if !dice.chance(400) {
        return (vec![RelationsPlan::default(); tasks], Vec::new());
    }
    let stops = dice.chance(400);
    let plans = (0..tasks).map(|_| RelationsPlan::new(&mut dice, stops)).collect();
    let mut deeds = Vec::new();
    for _ in 0..dice.index(5) {
        let kind = ["KILL", "RETRY", "HOLD", "RELEASE"][dice.index(4)];
        deeds.push((dice.within(0..=calm), Deed::Order(JobDeed { job: dice.index(JOBS), kind })));
    }
    (plans, deeds)
}

impl RelationsPlan {
    fn new(dice: &mut Dice, stops: bool) -> Self {
        let job = dice.chance(600).then(|| dice.index(JOBS));
        let term = |dice: &mut Dice| TermPlan {
            wanted: Wanted::ALL[dice.index(3)],
            of: if dice.chance(300) { Ok(dice.index(JOBS)) } else { Err(dice.index(1000)) },
        };
        let count = if dice.chance(500) { 0 } else { 1 + dice.index(3) };
        Self {
            job,
            fails_max: job.filter(|_| stops && dice.chance(300)).map(|_| dice.within(1..=6)),
            terms: (0..count).map(|_| term(dice)).collect(),
        }
    }
}

impl World {
    /// The fields of a submit. Only tasks whose acceptance is known can be named.
    pub(crate) fn relation_fields(&self, plan: usize) -> String {
        let RelationsPlan { job, fails_max, terms } = &self.plan.tasks[plan].relations;
        let mut out = String::new();
        if let Some(job) = job {
            // Writing into a String cannot fail.
            let _ = write!(out, r#","__JOB__":"{}""#, job_name(*job));
        }
        if let Some(max) = fails_max {
            let _ = write!(out, r#","__JOB_MAX_FAILS__":{max}"#);
        }
        let known: Vec<TaskId> = self.model.accepted.iter().copied().collect();
        let of_job = |job: usize| {
            let name = job_name(job);
            let is_in =
                |task: &TaskId| self.server.disk[task].membership().is_some_and(|member| member.name.as_str() == name);
            known.iter().any(is_in).then(|| format!("{}{name}", Prior::JOB))
        };
        let term = |term: &TermPlan| {
            let of = match term.of {
                Ok(job) => of_job(job)?,
                Err(pick) => known.get(pick.checked_rem(known.len())?)?.to_string(),
            };
            Some(format!("{}{of}", term.wanted.prefix()))
        };
        let terms: Vec<_> = terms.iter().filter_map(term).collect();
        if !terms.is_empty() {
            let _ = write!(out, r#","__AFTER__":"{}""#, terms.join(","));
        }
        out
    }
}

/// Each end of each task, with its round: a client may request another round.
type Ends = BTreeMap<TaskId, BTreeSet<(Round, Outcome)>>;

/// The ends of tasks, and the published states of jobs.
#[derive(Default)]
pub(crate) struct Relations {
    ends: Ends,
    stored_ends: Ends,
    /// The numbers and the moments of the published states.
    published: BTreeMap<String, Vec<(u64, Nanos)>>,
    last: BTreeMap<String, JobStatus>,
}

impl Relations {
    pub(crate) fn controller_started(&mut self) {
        self.ends.clone_from(&self.stored_ends);
    }

    /// A record is stored, and with it every earlier end of its task: one commit may hold an end and the rounds after it, of
    /// which only the last record is written.
    pub(crate) fn committed(&mut self, record: &TaskRecord) {
        let stored = self.stored_ends.entry(record.id).or_default();
        let earlier = self.ends.get(&record.id).into_iter().flatten().filter(|(round, _)| *round < record.round);
        stored.extend(earlier.copied());
        if let TaskState::Finished { outcome, .. } = record.state {
            stored.insert((record.round, outcome));
        }
    }

    /// A task stands like this; `tasks` are all, in the same view.
    pub(crate) fn decided(&mut self, record: &TaskRecord, tasks: &Disk) {
        match &record.state {
            TaskState::Finished { outcome, .. } => {
                if *outcome == Outcome::Skipped {
                    self.check_skipped(record, tasks);
                }
                self.ends.entry(record.id).or_default().insert((record.round, *outcome));
            }
            TaskState::Dispatched(_) => {
                for term in record.after() {
                    assert!(self.may_be_met(record, term, tasks), "{} starts before its term {term} is met", record.id);
                }
            }
            _ => {}
        }
    }

    fn older<'a>(record: &'a TaskRecord, name: &'a str, tasks: &'a Disk) -> impl Iterator<Item = TaskId> + 'a {
        let is_in = move |task: &&TaskRecord| task.membership().is_some_and(|member| member.name.as_str() == name);
        tasks.range(..record.id).map(|(_, task)| task).filter(is_in).map(|task| task.id)
    }

    fn has_ended(&self, task: TaskId, how: impl Fn(Outcome) -> bool) -> bool {
        self.ends.get(&task).is_some_and(|ends| ends.iter().any(|(_, outcome)| how(*outcome)))
    }

    /// Whether every end that the term needs has been seen.
    fn may_be_met(&self, record: &TaskRecord, term: &Term, tasks: &Disk) -> bool {
        let meets = |task| self.has_ended(task, |outcome| term.wanted.is_met_by(outcome));
        match &term.of {
            Prior::Task(task) => meets(*task),
            Prior::Job(name) if term.wanted == Wanted::Failure => Self::older(record, name.as_str(), tasks).any(meets),
            Prior::Job(name) => Self::older(record, name.as_str(), tasks).all(meets),
        }
    }

    /// A task is skipped only for an end that was seen.
    fn check_skipped(&self, record: &TaskRecord, tasks: &Disk) {
        if record.place().is_some() {
            // Its step ended early, which its graph decides.
            return;
        }
        let spoils = |task, wanted: Wanted| self.has_ended(task, |outcome| !wanted.is_met_by(outcome));
        let is_spoilt = |term: &Term| match &term.of {
            Prior::Task(task) => spoils(*task, term.wanted),
            Prior::Job(name) if term.wanted == Wanted::Failure => {
                Self::older(record, name.as_str(), tasks).all(|task| spoils(task, Wanted::Failure))
            }
            Prior::Job(name) => Self::older(record, name.as_str(), tasks).any(|task| spoils(task, term.wanted)),
        };
        let is_stopped = || {
            let name = record.membership().map(|member| member.name.as_str())?;
            let all =
                tasks.values().filter(|task| task.membership().is_some_and(|member| member.name.as_str() == name));
            let mut limits = all.clone().filter_map(|task| task.membership()?.fails_max);
            limits.next()?;
            Some(all.clone().any(|task| self.has_ended(task.id, Outcome::is_failure)))
        };
        let is_right = record.after().iter().any(is_spoilt) || is_stopped() == Some(true);
        assert!(is_right, "{} is skipped without a reason: {record:?}", record.id);
    }

    /// The numbers of a job grow, and no receiver gets too many of its states.
    pub(crate) fn published(&mut self, now: Nanos, status: &JobStatus) {
        let name = status.view.name.as_str().to_owned();
        let list = self.published.entry(name.clone()).or_default();
        let last = list.last().map_or(0, |(seq, _)| *seq);
        assert!(last < status.seq, "state {} of {name} comes after {last}", status.seq);
        list.push((status.seq, now));
        let lately = list.iter().filter(|(_, at)| now - at < SECOND).count();
        assert!(lately <= STATUSES_MAX, "{lately} states of {name} in one second");
        self.last.insert(name, status.clone());
    }

    /// The last published state of each job is that of its tasks.
    pub(crate) fn check_end(&self, disk: &Disk) {
        let mut counts: BTreeMap<&str, BTreeMap<Outcome, usize>> = BTreeMap::new();
        for record in disk.values() {
            if let (Some(member), TaskState::Finished { outcome, .. }) = (record.membership(), &record.state) {
                *counts.entry(member.name.as_str()).or_default().entry(*outcome).or_default() += 1;
            }
        }
        for (name, outcomes) in counts {
            let last = &self.last.get(name).unwrap_or_else(|| panic!("{name} was never published")).view;
            let shown = Outcome::ALL.into_iter().zip(last.outcomes).filter(|(_, count)| *count > 0).collect();
            assert_eq!(outcomes, shown, "the last published state of {name}");
            assert_eq!(last.phases[Phase::Finished as usize], last.total(), "{name} has not ended");
            assert!(last.ended_at.is_some(), "{name} has no end");
        }
    }
}
