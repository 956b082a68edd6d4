//! SERVICE/STATUS: the state of the whole service, or its changes ([`view`](crate::readers::view)). The cost of a look grows with
//! the agents and the different requirements, not with the tasks.

mod problems;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use self::problems::remedy;
use super::{Answer, Controller, Filter, Goal, Query, Reply, Slot, Subject, Ticket, Timer};
use crate::graphs::OwnedGraph;
use crate::readers::scan::STATUS_ROWS;
use crate::relations::jobs::Job;
use api::wire::brief;
use api::wire::requests::job::results::Cursor;
use api::wire::requests::status::{Part, QueueView, StatusAsk, StatusView};
use base::{GateVerdict, GateView, Incident, Now, Phase, ShownState, TaskId, TaskRecord};

const JOBS_MAX: usize = 20;
const RUNNING_MAX: usize = 30;
const GATES_MAX: usize = 20;
const GRAPHS_MAX: usize = 20;

/// Maximum number of failed tasks: the rest of the rows.
const FAILED_MAX: usize = STATUS_ROWS - JOBS_MAX - RUNNING_MAX - GATES_MAX - GRAPHS_MAX;

/// Maximum number of jobs, graphs and gates that are looked at to find those to show.
const LOOKED_AT: usize = 1_000;

/// Maximum number of tasks before a waiting one that are counted for the reason of its wait.
const BEFORE_MAX: usize = 1;

/// Why some tasks wait.
#[derive(Debug)]
struct Wait {
    why: String,
    count: usize,
    /// One of these tasks, with the command that ends its wait, if time alone does not.
    stuck: Option<(TaskId, String)>,
}

impl Controller {
    pub(super) fn ask_status(&mut self, now: Now, ticket: Ticket, ask: StatusAsk) -> Answer {
        let Some(cursor) = ask.cursor.filter(|cursor| self.readers.view.knows(*cursor)) else {
            return self.search(now, ticket, Filter::default(), Goal::Status);
        };
        let wait = ask.wait.unwrap_or_default();
        if self.readers.view.has_after(cursor) || wait.is_zero() {
            return self.status_since(Some(cursor)).into();
        }
        self.park_query(ticket, Query::Status(cursor), now.mono + wait)
    }

    /// The whole state of the service.
    pub(crate) fn status(&mut self, now: Now) -> Reply {
        self.look(now);
        self.status_since(None)
    }

    /// The parts of the state that have changed after a cursor, as of the last look.
    pub(crate) fn status_since(&self, cursor: Option<Cursor>) -> Reply {
        let view = &self.readers.view;
        let now = view.looked().unwrap_or_default();
        let (rate, run_p50) = self.tasks.figures.recent(now.mono);
        let head = StatusView {
            now: now.wall,
            started_at: self.mode.start.at,
            oldest_at: self.queue.oldest().and_then(|task| self.tasks.get(task)).map(|task| task.submitted_at),
            rate,
            run_p50,
            paused_until: self.paused_until(),
            cursor: Cursor::default(),
            is_whole: false,
            parts: Vec::new(),
            gone: Vec::new(),
        };
        Reply::Status(Box::new(view.since(cursor, &head)))
    }

    /// Looks for changes, and answers the readers that wait for some.
    pub(crate) fn look(&mut self, now: Now) {
        let parts = self.status_parts(now);
        if self.readers.view.learn(now, parts) {
            self.answer_waiters(&Subject::Status);
        }
    }

    /// Sets the time of the next look, at the end of every event.
    pub(crate) fn plan_look(&mut self, now: Now) {
        self.readers.view.end_event();
        // Every event comes by here, and a request hardly ever waits.
        if !self.readers.waits.is_empty() && self.readers.waits.has(&Subject::Status) {
            self.turn.set_timer_earlier(Timer::Look, self.readers.view.next_look(now.mono));
            self.readers.view.is_awaited = true;
        } else if std::mem::take(&mut self.readers.view.is_awaited) {
            self.turn.clear_timer(&Timer::Look);
        }
    }

    /// An incident of this process.
    pub fn handle_incident(&mut self, now: Now, incident: Incident) {
        self.readers.view.add_incident(incident);
        self.plan_look(now);
    }

    /// Sets or clears the sentence about a disk that has no more room than its reserve.
    pub fn handle_room(&mut self, now: Now, little: Option<&str>) {
        if self.mode.little_room.as_deref() != little {
            self.mode.little_room = little.map(str::to_owned);
            self.plan_look(now);
        }
    }

    /// The supervisor of this controller has died.
    pub fn handle_orphaned(&mut self, now: Now) {
        self.mode.is_orphaned = true;
        self.plan_look(now);
    }

    /// The state of the queue, which other machines share.
    pub fn handle_queue(&mut self, now: Now, queue: QueueView) {
        self.mode.queue = Some(queue);
        self.plan_look(now);
    }

