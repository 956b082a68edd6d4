//! The archives of tools, and the files of tasks, that the controller holds: `STATE_DIR/archives/`.
//!
//! | name | content |
//! |---|---|
//! | `<sha-256>` | a version, or a file: complete, synced, and only ever replaced by the same bytes |
//! | `incoming/<sha-256>` | the first part of a pushed version, or of a file that is put |
//! | `incoming/<sha-256>-<connection>` | the same for a file of a client that may not send commands |
//! | `incoming/<sha-256>.<digits>` | a file that a process of the same machine puts there itself; it is renamed when it is complete. On most file systems it has no name before that |
//! | `<sha-256>.damaged` | a version whose bytes have changed; it is never served |
//! | `log` | the pushed names, and those of the tools folder: a line for each change, appended and synced |
//! | `.new` | a version that is being copied from the tools folder |
//! | `.fetched-<sha-256>` | the first part of a file that comes from the [`mirror`] |
//!
//! A version appears under its name by one rename, after its digest was found right. Before its first byte is sent, a version is
//! read once in each life of the controller, and again when its file has changed or an agent has received other bytes. A large one
//! is read in steps, between which other orders are carried out. One thread owns the folder ([`thread`]). The engine knows which
//! versions are there. If other machines may lead the queue, a file or a name is reported as present only when the mirror has it
//! too.

mod defects;
mod intake;
mod log;
mod mirror;
mod pushes;
mod reads;
mod thread;
mod uploads;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use defects::{REMEDY, defective};
pub use mirror::{Mirror, fetch_all, send_all};
pub use thread::{Archives, ArchivesError};

use api::archives_dir::{INCOMING, dir_in, folder_identity};
use api::tools::{ArchiveError, Limits, survey};
use api::wire::{Refusal, tool_manifest};
use base::code::Code;
use base::{HeldTool, ToolDigest, ToolManifest, ToolName, ToolPaths};
use engine::StoredTools;
use proc::files::disk_room::{self, above_reserve};
use proc::files::file_digest::digest_of;
use proc::files::file_stamp::FileStamp;

/// The folder, as its thread sees it.
struct ArchiveStore {
    dir: PathBuf,
    /// The controller's own tools folder.
    tools_dir: PathBuf,
    limits: Limits,
    /// Free bytes of the disk below which no file is put here.
    disk_reserve: u64,
    /// The versions that were found right, with their files then.
    verified: BTreeMap<ToolDigest, FileStamp>,
    /// The versions that are being checked, with their files when that began.
    checking: BTreeMap<ToolDigest, (FileStamp, uploads::Upload)>,
    log: log::PushLog,
    uploads: uploads::Uploads,
    /// The place where other machines find these files.
    mirrored: Option<mirror::Mirrored>,
    /// The files that are sent there between other work.
    unsent: BTreeSet<ToolDigest>,
    /// The tools of the tools folder whose archives are here, but could not be sent.
    unsent_tools: BTreeSet<ToolName>,
    /// Why archives of the tools folder are not taken, so that each reason is logged once.
    refused: BTreeMap<ToolName, String>,
}

impl ArchiveStore {
    /// Makes the folder if it is missing.
    fn open(
        state_dir: &Path,
        tools_dir: PathBuf,
        limits: Limits,
        disk_reserve: u64,
        mirror: Option<Box<dyn Mirror>>,
    ) -> io::Result<Self> {
        let dir = dir_in(state_dir);
        DirBuilder::new().mode(0o700).recursive(true).create(dir.join(INCOMING))?;
        let mut mirrored = mirror.map(mirror::Mirrored::open).transpose()?;
        let log = log::PushLog::open(&dir, mirrored.as_mut())?;
        let (verified, checking, uploads) = (BTreeMap::new(), BTreeMap::new(), uploads::Uploads::default());
        let (unsent, unsent_tools, refused) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        let mut store = Self {
            dir,
            tools_dir,
            limits,
            disk_reserve,
            verified,
            checking,
            log,
            uploads,
            mirrored,
            unsent,
            unsent_tools,
            refused,
        };
        store.remove_abandoned()?;
        store.note_gone();
        Ok(store)
    }

    /// The versions, the pushed names and the identity of the tools folder.
    fn stored(&mut self) -> io::Result<StoredTools> {
        let mut stored = StoredTools {
            folder: folder_identity(&self.tools_dir),
            store: folder_identity(&self.dir),
            ..StoredTools::default()
        };
        let mut held = self.files()?;
        if let Some(mirrored) = &self.mirrored {
            let is_unsent = |digest: &ToolDigest| !mirrored.files().contains_key(digest);
            self.unsent = held.keys().copied().filter(is_unsent).collect();
            held.extend(mirrored.files());
        }
        stored.held = held.into_iter().collect();
        for held in self.names() {
            // A version that is gone is not offered; its name is kept, so that the same archive can be pushed again.
            let file = match self.open_version(&held.digest) {
                Err(error) if error.kind() != io::ErrorKind::NotFound && self.mirrored.is_some() => return Err(error),
                opened => opened.ok(),
            };
            let found = file.and_then(|file| look_into(&file, &held.name, &self.limits).ok());
            let held = found.map(|(manifest, paths)| HeldTool { manifest, paths, ..held });
            stored.pushed.extend(held);
        }
        Ok(stored)
    }

