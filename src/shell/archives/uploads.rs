//! Files that are put: parts of them are appended until they are complete, and are hashed as they arrive.
//!
//! | event | then |
//! |---|---|
//! | a part continues its file | it is written and hashed |
//! | bytes are there that were not hashed: after a restart, or put there by a process of this machine | each request hashes [`STEP_BYTES`] of them, so that the thread stays free for others |
//! | a file is in the store since before a restart | the same, until it has been checked once |
//! | a file is complete and hashed | it goes to its own name if the digest is right; otherwise it is removed, and begins anew |
//! | the disk is full | the part is refused, and the earlier ones are removed: nothing may continue them |
//! | a file begins, and those that arrive would have more bytes than the store has left | those without a part for [`IDLE`] make room; if that is not enough, it is refused |
//! | a file had no part for [`AGE_MAX`] | it is removed when the next one begins, or the controller starts |

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::{ArchiveStore, INCOMING};
use crate::engine::controller::FileWritten;
use crate::protocol::Refusal;
use crate::protocol::code::Code;
use crate::protocol::requests::file::FilePut;
use crate::shell::clock;
use crate::shell::disk_room::is_full;
use crate::shell::file_stamp::{FileStamp, wall};
use crate::types::ToolDigest;

/// Archives and files that may be incomplete at the same time; the one that has waited longest for its next part makes room.
const INCOMING_MAX: usize = 256;

/// A file without a part for this time gives its room to another one.
const IDLE: Duration = Duration::from_mins(10);

/// A file without a part for this time is removed.
const AGE_MAX: Duration = Duration::from_hours(24);

/// Bytes that one request reads and hashes, and after which what was written is synced: some ten milliseconds.
const STEP_BYTES: u64 = 32 << 20;

/// The state of a version on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// It has its own bytes.
    Right,
    /// It has so many bytes, and not all of them have been read.
    Unfinished(u64),
    /// It is missing, or had other bytes.
    Lost,
}

/// A file that arrives, or that is checked.
pub(super) struct Upload {
    total: u64,
    /// Device and inode of the file whose bytes were hashed.
    identity: (u64, u64),
    hash: Sha256,
    hashed: u64,
}

/// The incomplete files of the store.
pub(super) type Uploads = BTreeMap<ToolDigest, Upload>;

impl ArchiveStore {
    pub(super) fn incoming(&self, digest: &ToolDigest) -> PathBuf {
        self.dir.join(INCOMING).join(digest.to_string())
    }

    /// Writes a part of a file, unless it does not begin where the earlier ones end. The store has `room` more bytes.
    ///
    /// # Errors
    /// When the disk is full, or the store.
    pub(super) fn write_file(&mut self, put: &FilePut, room: u64) -> Result<FileWritten, Refusal> {
        let digest = put.digest;
        let failed = |error: io::Error| {
            let message = format!("cannot write the file {} into the store: {error}", digest.short());
            Refusal::new(Code::LimitReached, message)
        };
        match self.check(&digest).map_err(failed)? {
            Check::Right => {
                let end = fs::metadata(self.path(&digest)).map_err(failed)?.len();
                return Ok(FileWritten { digest, end, is_whole: true });
            }
            // The sender asks again.
            Check::Unfinished(end) => return Ok(FileWritten { digest, end, is_whole: false }),
            Check::Lost => {}
        }
        let path = self.incoming(&digest);
        self.reserve(&digest, put.total, room)?;
        let appended = append(&path, (put.total, put.offset), &put.data);
        let appended = appended.inspect_err(|error| remove_if_full(&path, error));
        let (file, begin, end) = appended.map_err(failed)?;
        let upload = self.uploads.entry(digest).or_insert_with(|| Upload::new(put.total));
        let written = if end > begin { &*put.data } else { &[] };
        upload.hash(&file, (begin, written), end).map_err(failed)?;
        if !upload.is_hashed() {
            return Ok(FileWritten { digest, end, is_whole: false });
        }
        let found = self.uploads.remove(&digest).map(Upload::digest);
        if found != Some(digest) {
            log::warn!("the file {} has arrived with wrong bytes", digest.short());
            fs::remove_file(&path).map_err(failed)?;
            return Ok(FileWritten { digest, end: 0, is_whole: false });
        }
        self.publish(&path, &digest).map_err(failed)?;
        Ok(FileWritten { digest, end, is_whole: true })
    }

