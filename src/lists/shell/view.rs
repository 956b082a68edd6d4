//! The content of the folders: counts, single tasks, results. Nothing is locked: a task that moves meanwhile may be seen twice or not at all.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;

use super::FACTS;
use super::folders::{Folders, State, file_name, is_candidate, read_file, read_text, tasks};
use crate::engine::task;
use crate::engine::task::{ERR, OUT, RunLines, TASK, Task};
use base::lists::{ClosedName, ListTaskId, RunningName, open_list};

/// Bytes of the file with the facts.
const FACTS_BYTES_MAX: u64 = 64 << 20;

/// The number of tasks and lists in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks, in the order of [`State::ALL`].
    pub tasks: [u64; 10],
    /// Lists in `open/`, `running/` and `closed/`.
    pub lists: [u64; 3],
    /// Files of `new/` that are not tasks.
    pub invalid: u64,
    /// Results that came too late.
    pub late: u64,
}

impl Counts {
    /// The tasks in one state.
    #[must_use]
    pub fn of(&self, state: State) -> u64 {
        State::ALL.into_iter().zip(self.tasks).find(|(other, _)| *other == state).map_or(0, |(_, count)| count)
    }

    /// Tasks that have not ended.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.tasks[..5].iter().sum::<u64>() + self.of(State::Failed)
    }
}

/// A task as the folders show it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The state.
    pub state: State,
    /// The list, if the task is in one.
    pub list: Option<String>,
    /// The folder of its files.
    pub folder: PathBuf,
    /// The fields.
    pub task: Task,
    /// The lines of its worker.
    pub ran: Option<RunLines>,
}

#[derive(Default, Deserialize)]
struct Facts {
    invalid: std::collections::BTreeMap<String, String>,
    late: u64,
}

/// Counts everything.
///
/// # Errors
/// When a folder cannot be read. One that does not exist is empty.
pub fn count(folders: &Folders) -> io::Result<Counts> {
    let facts = facts(folders);
    let mut counts = Counts { late: facts.late, ..Counts::default() };
    for (at, state) in State::ALL.into_iter().enumerate() {
        let folder = folders.path(state);
        if state.has_lists() {
            let lists = existing(list_names(state, &folder))?;
            counts.lists[at - 1] = lists.len() as u64;
            for list in lists {
                counts.tasks[at] += existing(count_tasks(&folder.join(list), |_| false))?.0;
            }
        } else {
            let is_invalid = |name: &str| state == State::New && facts.invalid.contains_key(name);
            let (count, others) = existing(count_tasks(&folder, is_invalid))?;
            counts.tasks[at] = count;
            if state == State::New {
                counts.invalid = others;
            }
        }
    }
    Ok(counts)
}

/// The files that are not tasks, with the reasons, as far as a server has read them.
#[must_use]
pub fn invalid(folders: &Folders) -> Vec<(String, String)> {
    let is_there = |name: &String| folders.path(State::New).join(name).symlink_metadata().is_ok();
    facts(folders).invalid.into_iter().filter(|(name, _)| is_there(name)).collect()
}

fn facts(folders: &Folders) -> Facts {
    // Without a server yet, there are none.
    let bytes = read_file(&folders.root().join(FACTS), FACTS_BYTES_MAX).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn existing<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        result => result,
    }
}

/// The lists in the folder of a state. A folder with a name that no list of this state has is left alone by the server.
fn list_names(state: State, folder: &Path) -> io::Result<Vec<String>> {
    let mut names = super::folders::names(folder)?;
    let is_folder = |name: &str| folder.join(name).symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    names.retain(|name| is_list(state, name) && is_folder(name));
    Ok(names)
}

fn is_list(state: State, name: &str) -> bool {
    match state {
        State::Open => open_list(name).is_some(),
        State::Running => name.parse::<RunningName>().is_ok(),
        _ => name.parse::<ClosedName>().is_ok(),
    }
}

/// The number of tasks in a folder, and of other files that are neither outputs nor drafts.
fn count_tasks(folder: &Path, is_invalid: impl Fn(&str) -> bool) -> io::Result<(u64, u64)> {
    let (mut tasks, mut others) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file());
        match name.rsplit_once('.') {
            _ if !is_candidate(&name) => {}
            Some((id, TASK)) if id.parse::<ListTaskId>().is_ok() && !is_invalid(&name) && is_file() => tasks += 1,
            Some((_, OUT | ERR)) => {}
            _ => others += 1,
        }
    }
    Ok((tasks, others))
}

/// All states of a task; usually one.
#[must_use]
pub fn find(folders: &Folders, id: ListTaskId) -> Vec<Found> {
    let mut found = Vec::new();
    for state in State::ALL {
        let folder = folders.path(state);
        if state.has_lists() {
            for list in list_names(state, &folder).unwrap_or_default() {
                found.extend(read(state, folder.join(&list), Some(list), id));
            }
        } else {
            found.extend(read(state, folder, None, id));
        }
    }
    found
}

/// All forms of a task: the one that was created, and its duplicates after failures.
#[must_use]
pub fn find_all(folders: &Folders, nanos: u64) -> Vec<Found> {
    let mut all = Vec::new();
    for fails in 0.. {
        let found = find(folders, ListTaskId { nanos, fails });
        if found.is_empty() {
            break;
        }
        all.extend(found);
    }
    all
}

/// The tasks of a state in which tasks have no list, in order.
///
/// # Errors
/// When the folder cannot be read.
pub fn ended(folders: &Folders, state: State) -> io::Result<impl Iterator<Item = Found>> {
    let folder = folders.path(state);
    let ids = existing(tasks(&folder))?;
    Ok(ids.into_iter().filter_map(move |id| read(state, folder.clone(), None, id)))
}

fn read(state: State, folder: PathBuf, list: Option<String>, id: ListTaskId) -> Option<Found> {
    let text = read_text(&folder.join(file_name(id, TASK))).ok()?;
    let (task, ran) = task::read(id, &text).ok()?;
    Some(Found { state, list, folder, task, ran })
}

impl Found {
    /// The path of its stdout, if there is one.
    #[must_use]
    pub fn out(&self) -> Option<PathBuf> {
        self.output(OUT)
    }

    /// The path of its stderr, if there is one.
    #[must_use]
    pub fn err(&self) -> Option<PathBuf> {
        self.output(ERR)
    }

    fn output(&self, ending: &str) -> Option<PathBuf> {
        let path = self.folder.join(file_name(self.task.id, ending));
        path.symlink_metadata().is_ok().then_some(path)
    }
}
