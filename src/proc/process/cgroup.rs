//! The cgroup of an agent and its tools, which the tools cannot leave without privileges.
//!
//! There is one per agent, not one per run, because joining a cgroup takes the kernel a millisecond. While the agent
//! lives, it ends its runs by ancestry. After its death, every process in its cgroup is a remnant, and `cgroup.kill`
//! ends them all at once. Its supervisor and its guard are outside.
//!
//! ```text
//! <cgroup of the agent's starter>/llts-<mark of the folder of records>/<name of the record>
//! ```
//!
//! The record of an agent contains the cgroup of its starter. The rest follows from the path of the record, so that a
//! record can only name a cgroup of its own service. Only version 2 is used, even if it is mounted beside version 1.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use rustix::process::{Pid, Signal};

use super::procfs::{ProcessId, pid_of};
use super::tree_scan::{Ended, Pinned, death_deadline};
use crate::clock;
use crate::files::removal::unescaped;

const PROCS: &str = "cgroup.procs";

/// Longest path of a starter's cgroup that fits into a record.
const BASE_BYTES_MAX: usize = 512;

/// Maximum attempts to make a cgroup. Another agent of the service may remove its parent meanwhile.
const MAKES_MAX: u32 = 100;

/// The cgroup of an agent, whether it exists or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cgroup {
    /// The cgroup of the agent's starter, from the root of the hierarchy: `/user.slice/x.scope`.
    base: String,
    /// The same as a folder.
    base_folder: PathBuf,
    /// The folder of the cgroup itself.
    folder: PathBuf,
}

impl Cgroup {
    /// The cgroup that this process, with this record, may make for itself.
    ///
    /// # Errors
    /// When none is available, with the reason.
    pub(super) fn of_ours(record: &Path) -> io::Result<Self> {
        let base = own_path()?;
        if base.len() > BASE_BYTES_MAX {
            return Err(io::Error::other(format!("the path {base} is too long")));
        }
        Self::at(&base, record).ok_or_else(|| io::Error::other("no cgroup v2 file system is mounted"))
    }

