//! The archives of tools, and the files of tasks, that the controller holds: `STATE_DIR/archives/`.
//!
//! | name | content |
//! |---|---|
//! | `<sha-256>` | a version, or a file: complete, synced, and only ever replaced by the same bytes |
//! | `incoming/<sha-256>` | the first part of a pushed version, or of a file that is put |
//! | `incoming/<sha-256>-<connection>` | the same of a file of a client that may not send commands |
//! | `incoming/<sha-256>.<digits>` | a file that a process of the same machine puts there itself; it is renamed when it is complete. On most file systems it has no name before that |
//! | `<sha-256>.damaged` | a version whose bytes have changed; it is never served |
//! | `log` | the pushed names, and those of the tools folder: a line for each change, appended and synced |
//! | `.new` | a version that is being copied from the tools folder |
//!
//! A version appears under its name by one rename, after its digest was found right. Before the first byte of it is sent, it
//! is read once in each life of the controller, and again when its file has changed or an agent has received other bytes. A
//! large one is read in steps, between which other orders are carried out. One thread owns the folder ([`thread`]); which versions are there is the concern of the engine.

mod defects;
mod intake;
mod log;
mod pushes;
mod reads;
mod thread;
mod uploads;
mod watch;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use defects::{Defective, defective};
pub use thread::{Archives, ArchivesError};

use crate::engine::StoredTools;
use api::archives_dir::{INCOMING, dir_in, folder_identity};
use api::tools::{Limits, survey};
use api::wire::{Refusal, tool_manifest};
use base::code::Code;
use base::{ToolDigest, ToolManifest, ToolName, ToolPaths};
use proc::files::disk_room::{self, above_reserve};
use proc::files::file_digest::digest_of;
use proc::files::file_stamp::FileStamp;

/// The folder, as its thread sees it.
struct ArchiveStore {
    dir: PathBuf,
    /// The controller's own tools folder.
    tools_dir: PathBuf,
    limits: Limits,
    /// Free bytes of the disk below which nothing is put here.
    disk_reserve: u64,
    /// The versions that were found right, with their files then.
    verified: BTreeMap<ToolDigest, FileStamp>,
    /// The versions that are being checked, with their files when that began.
    checking: BTreeMap<ToolDigest, (FileStamp, uploads::Upload)>,
    log: log::PushLog,
    uploads: uploads::Uploads,
}

impl ArchiveStore {
    /// Makes the folder if it is missing.
    fn open(state_dir: &Path, tools_dir: PathBuf, limits: Limits, disk_reserve: u64) -> io::Result<Self> {
        let dir = dir_in(state_dir);
        DirBuilder::new().mode(0o700).recursive(true).create(dir.join(INCOMING))?;
        let log = log::PushLog::open(&dir)?;
        let (verified, checking, uploads) = (BTreeMap::new(), BTreeMap::new(), uploads::Uploads::default());
        let mut store = Self { dir, tools_dir, limits, disk_reserve, verified, checking, log, uploads };
        store.remove_abandoned()?;
        store.note_gone();
        Ok(store)
    }

    /// The versions, the pushed names and the identity of the tools folder.
    fn stored(&self) -> io::Result<StoredTools> {
        let mut stored = StoredTools {
            folder: folder_identity(&self.tools_dir),
            store: folder_identity(&self.dir),
            ..StoredTools::default()
        };
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let digest = entry.file_name().to_str().and_then(|name| name.parse::<ToolDigest>().ok());
            let metadata = entry.metadata()?;
            stored.held.extend(digest.filter(|_| metadata.is_file()).map(|digest| (digest, metadata.len())));
        }
        for held in self.log.present() {
            // A version that is gone is not offered; its name is kept, so that the same archive can be pushed again.
            let found = File::open(self.path(&held.digest))
                .ok()
                .and_then(|file| look_into(&file, &held.name, &self.limits).ok());
            let held = found.map(|(manifest, paths)| base::HeldTool { manifest, paths, ..held.clone() });
            stored.pushed.extend(held);
        }
        Ok(stored)
    }

    /// The sentence of a disk that has no more room than its reserve.
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
}

/// What the `tool.toml` of an archive says and which paths it has, if an agent could run the archive.
///
/// # Errors
/// The reason why none could, or the defect of the `tool.toml`.
fn look_into(file: &File, tool: &ToolName, limits: &Limits) -> Result<(Option<Arc<ToolManifest>>, ToolPaths), String> {
    let found = survey(file, tool, limits, &AtomicBool::new(false)).map_err(|error| error.to_string())?;
    if !found.has_script {
        return Err(format!("it has no {tool}/run.sh"));
    }
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
