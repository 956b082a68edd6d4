//! The runs of all workers of one host below one root: their folders and records, and what is left of those of dead workers.
//!
//! Layout, in `.tasks/.runs/` below the root:
//!
//! ```text
//! <realm>.lock             held by every worker of the realm, and its guard, while it lives
//! <realm>/<pid>-*.run      the run record, by which the guard, or the next worker, ends the run of a dead one
//! <realm>/<id>/prompt.txt  PROMPT_FILE, and the standard input of the command
//! <realm>/<id>/out, err    its output, until it goes to done/ or failed/
//! <realm>/<id>/defer.info  PROMPT_DEFER_FILE, if the command writes it
//! <realm>/unkept-<id>/     the same of a run whose results could not be kept; never removed
//! ```
//!
//! A record names processes by their numbers, which mean something in one realm only: one boot of one host, and there one PID
//! namespace. A root may lie on a file system that several machines share, and machines, as containers, may have one name. So
//! nothing of another realm is touched, except when its lock says that none of its workers is left. A former version had
//! `<host>/` in the place of `<realm>/`, without a lock.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{PromptWorkerError, locked};
use crate::shell::process::{RecordFile, RunRecords, boot_id};
use crate::shell::prompt_create::TASKS;
use crate::shell::removal;
use crate::types::TaskId;

const RUNS: &str = ".runs";

/// Marks the folder of a run whose results could not be kept.
const UNKEPT: &str = "unkept-";

/// What is known of all runs of this realm below one root.
#[derive(Debug)]
pub(super) struct Runs {
    root: PathBuf,
    host: String,
    folder: PathBuf,
    pub(super) records: RunRecords,
    /// `None` where the file system has no locks: then no other realm can tell that we live, and leaves everything alone.
    _lock: Option<File>,
}

impl Runs {
    /// Makes the folders, and says that a worker lives.
    ///
    /// # Errors
    /// When they cannot be made.
    pub(super) fn open(root: &Path, host: &str) -> Result<Self, PromptWorkerError> {
        let around = root.join(TASKS).join(RUNS);
        // The records are for their owner only, what is around them is not.
        let failed = |error| PromptWorkerError::Root { root: around.clone(), error };
        fs::create_dir_all(&around).map_err(failed)?;
        let realm = format!("{host}-{}", realm());
        let lock = hold(&lock_file(&around, OsStr::new(&realm))).map_err(failed)?;
        let folder = around.join(realm);
        let records = RunRecords::open(&folder)?;
        Ok(Self { root: root.to_owned(), host: host.to_owned(), folder, records, _lock: lock })
    }

    /// The same; folders that were removed meanwhile are made again.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn reopen(&self) -> Result<Self, PromptWorkerError> {
        Self::open(&self.root, &self.host)
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

    /// The same for workers of a former version, whose folder has the name of the host only: it may as well be that of a living
    /// worker of another machine or container of this name. So only what is found running here is ended, and its files removed.
    pub(super) fn sweep_former(&self) {
        let Some(folder) = self.folder.parent().map(|around| around.join(&self.host)).filter(|path| path.is_dir())
        else {
            return;
        };
        let swept = RunRecords::open(&folder).and_then(|records| {
            records.sweep_proven(|swept| {
                log::warn!("a worker of a former version has died and left a run: {swept:?}");
                remove_folder(&folder.join(swept.task.to_string()));
            })
        });
        match swept {
            // Not while anything is left in it.
            Ok(_) => drop(fs::remove_dir(&folder)),
            Err(error) => log::error!("{error}"),
        }
    }

    /// Removes folders without a record, of an earlier boot. A record is written before its folder is made.
    pub(super) fn remove_strays(&self) {
        let folders = runs(&self.folder);
        let Ok(records) = self.records.list() else { return };
        for (id, path) in folders {
            if !records.iter().any(|record| record.task == id) {
                remove_folder(&path);
            }
        }
    }