    /// Makes sure that a file of this size may begin to arrive, if it has not.
    ///
    /// # Errors
    /// When files that arrive at the moment need the room.
    pub(super) fn reserve(&mut self, digest: &ToolDigest, total: u64, room: u64) -> Result<(), Refusal> {
        if self.incoming(digest).exists() {
            return Ok(());
        }
        let failed = |error: io::Error| {
            let message = format!("cannot make room for {} in the store: {error}", digest.short());
            Refusal::new(Code::LimitReached, message)
        };
        let mut arriving = self.arriving().map_err(failed)?;
        let mut bytes = arriving.iter().fold(total, |sum, (_, bytes, _)| sum.saturating_add(*bytes));
        // The one that has waited longest comes first.
        arriving.sort_unstable_by(|one, other| other.cmp(one));
        let mut count = arriving.len();
        for (idle, its_bytes, path) in &arriving {
            let is_full = bytes > room && *idle > IDLE;
            if is_full || count >= INCOMING_MAX || *idle > AGE_MAX {
                fs::remove_file(path).map_err(failed)?;
                bytes -= its_bytes;
                count -= 1;
            }
        }
        let incoming = self.dir.join(INCOMING);
        self.uploads.retain(|digest, _| incoming.join(digest.to_string()).exists());
        if bytes > room {
            let message = format!(
                "the file {} has {total} bytes, and files that arrive at the moment take {} of the {room} bytes that the store of \
                 the controller has left (FILE_STORE_BYTES_MAX); try again later, or raise the limit",
                digest.short(),
                bytes - total
            );
            return Err(Refusal::new(Code::LimitReached, message));
        }
        Ok(())
    }

    /// The incomplete files: how long each has had no part, its bytes in the end, if that is known, and its place.
    fn arriving(&self) -> io::Result<Vec<(Duration, u64, PathBuf)>> {
        let now = clock::now().wall;
        let of = |entry: fs::DirEntry| {
            let stamp = FileStamp::from(&entry.metadata()?);
            let digest = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let upload = digest.and_then(|digest: ToolDigest| self.uploads.get(&digest));
            let bytes = upload.map_or(stamp.size, |upload| upload.total.max(stamp.size));
            Ok((now.since(wall(stamp.modified)), bytes, entry.path()))
        };
        let gone = |found: &io::Result<_>| {
            // A process of this machine has renamed its own.
            !found.as_ref().is_err_and(|error: &io::Error| error.kind() == io::ErrorKind::NotFound)
        };
        fs::read_dir(self.dir.join(INCOMING))?.map(|entry| entry.and_then(of)).filter(gone).collect()
    }

    /// Removes files that nothing continues.
    pub(super) fn remove_abandoned(&self) -> io::Result<()> {
        let mut abandoned = self.arriving()?.into_iter().filter(|(idle, ..)| *idle > AGE_MAX);
        abandoned.try_for_each(|(.., path)| fs::remove_file(path))
    }
}

impl Upload {
    pub(super) fn new(total: u64) -> Self {
        Self { total, identity: (0, 0), hash: Sha256::new(), hashed: 0 }
    }

    /// Whether all bytes have been hashed.
    pub(super) const fn is_hashed(&self) -> bool {
        self.hashed >= self.total
    }

    /// The digest of the hashed bytes.
    pub(super) fn digest(self) -> ToolDigest {
        ToolDigest::new(self.hash.finalize().into())
    }

    /// Hashes a part that has been written at the end of a file, or bytes that are there and were not hashed.
    fn hash(&mut self, file: &File, (begin, written): (u64, &[u8]), end: u64) -> io::Result<()> {
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        if self.identity != identity || self.hashed > end {
            *self = Self { identity, ..Self::new(self.total) };
        }
        if self.hashed == begin {
            self.hash.update(written);
            self.hashed = end;
            return Ok(());
        }
        self.hash_on(file, end)
    }

    /// Hashes some of the bytes up to this end.
    pub(super) fn hash_on(&mut self, file: &File, end: u64) -> io::Result<()> {
        let until = end.min(self.hashed + STEP_BYTES);
        let mut chunk = vec![0; 1 << 17];
        while self.hashed < until {
            let bytes = usize::try_from(until - self.hashed).unwrap_or(chunk.len()).min(chunk.len());
            file.read_exact_at(&mut chunk[..bytes], self.hashed)?;
            self.hash.update(&chunk[..bytes]);
            self.hashed += bytes as u64;
        }
        Ok(())
    }
}

/// A part that nothing continues would keep a full disk full.
fn remove_if_full(path: &Path, error: &io::Error) {
    if is_full(error) {
        let _ = fs::remove_file(path);
    }
}

