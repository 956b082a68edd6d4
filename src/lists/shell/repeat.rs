//! The duplicate of a failed task, under an id that no other task has.
//!
//! The id is that of the failed task with one failure more. If a task that was made by hand has that id, the duplicate gets the next
//! free nanosecond, with the same number of failures.

use std::io;
use std::path::PathBuf;

use super::folders::{Folders, State, file_name, names, read_text, write_new};
use crate::engine::task;
use crate::engine::task::{TASK, Task};
use base::lists::ListTaskId;

/// Ids that are tried before the task counts as stuck.
const IDS_MAX: usize = 10_000;

/// Makes a duplicate in `new/` and returns its id. If it may exist, from a process that was killed, none is made beside it.
pub(super) fn make(folders: &Folders, duplicate: &Task, writer: &str, may_exist: bool) -> io::Result<ListTaskId> {
    for nanos in (duplicate.id.nanos..).take(IDS_MAX) {
        let id = ListTaskId { nanos, ..duplicate.id };
        let task = Task { id, ..duplicate.clone() };
        match find(folders, id)? {
            Some(path) if may_exist && is_same(&path, &task) => return Ok(id),
            Some(_) => {}
            None => match write_new(&folders.path(State::New), id, writer, &task) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                outcome => return outcome.map(|()| id),
            },
        }
    }
    let error = format!("{} and the {IDS_MAX} ids after it are taken", duplicate.id);
    Err(io::Error::new(io::ErrorKind::AlreadyExists, error))
}

/// The file of this name, in any state. The states are searched in the order in which tasks move, so that none is missed.
fn find(folders: &Folders, id: ListTaskId) -> io::Result<Option<PathBuf>> {
    let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
    for state in State::ALL {
        let found = if state.has_lists() {
            let folder = folders.path(state);
            names(&folder)?.into_iter().map(|list| folder.join(list).join(file_name(id, TASK))).find(exists)
        } else {
            Some(folders.file(state, id, TASK)).filter(exists)
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Whether a file has this task. A repetition by a user may have set its `until`.
fn is_same(path: &std::path::Path, task: &Task) -> bool {
    let found = read_text(path).ok().and_then(|text| task::read(task.id, &text).ok());
    found.is_some_and(|(found, _)| Task { until: task.until, ..found } == *task)
}
