//! The table of tasks with its indexes. Every change of a task goes through here, so that no index is missed.

mod invariants;
mod pins;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::catalog::Catalog;
use super::dependants::{Dependants, Edge};
use super::effect::{Effect, Record};
use super::figures::{Figure, Figures};
use super::jobs::{Jobs, Standing};
use super::queue::Queue;
use super::task_index::TaskIndex;
use super::transition::{self, TaskEvent};
use api::wire::task;
use base::{AgentId, Now, Phase, Progress, TaskId, TaskRecord, TaskState, ToldProgress, ToolDigest, Wall, is_longer};
use pins::files_of;

/// Numbers of pushes of progress that one write to the store covers.
const PUSHES_AHEAD: u32 = 100;

#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// By id, and thus by the time of submission. Boxed: ids only grow, and such a map leaves its nodes half empty.
    records: BTreeMap<TaskId, Box<TaskRecord>>,
    queue: Queue,
    /// The end-before times of unfinished tasks.
    end_before: BTreeSet<(Wall, TaskId)>,
    given_ids: TaskIndex,
    submit_keys: TaskIndex,
    jobs: Jobs,
    /// The tools that the controller holds, with the versions that unfinished tasks have pinned.
    catalog: Catalog,
    /// The terms that waiting tasks wait for.
    dependants: Dependants,
    /// The waiting tasks that have met terms since they were stored. A restart judges these again by the tasks that they
    /// name, so they are stored only before one of those is forgotten: a record has as many terms as it waits for, and
    /// storing it with each of them would cost the square of that.
    met_unstored: BTreeSet<TaskId>,
    counts: [usize; Phase::ALL.len()],
    figures: Figures,
    /// Whether ended rounds go to the history.
    keeps_history: bool,
    /// The tasks that have finished without success and are not in the log yet.
    pub(super) unlogged: Vec<TaskId>,
    pub(super) effects: VecDeque<Effect>,
    /// The tasks whose runs are out of contact, by their agents.
    silent: BTreeSet<(AgentId, TaskId)>,
    /// The tasks that have changed their phase, or were removed, in this event.
    pub(super) changed: Vec<TaskId>,
}

impl Tasks {
    /// Without a task.
    pub(super) fn new(keeps_history: bool) -> Self {
        Self { keeps_history, ..Self::default() }
    }

    pub(super) fn get(&self, id: TaskId) -> Option<&TaskRecord> {
        self.records.get(&id).map(|record| &**record)
    }

    /// The tasks whose runs at this agent are out of contact.
    pub(super) fn out_of_contact(&self, agent: &AgentId) -> Vec<TaskId> {
        self.of_silent(agent).collect()
    }

    /// Whether there are any.
    pub(super) fn has_out_of_contact(&self, agent: &AgentId) -> bool {
        !self.silent.is_empty() && self.of_silent(agent).next().is_some()
    }

    fn of_silent(&self, agent: &AgentId) -> impl Iterator<Item = TaskId> {
        let first = (agent.clone(), TaskId::MIN);
        self.silent.range(first..).take_while(move |(other, _)| other == agent).map(|(_, task)| *task)
    }

    /// The tasks whose runs are out of contact at any agent.
    pub(super) fn all_out_of_contact(&self) -> Vec<TaskId> {
        self.silent.iter().map(|(_, task)| *task).collect()
    }

    /// Whether there are any.
    pub(super) fn are_out_of_contact(&self) -> bool {
        !self.silent.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Number of tasks in each phase, in the order of [`Phase::ALL`].
    pub(super) const fn counts(&self) -> [usize; Phase::ALL.len()] {
        self.counts
    }

    /// The time that most runs of the job of a task did not exceed, or of its tool.
    pub(super) fn usual(&self, record: &TaskRecord) -> Option<Duration> {
        let of_job = record.membership().and_then(|job| self.jobs.get(&job.name)?.usual_run_time());
        of_job.or_else(|| self.figures.usual(&record.tool))
    }

    /// Whether a task runs and has taken longer than usual.
    pub(super) fn runs_longer(&self, now: Now, record: &TaskRecord) -> bool {
        let started = record.last_run().and_then(|run| run.times.run).filter(|_| record.phase() == Phase::Running);
        started.zip(self.usual(record)).is_some_and(|(at, usual)| is_longer(now.wall.since(at), usual))
    }

    /// The figures for people.
    pub(super) const fn figures(&self) -> &Figures {
        &self.figures
    }

    pub(super) const fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(super) const fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    pub(super) const fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    pub(super) const fn jobs_mut(&mut self) -> &mut Jobs {
        &mut self.jobs
    }

    pub(super) const fn dependants(&self) -> &Dependants {
        &self.dependants
    }

    /// The tasks older than `before`, newest first.
    pub(super) fn newest_before(&self, before: Option<TaskId>) -> impl Iterator<Item = &TaskRecord> {
        use std::ops::Bound::{Excluded, Unbounded};
        let end = before.map_or(Unbounded, Excluded);
        self.records.range((Unbounded, end)).rev().map(|(_, record)| &**record)
    }

    /// The tasks with this given id that are older than `before`, newest first.
    pub(super) fn with_given_id<'a>(
        &'a self,
        given_id: &str,
        before: Option<TaskId>,
    ) -> impl Iterator<Item = &'a TaskRecord> + use<'a> {
        self.given_ids.get(given_id, before).filter_map(|id| self.get(id))
    }

