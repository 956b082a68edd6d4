//! Lists from their claim to their end.
//!
//! | stage | event | next stage |
//! |---|---|---|
//! | Active | its last result is stored | Ending: all of it closes |
//! | Active | it is lost: deadline, LEAVE, a new process of its worker | Lost |
//! | Lost | no result is being stored | Ending: what has ended closes, the rest is opened again |
//! | Ending | moved; not moved | gone; the same, repeated after a pause |
//!
//! A list whose worker is connected and not silent has no deadline. Otherwise it is lost when the sum of its expected durations and
//! `LOST_AFTER` have passed since its claim, but not before the worker has been away for `LOST_AFTER`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{Connection, Effect, Ended, Receipt, Server, Tasks, Timer};
use crate::engine::seconds;
use crate::engine::task::Task;
use crate::wire::{FromServer, Name, Order, TaskResult};
use base::lists::{ListTaskId, RunningName};
use base::tdf::WorkerName;
use base::{Mono, Now};

/// A list that was claimed.
#[derive(Debug)]
pub(super) struct Running {
    tasks: BTreeMap<ListTaskId, Entry>,
    /// Number of tasks whose results are not stored.
    left: usize,
    /// Number of messages with results that are being stored.
    storing: usize,
    /// Results that could not be stored, for the next attempt.
    unstored: Vec<(Receipt, Vec<Ended>)>,
    /// The connection of its worker; `None` while that is away.
    pub(super) holder: Option<Connection>,
    /// When it is expected to have been finished, with `LOST_AFTER` added.
    due: Mono,
    stage: Stage,
}

#[derive(Debug)]
enum Entry {
    /// The task has not ended.
    Waiting(Task),
    /// The result is being stored.
    Storing,
    /// The result is stored.
    Done,
}

#[derive(Debug, PartialEq)]
enum Stage {
    Active,
    Lost,
    /// The move that is under way, or is repeated if `is_stuck`.
    Ending {
        effect: Effect,
        is_stuck: bool,
    },
}

impl Running {
    fn new(tasks: BTreeMap<ListTaskId, Entry>, holder: Option<Connection>, due: Mono) -> Self {
        let left = tasks.values().filter(|entry| !matches!(entry, Entry::Done)).count();
        Self { tasks, left, storing: 0, unstored: Vec::new(), holder, due, stage: Stage::Active }
    }

    #[cfg(test)]
    pub(super) fn ids(&self) -> impl Iterator<Item = &ListTaskId> {
        self.tasks.keys()
    }

    #[cfg(test)]
    pub(super) fn sanity_check(&self) {
        assert_eq!(self.left, self.tasks.values().filter(|entry| !matches!(entry, Entry::Done)).count());
        assert!(self.unstored.len() <= self.storing, "{self:?}");
        assert!(self.left > 0 || self.stage != Stage::Active, "{self:?}");
        assert!(self.stage != Stage::Lost || self.storing > 0, "{self:?}");
        assert!(self.holder.is_none() || self.stage == Stage::Active, "{self:?}");
    }
}

fn sum<'a>(tasks: impl Iterator<Item = &'a Task>) -> Duration {
    Duration::from_secs(tasks.fold(0, |sum: u64, task| sum.saturating_add(task.expected_duration)))
}

fn order(task: &Task) -> Order {
    Order { id: task.id, until: task.until, cmd: task.cmd.clone() }
}

impl Server {
    /// An open list was found at the start.
    pub fn handle_open(&mut self, now: Now, second: u64, tasks: Tasks) {
        if tasks.is_empty() {
            return;
        }
        self.listed.extend(tasks.keys());
        self.open.insert(second, tasks);
        self.assign(now);
    }

    /// A running list was found at the start, with its waiting and its ended tasks.
    pub fn handle_running(&mut self, now: Now, name: &RunningName, waiting: Tasks, done: BTreeSet<ListTaskId>) {
        self.listed.extend(waiting.keys().chain(&done));
        let expected = sum(waiting.values()).as_secs();
        let left = name.started.saturating_add(expected).saturating_sub(seconds(now.wall)).min(expected);
        // The worker had no server meanwhile, and needs a moment to come back.
        let due = now.mono + Duration::from_secs(left) + self.settings.lost_after;
        let done = done.into_iter().map(|id| (id, Entry::Done));
        let entries = waiting.into_iter().map(|(id, task)| (id, Entry::Waiting(task))).chain(done).collect();
        self.running.insert(name.clone(), Running::new(entries, None, due));
        self.timers.set(Timer::Lost(name.clone()), due);
        self.settle(now, name);
    }

