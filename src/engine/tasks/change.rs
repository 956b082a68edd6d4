//! The changes of tasks. Each goes through here, so that every index follows: the table of tasks, the queue, the jobs, the tasks
//! that wait for others, and the archives that a task needs.

use std::collections::BTreeSet;

use super::figures::Figure;
use super::pins::{self, files_of};
use super::transition::{self, TaskEvent};
use crate::Controller;
use crate::relations::dependants::Edge;
use crate::relations::jobs::Standing;
use crate::turn::effect::{Effect, Record};
use api::wire::task;
use base::{Now, Phase, Progress, TaskId, TaskRecord, TaskState, ToldProgress, ToolDigest, Wall};

/// The number of progress pushes whose numbers one write to the store reserves.
const PUSHES_AHEAD: u32 = 100;

impl Controller {
    /// Adds a new task. It pins the version that the name of its tool stands for, unless it already has a held version, which is
    /// that of its graph.
    pub(crate) fn insert_task(&mut self, now: Now, mut record: TaskRecord) {
        let is_held = |pin: &ToolDigest| self.archives.catalog.size(pin).is_some();
        let present = || self.archives.catalog.present(&record.tool).map(|held| held.digest);
        record.pin = record.pin.filter(is_held).or_else(present);
        self.turn.put(&record);
        self.restore_task(now, record);
    }