    /// The task that was submitted with this key.
    pub(super) fn with_submit_key(&self, key: &str) -> Option<&TaskRecord> {
        self.submit_keys.get(key, None).find_map(|id| self.get(id))
    }

    /// Adds a new task. It pins the version that the name of its tool stands for, unless it has another one that is held: that of
    /// its graph.
    pub(super) fn insert(&mut self, now: Now, mut record: TaskRecord) {
        let is_held = |pin: &ToolDigest| self.catalog.size(pin).is_some();
        let present = || self.catalog.present(&record.tool).map(|held| held.digest);
        record.pin = record.pin.filter(is_held).or_else(present);
        self.put(&record);
        self.restore(now, record);
    }

    /// Adds a task that is already stored.
    pub(super) fn restore(&mut self, now: Now, record: TaskRecord) {
        let id = record.id;
        self.given_ids.insert(task::given_id(&record), id);
        self.submit_keys.insert(task::submit_key(&record), id);
        if let Some(member) = record.membership() {
            self.jobs.add(member, &record);
        }
        if let Some(digest) = record.pin.filter(|_| record.phase() < Phase::Finished) {
            self.pin(now, &record.tool, digest);
        }
        if record.files.is_some() {
            self.rename_files(&[], &files_of(&record));
        }
        match record.phase() {
            Phase::Waiting => {
                self.queue.enter(now, &record);
                self.dependants.add(&record);
            }
            Phase::Dispatched | Phase::Preparing | Phase::Running | Phase::Ended => {
                self.queue.resume(now, &record.policy.needs);
            }
            Phase::Finished => {}
        }
        if let Some(at) = record.policy.end_before.filter(|_| record.phase() < Phase::Finished) {
            self.end_before.insert((at, id));
        }
        self.counts[record.shown_phase() as usize] += 1;
        self.figures.add(&record);
        let before = self.records.insert(id, Box::new(record));
        assert!(before.is_none(), "task {id} exists twice");
    }

