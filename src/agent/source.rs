//! Programs from their sources: fetched over http, https or with rsync, unpacked by the rules for tools, kept in a folder.
//!
//! A program is a folder with a run.sh, below the root that the caller names. A missing program is fetched ([`http`], [`rsync`]),
//! unpacked beside its place, and renamed when it is complete ([`install`]). A failed fetch leaves nothing behind.
//!
//! | a lock on a program | is held |
//! |---|---|
//! | shared | by each process that runs it ([`HeldProgram`]) |
//! | exclusive | by the process that fetches it, or asks its source for a change |
//!
//! A caller can have programs kept as archives of tools instead ([`ProgramForm::Archives`]), for runs that get a private copy each.
//!
//! So no program is replaced while it runs, and two processes in one folder never fetch the same program twice, nor see half of it.
//!
//! A source that has failed is asked again for the next task. Its validators, or the checksum of its bytes, show whether it has been
//! mended; the same bytes are not unpacked again. [`Programs::look_again`] does so for a program that is there, but may be out of
//! date.

mod error;
mod eviction;
mod http;
mod install;
mod record;
mod redirect;
mod rsync;
mod stop;
mod unpack;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use api::tools::RUN_SCRIPT;
use api::tools::archive::Limits;
use api::tools::scratch::{Scratch, remove_abandoned};
use base::{AllowedSources, Source, SourceScheme, ToolName};
use proc::files::file_digest::digest_at;
use proc::process::{Brand, Environment};
use proc::readable;

pub use base::{InvalidProgramName, ProgramName};
pub use error::SourceError;
pub use stop::Stop;

use http::Answer;
use record::{Digest, Record, Validators};
use unpack::check_digest;

/// Time between two attempts to get the lock of another worker that fetches.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Broken sources that are remembered. One more displaces the oldest, which is then fetched again.
const BROKEN_MAX: usize = 64;

/// Folders below the one that the caller names.
const LOCKS: &str = "locks";
const RECORDS: &str = "records";
const FETCHING: &str = "fetching";
const ASIDE: &str = "aside";

/// In a folder of [`FETCHING`]; no part of an archive is beside them.
const DOWNLOAD: &str = "download";
const UNPACKED: &str = "program";
const PACKED: &str = "packed";

/// All programs below one root.
#[derive(Debug)]
pub struct Programs {
    root: PathBuf,
    own: PathBuf,
    form: ProgramForm,
    limits: Limits,
    timeouts: Timeouts,
    agent: ureq::Agent,
    broken: Mutex<Vec<Broken>>,
}

/// The form in which a program is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramForm {
    /// The program, as the folder of its name.
    Folders,
    /// A folder with the program as the archive of a tool.
    Archives,
}

/// The time limits of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Of a whole fetch.
    pub fetch: Duration,
    /// Of a silence of the other side.
    pub silence: Duration,
}

/// The parameters of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchOptions<'a> {
    /// Ends the fetch.
    pub stop: &'a Stop,
    /// The folder in which rsync runs, and in which a relative source begins.
    pub folder: &'a Path,
    /// The environment of rsync.
    pub environment: &'a Environment,
    /// The mark of the process of rsync.
    pub brand: Option<Brand>,
    /// The sources that may be asked; `None` for any.
    pub allowed: Option<&'a AllowedSources>,
    /// The SHA-256 that the fetched bytes must have, in hexadecimal digits of lower case.
    pub sha256: Option<&'a str>,
    /// The name of the tool for [`ProgramForm::Archives`].
    pub tool: Option<&'a ToolName>,
}

/// A program that stays as it is while this exists.
#[derive(Debug)]
#[must_use]
pub struct HeldProgram {
    _lock: File,
}

/// Bytes that cannot be unpacked.
#[derive(Clone, Debug)]
struct Broken {
    source: String,
    digest: Digest,
    sentence: String,
}

