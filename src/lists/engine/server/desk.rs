//! The tasks of `new/` that belong to no list yet, and how its files are told apart from others.
//!
//! A file counts when it is complete: it ends with a newline, or has not changed for a second. A file that is not a task may be
//! unfinished, and counts as invalid only after that second.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Effect, Gathered, Server, Settings, Tasks, Timer};
use crate::engine::task;
use crate::engine::task::{TASK, Task};
use crate::wire::LIST_BYTES_MAX;
use base::lists::ListTaskId;
use base::{Mono, Now};

/// A file that has not changed for this long is complete.
const RESTED: Duration = Duration::from_secs(1);

/// A file that its writer has open, and that has not changed for this long, is complete.
const ABANDONED: Duration = Duration::from_secs(60);

/// A file of `new/`.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// The content, or why there is none.
    pub text: Result<String, String>,
    /// Whether this is a regular file: a link, a folder or a pipe never becomes a task.
    pub is_file: bool,
    /// Time since its last change.
    pub rest: Duration,
    /// Whether a process of this machine has it open and has written to it.
    pub is_open: bool,
    /// Whether a finished task has its id.
    pub is_taken: bool,
}

#[derive(Debug, Default)]
pub(super) struct Desk {
    tasks: BTreeMap<ListTaskId, Waiting>,
    /// Sums over the tasks.
    sums: Sums,
}

#[derive(Debug)]
struct Waiting {
    task: Task,
    since: Mono,
}

/// The three measures of a list.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    tasks: usize,
    seconds: u128,
    bytes: usize,
}

impl Sums {
    fn of(task: &Task) -> Self {
        Self { tasks: 1, seconds: task.expected_duration.into(), bytes: task.cmd.len() }
    }

    const fn plus(self, other: Self) -> Self {
        Self { tasks: self.tasks + other.tasks, seconds: self.seconds + other.seconds, bytes: self.bytes + other.bytes }
    }

    const fn minus(self, other: Self) -> Self {
        Self { tasks: self.tasks - other.tasks, seconds: self.seconds - other.seconds, bytes: self.bytes - other.bytes }
    }
}

impl Desk {
    fn put(&mut self, task: Task, since: Mono) {
        self.take(task.id);
        self.sums = self.sums.plus(Sums::of(&task));
        self.tasks.insert(task.id, Waiting { task, since });
    }

    fn take(&mut self, id: ListTaskId) -> Option<Task> {
        let task = self.tasks.remove(&id)?.task;
        self.sums = self.sums.minus(Sums::of(&task));
        Some(task)
    }

    /// The first tasks, as many as fit into a list, and whether no other one fits.
    fn first_list(&self, fits: impl Fn(Sums) -> bool) -> (BTreeSet<ListTaskId>, bool) {
        let (mut sums, mut list) = (Sums::default(), BTreeSet::new());
        for waiting in self.tasks.values() {
            sums = sums.plus(Sums::of(&waiting.task));
            // A task that exceeds a limit by itself has a list of its own.
            if !list.is_empty() && !fits(sums) {
                return (list, true);
            }
            list.insert(waiting.task.id);
        }
        (list, !fits(sums))
    }
}

impl Server {
    /// A file of `new/` was read; `None` if it is gone. A file without the name of a task counts as invalid.
    pub fn handle_seen(&mut self, now: Now, name: &str, sighting: Option<Sighting>) {
        let id = name.strip_suffix(TASK).and_then(|stem| stem.strip_suffix('.')?.parse::<ListTaskId>().ok());
        let Some(sighting) = sighting else {
            self.timers.clear(&Timer::Recheck(name.to_owned()));
            self.facts.remove_invalid(name);
            if let Some(id) = id {
                self.desk.take(id);
            }
            return;
        };
        let has_rested = !sighting.is_file || sighting.rest >= if sighting.is_open { ABANDONED } else { RESTED };
        match self.task_of(id, &sighting) {
            Ok((task, is_whole)) if is_whole || has_rested => {
                self.timers.clear(&Timer::Recheck(name.to_owned()));
                self.facts.remove_invalid(name);
                let since = self.desk.tasks.get(&task.id).map_or(now.mono, |waiting| waiting.since);
                self.desk.put(task, since);
                self.form_lists(now, false);
            }
            Err(reason) if has_rested => {
                id.and_then(|id| self.desk.take(id));
                if self.facts.add_invalid(name, &reason) {
                    self.journal.warn(format!("new/{name} is not a task and is left where it is: {reason}"));
                }
            }
            Ok(_) | Err(_) => self.timers.set(Timer::Recheck(name.to_owned()), now.mono + RESTED),
        }
    }

