//! The state of a prompt master: its own answer to STATUS, or the counts of its folders.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use crate::files::create::{FOLDERS, TASKS};
use crate::files::talk::{RequestError, Talk};
use crate::master::engine::{FileName, count_prompts};
use crate::wire::{FromMaster, FromWorker, Status};
use proc::clock;
use zmtp::json::json_dial::Server;

/// The numbers of files in the four folders, without results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In `pending/`.
    pub pending: u64,
    /// In `working/`.
    pub working: u64,
    /// In `done/`.
    pub done: u64,
    /// In `failed/`.
    pub failed: u64,
}

/// Sends STATUS, or an order to change what the master does. Returns its state, which is that afterwards. `timeout` applies to each
/// step, and to the whole answer.
///
/// # Errors
/// [`RequestError`].
pub(crate) fn request(master: &Server, message: &FromWorker, timeout: Duration) -> Result<Status, RequestError> {
    let mut talk = Talk::open(master, timeout)?;
    talk.send(message)?;
    talk.answer(Some(clock::now().mono + timeout), |message| match message {
        FromMaster::StatusAck(status) => Some(*status),
        _ => None,
    })
}

/// Counts the prompts below a root, with or without a running master.
///
/// # Errors
/// When there is no `.tasks/`, or it cannot be read.
pub fn count(root: &Path) -> io::Result<Counts> {
    let tasks = root.join(TASKS);
    fs::read_dir(&tasks)?;
    let [pending, working, done, failed] = FOLDERS.map(|folder| list(&tasks.join(folder)));
    let [pending, working, done, failed] = count_prompts(&[pending?, working?, done?, failed?]);
    Ok(Counts { pending, working, done, failed })
}

/// The names of the files in a folder, which may not exist.
pub(crate) fn list(folder: &Path) -> io::Result<BTreeSet<FileName>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry?;
        // An entry may be renamed away meanwhile.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            names.insert(FileName::new(entry.file_name()));
        }
    }
    Ok(names)
}

impl From<&Status> for Counts {
    fn from(status: &Status) -> Self {
        let Status { pending, working, done, failed, .. } = *status;
        Self { pending, working, done, failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_counted_and_their_results_are_not() {
        let root = tempfile::tempdir().unwrap();
        assert!(count(root.path()).is_err());
        let done = root.path().join(".tasks/done");
        fs::create_dir_all(done.join("folder")).unwrap();
        assert_eq!(count(root.path()).unwrap(), Counts::default());
        for name in ["a", "a.out", "a.err", "a.json", "b.json", ".hidden", "b.json.out", "c.out.txt"] {
            fs::write(done.join(name), "").unwrap();
        }
        assert_eq!(count(root.path()).unwrap(), Counts { done: 3, ..Counts::default() });
        let failed = root.path().join(".tasks/failed");
        fs::create_dir(&failed).unwrap();
        for name in ["a.out", "c.out", "c.err", "c.json"] {
            fs::write(failed.join(name), "").unwrap();
        }
        assert_eq!(count(root.path()).unwrap(), Counts { done: 3, ..Counts::default() }, "of runs before the last");
    }
}