impl Programs {
    /// Programs in `root`. Records about them go to `own`, which must be on the same file system.
    ///
    /// # Errors
    /// When the folders cannot be made.
    pub fn open(
        (root, own): (&Path, &Path),
        form: ProgramForm,
        limits: Limits,
        timeouts: Timeouts,
    ) -> Result<Self, SourceError> {
        for name in [LOCKS, RECORDS, FETCHING, ASIDE] {
            let path = own.join(name);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|error| SourceError::Io { action: "make", path, error })?;
        }
        if let Err(error) = remove_abandoned(&own.join(FETCHING), "") {
            log::warn!("cannot remove what fetches have left in {}: {error}", own.display());
        }
        let (root, own) = (root.to_owned(), own.to_owned());
        let agent = http::agent(&timeouts, None);
        Ok(Self { root, own, form, limits, timeouts, agent, broken: Mutex::default() })
    }

    /// The program, if it is there and no process is about to replace it. Does not wait.
    pub fn present(&self, name: &ProgramName) -> Option<HeldProgram> {
        let lock = self.lock_file(name).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockShared).ok()?;
        self.is_there(name).then_some(HeldProgram { _lock: lock })
    }

    /// The program; fetches it if it is not there. Waits for a process that does so already.
    ///
    /// # Errors
    /// [`SourceError`], with nothing of the fetch left behind.
    pub fn fetch(
        &self,
        name: &ProgramName,
        source: &str,
        options: &FetchOptions<'_>,
    ) -> Result<HeldProgram, SourceError> {
        let lock = loop {
            options.stop.check()?;
            // The process that has fetched it meanwhile may run it for hours.
            if let Some(held) = self.present(name) {
                return Ok(held);
            }
            if let Some(lock) = self.take_alone(name)? {
                break lock;
            }
            // No descriptor shows when a lock is released.
            readable::is_readable(options.stop, Some(LOCK_PAUSE));
        };
        install::finish(&self.folder(name), &self.aside(name))?;
        if !self.is_there(name) {
            self.fetch_anew(name, &Source::new(source)?, options)?;
        }
        self.hold(lock, name)
    }

    /// The program, which is fetched again if it came from this source and the source has changed. It stays as it is while a process
    /// runs it, and when its source cannot be reached.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub fn look_again(
        &self,
        name: &ProgramName,
        source: &str,
        options: &FetchOptions<'_>,
    ) -> Result<HeldProgram, SourceError> {
        let lock = if self.is_there(name) { self.take_alone(name)? } else { None };
        if let Some(lock) = lock {
            match self.renew(name, source, options) {
                Ok(true) => log::info!("{name}: {source} has changed and was fetched anew"),
                Ok(false) => {}
                Err(SourceError::Stopped) => return Err(SourceError::Stopped),
                Err(error) => log::warn!("{name} stays as it is, although its source may have changed: {error}"),
            }
            return self.hold(lock, name);
        }
        self.fetch(name, source, options)
    }

    fn folder(&self, name: &ProgramName) -> PathBuf {
        self.root.join(name.as_str())
    }

    fn aside(&self, name: &ProgramName) -> PathBuf {
        self.own.join(ASIDE).join(name.as_str())
    }

    fn record(&self, name: &ProgramName) -> PathBuf {
        self.own.join(RECORDS).join(format!("{name}.json"))
    }

    fn is_there(&self, name: &ProgramName) -> bool {
        let folder = self.folder(name);
        match self.form {
            ProgramForm::Folders => folder.join(RUN_SCRIPT).is_file(),
            ProgramForm::Archives => folder.is_dir(),
        }
    }

    /// The lock file is never removed: two processes could then hold locks on two files of the same name.
    fn lock_file(&self, name: &ProgramName) -> Result<File, SourceError> {
        let path = self.own.join(LOCKS).join(format!("{name}.lock"));
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        options.open(&path).map_err(|error| SourceError::Io { action: "open", path, error })
    }

    /// The lock on a program that no process fetches or runs; `None` while one does.
    fn take_alone(&self, name: &ProgramName) -> Result<Option<File>, SourceError> {
        let lock = self.lock_file(name)?;
        match self.take(&lock, name, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(lock)),
            Err(SourceError::Io { error, .. }) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn take(&self, lock: &File, name: &ProgramName, operation: FlockOperation) -> Result<(), SourceError> {
        let path = self.folder(name);
        flock(lock, operation).map_err(|error| SourceError::Io { action: "lock", path, error: error.into() })
    }

    /// Lets other processes run the program, too.
    fn hold(&self, lock: File, name: &ProgramName) -> Result<HeldProgram, SourceError> {
        // The lock is given up and taken again: in between, another process may have replaced the program by another complete one.
        self.take(&lock, name, FlockOperation::LockShared)?;
        Ok(HeldProgram { _lock: lock })
    }

    fn fetch_anew(&self, name: &ProgramName, source: &Source, options: &FetchOptions<'_>) -> Result<(), SourceError> {
        let broken = self.broken().iter().find(|broken| broken.source == source.as_str()).cloned();
        let scratch = self.scratch()?;
        // Without a condition, also after broken bytes: mended ones may have the same second, or the same tag.
        let known = Validators::default();
        let (validators, digest) = match (self.download(source, &known, &scratch, options)?, broken) {
            (Answer::Same, _) => {
                let reason = "it says that nothing has changed, yet it was not asked that".to_owned();
                return Err(SourceError::Http { url: source.as_str().to_owned(), reason });
            }
            (Answer::New(_, digest), Some(broken)) if digest == broken.digest => {
                return Err(SourceError::Unchanged(broken.sentence));
            }
            (Answer::New(validators, digest), _) => (validators, digest),
        };
        let unpacked = check_digest(source, &digest, options).and_then(|()| self.unpack(source, &scratch, options));
        self.note(source, &unpacked, &digest);
        self.put_in_place(name, &unpacked?, &Record { source: source.as_str().to_owned(), validators, digest })
    }

    /// Whether the source has changed.
    fn renew(&self, name: &ProgramName, source: &str, options: &FetchOptions<'_>) -> Result<bool, SourceError> {
        let Some(mut record) = Record::read(&self.record(name)).filter(|record| record.source == source) else {
            return Ok(false);
        };
        let source = Source::new(source)?;
        let scratch = self.scratch()?;
        let Answer::New(validators, digest) = self.download(&source, &record.validators, &scratch, options)? else {
            // The time of the file is that of the last question.
            self.write_record(name, &record)?;
            return Ok(false);
        };
        if digest == record.digest {
            record.validators = validators;
            self.write_record(name, &record)?;
            return Ok(false);
        }
        check_digest(&source, &digest, options)?;
        let unpacked = self.unpack(&source, &scratch, options)?;
        self.put_in_place(name, &unpacked, &Record { source: record.source, validators, digest })?;
        Ok(true)
    }

    fn scratch(&self) -> Result<Scratch, SourceError> {
        let path = self.own.join(FETCHING);
        Scratch::create(&path, "").map_err(|error| SourceError::Io { action: "make a folder in", path, error })
    }

    fn download(
        &self,
        source: &Source,
        known: &Validators,
        scratch: &Scratch,
        options: &FetchOptions<'_>,
    ) -> Result<Answer, SourceError> {
        let path = scratch.path().join(DOWNLOAD);
        let failed = |error| SourceError::Io { action: "write", path: path.clone(), error };
        let bytes_max = self.limits.packed_bytes;
        match source.scheme() {
            SourceScheme::Http | SourceScheme::Https => {
                let mut file = File::create_new(&path).map_err(failed)?;
                let checking = options.allowed.map(|allowed| http::agent(&self.timeouts, Some(allowed)));
                let agent = checking.as_ref().unwrap_or(&self.agent);
                http::fetch(agent, source, known, (&mut file, &path), bytes_max, options)
            }
            SourceScheme::Rsync => {
                rsync::fetch(source.rsync_path(), &path, bytes_max, &self.timeouts, options)?;
                let digest = digest_at(&path).map_err(failed)?;
                Ok(Answer::New(Validators::default(), Digest::of(digest)))
            }
        }
    }

    fn put_in_place(&self, name: &ProgramName, unpacked: &Path, record: &Record) -> Result<(), SourceError> {
        install::install(unpacked, &self.folder(name), &self.aside(name))?;
        self.write_record(name, record)
    }

    fn write_record(&self, name: &ProgramName, record: &Record) -> Result<(), SourceError> {
        let path = self.record(name);
        record.write(&path).map_err(|error| SourceError::Io { action: "write", path, error })
    }

    /// Remembers bytes that cannot be unpacked, until the source has others.
    fn note(&self, source: &Source, unpacked: &Result<PathBuf, SourceError>, digest: &Digest) {
        let mut broken = self.broken();
        broken.retain(|broken| broken.source != source.as_str());
        let Err(error) = unpacked else { return };
        if error.is_about_the_bytes() {
            if broken.len() >= BROKEN_MAX {
                broken.remove(0);
            }
            broken.push(Broken {
                source: source.as_str().to_owned(),
                digest: digest.clone(),
                sentence: error.to_string(),
            });
        }
    }

    fn broken(&self) -> std::sync::MutexGuard<'_, Vec<Broken>> {
        self.broken.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
