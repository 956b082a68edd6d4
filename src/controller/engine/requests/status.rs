//! SERVICE/STATUS: the state of the whole service. Its cost is that of the agents and of the different requirements, not of the tasks.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Answer, Controller, Filter, Goal, Reply, Slot, Ticket};
use crate::engine::readers::scan::STATUS_ROWS;
use crate::engine::relations::jobs::Job;
use api::wire::brief;
use api::wire::requests::status::StatusView;
use base::{Now, Phase, ShownState, TaskRecord};

const JOBS_MAX: usize = 20;
const RUNNING_MAX: usize = 30;

/// The rest of the rows.
const FAILED_MAX: usize = STATUS_ROWS - JOBS_MAX - RUNNING_MAX;

/// Jobs that are looked at for some that have not ended.
const JOBS_LOOKED_AT: usize = 1_000;

/// Tasks before a waiting one that are counted for the reason of its wait.
const BEFORE_MAX: usize = 1;

impl Controller {
    pub(super) fn ask_status(&mut self, now: Now, ticket: Ticket) -> Answer {
        self.search(now, ticket, Filter::default(), Goal::Status)
    }

    /// The state of the service.
    pub(crate) fn status(&self, now: Now) -> Reply {
        let (rate, run_p50) = self.tasks.figures.recent(now.mono);
        let lost = self.fleet.iter().filter(|(_, agent)| agent.slot == Slot::Lost);
        let is_open = |job: &Job| !job.has_ended();
        let jobs = self.relations.jobs.newest().take(JOBS_LOOKED_AT);
        let jobs = jobs.filter(|name| self.relations.job(name).is_some_and(is_open));
        let failed = self.tasks.figures.last_failed().take(FAILED_MAX);
        Reply::Status(Box::new(StatusView {
            now: now.wall,
            started_at: self.mode.start.at,
            states: self.tasks.figures.states(),
            agents: self.fleet.counts(),
            oldest_at: self.queue.oldest().and_then(|task| self.tasks.get(task)).map(|task| task.submitted_at),
            rate,
            run_p50,
            paused_until: self.paused_until(),
            lost: lost.map(|(id, agent)| (id.clone(), agent.contact.heard_wall)).collect(),
            jobs: jobs.take(JOBS_MAX).filter_map(|name| self.job_view(name)).collect(),
            running: self.longest_running(now).into_iter().map(|task| self.row(now, task)).collect(),
            waiting: self.reasons_to_wait(now),
            failed: failed.filter_map(|id| self.tasks.get(id)).map(|task| self.row(now, task)).collect(),
        }))
    }

    /// The running tasks: first those that run longer than usual, then the others, both by the time that they have run.
    fn longest_running(&self, now: Now) -> Vec<&TaskRecord> {
        let tasks = self.fleet.iter().filter_map(|(_, agent)| match agent.slot {
            Slot::Busy(task) => self.tasks.get(task),
            Slot::Free | Slot::Parked(..) | Slot::Stray | Slot::Lost => None,
        });
        let mut running: Vec<_> = tasks.filter(|task| task.phase() == Phase::Running).collect();
        let since = |task: &TaskRecord| task.last_run().and_then(|run| run.times.run).unwrap_or(now.wall);
        running.sort_by_cached_key(|task| {
            (Reverse(self.tasks.runs_longer(&self.relations, now, task)), since(task), task.id)
        });
        running.truncate(RUNNING_MAX);
        running
    }

    /// Why tasks wait, with the number of those that wait for it.
    fn reasons_to_wait(&self, now: Now) -> Vec<(String, usize)> {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut add = |reason: String, count: usize| {
            if count > 0 {
                *reasons.entry(reason).or_default() += count;
            }
        };
        let mut ready = 0;
        for (task, count) in self.queue.heads() {
            let Some(record) = self.tasks.get(task) else { continue };
            let Some(holdup) = self.holdup(now, record, BEFORE_MAX) else { continue };
            add(brief::reason(record, &holdup), count);
            ready += count;
        }
        let ahead = self.ahead().count();
        add("next in the list of an agent".to_owned(), ahead);
        ready += ahead;
        // The others wait for something of their own.
        let states = self.tasks.figures.states();
        let held = states.of(ShownState::Held);
        let waiting = states.of(ShownState::Waiting).saturating_sub(ready);
        let (delayed, first) = self.queue.delays();
        let delayed = delayed.min(waiting);
        add("held".to_owned(), held);
        if let Some((at, _)) = first {
            add(if delayed == 1 { format!("starts {at}") } else { format!("start later, the first {at}") }, delayed);
        }
        let others = waiting - delayed;
        let dependant = self.relations.dependants.first().filter(|_| others == 1).and_then(|task| self.tasks.get(task));
        let reason = dependant.and_then(|task| Some(brief::reason(task, &self.holdup(now, task, BEFORE_MAX)?)));
        add(reason.unwrap_or_else(|| "after other tasks".to_owned()), others);
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| Reverse(*count));
        reasons
    }
}
