//! Files that are put: parts of them are appended until they are complete, and are hashed as they arrive.
//!
//! | event | then |
//! |---|---|
//! | a part continues its file | it is written and hashed |
//! | bytes are there that were not hashed: after a restart, or put there by a process of this machine | each request hashes [`STEP_BYTES`] of them, so that the thread stays free for others |
//! | a file is in the store since before a restart | the same, until it has been checked once |
//! | a file is complete and hashed | it goes to its own name if the digest is right; otherwise it is removed, and begins anew |
//! | there is a mirror | the same, until all of the file was sent there |
//! | the disk is full | the part is refused, and the earlier ones are removed: nothing may continue them |
//! | a file that begins, or a part, has more bytes than the store has left | files without a part for [`IDLE`] make room, for a run also those of all clients, for a client also those of senders that may not send commands; if that is not enough, it is refused |
//! | the disk would have less room than its reserve | the part is refused |
//! | a client that may not send commands puts a file | its parts are kept apart, so that neither it nor another sender can spoil the other's file; they are removed with its connection |
//! | a file had no part for [`AGE_MAX`] | it is removed when the next one begins, or the controller starts |

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::ArchiveStore;
use api::archives_dir::INCOMING;
use api::wire::Refusal;
use api::wire::requests::file::FilePut;
use base::ToolDigest;
use base::code::Code;
use engine::{ConnectionId, FileRoom, FileWritten, Uploader};
use proc::clock;
use proc::files::disk_room::{above_reserve, is_full};
use proc::files::file_stamp::{FileStamp, wall};

/// Maximum number of archives and files that may be incomplete at the same time. The one that has waited longest for its next part
/// makes room.
const INCOMING_MAX: usize = 256;

/// The incomplete files of one connection may fill the room for senders that may not send commands up to that room divided by this.
const SHARE: u64 = 4;

/// A file of such a sender without a part for this time gives its place to a file of another one.
const STRANGERS_IDLE: Duration = Duration::from_secs(10);

/// A file without a part for this time gives its room to another one.
const IDLE: Duration = Duration::from_mins(10);

/// A file without a part for this time is removed.
const AGE_MAX: Duration = Duration::from_hours(24);

/// Bytes that one request reads and hashes, and after which written bytes are synced: some ten milliseconds.
const STEP_BYTES: u64 = 32 << 20;

/// The state of a version on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// It has its own bytes.
    Right,
    /// It has this many bytes, and not all of them have been read.
    Unfinished(u64),
    /// It is missing, or had other bytes.
    Lost,
}

/// A file that arrives, or that is checked.
#[derive(Debug)]
pub(super) struct Upload {
    total: u64,
    /// Device and inode of the file whose bytes were hashed.
    identity: (u64, u64),
    hash: Sha256,
    hashed: u64,
    /// Whether a run has made it.
    is_of_run: bool,
}

/// The incomplete files of the store.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    /// The files that have had a part since the start, by their names.
    known: BTreeMap<String, Upload>,
    /// Bytes of all incomplete files: the last count, and the parts since then.
    bytes: u64,
}

/// An incomplete file on the disk.
struct Arriving {
    /// How long it has had no part.
    idle: Duration,
    bytes: u64,
    name: String,
}

impl ArchiveStore {
    pub(super) fn incoming(&self, name: &str) -> PathBuf {
        self.dir.join(INCOMING).join(name)
    }

