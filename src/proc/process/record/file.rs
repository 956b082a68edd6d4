//! The file of one agent process, which names its run: rewritten in place, and consistent at every instant.
//!
//! It has two slots of one line each, written alternately. A line begins with a checksum of the rest, so that a torn
//! slot, whose writer was killed or is still writing, is recognised. The other slot then holds the previous state. Of
//! two intact slots, the one with the higher number counts.
//!
//! Its agent holds a lock on it. A program that is being started shares the lock with the agent until its exec, and
//! shows the agent's environment until then. So the lock is free only when the agent is dead and the program that it
//! was starting can be recognised.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{RecordError, RunRecord, Subject, remove_file};
use crate::clock;
use crate::process::brand::Brand;
use crate::process::cgroup::Cgroup;
use crate::process::procfs::{self, ProcessId, pid_of};
use crate::process::sweep::Cookie;
use crate::process::tree_scan::death_deadline;
use base::{Round, Session};

/// Bytes of a slot, padded with blanks: about three times the size of a record. Both slots fit into one page.
const SLOT_BYTES: usize = 1024;

/// Time between two checks of a lock that a program being started may hold.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// Maximum reads of a file in which neither slot is intact: its agent may write faster than we read.
const READS_MAX: u32 = 16;

/// The record of one agent process. Dropping it removes the file.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    file: File,
    agent: ProcessId,
    session: Option<Session>,
    /// The name of the agent, if the next agent of that name will be its successor.
    owner: Option<String>,
    /// The cgroup of the agent and its tools, if they have one.
    cgroup: Option<Cgroup>,
    /// Number of written lines.
    sequence: u64,
}

/// The contents of a record file.
#[derive(Debug)]
pub(super) struct Recorded<S> {
    /// The process that it belongs to.
    pub(super) agent: ProcessId,
    /// The name of the agent, under which its successor comes.
    pub(super) owner: Option<String>,
    /// The cgroup of that agent and its tools.
    pub(super) cgroup: Option<Cgroup>,
    /// Its current run.
    pub(super) run: Option<RunRecord<S>>,
}

/// A line without its checksum. It has only numbers and texts, so that a person can read it. Fields of a later version
/// are ignored, because an agent that was not updated yet must not drop such records.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    sequence: u64,
    agent_pid: i32,
    agent_start_time: u64,
    /// 0 for no session.
    session: u64,
    boot_id: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Cow<'a, str>>,
    /// The cgroup in which the agent was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup_base: Option<Cow<'a, str>>,
    run: Option<StoredRun<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StoredRun<'a> {
    /// The folder of the run, whatever its subject.
    task: String,
    round: u32,
    pid: Option<i32>,
    start_time: Option<u64>,
    cookie: Cow<'a, [String]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    brand: Option<u64>,
}

impl RecordFile {
    pub(super) fn create(folder: &Path, agent: ProcessId, session: Option<Session>) -> Result<Self, RecordError> {
        // The session is included because agents in different containers may have the same pid.
        let path = folder.join(format!("{}-{}-{:x}.run", agent.pid, agent.start_time, number(session)));
        let file = make(&path)?;
        let mut this = Self { path, file, agent, session, owner: None, cgroup: None, sequence: 0 };
        this.clear()?;
        Ok(this)
    }

    /// Names the agent in everything written from now on. The remains of its runs that a sweep finds belong to the next
    /// agent of that name.
    pub fn set_owner(&mut self, owner: &str) {
        self.owner = Some(owner.to_owned());
    }

    /// Records the run of the agent.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write<S: Subject>(&mut self, record: &RunRecord<S>) -> Result<(), RecordError> {
        if rustix::fs::fstat(&self.file).is_ok_and(|stat| stat.st_nlink == 0) {
            // Another process has cleared the folder.
            self.file = make(&self.path)?;
        }
        self.put(Some(StoredRun::from(record)))
    }

    /// Records that the agent has no run.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn clear(&mut self) -> Result<(), RecordError> {
        self.put(None)
    }

    /// Moves this process, which must be the agent, into a cgroup of its own, below its starter's. Dropping the record
    /// moves it back.
    ///
    /// # Errors
    /// When there is no cgroup version 2, or none may be made.
    pub fn confine(&mut self) -> io::Result<()> {
        let cgroup = Cgroup::of_ours(&self.path)?;
        // Recorded first, so that it can be found whenever the agent dies.
        self.cgroup = Some(cgroup.clone());
        let joined = self.clear().map_err(io::Error::other).and_then(|()| cgroup.join());
        if joined.is_err() {
            self.cgroup = None;
            let _ = self.clear();
        }
        joined
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn put(&mut self, run: Option<StoredRun<'_>>) -> Result<(), RecordError> {
        let failed = |error| RecordError { action: "write", path: self.path.clone(), source: error };
        let sequence = self.sequence + 1;
        let stored = Stored {
            sequence,
            agent_pid: self.agent.pid.as_raw_nonzero().get(),
            agent_start_time: self.agent.start_time,
            session: number(self.session),
            boot_id: procfs::boot_id().into(),
            owner: self.owner.as_deref().map(Cow::from),
            cgroup_base: self.cgroup.as_ref().map(|cgroup| cgroup.base().into()),
            run,
        };
        let slot = slot(&stored).map_err(failed)?;
        self.file.write_all_at(&slot, (sequence % 2) * SLOT_BYTES as u64).map_err(failed)?;
        self.sequence = sequence;
        Ok(())
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.cgroup.as_ref().map(Cgroup::leave) {
            // The next start removes both.
            log::warn!("cannot leave the cgroup of this agent: {error}");
            return;
        }
        if let Err(error) = remove_file(&self.path) {
            log::warn!("{error}");
        }
    }
}