    pub(super) fn run(&mut self, now: Now, connection: Connection, name: RunningName, tasks: Tasks) {
        let due = now.mono + sum(tasks.values()) + self.settings.lost_after;
        let orders = tasks.values().map(order).collect();
        let entries = tasks.into_iter().map(|(id, task)| (id, Entry::Waiting(task))).collect();
        let holder = Some(connection).filter(|connection| self.peers.get(*connection).is_some());
        self.running.insert(name.clone(), Running::new(entries, holder, due));
        if holder.is_none() {
            return self.lose(now, &name);
        }
        self.send(connection, FromServer::List { list: Name(name), tasks: orders });
    }

    /// The tasks of a list that have not ended.
    pub(super) fn orders(&self, list: &RunningName) -> Vec<Order> {
        let entries = self.running.get(list).into_iter().flat_map(|running| running.tasks.values());
        let waiting = entries.filter_map(|entry| match entry {
            Entry::Waiting(task) => Some(order(task)),
            Entry::Storing | Entry::Done => None,
        });
        waiting.collect()
    }

    /// The worker is back with this list; true if the list is its own.
    pub(super) fn take_up(&mut self, connection: Connection, worker: &WorkerName, list: &RunningName) -> bool {
        let Some(running) = self.running.get_mut(list) else { return false };
        let is_its_own = list.worker == *worker && running.stage == Stage::Active && running.holder.is_none();
        if is_its_own {
            running.holder = Some(connection);
            self.timers.clear(&Timer::Lost(list.clone()));
        }
        is_its_own
    }

    pub(super) fn lists_of(&self, is_wanted: impl Fn(&Running) -> bool) -> Vec<RunningName> {
        let wanted = self.running.iter().filter(|(_, running)| running.stage == Stage::Active && is_wanted(running));
        wanted.map(|(name, _)| name.clone()).collect()
    }

    /// The worker of these lists is away.
    pub(super) fn leave_lists(&mut self, now: Now, connection: Connection) {
        let lost_after = self.settings.lost_after;
        for list in self.lists_of(|running| running.holder == Some(connection)) {
            if let Some(running) = self.running.get_mut(&list) {
                running.holder = None;
                let due = running.due.max(now.mono + lost_after);
                self.timers.set(Timer::Lost(list), due);
            }
        }
    }

    pub(super) fn results(
        &mut self,
        connection: Connection,
        list: RunningName,
        number: u64,
        results: Vec<Arc<TaskResult>>,
    ) {
        let running = self.running.get_mut(&list).filter(|running| running.holder == Some(connection));
        let Some(running) = running else {
            self.facts.add_late(results.len() as u64);
            self.journal.warn(format!("{} results of {list} come too late and are refused", results.len()));
            return self.send(connection, FromServer::Void { list: Name(list) });
        };
        // A worker that reconnects sends its unacknowledged results again.
        let take = |result: Arc<TaskResult>| {
            let entry = running.tasks.get_mut(&result.id).filter(|entry| matches!(entry, Entry::Waiting(_)))?;
            match std::mem::replace(entry, Entry::Storing) {
                Entry::Waiting(task) => Some(Ended { task, result }),
                Entry::Storing | Entry::Done => None,
            }
        };
        let results: Vec<Ended> = results.into_iter().filter_map(take).collect();
        if results.is_empty() && running.storing == 0 {
            return self.send(connection, FromServer::Ack { number });
        }
        // Also without a result: the acknowledgement must follow the results that are being stored.
        running.storing += 1;
        self.effects.push_back(Effect::Store(list, Receipt { connection, number }, results));
    }