/// Appends a part to a file, unless it does not begin where the file ends. Returns the file, and its bytes before and after that.
pub(super) fn append(path: &Path, (total, offset): (u64, u64), data: &[u8]) -> io::Result<(File, u64, u64)> {
    let mut file = fs::OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let end = file.metadata()?.len();
    if end > total {
        file.set_len(0)?;
        return Ok((file, 0, 0));
    }
    if end != offset || data.is_empty() {
        return Ok((file, end, end));
    }
    if let Err(error) = file.write_all(data) {
        file.set_len(end)?;
        return Err(error);
    }
    let new_end = end + data.len() as u64;
    if end / STEP_BYTES != new_end / STEP_BYTES {
        // A sync of all at the end would hold up the thread.
        file.sync_data()?;
    }
    Ok((file, end, new_end))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::shell::tools::Limits;

    const ROOM: u64 = 1 << 40;

    fn open(ground: &Path) -> ArchiveStore {
        let limits = Limits::from(&crate::config::Config::default().archive);
        ArchiveStore::open(&ground.join("state"), ground.join("tools"), limits).unwrap()
    }

    fn put(bytes: &[u8], offset: usize, data: &[u8]) -> FilePut {
        let digest = ToolDigest::new(Sha256::digest(bytes).into());
        FilePut { digest, total: bytes.len() as u64, offset: offset as u64, data: data.to_vec() }
    }

    /// A file had its last part this long ago.
    fn age(store: &ArchiveStore, bytes: &[u8], age: Duration) {
        let file = fs::OpenOptions::new().append(true).open(store.incoming(&put(bytes, 0, &[]).digest)).unwrap();
        let now = Duration::from_micros(clock::now().wall.micros());
        file.set_modified(SystemTime::UNIX_EPOCH + now - age).unwrap();
    }

    /// A restart forgets the hash; the bytes on the disk count, not those of a part that is repeated.
    #[test]
    fn a_file_goes_on_after_a_restart_and_is_checked_whole() {
        for is_damaged in [false, true] {
            let ground = tempfile::tempdir().unwrap();
            let bytes = b"onetwo".to_vec();
            let first = put(&bytes, 0, b"one");
            assert_eq!(open(ground.path()).write_file(&first, ROOM).map(|written| written.end), Ok(3));
            let mut store = open(ground.path());
            if is_damaged {
                fs::write(store.incoming(&first.digest), b"0ne").unwrap();
            }
            assert_eq!(store.write_file(&first, ROOM).map(|written| written.end), Ok(3), "the part is there");
            let written = store.write_file(&put(&bytes, 3, b"two"), ROOM).unwrap();
            assert_eq!((written.end, written.is_whole), if is_damaged { (0, false) } else { (6, true) });
            assert_eq!(store.path(&first.digest).exists(), !is_damaged);
            assert!(!store.incoming(&first.digest).exists());
        }
    }

    /// The thread has other things to do meanwhile.
    #[test]
    fn a_large_file_that_is_there_is_checked_in_steps() {
        let ground = tempfile::tempdir().unwrap();
        let bytes = vec![7; usize::try_from(2 * STEP_BYTES).unwrap() + 1];
        let ask = put(&bytes, bytes.len(), &[]);
        let mut store = open(ground.path());
        fs::write(store.incoming(&ask.digest), &bytes).unwrap();
        let steps = [(); 3].map(|()| store.write_file(&ask, ROOM).unwrap().is_whole);
        assert_eq!(steps, [false, false, true]);
    }

    #[test]
    fn files_that_arrive_are_bounded_by_their_bytes_and_their_age() {
        let ground = tempfile::tempdir().unwrap();
        let (first, second, third) = ([1; 600], [2; 600], [3; 300]);
        let mut store = open(ground.path());
        let mut begin = |bytes: &[u8]| store.write_file(&put(bytes, 0, &bytes[..1]), 1000).map(|written| written.end);
        assert_eq!(begin(&first), Ok(1));
        let refusal = begin(&second).unwrap_err();
        assert!(refusal.message.contains("take 600 of the 1000 bytes"), "{refusal}");
        assert_eq!([begin(&third), begin(&first)], [Ok(1), Ok(1)]);
        age(&store, &first, IDLE * 2);
        let mut begin = |bytes: &[u8]| store.write_file(&put(bytes, 0, &bytes[..1]), 1000).map(|written| written.end);
        assert_eq!(begin(&second), Ok(1), "nothing seems to continue the first one");
        assert!(!store.incoming(&put(&first, 0, &[]).digest).exists());
        age(&store, &second, AGE_MAX * 2);
        assert!(!open(ground.path()).incoming(&put(&second, 0, &[]).digest).exists());
        assert!(store.incoming(&put(&third, 0, &[]).digest).exists());
    }
}
