//! The lists of `open/` and `running/` that a server finds at its start.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::folders::{Folders, State, file_name, read_text, tasks, write_over};
use crate::engine::server::{Server, Tasks};
use crate::engine::task;
use crate::engine::task::{TASK, Task};
use base::Now;
use base::lists::{ListTaskId, open_list};

/// Hands all lists to the engine.
pub(super) fn recover(folders: &Folders, engine: &mut Server, now: Now) -> io::Result<()> {
    for name in folders.names(State::Running)? {
        let folder = folders.path(State::Running).join(&name);
        match (name.parse(), read_list(&folder)) {
            (Ok(list), Ok((waiting, done))) => engine.handle_running(now, &list, waiting, done),
            (Err(error), _) => log::warn!("{} is left alone: it is {error}", folder.display()),
            (_, Err(error)) => log::warn!("{} is left alone: {error}", folder.display()),
        }
    }
    for name in folders.names(State::Open)? {
        let folder = folders.path(State::Open).join(&name);
        match (open_list(&name), read_list(&folder)) {
            (Some(second), Ok((waiting, _))) => {
                if waiting.is_empty() {
                    // The server was killed before it moved a task there. A folder with anything else stays.
                    let _ = std::fs::remove_dir(&folder);
                }
                engine.handle_open(now, second, waiting);
            }
            (None, _) => log::warn!("{} is left alone: it is not the name of a list", folder.display()),
            (_, Err(error)) => log::warn!("{} is left alone: {error}", folder.display()),
        }
    }
    Ok(())
}

/// The waiting and the ended tasks of a list.
fn read_list(folder: &Path) -> io::Result<(Tasks, BTreeSet<ListTaskId>)> {
    let (mut waiting, mut done) = (Tasks::new(), BTreeSet::new());
    for id in tasks(folder)? {
        let path = folder.join(file_name(id, TASK));
        match read_text(&path).and_then(|text| read_task(folder, id, &text)) {
            Ok(Some(task)) => {
                waiting.insert(id, task);
            }
            Ok(None) => {
                done.insert(id);
            }
            Err(error) => log::warn!("{} is left alone: {error}", path.display()),
        }
    }
    Ok((waiting, done))
}

/// A task that has not run; `None` if it has. The last three lines count as a whole: a server that was killed while it wrote them has
/// acknowledged nothing.
fn read_task(folder: &Path, id: ListTaskId, text: &str) -> Result<Option<Task>, String> {
    match task::read(id, text) {
        Ok((task, None)) => return Ok(Some(task)),
        Ok((_, Some(_))) if text.ends_with('\n') => return Ok(None),
        Ok(_) | Err(_) => {}
    }
    let first_lines: String = text.split_inclusive('\n').take(7).collect();
    let (task, _) = task::read(id, &first_lines).map_err(|error| error.to_string())?;
    write_over(folder, &file_name(id, TASK), first_lines.as_bytes()).map_err(|error| error.to_string())?;
    Ok(Some(task))
}