    /// The only place that changes the phase of a task. Stores and pushes the change if required.
    pub(super) fn change(&mut self, now: Now, id: TaskId, event: TaskEvent) {
        let Some(record) = self.records.get_mut(&id) else { unreachable!("task {id} changes, but does not exist") };
        let (before, shown_before, round) = (record.phase(), record.shown_phase(), record.round);
        let was_silent = record.is_out_of_contact();
        let named = files_of(record);
        let stood = record.membership().map(|_| Standing::of(record));
        let figure = Figure::of(record);
        if before == Phase::Waiting {
            self.queue.leave(now, record);
            self.dependants.remove(record);
        }
        if before == Phase::Finished {
            pins::renew(&self.catalog, record);
        }
        transition::apply(record, event);
        let after = record.phase();
        self.figures.moved(now, record, figure);
        if let (Some(stood), Some(member)) = (stood, record.membership()) {
            self.jobs.moved(&member.name, id, stood, Standing::of(record));
        }
        if is_active(after) {
            // An earlier controller had found them met, if one is left.
            record.unmet.clear();
        }
        if was_silent != record.is_out_of_contact()
            && let Some(run) = record.last_run()
        {
            let place = (run.agent.clone(), id);
            let _ = if was_silent { self.silent.remove(&place) } else { self.silent.insert(place) };
        }
        match (is_active(before), is_active(after)) {
            // It began before.
            (false, true) if was_silent => self.queue.resume(now, &record.policy.needs),
            (false, true) => self.queue.start(now, &record.policy.needs),
            (true, false) => self.queue.end(now, &record.policy.needs),
            (true, true) | (false, false) => {}
        }
        if after == Phase::Waiting {
            self.queue.enter(now, record);
            self.dependants.add(record);
        }
        match (record.policy.end_before, before, after) {
            (Some(at), _, Phase::Finished) => {
                self.end_before.remove(&(at, id));
            }
            // This was not checked for a run that had ended in time, but the next run must not begin after it.
            (Some(at), _, Phase::Waiting) => {
                self.end_before.insert((at, id));
            }
            _ => {}
        }
        if (is_pushed(after) && !was_silent) || record.round != round {
            record.pushes += 1;
            self.effects.push_back(Effect::Push(record.clone()));
        }
        if is_stored(after) || was_silent {
            self.effects.push_back(Effect::Record(Record::Put(record.clone())));
        }
        let has_ended = before != Phase::Finished && (after == Phase::Finished || record.round != round);
        if has_ended && self.keeps_history {
            self.effects.push_back(Effect::Record(Record::Round(round, record.clone())));
        }
        if matches!(record.state, TaskState::Finished { outcome, .. } if outcome.is_failure()) {
            self.unlogged.push(id);
        }
        self.counts[shown_before as usize] -= 1;
        self.counts[record.shown_phase() as usize] += 1;
        self.changed.push(id);
        if before == Phase::Finished || after == Phase::Finished {
            let pin = record.pin.map(|digest| (record.tool.clone(), digest));
            let names = files_of(record);
            self.move_pin(now, pin, before, after);
            self.rename_files(&named, &names);
        }
    }

    /// Changes the record of a task except its phase, and updates its place in the queue.
    pub(super) fn update(&mut self, id: TaskId, change: impl FnOnce(&mut TaskRecord)) {
        let Some(record) = self.records.get_mut(&id) else { unreachable!("task {id} changes, but does not exist") };
        let before = (record.phase(), record.held);
        change(record);
        debug_assert_eq!(before, (record.phase(), record.held), "only `change` and `hold` move task {id}");
        self.effects.push_back(Effect::Record(Record::Put(record.clone())));
    }

    /// Stores the progress of a run, after phase changes that are not stored individually.
    pub(super) fn store_progress(&mut self, id: TaskId) {
        if let Some(record) = self.records.get(&id).filter(|record| !is_stored(record.phase())) {
            self.effects.push_back(Effect::Record(Record::Put(record.clone())));
        }
    }

    /// A run tells how far it is. The change is pushed, and not stored: the next one makes up for it. Only the numbers of its pushes are
    /// stored, many ahead.
    pub(super) fn tell_progress(&mut self, now: Now, id: TaskId, progress: Progress) {
        let Some(record) = self.records.get_mut(&id) else { unreachable!("task {id} tells, but does not exist") };
        let pushes = record.pushes + 1;
        let TaskState::Running(run) = &mut record.state else { return };
        let known = run.progress.as_ref();
        if known.is_some_and(|known| known.progress == progress) {
            return;
        }
        let mut stored_pushes = known.map_or(0, |known| known.stored_pushes);
        let has_room = pushes <= stored_pushes;
        if !has_room {
            stored_pushes = pushes + PUSHES_AHEAD;
        }
        run.progress = Some(Box::new(ToldProgress { progress, at: now.wall, stored_pushes }));
        record.pushes = pushes;
        if !has_room {
            let mut ahead = record.clone();
            ahead.pushes = stored_pushes;
            self.effects.push_back(Effect::Record(Record::Put(ahead)));
        }
        self.effects.push_back(Effect::Push(record.clone()));
    }

    /// Holds a task back, or releases it.
    pub(super) fn hold(&mut self, now: Now, id: TaskId, held: Option<Wall>) {
        let Some(record) = self.records.get_mut(&id) else { unreachable!("task {id} changes, but does not exist") };
        let waits = record.phase() == Phase::Waiting;
        if waits {
            self.queue.leave(now, record);
        }
        let figure = Figure::of(record);
        record.held = held;
        self.figures.moved(now, record, figure);
        if waits {
            self.queue.enter(now, record);
        }
        self.effects.push_back(Effect::Record(Record::Put(record.clone())));
    }