fn number(session: Option<Session>) -> u64 {
    session.unwrap_or_default().0
}

fn make(path: &Path) -> Result<File, RecordError> {
    let failed = |error| RecordError { action: "make", path: path.to_owned(), source: error };
    // An existing file is from an earlier boot.
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).map_err(failed)?;
    // Without file locks, the pid and the start time of the agent must suffice.
    let _ = file.try_lock();
    Ok(file)
}

/// Whether a dead agent, and a program that it was just starting, have released its record. Waits up to a second.
pub(super) fn is_let_go(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return true };
    let deadline = death_deadline();
    while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        if clock::now().mono >= deadline {
            return false;
        }
        std::thread::park_timeout(LOOK_PAUSE);
    }
    true
}

fn slot(stored: &Stored<'_>) -> io::Result<Vec<u8>> {
    const CHECKSUM_BYTES: usize = 8;
    let mut slot = Vec::with_capacity(SLOT_BYTES);
    slot.resize(CHECKSUM_BYTES + 1, b' ');
    serde_json::to_writer(&mut slot, stored)?;
    let (checksum, text) = slot.split_at_mut(CHECKSUM_BYTES);
    write!(&mut *checksum, "{:08x}", crc32fast::hash(&text[1..]))?;
    if slot.len() >= SLOT_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the mark of the run is too long"));
    }
    slot.resize(SLOT_BYTES - 1, b' ');
    slot.push(b'\n');
    Ok(slot)
}

/// Reads a record; `None` for a record of an earlier boot, or any other file.
///
/// # Errors
/// When the file is gone, or its agent lives and has not written it yet.
pub(super) fn read<S: Subject>(path: &Path) -> io::Result<Option<Recorded<S>>> {
    let writer_lives = writer(path).is_some_and(ProcessId::is_alive);
    for _ in 0..READS_MAX {
        let bytes = fs::read(path)?;
        if let Some(stored) = newest(&bytes) {
            return Ok(stored.into_recorded(path));
        }
        if !writer_lives {
            return Ok(None);
        }
        std::thread::yield_now();
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// The agent in the name of a record file.
fn writer(path: &Path) -> Option<ProcessId> {
    let mut parts = path.file_name()?.to_str()?.strip_suffix(".run")?.split('-');
    let pid = pid_of(parts.next()?.parse().ok()?)?;
    Some(ProcessId { pid, start_time: parts.next()?.parse().ok()? })
}

fn newest(bytes: &[u8]) -> Option<Stored<'static>> {
    bytes.chunks(SLOT_BYTES).filter_map(whole).max_by_key(|stored| stored.sequence)
}

/// The contents of a slot, if it is intact.
fn whole(slot: &[u8]) -> Option<Stored<'static>> {
    let (checksum, text) = std::str::from_utf8(slot).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let text = text.trim_end_matches(' ');
    (u32::from_str_radix(checksum, 16).ok()? == crc32fast::hash(text.as_bytes())).then_some(())?;
    serde_json::from_str(text).ok()
}

impl<'a, S: Subject> From<&'a RunRecord<S>> for StoredRun<'a> {
    fn from(record: &'a RunRecord<S>) -> Self {
        Self {
            task: record.subject.folder(),
            round: record.subject.round().0,
            pid: record.root.map(|root| root.pid.as_raw_nonzero().get()),
            start_time: record.root.map(|root| root.start_time),
            cookie: record.cookie.entries().into(),
            brand: record.cookie.brand().map(Brand::number),
        }
    }
}

impl Stored<'_> {
    /// Its contents, if it is of this boot. Without a boot id all records are invalid: leaving a process is better than
    /// killing the wrong one.
    fn into_recorded<S: Subject>(self, path: &Path) -> Option<Recorded<S>> {
        (!self.boot_id.is_empty() && self.boot_id == procfs::boot_id()).then_some(())?;
        let agent = process(self.agent_pid, self.agent_start_time)?;
        let cgroup = self.cgroup_base.and_then(|base| Cgroup::at(&base, path));
        let owner = self.owner.map(Cow::into_owned);
        let Some(stored) = self.run else { return Some(Recorded { agent, owner, cgroup, run: None }) };
        let root = match (stored.pid, stored.start_time) {
            (Some(pid), Some(start_time)) if pid > 1 => Some(process(pid, start_time)?),
            (None, None) => None,
            (Some(_), _) | (None, Some(_)) => return None,
        };
        let run = RunRecord {
            subject: S::read(&stored.task, Round(stored.round))?,
            root,
            agent,
            cookie: Cookie::new(stored.cookie.into_owned()).branded(stored.brand.and_then(Brand::of)),
        };
        Some(Recorded { agent, owner, cgroup, run: Some(run) })
    }
}

fn process(pid: i32, start_time: u64) -> Option<ProcessId> {
    Some(ProcessId { pid: pid_of(pid)?, start_time })
}

#[cfg(test)]
mod tests;
