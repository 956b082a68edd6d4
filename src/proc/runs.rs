//! The runs of all workers of one host in one folder: their folders, their records, and the remains of dead workers'
//! runs. Prompt workers and TDF workers each have a folder of this kind.
//!
//! Layout:
//!
//! ```text
//! <realm>.lock             held by every live worker of the realm, and by its guard
//! <realm>/<pid>-*.run      the run record, by which the guard or the next worker ends the run of a dead worker
//! <realm>/<id>/            the files of a run, if its worker keeps any
//! <realm>/unkept-<id>/     the files of a run whose results could not be stored; never removed
//! <realm>/unkept-work-<id>/ the folder in which a run worked, if git could not keep everything in it; never removed
//! ```
//!
//! A record identifies processes by pid, which is valid in one realm only: one boot of one host, and one PID namespace
//! on it. The folder may be on a file system that several machines share, and several machines or containers may have
//! the same name. So the files of another realm are left alone, unless its lock shows that no worker is left. A former
//! version used `<host>/` instead of `<realm>/`, without a lock.

pub mod locked;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::files::removal;
use crate::process::{RecordError, RecordFile, RunRecords, Subject, boot_id};
use base::{Round, Wall};

/// The prefix of the folder of a run whose results could not be stored.
pub const UNKEPT: &str = "unkept-";

/// The prefix of the folder in which a run worked, if git could not keep everything in it.
pub const UNKEPT_WORK: &str = "unkept-work-";

/// Why runs cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum RunsError {
    /// The folder cannot be used.
    #[error("cannot use the folder {}: {source}", path.display())]
    Folder {
        /// The path of the folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The run records cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// One run of a command or program, identified by the name of its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRun(String);

impl WorkerRun {
    /// The prefix of the folder names of runs. No other entry beside them has it.
    const PREFIX: &str = "TASK_";

    /// A unique name. It has the form of former versions, because they read these records and this version reads theirs.
    pub fn new(start: Wall) -> Self {
        let letters: String = (0..5).map(|_| rand::random_range('a'..='z')).collect();
        Self(format!("{}{start}_{letters}", Self::PREFIX))
    }

    /// The part of the name that distinguishes runs of the same moment.
    pub fn letters(&self) -> &str {
        self.0.rsplit('_').next().unwrap_or_default()
    }
}

impl Subject for WorkerRun {
    fn folder(&self) -> String {
        self.0.clone()
    }

    fn read(folder: &str, _: Round) -> Option<Self> {
        let is_plain = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte));
        folder.strip_prefix(Self::PREFIX).is_some_and(is_plain).then(|| Self(folder.to_owned()))
    }
}

/// All runs of this realm in one folder.
#[derive(Debug)]
pub struct Runs {
    around: PathBuf,
    host: String,
    folder: PathBuf,
    /// The run records of the realm.
    pub records: RunRecords<WorkerRun>,
    /// `None` where the file system has no locks. Other realms then cannot tell whether we live, and leave everything
    /// alone.
    _lock: Option<File>,
}

impl Runs {
    /// Makes the folders and takes the lock, which shows that a worker lives. A guard does the same: the remains of its
    /// worker belong to this realm until the guard has ended as well.
    ///
    /// # Errors
    /// When the folders cannot be made.
    pub fn in_folder(around: &Path) -> Result<Self, RunsError> {
        Self::open(around.to_owned(), &host())
    }

    /// Ends the run of a worker that was killed: the duty of its guard.
    ///
    /// # Errors
    /// When the folders were removed and cannot be made again.
    pub fn sweep_after_death(&self) -> Result<(), RunsError> {
        self.reopen()?.sweep();
        Ok(())
    }

    fn open(around: PathBuf, host: &str) -> Result<Self, RunsError> {
        // Only the records are restricted to their owner, not the folder around them.
        let failed = |error| RunsError::Folder { path: around.clone(), source: error };
        fs::create_dir_all(&around).map_err(failed)?;
        let realm = format!("{host}-{}", realm());
        let lock = hold(&lock_file(&around, OsStr::new(&realm))).map_err(failed)?;
        let folder = around.join(realm);
        let records = RunRecords::open(&folder)?;
        Ok(Self { around, host: host.to_owned(), folder, records, _lock: lock })
    }

    /// As [`Self::in_folder`], for the same realm. Folders that were removed meanwhile are made again.
    ///
    /// # Errors
    /// As [`Self::in_folder`].
    pub fn reopen(&self) -> Result<Self, RunsError> {
        Self::open(self.around.clone(), &self.host)
    }

    /// The folder with the files of a run.
    pub fn folder_of(&self, run: &WorkerRun) -> PathBuf {
        self.folder.join(&run.0)
    }

    /// Ends the runs of workers that were killed together with their guards.
    pub fn sweep(&self) {
        let swept = self.records.sweep(|swept| {
            log::warn!("a worker has died and left a run, which is ended");
            log::debug!("{swept:?}");
            remove_folder(&self.folder_of(&swept.subject));
        });
        if let Err(error) = swept {
            log::error!("{error}");
        }
    }