    /// Removes what workers of this host have left in other realms: of an earlier boot, or of a container that is gone. Their
    /// processes went with the realm.
    pub(super) fn remove_dead_realms(&self) {
        let Some(around) = self.folder.parent() else { return };
        let is_of_host = |folder: &PathBuf| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(&self.host).is_some_and(|rest| rest.starts_with('-')) && *folder != self.folder
        };
        let entries = fs::read_dir(around).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for folder in folders.map(|entry| entry.path()).filter(is_of_host) {
            let lock = lock_file(around, folder.file_name().unwrap_or_default());
            // Without a lock nothing is known of its workers.
            let Ok(file) = open_lock(&lock) else { continue };
            if file.try_lock().is_ok() {
                remove_realm(&folder, &lock);
            }
        }
    }

    /// Keeps the files of a run whose results cannot be kept; returns where they are.
    pub(super) fn put_aside(&self, id: TaskId, record: Option<RecordFile>) -> PathBuf {
        let (from, to) = (self.folder_of(id), self.folder.join(format!("{UNKEPT}{id}")));
        let moved = fs::rename(&from, &to);
        drop(record);
        match moved {
            Ok(()) => to,
            Err(error) => {
                log::error!("cannot rename {}, which the next worker will remove: {error}", from.display());
                from
            }
        }
    }

    /// Removes the files of a run, before its record, so that none is without one.
    pub(super) fn clean(&self, id: TaskId, record: Option<RecordFile>) {
        remove_folder(&self.folder_of(id));
        drop(record);
    }
}

/// The folders of runs in the folder of a realm.
fn runs(realm: &Path) -> Vec<(TaskId, PathBuf)> {
    let entries = fs::read_dir(realm).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()))).collect()
}

/// Removes a realm whose lock the caller holds alone.
fn remove_realm(folder: &Path, lock: &Path) {
    log::info!("{} is of workers that are gone: removing it", folder.display());
    for (_, run) in runs(folder) {
        remove_folder(&run);
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for record in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())) {
        // What is left keeps the folder.
        let _ = fs::remove_file(record.path());
    }
    // Not while it holds results that could not be kept.
    if fs::remove_dir(folder).is_ok() {
        let _ = fs::remove_file(lock);
    }
}

/// What makes the numbers of processes comparable: the boot, and the PID namespace.
fn realm() -> String {
    let boot: String = boot_id().chars().filter(char::is_ascii_hexdigit).take(8).collect();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let number: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("{boot}-{number}")
}

fn lock_file(around: &Path, realm: &OsStr) -> PathBuf {
    let mut name = realm.to_owned();
    name.push(".lock");
    around.join(name)
}

fn open_lock(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Locks the file, as every worker of the realm does.
fn hold(path: &Path) -> io::Result<Option<File>> {
    let (file, locked) = locked::open(path, 0o600, File::lock_shared)?;
    if let Err(error) = &locked {
        log::warn!("{} cannot be locked: {error}", path.display());
    }
    Ok(locked.is_ok().then_some(file))
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

    /// A realm of this host with a run, as an earlier boot or another container has it.
    fn other_realm(root: &Path) -> (PathBuf, TaskId) {
        let id = TaskId::new(crate::types::Wall::from_micros(1), [1; 5]);
        let folder = root.join(".tasks/.runs/box-0-0");
        fs::create_dir_all(folder.join(id.to_string())).unwrap();
        fs::write(folder.join("1-1-0.run"), "").unwrap();
        (folder, id)
    }

    #[test]
    fn what_another_realm_has_is_removed_only_when_its_lock_is_free() {
        let root = tempfile::tempdir().unwrap();
        let (folder, id) = other_realm(root.path());
        let ours = Runs::open(root.path(), "box").unwrap();
        ours.remove_dead_realms();
        assert!(folder.join(id.to_string()).exists(), "nothing is known of it without a lock");
        let lock = hold(&root.path().join(".tasks/.runs/box-0-0.lock")).unwrap().unwrap();
        ours.remove_dead_realms();
        assert!(folder.join(id.to_string()).exists(), "one of its workers lives");
        drop(lock);
        ours.remove_dead_realms();
        assert!(!folder.exists() && !root.path().join(".tasks/.runs/box-0-0.lock").exists());
        assert!(ours.folder.exists(), "it is not the realm of this worker");
    }

    #[test]
    fn what_could_not_be_kept_is_never_removed() {
        let root = tempfile::tempdir().unwrap();
        let (folder, id) = other_realm(root.path());
        drop(hold(&root.path().join(".tasks/.runs/box-0-0.lock")).unwrap());
        fs::rename(folder.join(id.to_string()), folder.join(format!("{UNKEPT}{id}"))).unwrap();
        let ours = Runs::open(root.path(), "box").unwrap();
        fs::create_dir(ours.folder_of(id)).unwrap();
        fs::write(ours.folder_of(id).join("out"), "answer").unwrap();
        let left = ours.put_aside(id, None);
        ours.remove_dead_realms();
        ours.remove_strays();
        assert_eq!(fs::read_to_string(left.join("out")).unwrap(), "answer");
        assert!(folder.join(format!("{UNKEPT}{id}")).exists());
    }
}