    /// Adds a task that is already stored.
    pub(crate) fn restore_task(&mut self, now: Now, record: TaskRecord) {
        let id = record.id;
        self.tasks.given_ids.insert(task::given_id(&record), id);
        self.tasks.submit_keys.insert(task::submit_key(&record), id);
        if let Some(member) = record.membership() {
            self.relations.jobs.add(member, &record);
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
                self.relations.dependants.add(&record);
            }
            Phase::Dispatched | Phase::Preparing | Phase::Running | Phase::Ended => {
                self.queue.resume(now, &record.policy.needs);
            }
            Phase::Finished => {}
        }
        if let Some(at) = record.policy.end_before.filter(|_| record.phase() < Phase::Finished) {
            self.tasks.end_before.insert((at, id));
        }
        self.tasks.counts[record.shown_phase() as usize] += 1;
        self.tasks.figures.add(&record);
        let before = self.tasks.records.insert(id, Box::new(record));
        assert!(before.is_none(), "task {id} exists twice");
    }

    /// The only place that changes the phase of a task. Stores and pushes the change if required.
    pub(crate) fn change(&mut self, now: Now, id: TaskId, event: TaskEvent) {
        let Some(record) = self.tasks.records.get_mut(&id) else {
            unreachable!("task {id} changes, but does not exist")
        };
        let (before, shown_before, round) = (record.phase(), record.shown_phase(), record.round);
        let was_silent = record.is_out_of_contact();
        let named = files_of(record);
        let stood = record.membership().map(|_| Standing::of(record));
        let figure = Figure::of(record);
        if before == Phase::Waiting {
            self.queue.leave(now, record);
            self.relations.dependants.remove(record);
        }
        if before == Phase::Finished {
            pins::renew(&self.archives.catalog, record);
        }
        transition::apply(record, event);
        let after = record.phase();
        self.tasks.figures.moved(now, record, figure);
        if let (Some(stood), Some(member)) = (stood, record.membership()) {
            self.relations.jobs.moved(&member.name, id, stood, Standing::of(record));
        }
        if is_active(after) {
            // If a term is left here, an earlier controller has found it met.
            record.unmet.clear();
        }
        if was_silent != record.is_out_of_contact()
            && let Some(run) = record.last_run()
        {
            let place = (run.agent.clone(), id);
            let _ = if was_silent { self.tasks.silent.remove(&place) } else { self.tasks.silent.insert(place) };
        }
        match (is_active(before), is_active(after)) {
            // The run began before the silence.
            (false, true) if was_silent => self.queue.resume(now, &record.policy.needs),
            (false, true) => self.queue.start(now, &record.policy.needs),
            (true, false) => self.queue.end(now, &record.policy.needs),
            (true, true) | (false, false) => {}
        }
        if after == Phase::Waiting {
            self.queue.enter(now, record);
            self.relations.dependants.add(record);
        }
        note_end_before(&mut self.tasks.end_before, record);
        if (is_pushed(after) && !was_silent) || record.round != round {
            record.pushes += 1;
            self.turn.emit(Effect::Push(record.clone()));
        }
        if is_stored(after) || was_silent {
            self.turn.put(record);
        }
        let has_ended = before != Phase::Finished && (after == Phase::Finished || record.round != round);
        if has_ended && self.settings.keeps_history {
            self.turn.store(Record::Round(round, record.clone()));
        }
        if matches!(record.state, TaskState::Finished { outcome, .. } if outcome.is_failure()) {
            self.turn.unlogged.push(id);
        }
        self.tasks.counts[shown_before as usize] -= 1;
        self.tasks.counts[record.shown_phase() as usize] += 1;
        self.turn.changed.push(id);
        if before == Phase::Finished || after == Phase::Finished {
            let pin = record.pin.map(|digest| (record.tool.clone(), digest));
            let names = files_of(record);
            self.move_pin(now, pin, before, after);
            self.rename_files(&named, &names);
        }
    }

    /// Changes the record of a task except its phase and its hold, so that its place in the queue stays.
    pub(crate) fn update(&mut self, id: TaskId, change: impl FnOnce(&mut TaskRecord)) {
        let Some(record) = self.tasks.records.get_mut(&id) else {
            unreachable!("task {id} changes, but does not exist")
        };
        let before = (record.phase(), record.held);
        change(record);
        debug_assert_eq!(before, (record.phase(), record.held), "only `change` and `hold` move task {id}");
        self.turn.put(record);
    }

    /// Stores the progress of a run, after phase changes that are not stored individually.
    pub(crate) fn store_progress(&mut self, id: TaskId) {
        if let Some(record) = self.tasks.records.get(&id).filter(|record| !is_stored(record.phase())) {
            self.turn.put(record);
        }
    }

    /// A run reports its progress. The change is pushed but not stored, because the next one makes up for it. Only the numbers of
    /// the pushes are stored, many ahead.
    pub(crate) fn tell_progress(&mut self, now: Now, id: TaskId, progress: Progress) {
        let Some(record) = self.tasks.records.get_mut(&id) else { unreachable!("task {id} tells, but does not exist") };
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
            self.turn.store(Record::Put(ahead));
        }
        self.turn.emit(Effect::Push(record.clone()));
    }

    /// Holds a task back, or releases it.
    pub(crate) fn hold_task(&mut self, now: Now, id: TaskId, held: Option<Wall>) {
        let Some(record) = self.tasks.records.get_mut(&id) else {
            unreachable!("task {id} changes, but does not exist")
        };
        let waits = record.phase() == Phase::Waiting;
        if waits {
            self.queue.leave(now, record);
        }
        let figure = Figure::of(record);
        record.held = held;
        self.tasks.figures.moved(now, record, figure);
        if waits {
            self.queue.enter(now, record);
        }
        self.turn.put(record);
    }

    /// A term of a waiting task is met.
    pub(crate) fn meet_term(&mut self, now: Now, Edge { dependant, term }: Edge) {
        let Some(record) = self.tasks.records.get_mut(&dependant) else {
            unreachable!("{dependant} waits and is gone")
        };
        self.relations.dependants.decide(record, term);
        let is_last = record.unmet == [term];
        if is_last {
            self.queue.leave(now, record);
        }
        record.unmet.retain(|unmet| *unmet != term);
        if is_last {
            self.queue.enter(now, record);
            self.turn.put(record);
        } else {
            self.relations.note_met(dependant);
        }
    }

    /// Stores the terms that have been met.
    fn store_met_terms(&mut self) {
        for id in self.relations.take_met() {
            if let Some(record) = self.tasks.records.get(&id).filter(|record| record.phase() == Phase::Waiting) {
                self.turn.put(record);
            }
        }
    }

    /// Makes due tasks ready, or lets them go again to agents whose disk was full.
    pub(crate) fn release_due(&mut self, now: Now) {
        while let Some(id) = self.queue.pop_due(now.wall) {
            let Some(record) = self.tasks.records.get_mut(&id) else {
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

    /// Forgets a task.
    pub(crate) fn remove_task(&mut self, now: Now, id: TaskId) -> Option<TaskRecord> {
        let record = self.tasks.records.remove(&id)?;
        self.store_met_terms();
        if record.phase() == Phase::Waiting {
            self.queue.leave(now, &record);
            self.relations.dependants.remove(&record);
        }
        if let Some(member) = record.membership()
            && self.relations.jobs.remove(member, &record)
        {
            self.turn.store(Record::Job(member.name.clone(), None));
        }
        if let Some(at) = record.policy.end_before {
            self.tasks.end_before.remove(&(at, id));
        }
        if let Some(digest) = record.pin.filter(|_| record.phase() < Phase::Finished) {
            self.unpin(now, &record.tool, digest);
        }
        if record.files.is_some() {
            self.rename_files(&files_of(&record), &[]);
        }
        self.tasks.counts[record.shown_phase() as usize] -= 1;
        self.tasks.figures.remove(&record, Figure::of(&record));
        self.tasks.given_ids.remove(id);
        self.tasks.submit_keys.remove(id);
        self.turn.changed.push(id);
        self.turn.store(Record::Remove(id));
        Some(*record)
    }
}

/// Keeps the end-before time of a task as long as it is checked.
fn note_end_before(times: &mut BTreeSet<(Wall, TaskId)>, record: &TaskRecord) {
    let Some(at) = record.policy.end_before else { return };
    match record.phase() {
        Phase::Finished => {
            times.remove(&(at, record.id));
        }
        // This was not checked for a run that had ended in time, but the next run must not begin after it.
        Phase::Waiting => {
            times.insert((at, record.id));
        }
        _ => {}
    }
}

/// Whether an agent has the task.
pub(super) const fn is_active(phase: Phase) -> bool {
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
/// ([`Controller::store_progress`]), because a short run passes both within one report.
const fn is_stored(after: Phase) -> bool {
    match after {
        Phase::Waiting | Phase::Dispatched | Phase::Ended | Phase::Finished => true,
        Phase::Preparing | Phase::Running => false,
    }
}
