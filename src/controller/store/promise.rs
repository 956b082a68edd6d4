//! The promised length of the log: a log that was cut far before its end must not look like one whose last commit is torn.
//!
//! SQLite reads its log up to the first frame that is not sound, whatever follows. So the file of the log is kept longer than its
//! content, in steps of [`STEP`], with holes that take no space. Each new length is noted beside the store, after it is on the
//! disk. A log that is shorter than that was cut, wherever its commits end. This costs one `fstat` for each commit, and a sync for
//! every [`STEP`] bytes of a growing log, after the commit has been answered. A sync of a log whose length stays the same is rather
//! faster.
//!
//! Within that length, the end of the last commit is noted beside the store, too ([`Told`]), because bytes that have become zeros
//! look like the end of the log. The note is written before the commit is answered, and not synced: a kill keeps it, and after a
//! power failure it is at most older than the log.
//!
//! The note of the length also has the time of the last change of the store's own file, and counts only while that time stays the
//! same. A program that writes the log back, such as `sqlite3`, may remove the log then, and nothing is lost. A change of the file
//! by our own checkpoints is noted at once.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::wal::{Salts, Told};
use super::{log_of, wal};
use proc::sqlite::beside;

/// The length of a log is a multiple of this: some hundred commits.
const STEP: u64 = 4 << 20;

/// The promise about one store.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    path: PathBuf,
    /// The holder of this may write the note.
    noted: Arc<Mutex<Noted>>,
}

/// Notes the end of each commit.
#[derive(Debug)]
pub(super) struct Teller {
    log: PathBuf,
    note: File,
    /// The frames of the log, set by SQLite with each commit.
    frames: Arc<AtomicU64>,
    last: Option<Told>,
}

/// The present note.
#[derive(Debug, Default)]
struct Noted {
    /// The noted length; 0 before the first note.
    length: u64,
    /// The log, which keeps its file as long as the store is open.
    log: Option<File>,
}

/// The note beside a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    /// Seconds and nanoseconds of the last change of the store's own file.
    changed: (i64, i64),
    /// Minimum bytes of the log.
    length: u64,
}

/// A log that was cut: its length and the promised one, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) length: u64,
    pub(super) promised: u64,
}

/// Whether the log of a store was cut.
///
/// # Errors
/// When the files cannot be read.
pub(super) fn cut(path: &Path) -> io::Result<Option<Cut>> {
    let (Some(note), Some(changed)) = (read(path)?, changed(path)?) else { return Ok(None) };
    let length = length_of(&log_of(path))?;
    Ok((note.changed == changed && length < note.length).then_some(Cut { length, promised: note.length }))
}

impl Promise {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), noted: Arc::default() }
    }

    /// Makes the log longer than its content; call it between two commits, on the thread that commits.
    pub(super) fn keep_ahead(&self) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.extend(&mut noted) {
            log::debug!("the length of the log of {} is not noted: {error}", self.path.display());
        }
    }

    fn extend(&self, noted: &mut Noted) -> io::Result<()> {
        let log: &File = match &noted.log {
            Some(log) => log,
            None => noted.log.insert(File::options().write(true).open(log_of(&self.path))?),
        };
        let length = log.metadata()?.len();
        if length <= noted.length {
            return Ok(());
        }
        let promised = length.next_multiple_of(STEP);
        log.set_len(promised)?;
        log.sync_all()?;
        noted.length = promised;
        self.note(promised)
    }

    /// A checkpoint has ended.
    pub(super) fn renew(&self) {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.length > 0
            && let Err(error) = self.note(noted.length)
        {
            log::debug!("the length of the log of {} is not noted: {error}", self.path.display());
        }
    }

    /// The log may become shorter from here on.
    pub(super) fn withdraw(&self) {
        *self.noted.lock().unwrap_or_else(PoisonError::into_inner) = Noted::default();
        let _ = fs::remove_file(note_of(&self.path));
        // An end that is being written belongs to the log that goes.
        if let Ok(told) = File::options().write(true).open(told_of(&self.path)) {
            let _ = told.set_len(0);
        }
    }

    fn note(&self, length: u64) -> io::Result<()> {
        let (seconds, nanos) = changed(&self.path)?.unwrap_or_default();
        fs::write(note_of(&self.path), format!("{seconds} {nanos} {length}\n"))
    }
}

impl Teller {
    /// A teller for a connection that updates [`Self::frames`] with each commit.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let note = File::options().write(true).create(true).truncate(false).open(told_of(path))?;
        Ok(Self { log: log_of(path), note, frames: Arc::default(), last: None })
    }

    /// The number of frames in the log.
    pub(super) fn frames(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.frames)
    }

    /// A commit is on the disk.
    pub(super) fn tell(&mut self) {
        if let Err(error) = self.note() {
            log::debug!("the end of {} is not noted: {error}", self.log.display());
        }
    }

    fn note(&mut self) -> io::Result<()> {
        let frames = self.frames.load(Ordering::Relaxed);
        let salts = match self.last {
            Some(last) if last.frames < frames => last.salts,
            // The log has begun anew.
            _ => wal::salts_of(&self.log)?,
        };
        self.last = Some(Told { salts, frames });
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&salts);
        bytes[8..].copy_from_slice(&frames.to_le_bytes());
        self.note.write_all_at(&bytes, 0)
    }
}

/// The end of the last commit of a store whose log has not been put aside.
pub(super) fn told(path: &Path) -> io::Result<Option<Told>> {
    let bytes = match fs::read(told_of(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let halves = bytes.split_first_chunk::<8>().and_then(|(salts, rest)| Some((*salts, rest.first_chunk::<8>()?)));
    let told = halves.map(|(salts, frames)| Told { salts, frames: u64::from_le_bytes(*frames) });
    // A crash may leave zeros.
    Ok(told.filter(|told| told.salts != Salts::default()))
}

fn told_of(path: &Path) -> PathBuf {
    beside(path, "-end")
}

fn read(path: &Path) -> io::Result<Option<Note>> {
    let text = match fs::read_to_string(note_of(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    // A crash may leave a part of it.
    let numbers: Option<Vec<i64>> =
        text.strip_suffix('\n').and_then(|line| line.split(' ').map(|number| number.parse().ok()).collect());
    let note = |numbers: &[i64]| match *numbers {
        [seconds, nanos, length] => Some(Note { changed: (seconds, nanos), length: u64::try_from(length).ok()? }),
        _ => None,
    };
    Ok(numbers.as_deref().and_then(note))
}

fn length_of(log: &Path) -> io::Result<u64> {
    match fs::metadata(log) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        found => found.map(|log| log.len()),
    }
}

/// When the store's own file was changed last; `None` if there is none.
fn changed(path: &Path) -> io::Result<Option<(i64, i64)>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(|file| Some((file.mtime(), file.mtime_nsec()))),
    }
}

fn note_of(path: &Path) -> PathBuf {
    beside(path, "-length")
}