    /// Writes a part of a file, unless it does not begin where the earlier ones end.
    ///
    /// # Errors
    /// When the disk is full, or the store.
    pub(super) fn write_file(&mut self, put: &FilePut, room: FileRoom) -> Result<FileWritten, Refusal> {
        let digest = put.digest;
        let failed = |error: io::Error| {
            let message = format!("cannot write the file {} into the store: {error}", digest.short());
            Refusal::new(Code::LimitReached, message)
        };
        let end = self.mirrored.as_ref().and_then(|mirrored| mirrored.files().get(&digest).copied());
        if let Some(end) = end.filter(|_| !self.path(&digest).exists()) {
            // It is fetched when it is needed.
            return Ok(FileWritten { digest, end, is_whole: true });
        }
        match self.check(&digest).map_err(failed)? {
            Check::Right => {
                let end = fs::metadata(self.path(&digest)).map_err(failed)?.len();
                let is_whole = self.send(&digest).map_err(failed)?;
                return Ok(FileWritten { digest, end, is_whole });
            }
            // The sender will ask again.
            Check::Unfinished(end) => return Ok(FileWritten { digest, end, is_whole: false }),
            Check::Lost => {}
        }
        let name = name_of(&digest, room.uploader);
        let path = self.incoming(&name);
        self.make_room(&name, (put.total, put.data.len()), room)?;
        if put.data.is_empty() && put.total > 0 && !path.exists() {
            return Ok(FileWritten { digest, end: 0, is_whole: false });
        }
        let appended = append(&path, (put.total, put.offset), &put.data);
        let appended = appended.inspect_err(|error| remove_if_full(&path, error));
        let (file, begin, end) = appended.map_err(failed)?;
        self.uploads.bytes += end.saturating_sub(begin);
        let upload = self.uploads.known.entry(name.clone()).or_insert_with(|| Upload::new(put.total));
        upload.is_of_run = room.uploader == Uploader::Run;
        let written = if end > begin { &*put.data } else { &[] };
        upload.hash(&file, (begin, written), end).map_err(failed)?;
        if !upload.is_hashed() {
            return Ok(FileWritten { digest, end, is_whole: false });
        }
        let found = self.uploads.known.remove(&name).map(Upload::digest);
        self.uploads.bytes = self.uploads.bytes.saturating_sub(end);
        if found != Some(digest) {
            log::warn!("the file {} has arrived with wrong bytes", digest.short());
            fs::remove_file(&path).map_err(failed)?;
            return Ok(FileWritten { digest, end: 0, is_whole: false });
        }
        self.publish(&path, &digest).map_err(failed)?;
        let is_whole = self.send(&digest).map_err(failed)?;
        Ok(FileWritten { digest, end, is_whole })
    }

    /// Makes sure that there is room for a part of a file of `total` bytes; if the file begins, for all of it.
    ///
    /// # Errors
    /// When there is no room.
    pub(super) fn make_room(&mut self, name: &str, (total, part): (u64, usize), room: FileRoom) -> Result<(), Refusal> {
        let failed = |error: io::Error| {
            Refusal::new(Code::LimitReached, format!("cannot make room for {name} in the store: {error}"))
        };
        let begins = !self.incoming(name).exists();
        let needed = if begins { total } else { part as u64 };
        let disk = File::open(&self.dir).and_then(|dir| above_reserve(&dir, self.disk_reserve)).map_err(failed)?;
        let disk = if let Uploader::Stranger(_) = room.uploader { disk / 2 } else { disk };
        let is_free = |bytes: u64| needed <= disk && bytes.saturating_add(needed) <= room.bytes;
        if !begins && is_free(self.uploads.bytes) {
            return Ok(());
        }
        let mut arriving = self.arriving().map_err(failed)?;
        self.uploads.bytes = arriving.iter().map(|file| file.bytes).sum();
        // The one that has waited longest comes first.
        arriving.sort_unstable_by_key(|file| std::cmp::Reverse(file.idle));
        let mut count = arriving.len() + usize::from(begins);
        for file in arriving.iter().filter(|file| file.name != name) {
            let is_in_the_way = count > INCOMING_MAX && self.gives_way(file, room.uploader)
                || !is_free(self.uploads.bytes) && (file.idle > IDLE || self.gives_room(file, room.uploader));
            if is_in_the_way || file.idle > AGE_MAX {
                fs::remove_file(self.incoming(&file.name)).map_err(failed)?;
                self.uploads.known.remove(&file.name);
                self.uploads.bytes -= file.bytes;
                count -= 1;
            }
        }
        let own = arriving.iter().filter(|file| is_of(&file.name, room.uploader)).map(|file| file.bytes).sum::<u64>();
        let is_over_its_share =
            matches!(room.uploader, Uploader::Stranger(_)) && own.saturating_add(needed) > room.bytes / SHARE;
        if count > INCOMING_MAX || is_over_its_share || !is_free(self.uploads.bytes) {
            let bytes = self.uploads.bytes;
            let why = if count > INCOMING_MAX {
                format!("{INCOMING_MAX} files arrive at the moment; try again later")
            } else if is_over_its_share {
                "files of this connection that arrive have their share of the store (FILE_STORE_BYTES_MAX)".to_owned()
            } else if needed > disk {
                format!("the disk of the store has {disk} bytes for it above its reserve (DISK_RESERVE); free some")
            } else {
                format!(
                    "files that arrive at the moment take {bytes} of the {} bytes that the store of the controller has left \
                     (FILE_STORE_BYTES_MAX); try again later, or raise the limit",
                    room.bytes
                )
            };
            let short = name.get(..12).unwrap_or(name);
            return Err(Refusal::new(Code::LimitReached, format!("the file {short} has {total} bytes, and {why}")));
        }
        Ok(())
    }