    /// Whether a file of this name needs no look: it waits here for its list.
    #[must_use]
    pub fn is_known(&self, name: &str) -> bool {
        let id = name.strip_suffix(TASK).and_then(|stem| stem.strip_suffix('.')?.parse().ok());
        id.is_some_and(|id| self.desk.tasks.contains_key(&id))
    }

    /// Forms lists of all tasks, whether they are full or not: `close`.
    pub fn handle_group(&mut self, now: Now) {
        self.form_lists(now, true);
    }

    fn task_of(&self, id: Option<ListTaskId>, sighting: &Sighting) -> Result<(Task, bool), String> {
        if !sighting.is_file {
            return Err("it is not a regular file".to_owned());
        }
        let id = id.ok_or("its name is not ID.task, such as 1448978609795035000_0.task")?;
        let text = sighting.text.as_ref().map_err(Clone::clone)?;
        let (task, ran) = task::read(id, text).map_err(|error| error.to_string())?;
        if ran.is_some() {
            return Err("it has run already, with lines 8 to 10".to_owned());
        }
        if sighting.is_taken || self.listed.contains(&id) {
            return Err("another task has its id".to_owned());
        }
        Ok((task, text.ends_with('\n')))
    }

    /// Forms lists of the waiting tasks, as long as one is full, its oldest task is old enough, or it is asked for.
    pub(super) fn form_lists(&mut self, now: Now, is_forced: bool) {
        let Settings { list_tasks_max, list_seconds_max, .. } = self.settings;
        let fits = |sums: Sums| {
            sums.tasks <= list_tasks_max && sums.seconds <= u128::from(list_seconds_max) && sums.bytes <= LIST_BYTES_MAX
        };
        let age = self.settings.list_age_max;
        while !self.desk.tasks.is_empty() {
            let oldest = self.timers.get(&Timer::Age).map_or_else(
                || self.desk.tasks.values().map(|waiting| waiting.since).min().unwrap_or(now.mono),
                |at| at.before(age),
            );
            let is_old = now.mono.since(oldest) >= age;
            if !is_old && !is_forced && fits(self.desk.sums) && self.desk.sums.tasks < list_tasks_max {
                return self.timers.set(Timer::Age, oldest + age);
            }
            let (list, is_full) = self.desk.first_list(fits);
            if !is_full && !is_old && !is_forced && list.len() < list_tasks_max {
                return self.timers.set(Timer::Age, oldest + age);
            }
            self.timers.clear(&Timer::Age);
            self.gather(&list);
        }
        self.timers.clear(&Timer::Age);
    }

    fn gather(&mut self, list: &BTreeSet<ListTaskId>) {
        let tasks: Tasks = list.iter().filter_map(|id| Some((*id, self.desk.take(*id)?))).collect();
        let mut second = tasks.values().map(|task| task.created).min().unwrap_or_default();
        while self.open.contains_key(&second) || self.gathering.contains_key(&second) {
            second += 1;
        }
        self.listed.extend(tasks.keys());
        self.gathering.insert(second, tasks);
        self.effects.push_back(Effect::Gather(second, list.clone()));
    }

    /// The result of an [`Effect::Gather`] with this second.
    pub fn handle_gathered(&mut self, now: Now, asked: u64, gathered: Gathered) {
        let Some(tasks) = self.gathering.remove(&asked) else { return };
        let (mut moved, mut left) = (Tasks::new(), Vec::new());
        for (id, task) in tasks {
            if gathered.moved.contains(&id) {
                moved.insert(id, task);
            } else {
                self.listed.remove(&id);
                left.push(task);
            }
        }
        if !moved.is_empty() {
            self.journal.debug(format!("{} tasks form the list {}", moved.len(), gathered.second));
            self.open.insert(gathered.second, moved);
        }
        match gathered.failure {
            Some(reason) => {
                left.into_iter().for_each(|task| self.desk.put(task, now.mono));
                self.stick(now, &format!("no list can be formed: {reason}"));
            }
            None => {
                self.unstick();
                for task in left {
                    self.journal.info(format!("{} is gone from new/", task.id));
                }
            }
        }
        self.assign(now);
    }
}
