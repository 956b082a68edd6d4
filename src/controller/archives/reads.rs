//! Parts of versions for agents, and lists of their files for people.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::AtomicBool;

use super::mirror::FETCHED;
use super::uploads::{Check, Upload};
use super::{ArchiveStore, refused};
use api::tools::survey;
use api::wire::Refusal;
use api::wire::requests::tool::{ToolFile, ToolPart};
use base::code::Code;
use base::{ToolDigest, ToolName};
use engine::ReadFailure;
use proc::files::file_stamp::FileStamp;

/// Bytes that are read for one list of tools: a second of work on a slow machine, during which agents get no parts.
const CHECKED_BYTES_MAX: u64 = 256 << 20;

impl ArchiveStore {
    /// Whether a version is there with its own bytes; with others, it is put aside. This reads all of it, so it is for archives
    /// only: a file of a task may be large.
    pub(super) fn is_right(&mut self, digest: &ToolDigest) -> io::Result<bool> {
        loop {
            match self.check(digest)? {
                Check::Right => return Ok(true),
                Check::Lost => return Ok(false),
                Check::Unfinished(_) => {}
            }
        }
    }

    /// Checks a version, or a part of it, so that the thread can do other things in between.
    pub(super) fn check(&mut self, digest: &ToolDigest) -> io::Result<Check> {
        let path = self.path(digest);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.fetch(digest),
            Err(error) => return Err(error),
        };
        let stamp = FileStamp::from(&file.metadata()?);
        if self.verified.get(digest) == Some(&stamp) {
            return Ok(Check::Right);
        }
        let (of, upload) = self.checking.remove(digest).unwrap_or_else(|| (stamp, Upload::new(stamp.size)));
        let mut upload = if of == stamp { upload } else { Upload::new(stamp.size) };
        upload.hash_on(&file, stamp.size)?;
        if !upload.is_hashed() {
            self.checking.insert(*digest, (stamp, upload));
            return Ok(Check::Unfinished(stamp.size));
        }
        if upload.digest() == *digest {
            self.verified.insert(*digest, stamp);
            return Ok(Check::Right);
        }
        self.verified.remove(digest);
        let aside = path.with_extension("damaged");
        log::error!("{} has other bytes than its name says; it is put aside as {}", path.display(), aside.display());
        fs::rename(&path, aside)?;
        self.fetch(digest)
    }

    /// Fetches a step of a file from the mirror, if that has it.
    fn fetch(&mut self, digest: &ToolDigest) -> io::Result<Check> {
        let Some(mirrored) = &mut self.mirrored else { return Ok(Check::Lost) };
        let bytes = mirrored.files().get(digest).copied().unwrap_or_default();
        let path = self.dir.join(format!("{FETCHED}{digest}"));
        match mirrored.fetch(digest, &path)? {
            None => return Ok(Check::Lost),
            Some(false) => return Ok(Check::Unfinished(bytes)),
            Some(true) => {}
        }
        self.publish(&path, digest)?;
        Ok(Check::Right)
    }

    /// The missing or damaged ones among these versions, as far as can be told in the time that a client waits: the bytes of at
    /// most [`CHECKED_BYTES_MAX`] are read, and each version is read once in a life of the controller.
    pub(super) fn lost_of(&mut self, mut digests: Vec<ToolDigest>) -> Vec<ToolDigest> {
        let mut left = CHECKED_BYTES_MAX;
        digests.retain(|digest| {
            let Ok(metadata) = fs::metadata(self.path(digest)) else {
                return self.mirrored.as_ref().is_none_or(|mirrored| !mirrored.files().contains_key(digest));
            };
            if self.verified.get(digest) == Some(&FileStamp::from(&metadata)) {
                return false;
            }
            if metadata.len() > left {
                return false;
            }
            left -= metadata.len();
            matches!(self.is_right(digest), Ok(false))
        });
        digests
    }

    /// Reads a part; `None` if the version has not been checked to its end.
    pub(super) fn read(
        &mut self,
        (digest, offset): (ToolDigest, u64),
        limit: u64,
        is_doubted: bool,
    ) -> Result<Option<ToolPart>, ReadFailure> {
        if is_doubted {
            self.verified.remove(&digest);
            self.checking.remove(&digest);
        }
        let failure = |is_lost, message: String| ReadFailure {
            digest,
            is_lost,
            refusal: Refusal::new(Code::NotAllowed, message),
        };
        let failed = |error: io::Error| failure(false, format!("the controller cannot read {digest}: {error}"));
        match self.check(&digest).map_err(failed)? {
            Check::Right => {}
            Check::Unfinished(_) => return Ok(None),
            Check::Lost => {
                let message = format!("{digest} is missing in the store of the controller, or damaged there");
                return Err(failure(true, message));
            }
        }
        let file = File::open(self.path(&digest)).map_err(failed)?;
        let total = file.metadata().map_err(failed)?.len();
        let bytes = limit.min(total.saturating_sub(offset));
        let mut data = vec![0; usize::try_from(bytes).unwrap_or_default()];
        file.read_exact_at(&mut data, offset).map_err(failed)?;
        Ok(Some(ToolPart::new((digest, offset), total, &data)))
    }

    /// Opens a version, which is fetched where the folder lacks it.
    pub(super) fn open_version(&mut self, digest: &ToolDigest) -> io::Result<File> {
        let path = self.path(digest);
        if !path.exists() {
            self.is_right(digest)?;
        }
        File::open(path)
    }

    /// Lists the files of a version.
    pub(super) fn list(&mut self, tool: &ToolName, digest: &ToolDigest) -> Result<Vec<ToolFile>, Refusal> {
        let file = self.open_version(digest).map_err(|error| refused("read", tool, &error))?;
        let found = survey(&file, tool, &self.limits, &AtomicBool::new(false))
            .map_err(|error| refused("read", tool, &io::Error::other(error)))?;
        Ok(found.files.into_iter().map(|(path, bytes)| ToolFile { path, bytes }).collect())
    }

    /// Removes a version.
    pub(super) fn discard(&mut self, digest: &ToolDigest) {
        self.verified.remove(digest);
        self.checking.remove(digest);
        self.unsent.remove(digest);
        if let Some(mirrored) = &mut self.mirrored
            && let Err(error) = mirrored.remove(digest)
        {
            // The next controller finds that nothing needs it.
            log::warn!("the file {} is not removed from the store of the queue: {error}", digest.short());
        }
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound && self.mirrored.is_some();
        if let Err(error) = fs::remove_file(self.path(digest))
            && !is_missing(&error)
        {
            log::warn!("cannot remove {}: {error}", self.path(digest).display());
        }
    }
}