    /// Whether an incomplete file gives its place to a new one, if there are too many.
    fn gives_way(&self, file: &Arriving, uploader: Uploader) -> bool {
        match uploader {
            Uploader::Run | Uploader::Client => true,
            // Many small files of strangers must not end the uploads of others.
            Uploader::Stranger(_) => file.name.contains(OF_STRANGER) && file.idle > STRANGERS_IDLE,
        }
    }

    /// Whether an incomplete file gives its bytes to another one, although it may still have parts.
    fn gives_room(&self, file: &Arriving, uploader: Uploader) -> bool {
        let is_of_client = self.uploads.known.get(&file.name).is_some_and(|upload| !upload.is_of_run);
        match uploader {
            Uploader::Run => is_of_client,
            Uploader::Client => file.name.contains(OF_STRANGER),
            Uploader::Stranger(_) => false,
        }
    }

    /// The incomplete files.
    fn arriving(&self) -> io::Result<Vec<Arriving>> {
        let now = clock::now().wall;
        let of = |entry: fs::DirEntry| {
            let stamp = FileStamp::from(&entry.metadata()?);
            let name = entry.file_name().to_string_lossy().into_owned();
            Ok(Arriving { idle: now.since(wall(stamp.modified)), bytes: stamp.size, name })
        };
        let gone = |found: &io::Result<_>| {
            // A process of this machine may have renamed its own file meanwhile.
            !found.as_ref().is_err_and(|error: &io::Error| error.kind() == io::ErrorKind::NotFound)
        };
        fs::read_dir(self.dir.join(INCOMING))?.map(|entry| entry.and_then(of)).filter(gone).collect()
    }

    /// Removes files that nothing continues, and counts the others.
    pub(super) fn remove_abandoned(&mut self) -> io::Result<()> {
        let is_abandoned = |file: &Arriving| file.idle > AGE_MAX || file.name.contains(OF_STRANGER);
        let (abandoned, others): (Vec<_>, Vec<_>) = self.arriving()?.into_iter().partition(is_abandoned);
        self.uploads.bytes = others.iter().map(|file| file.bytes).sum();
        abandoned.into_iter().try_for_each(|file| fs::remove_file(self.incoming(&file.name)))
    }

    /// Removes the incomplete files of a connection that is gone.
    pub(super) fn remove_of(&mut self, connection: ConnectionId) {
        let uploader = Uploader::Stranger(connection);
        for file in self.arriving().unwrap_or_default().iter().filter(|file| is_of(&file.name, uploader)) {
            if let Err(error) = fs::remove_file(self.incoming(&file.name)) {
                log::warn!("cannot remove an incomplete file of a client: {error}");
            }
            self.uploads.known.remove(&file.name);
            self.uploads.bytes = self.uploads.bytes.saturating_sub(file.bytes);
        }
    }
}

/// Separates a digest from the connection of a sender that may not send commands.
const OF_STRANGER: char = '-';

/// The name of an incomplete file. All senders that may send commands share one for each file.
pub(super) fn name_of(digest: &ToolDigest, uploader: Uploader) -> String {
    match uploader {
        Uploader::Run | Uploader::Client => digest.to_string(),
        Uploader::Stranger(connection) => format!("{digest}{}", suffix(connection)),
    }
}

/// Whether a file with this name belongs to this sender alone.
fn is_of(name: &str, uploader: Uploader) -> bool {
    matches!(uploader, Uploader::Stranger(connection) if name.ends_with(&suffix(connection)))
}

