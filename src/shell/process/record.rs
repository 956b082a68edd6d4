//! Run records: which process runs which task, on disk, so that whoever comes after a dead agent can end its run.
//!
//! A record is written without fsync: it must survive the agent, not the machine. After a crash of the machine the processes
//! are gone as well, and the boot id tells so.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::procfs::{self, ProcessId, Stat, pid_of};
use super::sweep::{self, Cookie, Swept};
use crate::types::{Round, Session, TaskId};

/// What a record that is being written is called, before the pid of its writer.
const UNFINISHED: &str = ".unfinished-";

/// One run, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// The task.
    pub task: TaskId,
    /// Which run of it.
    pub round: Round,
    /// Its run.sh; `None` in a record that is written before the start, when only the cookie is known.
    pub run: Option<ProcessId>,
    /// The agent process. While it is alive, the run is its concern.
    pub agent: ProcessId,
    /// The session that the agent has with its controller.
    pub session: Session,
    /// What marks the processes of the run.
    pub cookie: Cookie,
}

/// A record that could not be written, read or removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path:?}: {error}")]
pub struct RecordError {
    action: &'static str,
    path: PathBuf,
    error: io::Error,
}

/// The folder of the run records of all agents of one host.
#[derive(Debug)]
pub struct RunRecords {
    folder: PathBuf,
}

/// The file's content. Numbers and texts only, so that a person can read it. Fields of a later version are passed over: its
/// records must not be dropped by an agent that was not updated yet.
#[derive(Serialize, Deserialize)]
struct Stored {
    task: String,
    round: u32,
    pid: Option<i32>,
    start_time: Option<u64>,
    agent_pid: i32,
    agent_start_time: u64,
    session: u64,
    boot_id: String,
    cookie: Vec<String>,
}

impl RunRecords {
    /// Opens the folder, and makes it, for the owner only, if it is not there.
    ///
    /// # Errors
    /// When it can neither be found nor made.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, RecordError> {
        let folder = folder.into();
        match DirBuilder::new().recursive(true).mode(0o700).create(&folder) {
            Ok(()) => Ok(Self { folder }),
            Err(error) => Err(RecordError { action: "make", path: folder, error }),
        }
    }

    /// Writes a record whole, or leaves the one of the same run as it was.
    ///
    /// # Errors
    /// When the file cannot be written or put in place.
    pub fn write(&self, record: &RunRecord) -> Result<(), RecordError> {
        let unfinished = self.folder.join(format!("{UNFINISHED}{}", std::process::id()));
        let path = self.path(record.task, record.round);
        let failed = |error| RecordError { action: "write", path: path.clone(), error };
        let bytes = serde_json::to_vec(&Stored::from(record)).map_err(|error| failed(error.into()))?;
        fs::write(&unfinished, bytes).map_err(failed)?;
        fs::rename(&unfinished, &path).map_err(failed)
    }

    /// Removes the record of a run that has ended. One that is not there is fine.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub fn remove(&self, task: TaskId, round: Round) -> Result<(), RecordError> {
        remove_file(self.path(task, round))
    }

    /// The records of this boot. Those of an earlier one, and what is no record, are removed: the processes that they name
    /// are gone.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> Result<Vec<RunRecord>, RecordError> {
        let failed = |error| RecordError { action: "read", path: self.folder.clone(), error };
        let mut paths = fs::read_dir(&self.folder)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>())
            .map_err(failed)?;
        // By name, so that what is done about them does not depend on the file system.
        paths.sort();
        Ok(paths.iter().filter_map(|path| read_or_drop(path)).collect())
    }

    /// Ends the runs of all agents that are dead, and removes their records. A run whose agent lives is not touched, and a
    /// record whose processes could not all be ended stays. Waits up to a second for each run that it kills.
    ///
    /// `clean_up` hears of each run before its record goes. One sweep of a folder waits for the other: what an agent that has
    /// swept does next, such as taking the next round of a task, happens behind the back of no other sweep.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn sweep(&self, mut clean_up: impl FnMut(&Swept)) -> Result<(), RecordError> {
        let failed = |error| RecordError { action: "lock", path: self.folder.clone(), error };
        let lock = File::open(&self.folder).map_err(failed)?;
        lock.lock().map_err(failed)?;
        for record in self.list()?.iter().filter(|record| !record.agent.is_alive()) {
            let (killed, left) = sweep::end_run(&record.cookie, record.run);
            // Asked anew: while this run was being ended, the task may have been given to a living agent.
            let is_of_another = |other: &RunRecord| other.task == record.task && other.agent.is_alive();
            let superseded = self.list()?.iter().any(is_of_another);
            clean_up(&Swept { task: record.task, round: record.round, killed, left, superseded });
            if left == 0 {
                drop_file(&self.path(record.task, record.round));
            }
        }
        Ok(())
    }

    fn path(&self, task: TaskId, round: Round) -> PathBuf {
        self.folder.join(format!("{task}.{round}.json"))
    }
}

impl RunRecord {
    /// Whether run.sh of this record is that very process and still runs: pid, start time and, by [`RunRecords::list`], boot.
    #[must_use]
    pub fn is_same_process(&self) -> bool {
        self.run.is_some_and(ProcessId::is_alive)
    }
}