    fn status_parts(&self, now: Now) -> Vec<Part> {
        let figures = &self.tasks.figures;
        let running: Vec<_> = self.longest_running(now).into_iter().map(|task| self.row(now, task)).collect();
        let waits = self.reasons_to_wait(now);
        let problems = self.problems(now, &waits, &running);
        let lost = self.fleet.iter().filter(|(_, agent)| agent.slot == Slot::Lost);
        let is_open = |job: &Job| !job.has_ended();
        let jobs = self.relations.jobs.newest().take(LOOKED_AT);
        let jobs = jobs.filter(|name| self.relations.job(name).is_some_and(is_open));
        let failed = figures.last_failed().take(FAILED_MAX).filter_map(|id| self.tasks.get(id));
        let graphs = self.graphs.iter().rev().take(LOOKED_AT).filter(|graph| !graph.has_ended).take(GRAPHS_MAX);
        let pace = figures.pace(now.mono);
        let mut parts = vec![Part::States(figures.states()), Part::Agents(self.fleet.counts())];
        // Without its server, that is not known.
        let queue = self.mode.queue.as_ref().filter(|_| self.mode.store_trouble.is_none());
        parts.extend(queue.cloned().map(Part::Queue));
        parts.push(Part::Changes(figures.changes()));
        parts.extend((!pace.is_empty()).then_some(Part::Pace(pace)));
        parts.extend(problems.into_iter().enumerate().map(|(place, problem)| Part::Problem(place, problem)));
        parts.extend(lost.map(|(id, agent)| Part::Lost(id.clone(), agent.contact.heard_wall)));
        parts.extend(jobs.take(JOBS_MAX).filter_map(|name| self.job_view(name)).map(Part::Job));
        parts.extend(running.into_iter().map(|row| Part::Running(Box::new(row))));
        parts.extend(waits.into_iter().enumerate().map(|(place, wait)| Part::Waiting(place, wait.why, wait.count)));
        parts.extend(failed.map(|task| Part::Failed(Box::new(self.row(now, task)))));
        parts.extend(self.gates_in_use(now).map(Part::Gate));
        parts.extend(graphs.map(OwnedGraph::view).map(Part::Graph));
        parts.extend(self.readers.view.incidents().map(|(number, incident)| Part::Incident(*number, incident.clone())));
        parts
    }

    /// The gates at which tasks wait or run, or that are not open.
    fn gates_in_use(&self, now: Now) -> impl Iterator<Item = GateView> {
        let queue = &self.queue;
        let names = queue.gates.names().filter(|name| !name.is_of_service()).take(LOOKED_AT);
        let views = names.map(move |name| queue.gates.view(now, name, queue.waiting_at(name)));
        let is_used = |gate: &GateView| gate.running > 0 || gate.waiting > 0 || gate.verdict != GateVerdict::Open;
        views.filter(is_used).take(GATES_MAX)
    }

    /// The running tasks: first those that run longer than usual, then the others, both by the time that they have run.
    fn longest_running(&self, now: Now) -> Vec<&TaskRecord> {
        let tasks = self.fleet.busy().filter_map(|(_, task)| self.tasks.get(task));
        let mut running: Vec<_> = tasks.filter(|task| task.phase() == Phase::Running).collect();
        let since = |task: &TaskRecord| task.last_run().and_then(|run| run.times.run).unwrap_or(now.wall);
        running.sort_by_cached_key(|task| {
            (Reverse(self.tasks.runs_longer(&self.relations, now, task)), since(task), task.id)
        });
        running.truncate(RUNNING_MAX);
        running
    }

    /// Why tasks wait, with the number of tasks for each reason.
    fn reasons_to_wait(&self, now: Now) -> Vec<Wait> {
        let mut reasons: BTreeMap<String, (usize, Option<(TaskId, String)>)> = BTreeMap::new();
        let mut add = |reason: String, count: usize, stuck: Option<(TaskId, String)>| {
            if count > 0 {
                let (counted, example) = reasons.entry(reason).or_default();
                *counted += count;
                *example = example.take().or(stuck);
            }
        };
        let mut ready = 0;
        for (task, count) in self.queue.heads() {
            let Some(record) = self.tasks.get(task) else { continue };
            let Some(holdup) = self.holdup(now, record, BEFORE_MAX) else { continue };
            add(brief::reason(record, &holdup), count, remedy(&holdup, task).map(|remedy| (task, remedy)));
            ready += count;
        }
        let ahead = self.ahead().count();
        add("next in the list of an agent".to_owned(), ahead, None);
        ready += ahead;
        // The others wait for something of their own.
        let states = self.tasks.figures.states();
        let held = states.of(ShownState::Held);
        let waiting = states.of(ShownState::Waiting).saturating_sub(ready);
        let (delayed, first) = self.queue.delays();
        let delayed = delayed.min(waiting);
        add("held".to_owned(), held, None);
        if let Some((at, task)) = first {
            let alone = self.tasks.get(task).filter(|_| delayed == 1);
            let why = alone.and_then(|task| Some(brief::reason(task, &self.holdup(now, task, BEFORE_MAX)?)));
            add(why.unwrap_or_else(|| format!("start later, the first {at}")), delayed, None);
        }
        let others = waiting - delayed;
        let dependant = self.relations.dependants.first().filter(|_| others == 1).and_then(|task| self.tasks.get(task));
        let reason = dependant.and_then(|task| Some(brief::reason(task, &self.holdup(now, task, BEFORE_MAX)?)));
        add(reason.unwrap_or_else(|| "after other tasks".to_owned()), others, None);
        let mut reasons: Vec<_> = reasons.into_iter().map(|(why, (count, stuck))| Wait { why, count, stuck }).collect();
        reasons.sort_by_key(|wait| Reverse(wait.count));
        reasons
    }
}
