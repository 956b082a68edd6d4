//! The archive that a run uses: from the agent's own tools folder, or a version fetched from the controller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use super::source::open_archive;
use super::{ToolCache, ToolError};
use base::{ToolDigest, ToolName};
use proc::files::file_digest::digest_of;
use proc::files::file_stamp::FileStamp;

/// The archive that a run uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolVersion {
    /// Name of the tool.
    pub tool: ToolName,
    /// The fetched version; `None` for the archive in the tools folder.
    pub fetched: Option<ToolDigest>,
}

impl From<&ToolName> for ToolVersion {
    fn from(tool: &ToolName) -> Self {
        Self { tool: tool.clone(), fetched: None }
    }
}

impl From<&Self> for ToolVersion {
    fn from(version: &Self) -> Self {
        version.clone()
    }
}

/// The digests of archives in the tools folder, each with the stamp of the file when it was read.
#[derive(Default)]
pub(super) struct OwnDigests(Mutex<BTreeMap<ToolName, (FileStamp, bool, ToolDigest)>>);

/// The file whose modification time records the last use of a fetched version.
pub fn used_mark(dir: &Path, digest: &ToolDigest) -> PathBuf {
    dir.join(format!("{digest}.used"))
}

/// Archives whose digests a process remembers.
const OWN_DIGESTS_MAX: usize = 1000;

impl ToolCache {
    /// The digest of the archive in the tools folder; `None` if there is no archive. If the archive must be read and has more
    /// than `bytes_max` bytes, the result is an error of the kind `WouldBlock`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn own_digest(&self, tool: &ToolName, bytes_max: u64) -> Result<Option<ToolDigest>, ToolError> {
        let identity = self.stamp(&ToolVersion::from(tool));
        let Some(identity) = identity else { return Ok(None) };
        let known = || self.own.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, true, digest)) = known().get(tool)
            && *seen == identity
        {
            return Ok(Some(*digest));
        }
        let path = || self.tools_dir.join(tool.archive_name());
        let failed = |error: io::Error| ToolError::io("read", &path(), error);
        if identity.size > bytes_max {
            return Err(failed(io::ErrorKind::WouldBlock.into()));
        }
        let (file, stamp, is_settled) = match open_archive(&self.tools_dir, tool) {
            Ok(opened) => opened,
            // A link that leads elsewhere does not stand in the way of a pushed archive.
            Err(ToolError::Missing { .. } | ToolError::Outside { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let digest = digest_of(&file).map_err(failed)?;
        let mut known = known();
        if known.len() >= OWN_DIGESTS_MAX {
            known.clear();
        }
        known.insert(tool.clone(), (stamp, is_settled, digest));
        Ok(Some(digest))
    }

    /// Records the use of a fetched version: the least recently used ones are removed first. A file beside it keeps the time,
    /// because a change of its own times would look like a change of its content.
    pub(super) fn note_use(&self, version: &ToolVersion) {
        let Some(digest) = &version.fetched else { return };
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        // A version in the store of a controller has no such file.
        let _ = utimensat(CWD, used_mark(&self.fetched_dirs[0], digest), &times, AtFlags::SYMLINK_NOFOLLOW);
    }

    /// The file of a version.
    pub(super) fn path(&self, version: &ToolVersion) -> PathBuf {
        match &version.fetched {
            None => self.tools_dir.join(version.tool.archive_name()),
            Some(digest) => {
                let [first, second] = &self.fetched_dirs;
                let fetched = first.join(digest.to_string());
                if fetched.exists() { fetched } else { second.join(digest.to_string()) }
            }
        }
    }

    /// The stamp of a version's archive, which changes when the file is written; `None` if there is no archive.
    #[must_use]
    pub fn stamp(&self, version: &ToolVersion) -> Option<FileStamp> {
        let metadata = fs::metadata(self.path(version));
        metadata.ok().map(|metadata| FileStamp::from(&metadata))
    }
}