    /// A term of a waiting task is met.
    pub(super) fn meet(&mut self, now: Now, Edge { dependant, term }: Edge) {
        let Some(record) = self.records.get_mut(&dependant) else { unreachable!("{dependant} waits and is gone") };
        self.dependants.decide(record, term);
        let is_last = record.unmet == [term];
        if is_last {
            self.queue.leave(now, record);
        }
        record.unmet.retain(|unmet| *unmet != term);
        if is_last {
            self.queue.enter(now, record);
            self.effects.push_back(Effect::Record(Record::Put(record.clone())));
        } else {
            self.met_unstored.insert(dependant);
        }
    }

    /// Stores the terms that have been met.
    fn store_met_terms(&mut self) {
        for id in std::mem::take(&mut self.met_unstored) {
            if let Some(record) = self.records.get(&id).filter(|record| record.phase() == Phase::Waiting) {
                self.effects.push_back(Effect::Record(Record::Put(record.clone())));
            }
        }
    }

    /// A finished task that is about to wait again waits for these terms, too.
    pub(super) fn renew_terms(&mut self, id: TaskId, unmet: Vec<u16>) {
        if let Some(record) = self.records.get_mut(&id) {
            debug_assert_eq!(record.phase(), Phase::Finished, "task {id} waits for its terms already");
            record.unmet = unmet;
        }
    }

    /// Makes the tasks that are due ready, or lets them go to agents again whose disk was full.
    pub(super) fn release_due(&mut self, now: Now) {
        while let Some(id) = self.queue.pop_due(now.wall) {
            let Some(record) = self.records.get_mut(&id) else {
                unreachable!("task {id} is delayed and does not exist")
            };
            if record.next_trial().is_some_and(|at| at <= now.wall) {
                self.queue.leave(now, record);
                record.trust_agents();
                self.queue.enter(now, record);
            } else {
                self.queue.make_ready(now, record);
            }
        }
    }

    /// Whether a task was submitted with a key.
    pub(super) fn has_submit_key(&self, id: TaskId) -> bool {
        self.submit_keys.has(id)
    }

    /// The next task that reaches its end-before time, and that time.
    pub(super) fn next_end(&self) -> Option<(Wall, TaskId)> {
        self.end_before.first().copied()
    }

    /// An end-before time has been handled; it is not checked again.
    pub(super) fn forget_end(&mut self, end: (Wall, TaskId)) {
        self.end_before.remove(&end);
    }

    /// Forgets a task.
    pub(super) fn remove(&mut self, now: Now, id: TaskId) -> Option<TaskRecord> {
        let record = self.records.remove(&id)?;
        self.store_met_terms();
        if record.phase() == Phase::Waiting {
            self.queue.leave(now, &record);
            self.dependants.remove(&record);
        }
        if let Some(member) = record.membership()
            && self.jobs.remove(member, &record)
        {
            self.effects.push_back(Effect::Record(Record::Job(member.name.clone(), None)));
        }
        if let Some(at) = record.policy.end_before {
            self.end_before.remove(&(at, id));
        }
        if let Some(digest) = record.pin.filter(|_| record.phase() < Phase::Finished) {
            self.unpin(now, &record.tool, digest);
        }
        if record.files.is_some() {
            self.rename_files(&files_of(&record), &[]);
        }
        self.counts[record.shown_phase() as usize] -= 1;
        self.figures.remove(&record, Figure::of(&record));
        self.given_ids.remove(id);
        self.submit_keys.remove(id);
        self.changed.push(id);
        self.effects.push_back(Effect::Record(Record::Remove(id)));
        Some(*record)
    }

    fn put(&mut self, record: &TaskRecord) {
        self.effects.push_back(Effect::Record(Record::Put(Box::new(record.clone()))));
    }
}

/// Whether an agent has the task.
const fn is_active(phase: Phase) -> bool {
    match phase {
        Phase::Dispatched | Phase::Preparing | Phase::Running | Phase::Ended => true,
        Phase::Waiting | Phase::Finished => false,
    }
}

/// Every change from PREPARING on is pushed. So is a return to WAITING, which its new round identifies.
const fn is_pushed(after: Phase) -> bool {
    match after {
        Phase::Waiting | Phase::Dispatched => false,
        Phase::Preparing | Phase::Running | Phase::Ended | Phase::Finished => true,
    }
}

/// Whether a phase is stored as soon as it is reached. PREPARING and RUNNING are stored once per report
/// ([`Tasks::store_progress`]), because a short run passes both within one report.
const fn is_stored(after: Phase) -> bool {
    match after {
        Phase::Waiting | Phase::Dispatched | Phase::Ended | Phase::Finished => true,
        Phase::Preparing | Phase::Running => false,
    }
}