    /// The outcome of an [`Effect::Store`]: the tasks whose results are stored, or the results again with the reason.
    pub fn handle_stored(
        &mut self,
        now: Now,
        list: &RunningName,
        receipt: Receipt,
        outcome: Result<Vec<ListTaskId>, (String, Vec<Ended>)>,
    ) {
        let Some(running) = self.running.get_mut(list) else { return };
        match outcome {
            Ok(stored) => {
                running.storing -= 1;
                for id in stored {
                    if let Some(entry @ Entry::Storing) = running.tasks.get_mut(&id) {
                        *entry = Entry::Done;
                        running.left -= 1;
                    }
                }
                self.unstick();
                if self.peers.get(receipt.connection).is_some() {
                    self.send(receipt.connection, FromServer::Ack { number: receipt.number });
                }
                self.settle(now, list);
            }
            Err((reason, results)) => {
                running.unstored.push((receipt, results));
                self.stick(now, &format!("results of {list} cannot be stored: {reason}"));
            }
        }
    }

    /// The list is taken from its worker.
    pub(super) fn lose(&mut self, now: Now, list: &RunningName) {
        let Some(running) = self.running.get_mut(list).filter(|running| running.stage == Stage::Active) else { return };
        running.stage = Stage::Lost;
        running.holder = None;
        self.settle(now, list);
    }

    /// Moves the list on, if it has ended or is lost.
    fn settle(&mut self, now: Now, list: &RunningName) {
        let Some(running) = self.running.get_mut(list) else { return };
        let is_done = running.left == 0;
        let may_move = running.storing == 0 && !matches!(running.stage, Stage::Ending { .. });
        if !may_move || !(is_done || running.stage == Stage::Lost) {
            return;
        }
        let effect = if is_done {
            Effect::Close(list.clone(), seconds(now.wall))
        } else {
            let is_ended = |entry: &Entry| matches!(entry, Entry::Done);
            let done = running.tasks.iter().filter(|(_, entry)| is_ended(entry)).map(|(id, _)| *id).collect();
            Effect::Reopen(list.clone(), done, seconds(now.wall))
        };
        running.holder = None;
        running.stage = Stage::Ending { effect: effect.clone(), is_stuck: false };
        self.timers.clear(&Timer::Lost(list.clone()));
        self.effects.push_back(effect);
    }

    /// The outcome of an [`Effect::Close`].
    pub fn handle_closed_list(&mut self, now: Now, list: &RunningName, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => drop(self.forget_list(list)),
            Err(reason) => self.stick_list(now, list, &reason),
        }
    }

    /// The outcome of an [`Effect::Reopen`]: the second under which the rest is open.
    pub fn handle_reopened(&mut self, now: Now, list: &RunningName, outcome: Result<u64, String>) {
        match outcome {
            Ok(second) => {
                let waiting = self.forget_list(list).into_iter().flat_map(|running| running.tasks);
                let rest = waiting.filter_map(|(id, entry)| match entry {
                    Entry::Waiting(task) => Some((id, task)),
                    Entry::Storing | Entry::Done => None,
                });
                let rest: Tasks = rest.collect();
                self.journal.info(format!("{list}: {} tasks are open again as {second}", rest.len()));
                self.handle_open(now, second, rest);
            }
            Err(reason) => self.stick_list(now, list, &reason),
        }
    }

    fn forget_list(&mut self, list: &RunningName) -> Option<Running> {
        self.unstick();
        self.timers.clear(&Timer::Lost(list.clone()));
        let running = self.running.remove(list)?;
        for id in running.tasks.keys() {
            self.listed.remove(id);
        }
        Some(running)
    }

    fn stick_list(&mut self, now: Now, list: &RunningName, reason: &str) {
        if let Some(Running { stage: Stage::Ending { is_stuck, .. }, .. }) = self.running.get_mut(list) {
            *is_stuck = true;
        }
        self.stick(now, &format!("the list {list} cannot be moved: {reason}"));
    }

    /// Repeats failed moves of lists and results.
    pub(super) fn retry_lists(&mut self) {
        for (name, running) in &mut self.running {
            for (receipt, results) in std::mem::take(&mut running.unstored) {
                self.effects.push_back(Effect::Store(name.clone(), receipt, results));
            }
            if let Stage::Ending { effect, is_stuck } = &mut running.stage
                && std::mem::take(is_stuck)
            {
                self.effects.push_back(effect.clone());
            }
        }
    }
}