    /// The cgroup of an agent that was started at `base` and has this record. `None` if there is no such place here.
    pub(super) fn at(base: &str, record: &Path) -> Option<Self> {
        let base_folder = folder_of(base)?;
        let (service, agent) = (service_name(record)?, record.file_stem()?);
        let folder = base_folder.join(service).join(agent);
        Some(Self { base: base.to_owned(), base_folder, folder })
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Makes the cgroup and moves this process into it, with all of its threads. Its children start there.
    ///
    /// # Errors
    /// When that is not permitted. No part of the attempt is left.
    pub(super) fn join(&self) -> io::Result<()> {
        self.make()?;
        let joined = fs::write(self.folder.join(PROCS), "0");
        if joined.is_err() {
            self.remove();
        }
        joined
    }

    fn make(&self) -> io::Result<()> {
        let service = self.folder.parent().unwrap_or(&self.base_folder);
        for _ in 0..MAKES_MAX {
            match fs::create_dir(service) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
            match fs::create_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                made => return made,
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Moves this process out again, and removes the cgroup.
    ///
    /// # Errors
    /// When it must stay inside.
    pub(super) fn leave(&self) -> io::Result<()> {
        fs::write(self.base_folder.join(PROCS), "0")?;
        self.remove();
        Ok(())
    }

    /// Kills everything in it except the `immune` processes, and waits up to a second for their end.
    pub(super) fn end(&self, immune: &[Pid]) -> Ended {
        let deadline = death_deadline();
        let mut met = BTreeSet::new();
        loop {
            let victims = self.pin(immune);
            if victims.is_empty() {
                return Ended { killed: count(met.len()), left: Vec::new() };
            }
            met.extend(victims.iter().map(|victim| victim.id().pid.as_raw_nonzero()));
            self.kill(&victims, immune);
            let left: Vec<ProcessId> =
                victims.iter().filter(|victim| !victim.wait_for_end(deadline)).map(Pinned::id).collect();
            // A process that forks while others are killed one by one leaves another, so the search continues until the
            // deadline.
            if clock::now().mono >= deadline {
                return Ended { killed: count(met.len()).saturating_sub(count(left.len())), left };
            }
        }
    }

    /// Kills all at once if the kernel can (Linux 5.14) and no process in it is immune; otherwise one by one, frozen if
    /// possible.
    fn kill(&self, victims: &[Pinned], immune: &[Pid]) {
        let has_immune = self.processes().iter().any(|pid| immune.contains(pid));
        if !has_immune {
            if fs::write(self.folder.join("cgroup.kill"), "1").is_ok() {
                return;
            }
            let _ = fs::write(self.folder.join("cgroup.freeze"), "1");
        }
        for victim in victims {
            // A process that has ended meanwhile needs no signal, and one that cannot be signalled counts as left.
            let _ = victim.signal(Some(Signal::KILL));
        }
        if !has_immune {
            let _ = fs::write(self.folder.join("cgroup.freeze"), "0");
        }
    }

    /// Its processes, each pinned by a descriptor. A pid that is in the cgroup before and after the opening belongs to
    /// one of our processes, even if it was reused.
    fn pin(&self, immune: &[Pid]) -> Vec<Pinned> {
        let wanted = self.processes().into_iter().filter(|pid| !immune.contains(pid));
        let pinned: Vec<Pinned> =
            wanted.filter_map(|pid| Pinned::open(ProcessId::of(pid).ok()?).ok()).filter(Pinned::is_alive).collect();
        let still = self.processes();
        pinned.into_iter().filter(|process| still.contains(&process.id().pid)).collect()
    }

    /// The processes in it and below it.
    fn processes(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        for folder in with_folders_below(&self.folder) {
            let text = fs::read_to_string(folder.join(PROCS)).unwrap_or_default();
            // 0 stands for a process outside our PID namespace.
            found.extend(text.lines().filter_map(|line| pid_of(line.parse().ok()?)));
        }
        found
    }

    /// Removes it with all cgroups that a tool has made below it, and the folder of the service if this was the last one.
    pub(super) fn remove(&self) {
        for folder in with_folders_below(&self.folder).into_iter().rev() {
            match fs::remove_dir(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    log::warn!("cannot remove the cgroup {}: {error}", folder.display());
                }
                Ok(()) | Err(_) => {}
            }
        }
        if let Some(service) = self.folder.parent() {
            // Another agent of the service may have its cgroup there.
            let _ = fs::remove_dir(service);
        }
    }
}

/// Moves this process out of the cgroup of an agent whose records are in this folder, if it is in one. A guard that an
/// agent starts later in its life starts there, and must not end itself.
///
/// # Errors
/// When it must stay inside.
pub(super) fn step_out(records: &Path) -> io::Result<()> {
    let Ok(own) = own_path() else { return Ok(()) };
    let mut above = Path::new(&own).ancestors().skip(1);
    let (service, base) = (above.next().and_then(Path::file_name), above.next().and_then(Path::to_str));
    match (service, service_name(&records.join("x")), base.and_then(folder_of)) {
        (Some(service), Some(expected), Some(base)) if *service == *expected => fs::write(base.join(PROCS), "0"),
        _ => Ok(()),
    }
}

/// The folder of the cgroups of all agents of one service.
fn service_name(record: &Path) -> Option<String> {
    let records = record.parent()?.canonicalize().ok()?;
    // Two services whose names collide share only this folder: the records of their agents have different names.
    Some(format!("llts-{:08x}", crc32fast::hash(records.as_os_str().as_bytes())))
}

/// The folder of the cgroup of this process, below which agents may make their own.
///
/// # Errors
/// When there is none, or nothing can be made below it, with the reason.
pub fn own_cgroup() -> io::Result<PathBuf> {
    let path = own_path()?;
    let folder = folder_of(&path).ok_or_else(|| io::Error::other("no cgroup v2 file system is mounted"))?;
    let access = rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK);
    access.map(|()| folder.clone()).map_err(|error| io::Error::other(format!("{}: {error}", folder.display())))
}

/// The path of this process in the hierarchy of version 2.
fn own_path() -> io::Result<String> {
    let text = fs::read_to_string("/proc/self/cgroup")?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"));
    path.map(str::to_owned).ok_or_else(|| io::Error::other("this process is in no cgroup of version 2"))
}

/// The folder of a cgroup with this path from the root of the hierarchy.
fn folder_of(path: &str) -> Option<PathBuf> {
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    mounts.split(|&byte| byte == b'\n').find_map(|line| folder_in(line, path))
}

/// The folder of a cgroup below the mount point in a line of `mountinfo`, if that is of version 2 and contains the cgroup.
fn folder_in(line: &[u8], path: &str) -> Option<PathBuf> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    (*fields.get(separator + 1)? == b"cgroup2").then_some(())?;
    let (root, mount_point) = (unescaped(fields.get(3)?), unescaped(fields.get(4)?));
    let below = Path::new(path).strip_prefix(OsStr::from_bytes(&root)).ok()?;
    // Otherwise it is a cgroup outside our namespace, or a manipulated path.
    below.components().all(|part| matches!(part, Component::Normal(_))).then_some(())?;
    Some(Path::new(OsStr::from_bytes(&mount_point)).join(below))
}

/// A folder and all folders below it, parents first.
fn with_folders_below(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut next = 0;
    while let Some(folder) = folders.get(next) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let below: Vec<PathBuf> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect();
        folders.extend(below);
        next += 1;
    }
    folders
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
