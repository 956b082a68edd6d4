//! The job and the dependencies of a submit: whether they exist and take one more task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::{Code, Controller, Refusal, words};
use crate::relations::Fate;
use crate::relations::jobs::Job;
use crate::tasks::withdrawal::Replaced;
use api::wire::requests::graph::takes_no_tasks;
use api::wire::requests::job;
use api::wire::requests::submit::Submit;
use base::{JobName, Membership, Prior, PushAddress, Relations, TaskId};

/// The jobs of the tasks before this one in the same request.
#[derive(Debug, Default)]
pub(super) struct Companions {
    /// The receivers that those tasks add to each job.
    jobs: BTreeMap<JobName, BTreeSet<PushAddress>>,
}

impl Companions {
    /// One more task will be accepted.
    pub(super) fn add(&mut self, submit: &Submit) {
        let Some(Membership { name, is_pushed, .. }) = submit.relations.as_ref().and_then(|all| all.job.as_ref())
        else {
            return;
        };
        let receivers = self.jobs.entry(name.clone()).or_default();
        receivers.extend(submit.address.iter().filter(|_| *is_pushed).cloned());
    }
}

impl Controller {
    /// Whether the terms name tasks and jobs that are known, and the job takes one more task.
    pub(super) fn check_relations_of(
        &self,
        relations: &Relations,
        submit: &Submit,
        before: &Companions,
    ) -> Result<(), Refusal> {
        for term in &relations.after {
            match &term.of {
                // Every task is older than the one that is being accepted.
                Prior::Task(task) if self.fate(TaskId::MAX, term) == Fate::Unknown => {
                    let refusal = Refusal::no_such_task(task);
                    return Err(Refusal::new(refusal.code, format!("{}: {}", words::AFTER, refusal.message)));
                }
                Prior::Job(name) if self.graphs.of_job(name).is_some() => {}
                Prior::Job(name) if self.relations.job(name).is_none() && !before.jobs.contains_key(name) => {
                    let refusal = Refusal::no_such_job(name);
                    return Err(Refusal::new(refusal.code, format!("{}: {}", words::AFTER, refusal.message)));
                }
                Prior::Task(_) | Prior::Job(_) => {}
            }
        }
        let Some(Membership { name, is_pushed, .. }) = &relations.job else { return Ok(()) };
        if let Some(graph) = self.graphs.of_job(name) {
            return Err(takes_no_tasks(graph.id));
        }
        let job = self.relations.job(name);
        if let Some(stop) = job.and_then(Job::stopped) {
            return Err(job::stopped(name, stop));
        }
        match &submit.address {
            Some(address) if *is_pushed => self.check_receivers(name, address, before),
            _ => Ok(()),
        }
    }

    fn check_receivers(&self, name: &JobName, address: &PushAddress, before: &Companions) -> Result<(), Refusal> {
        let known = self.relations.job(name).map_or(0, |job| job.other_receivers(&Arc::new(address.clone())));
        let new = before.jobs.get(name).filter(|new| !new.contains(address)).map_or(0, BTreeSet::len);
        let max = self.settings.job_receivers_max;
        if known + new < max {
            return Ok(());
        }
        let message = format!(
            "the state of job {name} is pushed to {max} addresses already (JOB_RECEIVERS_MAX); omit {} or use one of them",
            words::JOB_PUSH
        );
        Err(Refusal::new(Code::LimitReached, message))
    }

    /// The limit of failures that was given last holds for the whole job.
    pub(super) fn limit_fails(&mut self, task: TaskId, name: &JobName, max: u32) {
        let Some(job) = self.relations.job_mut(name) else { return };
        let before = job.memo.fails_max.replace(max);
        self.tasks.note_limit(task, Replaced { job: name.clone(), before });
        if before != Some(max) {
            self.store_memo(name);
        }
    }
}