fn read_or_drop(path: &Path) -> Option<RunRecord> {
    let name = path.file_name()?.to_str().unwrap_or_default();
    if let Some(writer) = name.strip_prefix(UNFINISHED) {
        // Of an agent that died while it wrote.
        let writer = writer.parse().ok().and_then(pid_of);
        if !writer.is_some_and(|pid| Stat::read(pid).is_ok_and(|writer| writer.alive)) {
            drop_file(path);
        }
        return None;
    }
    // An agent may remove its record meanwhile.
    let bytes = fs::read(path).ok()?;
    let record = serde_json::from_slice::<Stored>(&bytes).ok().and_then(Stored::into_record);
    if record.is_none() {
        log::info!("removing {}: a record of an earlier boot, or none at all", path.display());
        drop_file(path);
    }
    record
}

fn drop_file(path: &Path) {
    if let Err(error) = remove_file(path.to_owned()) {
        log::warn!("{error}");
    }
}

fn remove_file(path: PathBuf) -> Result<(), RecordError> {
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(RecordError { action: "remove", path, error }),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl From<&RunRecord> for Stored {
    fn from(record: &RunRecord) -> Self {
        Self {
            task: record.task.to_string(),
            round: record.round.0,
            pid: record.run.map(|run| run.pid.as_raw_nonzero().get()),
            start_time: record.run.map(|run| run.start_time),
            agent_pid: record.agent.pid.as_raw_nonzero().get(),
            agent_start_time: record.agent.start_time,
            session: record.session.0,
            boot_id: procfs::boot_id().to_owned(),
            cookie: record.cookie.entries().to_vec(),
        }
    }
}

impl Stored {
    /// The record, if it is of this boot. A kernel that does not tell its boot id voids all records: better to leave a
    /// process than to kill another one.
    fn into_record(self) -> Option<RunRecord> {
        let process = |pid, start_time| Some(ProcessId { pid: pid_of(pid)?, start_time });
        let run = match (self.pid, self.start_time) {
            (Some(pid), Some(start_time)) if pid > 1 => Some(process(pid, start_time)?),
            (None, None) => None,
            (Some(_), _) | (None, Some(_)) => return None,
        };
        (!self.boot_id.is_empty() && self.boot_id == procfs::boot_id()).then_some(())?;
        Some(RunRecord {
            task: self.task.parse().ok()?,
            round: Round(self.round),
            run,
            agent: process(self.agent_pid, self.agent_start_time)?,
            session: Session(self.session),
            cookie: Cookie::new(self.cookie),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Wall;

    fn record(round: u32) -> RunRecord {
        let own = ProcessId::own().unwrap();
        let cookie = Cookie::new(["A=1".to_owned()]);
        RunRecord {
            task: TaskId::new(Wall::from_micros(7), [0; 5]),
            round: Round(round),
            run: Some(own),
            agent: own,
            session: Session(9),
            cookie,
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_record_reads_back_as_itself_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let records = RunRecords::open(folder.path().join("deep/runs")).unwrap();
        let before_start = RunRecord { run: None, ..record(1) };
        records.write(&record(0)).unwrap();
        records.write(&before_start).unwrap();
        assert_eq!(records.list().unwrap(), [record(0), before_start]);
        assert!(record(0).is_same_process());
        records.remove(record(0).task, Round(0)).unwrap();
        records.remove(record(0).task, Round(0)).unwrap();
        assert_eq!(records.list().unwrap().len(), 1);
    }

    #[test]
    fn records_of_another_boot_and_broken_ones_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let records = RunRecords::open(folder.path()).unwrap();
        let other_boot = Stored { boot_id: "other".to_owned(), ..Stored::from(&record(0)) };
        fs::write(folder.path().join("a.json"), serde_json::to_vec(&other_boot).unwrap()).unwrap();
        for pid in [i32::MIN, -1, 0, 1] {
            let nobody = Stored { pid: Some(pid), ..Stored::from(&record(0)) };
            fs::write(folder.path().join(format!("b{pid}.json")), serde_json::to_vec(&nobody).unwrap()).unwrap();
        }
        fs::write(folder.path().join("c.json"), b"{\"task\":").unwrap();
        fs::write(folder.path().join(".unfinished-2147483646"), b"{").unwrap();
        let being_written = format!(".unfinished-{}", std::process::id());
        fs::write(folder.path().join(&being_written), b"{").unwrap();
        assert_eq!(records.list().unwrap(), []);
        assert_eq!(names(folder.path()), [being_written]);
    }

    #[test]
    fn the_run_of_a_living_agent_is_not_swept() {
        let folder = tempfile::tempdir().unwrap();
        let records = RunRecords::open(folder.path()).unwrap();
        records.write(&record(0)).unwrap();
        records.sweep(|swept| panic!("{swept:?}")).unwrap();
        assert_eq!(records.list().unwrap(), [record(0)]);
    }

    /// What is cleaned up of a dead run has the name of the next one, and that one may begin while the dead one is swept.
    #[test]
    fn a_sweep_sees_the_next_round_of_what_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let records = RunRecords::open(folder.path()).unwrap();
        let dead = |round| {
            let nobody = ProcessId { start_time: 0, ..ProcessId::own().unwrap() };
            RunRecord { agent: nobody, run: None, cookie: Cookie::new([format!("A={round}")]), ..record(round) }
        };
        records.write(&dead(0)).unwrap();
        records.write(&dead(1)).unwrap();
        let mut seen = Vec::new();
        let clean_up = |swept: &Swept| {
            assert_eq!(records.list().unwrap()[0], dead(swept.round.0), "its record goes last");
            seen.push((swept.round.0, swept.superseded));
            records.write(&record(2)).unwrap();
        };
        records.sweep(clean_up).unwrap();
        assert_eq!(seen, [(0, false), (1, true)]);
        assert_eq!(records.list().unwrap(), [record(2)]);
    }
}