    /// As [`Self::sweep`], for workers of a former version. Their folder is named after the host only, so it may belong
    /// to a live worker on another machine or container of the same name. So only runs whose processes are found on
    /// this host are ended and removed.
    pub fn sweep_former(&self) {
        let Some(folder) = self.folder.parent().map(|around| around.join(&self.host)).filter(|path| path.is_dir())
        else {
            return;
        };
        let swept = RunRecords::<WorkerRun>::open(&folder).and_then(|records| {
            records.sweep_proven(|swept| {
                log::warn!("a worker of a former version has died and left a run, which is ended");
                log::debug!("{swept:?}");
                remove_folder(&folder.join(swept.subject.folder()));
            })
        });
        match swept {
            // The folder stays while it is not empty.
            Ok(_) => drop(fs::remove_dir(&folder)),
            Err(error) => log::error!("{error}"),
        }
    }

    /// Removes run folders without a record, which an earlier boot has left. A run's record is written before its
    /// folder is made.
    pub fn remove_strays(&self) {
        let folders = runs(&self.folder);
        let Ok(records) = self.records.list() else { return };
        for (run, path) in folders {
            if !records.iter().any(|record| record.subject == run) {
                remove_folder(&path);
            }
        }
    }

    /// Removes the files of other realms of this host: those of an earlier boot, or of a container that no longer
    /// exists. Their processes ended with the realm.
    pub fn remove_dead_realms(&self) {
        let Some(around) = self.folder.parent() else { return };
        let is_of_host = |folder: &PathBuf| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(&self.host).is_some_and(|rest| rest.starts_with('-')) && *folder != self.folder
        };
        let entries = fs::read_dir(around).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for folder in folders.map(|entry| entry.path()).filter(is_of_host) {
            let lock = lock_file(around, folder.file_name().unwrap_or_default());
            // Without a lock, the state of its workers is unknown.
            let Ok(file) = open_lock(&lock) else { continue };
            if file.try_lock().is_ok() {
                remove_realm(&folder, &lock);
            }
        }
    }

    /// Sets aside the files of a run whose results cannot be stored, and returns their path.
    pub fn put_aside(&self, run: &WorkerRun, record: Option<RecordFile>) -> PathBuf {
        let (from, to) = (self.folder_of(run), self.folder.join(format!("{UNKEPT}{}", run.0)));
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

    /// The folder of all realms.
    pub fn around(&self) -> &Path {
        &self.around
    }

    /// Removes the files of a run, and its record last, so that no files are left without a record.
    pub fn clean(&self, run: &WorkerRun, record: Option<RecordFile>) {
        remove_folder(&self.folder_of(run));
        drop(record);
    }
}

/// The run folders in the folder of a realm.
fn runs(realm: &Path) -> Vec<(WorkerRun, PathBuf)> {
    let entries = fs::read_dir(realm).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders
        .filter_map(|entry| Some((WorkerRun::read(entry.file_name().to_str()?, Round::default())?, entry.path())))
        .collect()
}

/// Removes a realm whose lock the caller holds exclusively.
fn remove_realm(folder: &Path, lock: &Path) {
    log::info!("{} belongs to workers that no longer exist: removing it", folder.display());
    for (_, run) in runs(folder) {
        remove_folder(&run);
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for record in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())) {
        // A record whose run folder is left would keep the folder of the realm.
        let _ = fs::remove_file(record.path());
    }
    // The folder stays while it contains results that could not be stored.
    if fs::remove_dir(folder).is_ok() {
        let _ = fs::remove_file(lock);
    }
}