    /// The files of the folder, each with its size in bytes.
    fn files(&self) -> io::Result<BTreeMap<ToolDigest, u64>> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_name().as_bytes().starts_with(mirror::FETCHED.as_bytes()) {
                fs::remove_file(entry.path())?;
                continue;
            }
            let digest = entry.file_name().to_str().and_then(|name| name.parse::<ToolDigest>().ok());
            let metadata = entry.metadata()?;
            files.extend(digest.filter(|_| metadata.is_file()).map(|digest| (digest, metadata.len())));
        }
        Ok(files)
    }

    /// The versions of all names outside of the tools folder: the pushed ones, and those that the folders of other machines had.
    fn names(&self) -> Vec<HeldTool> {
        let is_ours = |tool: &ToolName| self.tools_dir.join(tool.archive_name()).exists();
        let elsewhere = self.log.of_folder().filter(|held| *held.by != *self.by() && !is_ours(&held.name));
        let mut names: BTreeMap<&ToolName, &HeldTool> = self.log.present().map(|held| (&held.name, held)).collect();
        names.extend(elsewhere.map(|held| (&held.name, held)));
        names.into_values().cloned().collect()
    }

    /// The sentence about a disk that has no more room than its reserve.
    fn little_room(&self) -> Option<String> {
        let above = File::open(&self.dir).and_then(|dir| above_reserve(&dir, self.disk_reserve)).ok()?;
        let free = disk_room::free(&self.dir).filter(|_| above == 0)?;
        Some(format!(
            "the disk of {} has {free} bytes free, no more than its reserve (DISK_RESERVE)",
            self.dir.display()
        ))
    }

    fn path(&self, digest: &ToolDigest) -> PathBuf {
        self.dir.join(digest.to_string())
    }

    /// Puts a complete file under the name of its digest.
    fn publish(&mut self, from: &Path, digest: &ToolDigest) -> io::Result<()> {
        let file = File::open(from)?;
        file.sync_all()?;
        fs::rename(from, self.path(digest))?;
        File::open(&self.dir)?.sync_all()?;
        self.verified.insert(*digest, FileStamp::from(&fs::metadata(self.path(digest))?));
        Ok(())
    }

    /// Sends a step of a file to the mirror. Returns whether the mirror has all of it.
    fn send(&mut self, digest: &ToolDigest) -> io::Result<bool> {
        let path = self.path(digest);
        self.mirrored.as_mut().map_or(Ok(true), |mirrored| mirrored.send(digest, &path))
    }

    /// Sends an archive to the mirror.
    fn send_all(&mut self, digest: &ToolDigest) -> io::Result<()> {
        while !self.send(digest)? {}
        Ok(())
    }

    /// Sends a step of the files that only this folder has. Returns whether some are left.
    fn send_on(&mut self) -> bool {
        let Some(&digest) = self.unsent.first() else { return false };
        match self.send(&digest) {
            Ok(false) => {}
            Ok(true) => drop(self.unsent.remove(&digest)),
            // The file was discarded meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => drop(self.unsent.remove(&digest)),
            Err(error) => {
                ::log::warn!("the file {} is not sent to the store of the queue yet: {error}", digest.short());
                return false;
            }
        }
        !self.unsent.is_empty()
    }
}

/// The `tool.toml` of an archive and the paths in it, if an agent could run the archive.
///
/// # Errors
/// The reason why none could, or the defect of the `tool.toml`.
fn look_into(file: &File, tool: &ToolName, limits: &Limits) -> Result<(Option<Arc<ToolManifest>>, ToolPaths), String> {
    let found = survey(file, tool, limits, &AtomicBool::new(false)).map_err(|error| match error {
        ArchiveError::NoScript => format!("it has no {tool}/run.sh"),
        error => error.to_string(),
    })?;
    let paths = ToolPaths::new(found.files.into_iter().map(|(path, _)| path));
    let Some(manifest) = found.manifest else { return Ok((None, paths)) };
    let text = String::from_utf8(manifest).map_err(|_| "tool.toml is not UTF-8".to_owned())?;
    tool_manifest::parse(&text).map(|manifest| (Some(Arc::new(manifest)), paths))
}

/// The refusal of a request because of the store.
fn refused(what: &str, tool: &ToolName, error: &io::Error) -> Refusal {
    Refusal::new(Code::LimitReached, format!("cannot {what} the archive of tool {tool} in the store: {error}"))
}

#[cfg(test)]
mod tests;
