//! The configuration of a running service: a copy of its file in STATE_DIR, as it was when the supervisor started.
//!
//! The processes of the service read the copy, so that only a successful restart puts a changed file into effect. A process that
//! ends and is started again does not, nor does a failed restart. A restart tries the new text from a second copy beside the
//! first.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use base::{path_of_text, path_text};
use proc::files::draft;
use proc::files::draft::PRIVATE;

/// The variable that names the copy: the process id of the supervisor, a blank, and the path. Processes of tasks inherit the
/// variable, too, and recognise by the id that it is not for them.
pub const VARIABLE: &str = "LLTS_RUN_CONFIG";

/// The names of the two copies in STATE_DIR. One is in force, and a restart writes the other.
const NAMES: [&str; 2] = ["config.1.toml", "config.2.toml"];

/// The copy for this process, from its supervisor or from the previous program in this process; `None` if there is none.
#[must_use]
pub fn given() -> Option<PathBuf> {
    of_variable(&std::env::var(VARIABLE).ok()?, [std::process::id(), parent_id()])
}

fn of_variable(value: &str, supervisors: [u32; 2]) -> Option<PathBuf> {
    let (supervisor, copy) = value.split_once(' ')?;
    supervisors.contains(&supervisor.parse().ok()?).then(|| path_of_text(copy))
}

/// The value of the variable for the processes of this supervisor.
pub fn variable(copy: &Path) -> String {
    format!("{} {}", std::process::id(), path_text(copy))
}

/// Writes a copy beside the one that is in force.
pub fn keep(state_dir: &Path, text: &str, in_force: Option<&Path>) -> io::Result<PathBuf> {
    let [first, second] = NAMES.map(|name| std::path::absolute(state_dir.join(name)));
    let (first, second) = (first?, second?);
    let copy = if in_force == Some(&first) { second } else { first };
    draft::replace(&copy, PRIVATE, |file| file.write_all(text.as_bytes()))?;
    Ok(copy)
}

/// Removes the copies of a service that has ended.
pub fn forget(state_dir: &Path) {
    for name in NAMES {
        let copy = state_dir.join(name);
        if let Err(error) = fs::remove_file(&copy)
            && error.kind() != io::ErrorKind::NotFound
        {
            log::warn!("cannot remove {}: {error}", copy.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_in_force_stays_while_another_one_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        let first = keep(folder.path(), "A = 1", None).unwrap();
        let second = keep(folder.path(), "A = 2", Some(&first)).unwrap();
        assert_eq!(fs::read_to_string(&first).unwrap(), "A = 1");
        assert_eq!(fs::read_to_string(&second).unwrap(), "A = 2");
        assert_eq!(keep(folder.path(), "A = 3", Some(&second)).unwrap(), first);
        forget(folder.path());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_process_of_a_task_does_not_take_the_copy_for_its_own() {
        let value = variable(Path::new("/a b"));
        let us = std::process::id();
        assert_eq!(of_variable(&value, [us, 1]), Some("/a b".into()));
        assert_eq!(of_variable(&value, [1, us]), Some("/a b".into()));
        assert_eq!(of_variable(&value, [us + 1, 1]), None);
        assert_eq!(of_variable("", [us, 1]), None);
    }
}
