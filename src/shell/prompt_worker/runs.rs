//! The runs of all workers of one host below one root: their folders and records, and what is left of those of dead workers.
//!
//! Layout, in `.tasks/.runs/<host name>/` below the root; workers of one host share it:
//!
//! ```text
//! <pid>-*.run      the run record, by which the guard, or the next worker, ends the run of a dead one
//! <id>/prompt.txt  PROMPT_FILE, and the standard input of the command
//! <id>/out, err    its output, until it goes to done/ or failed/
//! <id>/defer.info  PROMPT_DEFER_FILE, if the command writes it
//! ```
//!
//! By host, because a record names processes of one host, and a root may lie on a file system that several share.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::PromptWorkerError;
use crate::shell::process::{RecordFile, RunRecords};
use crate::shell::prompt_create::TASKS;
use crate::shell::removal;
use crate::types::TaskId;

const RUNS: &str = ".runs";

/// What is known of all runs of this host below one root.
pub(super) struct Runs {
    folder: PathBuf,
    pub(super) records: RunRecords,
}

impl Runs {
    pub(super) fn open(root: &Path, host: &str) -> Result<Self, PromptWorkerError> {
        let around = root.join(TASKS).join(RUNS);
        // The records are for their owner only, what is around them is not.
        fs::create_dir_all(&around).map_err(|error| PromptWorkerError::Root { root: around.clone(), error })?;
        let folder = around.join(host);
        Ok(Self { records: RunRecords::open(&folder)?, folder })
    }

    pub(super) fn folder_of(&self, id: TaskId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    /// Ends the runs of workers that were killed together with their guards.
    pub(super) fn sweep(&self) {
        let swept = self.records.sweep(|swept| {
            log::warn!("a worker has died and left a run: {swept:?}");
            remove_folder(&self.folder_of(swept.task));
        });
        if let Err(error) = swept {
            log::error!("{error}");
        }
    }

    /// Removes folders without a record, of an earlier boot. A record is written before its folder is made.
    pub(super) fn remove_strays(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let folders: Vec<_> = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).collect();
        let Ok(records) = self.records.list() else { return };
        for folder in folders {
            let name = folder.file_name();
            if !records.iter().any(|record| *name == *record.task.to_string()) {
                remove_folder(&folder.path());
            }
        }
    }

    /// Removes the files of a run, before its record, so that none is without one.
    pub(super) fn clean(&self, id: TaskId, record: Option<RecordFile>) {
        remove_folder(&self.folder_of(id));
        drop(record);
    }
}

fn remove_folder(path: &Path) {
    if let Err(error) = removal::remove_and_unmount(path) {
        log::error!("{error}");
    }
}

/// A host's name as a part of a path.
pub(super) fn host_part(name: &OsStr) -> String {
    let allowed = |letter: &char| letter.is_ascii_alphanumeric() || "_-.".contains(*letter);
    let part: String = name.to_string_lossy().chars().filter(allowed).take(64).collect();
    if part.trim_matches('.').is_empty() { "localhost".to_owned() } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::removal::tests::{Precious, in_own_mount_namespace, ways_to_mount};
    use crate::types::Wall;

    #[test]
    fn what_a_command_has_mounted_stays_as_it_is() {
        in_own_mount_namespace(|| {
            for (way, mount) in ways_to_mount() {
                let root = tempfile::tempdir().unwrap();
                let runs = Runs::open(root.path(), "host").unwrap();
                // One that has ended, and one of a worker that died together with its record.
                for (second, clean) in [(1, None), (2, Some(&Runs::remove_strays))] {
                    let id = TaskId::new(Wall::from_micros(second), [0; 5]);
                    let precious = Precious::new();
                    fs::create_dir(runs.folder_of(id)).unwrap();
                    mount(&runs.folder_of(id), &precious);
                    clean.map_or_else(|| runs.clean(id, None), |remove_strays| remove_strays(&runs));
                    assert!(!runs.folder_of(id).exists(), "{way}");
                    precious.is_untouched();
                }
            }
        });
    }

    #[test]
    fn a_host_is_a_part_of_a_path() {
        for (name, part) in [("box-1.local", "box-1.local"), ("../x", "..x"), ("..", "localhost"), ("", "localhost")] {
            assert_eq!(host_part(OsStr::new(name)), part);
        }
    }
}