/// The realm within which pids are comparable: the boot and the PID namespace.
pub fn realm() -> String {
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

/// Takes the shared lock on the file, as every worker of the realm does.
fn hold(path: &Path) -> io::Result<Option<File>> {
    let (file, locked) = locked::open(path, 0o600, File::lock_shared)?;
    if let Err(error) = &locked {
        log::warn!("{} cannot be locked: {error}", path.display());
    }
    Ok(locked.is_ok().then_some(file))
}

/// Removes a folder with its contents, and logs a failure.
pub fn remove_folder(path: &Path) {
    if let Err(error) = removal::remove_and_unmount(path) {
        log::error!("{error}");
    }
}

/// The name of this host in a form that can be part of a path.
pub fn host() -> String {
    host_part(OsStr::from_bytes(rustix::system::uname().nodename().to_bytes()))
}

fn host_part(name: &OsStr) -> String {
    let allowed = |letter: &char| letter.is_ascii_alphanumeric() || "_-.".contains(*letter);
    let part: String = name.to_string_lossy().chars().filter(allowed).take(64).collect();
    if part.trim_matches('.').is_empty() { "localhost".to_owned() } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Cookie, ProcessId, RunRecord, TaskRun};
    use base::Session;
    use mountkit::{Precious, in_own_mount_namespace, ways_to_mount};

    fn run(second: u64) -> WorkerRun {
        WorkerRun::new(Wall::from_micros(second * 1_000_000))
    }

    #[test]
    fn what_a_command_has_mounted_stays_as_it_is() {
        in_own_mount_namespace(|| {
            for (way, mount) in ways_to_mount() {
                let root = tempfile::tempdir().unwrap();
                let runs = Runs::open(root.path().to_owned(), "host").unwrap();
                // One finished run, and one of a worker that died together with its guard.
                for (second, clean) in [(1, None), (2, Some(&Runs::remove_strays))] {
                    let id = run(second);
                    let precious = Precious::default();
                    fs::create_dir(runs.folder_of(&id)).unwrap();
                    mount(&runs.folder_of(&id), &precious);
                    clean.map_or_else(|| runs.clean(&id, None), |remove_strays| remove_strays(&runs));
                    assert!(!runs.folder_of(&id).exists(), "{way}");
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

    #[test]
    fn a_run_reads_back_as_itself_and_nothing_else_is_taken_for_one() {
        let read = |name: &str| WorkerRun::read(name, Round::default());
        let id = run(1_480_000_000);
        assert_eq!(read(&id.folder()), Some(id.clone()));
        assert!(id.folder().parse::<base::TaskId>().is_ok(), "a former version reads it: {id:?}");
        assert_eq!(read("TASK_1480000000.120000_AZazA").unwrap().folder(), "TASK_1480000000.120000_AZazA");
        for name in ["", "..", "out", "TASK_/../x", "TASK_a b", "unkept-TASK_1480000000.120000_AZazA"] {
            assert_eq!(read(name), None, "{name}");
        }
    }

    /// A worker of a former version has a run in the same realm: its files are left alone while it lives.
    #[test]
    fn the_record_of_a_former_version_is_read() {
        let root = tempfile::tempdir().unwrap();
        let runs = Runs::open(root.path().to_owned(), "host").unwrap();
        let own = ProcessId::own().unwrap();
        let former: RunRecords = RunRecords::open(&runs.folder).unwrap();
        let task = base::TaskId::new(Wall::from_micros(7), [0; 5]);
        let subject = TaskRun { task, round: Round(0) };
        let record = RunRecord { subject, root: None, agent: own, cookie: Cookie::new(["A=1".to_owned()]) };
        let mut file = former.of(own, Some(Session(0))).unwrap();
        file.write(&record).unwrap();
        let ours = runs.records.list().unwrap();
        assert_eq!(ours[0].subject.folder(), task.to_string());
        fs::create_dir(runs.folder_of(&ours[0].subject)).unwrap();
        runs.sweep();
        runs.remove_strays();
        assert!(runs.folder_of(&ours[0].subject).exists());
        drop(file);
        runs.remove_strays();
        assert!(!runs.folder_of(&ours[0].subject).exists());

        let subject = run(8);
        let mut file = runs.records.of(own, None).unwrap();
        file.write(&RunRecord { subject: subject.clone(), ..ours[0].clone() }).unwrap();
        assert_eq!(former.list().unwrap()[0].subject.folder(), subject.folder());
    }

    /// A realm of this host with a run, as an earlier boot or another container leaves it.
    fn other_realm(root: &Path) -> (PathBuf, WorkerRun) {
        let id = run(1);
        let folder = root.join("box-0-0");
        fs::create_dir_all(folder.join(id.folder())).unwrap();
        fs::write(folder.join("1-1-0.run"), "").unwrap();
        (folder, id)
    }

    #[test]
    fn what_another_realm_has_is_removed_only_when_its_lock_is_free() {
        let root = tempfile::tempdir().unwrap();
        let (folder, id) = other_realm(root.path());
        let ours = Runs::open(root.path().to_owned(), "box").unwrap();
        ours.remove_dead_realms();
        assert!(folder.join(id.folder()).exists(), "nothing is known of it without a lock");
        let lock = hold(&root.path().join("box-0-0.lock")).unwrap().unwrap();
        ours.remove_dead_realms();
        assert!(folder.join(id.folder()).exists(), "one of its workers lives");
        drop(lock);
        ours.remove_dead_realms();
        assert!(!folder.exists() && !root.path().join("box-0-0.lock").exists());
        assert!(ours.folder.exists(), "it is not the realm of this worker");
    }

    #[test]
    fn what_could_not_be_kept_is_never_removed() {
        let root = tempfile::tempdir().unwrap();
        let (folder, id) = other_realm(root.path());
        drop(hold(&root.path().join("box-0-0.lock")).unwrap());
        fs::rename(folder.join(id.folder()), folder.join(format!("{UNKEPT}{}", id.0))).unwrap();
        let ours = Runs::open(root.path().to_owned(), "box").unwrap();
        fs::create_dir(ours.folder_of(&id)).unwrap();
        fs::write(ours.folder_of(&id).join("out"), "answer").unwrap();
        let left = ours.put_aside(&id, None);
        ours.remove_dead_realms();
        ours.remove_strays();
        assert_eq!(fs::read_to_string(left.join("out")).unwrap(), "answer");
        assert!(folder.join(format!("{UNKEPT}{}", id.0)).exists());
    }
}