fn suffix(ConnectionId { door, number }: ConnectionId) -> String {
    format!("{OF_STRANGER}{door}-{number}")
}

impl Upload {
    pub(super) fn new(total: u64) -> Self {
        Self { total, identity: (0, 0), hash: Sha256::new(), hashed: 0, is_of_run: false }
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
            *self = Self { identity, is_of_run: self.is_of_run, ..Self::new(self.total) };
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

    const ROOM: FileRoom = FileRoom { uploader: Uploader::Client, bytes: 1 << 40 };

    fn open(ground: &Path) -> ArchiveStore {
        let limits = api::config::Config::default().archive;
        ArchiveStore::open(&ground.join("state"), ground.join("tools"), limits, 0, None).unwrap()
    }

    fn put(bytes: &[u8], offset: usize, data: &[u8]) -> FilePut {
        let digest = ToolDigest::new(Sha256::digest(bytes).into());
        let begin = FilePut::begin(digest, bytes.len() as u64);
        FilePut { offset: offset as u64, data: data.to_vec(), ..begin }
    }

    fn place(store: &ArchiveStore, bytes: &[u8]) -> PathBuf {
        store.incoming(&name_of(&put(bytes, 0, &[]).digest, Uploader::Client))
    }

    fn stranger(number: u64) -> Uploader {
        Uploader::Stranger(ConnectionId { door: 0, number })
    }

    /// A file had its last part this long ago.
    fn age(store: &ArchiveStore, bytes: &[u8], age: Duration) {
        let file = fs::OpenOptions::new().append(true).open(place(store, bytes)).unwrap();
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
                fs::write(place(&store, &bytes), b"0ne").unwrap();
            }
            assert_eq!(store.write_file(&first, ROOM).map(|written| written.end), Ok(3), "the part is there");
            let written = store.write_file(&put(&bytes, 3, b"two"), ROOM).unwrap();
            assert_eq!((written.end, written.is_whole), if is_damaged { (0, false) } else { (6, true) });
            assert_eq!(store.path(&first.digest).exists(), !is_damaged);
            assert!(!place(&store, &bytes).exists());
        }
    }

    /// The thread has other things to do meanwhile.
    #[test]
    fn a_large_file_that_is_there_is_checked_in_steps() {
        let ground = tempfile::tempdir().unwrap();
        let bytes = vec![7; usize::try_from(2 * STEP_BYTES).unwrap() + 1];
        let ask = put(&bytes, bytes.len(), &[]);
        let mut store = open(ground.path());
        fs::write(place(&store, &bytes), &bytes).unwrap();
        let steps = [(); 3].map(|()| store.write_file(&ask, ROOM).unwrap().is_whole);
        assert_eq!(steps, [false, false, true]);
    }

    /// Bytes count when they are there, and when a file begins.
    #[test]
    fn files_that_arrive_are_bounded_by_their_bytes_and_their_age() {
        let ground = tempfile::tempdir().unwrap();
        let (first, second, third) = ([1; 600], [2; 600], [3; 300]);
        let mut store = open(ground.path());
        let room = FileRoom { bytes: 1000, ..ROOM };
        assert_eq!(store.write_file(&put(&first, 0, &first[..1]), room).map(|written| written.end), Ok(1));
        assert_eq!(store.write_file(&put(&second, 0, &second[..500]), room).map(|written| written.end), Ok(500));
        let refusal = store.write_file(&put(&third, 0, &third), FileRoom { bytes: 800, ..room }).unwrap_err();
        assert!(refusal.message.contains("take 501 of the 800 bytes"), "{refusal}");
        let refusal = store.write_file(&put(&first, 1, &first[1..]), room).unwrap_err();
        assert!(refusal.message.contains("take 501 of the 1000 bytes"), "{refusal}");
        age(&store, &second, IDLE * 2);
        assert!(
            store.write_file(&put(&first, 1, &first[1..599]), room).is_ok(),
            "nothing seems to continue the second one"
        );
        assert!(!place(&store, &second).exists());
        age(&store, &first, AGE_MAX * 2);
        assert!(!place(&open(ground.path()), &first).exists());
    }

    /// An announcement takes no room: any client can make one.
    #[test]
    fn a_file_of_no_bytes_takes_no_room() {
        let ground = tempfile::tempdir().unwrap();
        let mut store = open(ground.path());
        let room = FileRoom { uploader: stranger(1), bytes: 1 << 40 };
        let huge = FilePut::begin(ToolDigest::new([7; 32]), 1 << 30);
        assert_eq!(store.write_file(&huge, room).map(|written| written.end), Ok(0));
        let output = [1; 600];
        let room = FileRoom { uploader: Uploader::Run, bytes: 600 };
        assert_eq!(store.write_file(&put(&output, 0, &output), room).map(|written| written.is_whole), Ok(true));
    }

    #[test]
    fn the_files_of_runs_go_before_those_of_clients() {
        let ground = tempfile::tempdir().unwrap();
        let (first, second, output, other) = ([1; 600], [2; 300], [3; 600], [4; 600]);
        let mut store = open(ground.path());
        let room = |uploader| FileRoom { uploader, bytes: 1000 };
        for (bytes, uploader) in [(&first[..], Uploader::Client), (&second[..], Uploader::Client)] {
            store.write_file(&put(bytes, 0, &bytes[..bytes.len() - 1]), room(uploader)).unwrap();
        }
        assert!(store.write_file(&put(&output, 0, &output[..500]), room(Uploader::Client)).is_err());
        assert_eq!(store.write_file(&put(&output, 0, &output[..500]), room(Uploader::Run)).map(|it| it.end), Ok(500));
        assert!(
            store.write_file(&put(&other, 0, &other[..500]), room(Uploader::Run)).is_err(),
            "a run waits for another"
        );
        assert!(place(&store, &output).exists() && !place(&store, &first).exists());
    }

    /// A sender that may not send commands spoils no file of another one, and keeps nothing when it is gone.
    #[test]
    fn the_files_of_strangers_are_their_own() {
        let ground = tempfile::tempdir().unwrap();
        let bytes = b"onetwo".to_vec();
        let mut store = open(ground.path());
        let of = |uploader| FileRoom { uploader, bytes: 1000 };
        let mut write = |uploader, offset, data: &[u8]| {
            store.write_file(&put(&bytes, offset, data), of(uploader)).map(|written| (written.end, written.is_whole))
        };
        assert_eq!(write(Uploader::Client, 0, b"one"), Ok((3, false)));
        assert_eq!(write(stranger(1), 0, b"bad"), Ok((3, false)));
        assert_eq!(write(stranger(2), 0, b"o"), Ok((1, false)));
        assert_eq!(write(stranger(1), 3, b"bad"), Ok((0, false)), "it has spoilt its own");
        assert_eq!(write(stranger(1), 0, b"ba"), Ok((2, false)));
        assert_eq!(write(Uploader::Client, 3, b"two"), Ok((6, true)));
        let left = |store: &ArchiveStore| fs::read_dir(store.dir.join(INCOMING)).unwrap().count();
        assert_eq!(left(&store), 2);
        store.remove_of(ConnectionId { door: 0, number: 1 });
        assert_eq!(left(&store), 1);
        assert_eq!(left(&open(ground.path())), 0, "no connection outlives a start");
        let large = [9; 400];
        let refusal = store.write_file(&put(&large, 0, &large[..1]), of(stranger(3))).unwrap_err();
        assert!(refusal.message.contains("their share of the store"), "{refusal}");
    }

    #[test]
    fn the_disk_keeps_its_reserve() {
        let ground = tempfile::tempdir().unwrap();
        let mut store = open(ground.path());
        store.disk_reserve = u64::MAX;
        let file_system = rustix::fs::statvfs(ground.path()).unwrap();
        let [free, size] = [file_system.f_bavail, file_system.f_blocks].map(|blocks| blocks * file_system.f_frsize);
        let disk = free.saturating_sub(size / 10);
        let refusal = store.write_file(&FilePut::begin(ToolDigest::new([7; 32]), disk * 2 + 4096), ROOM).unwrap_err();
        assert!(refusal.message.contains("DISK_RESERVE"), "{refusal}");
    }
}
