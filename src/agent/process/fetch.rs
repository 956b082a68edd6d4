//! Versions of tools and inputs of tasks that this machine lacks, fetched from the controller into `STATE_DIR/fetched/`.
//!
//! | name | content |
//! |---|---|
//! | `<sha-256>` | a version or a file whose bytes were found right |
//! | `<sha-256>.part` | its first bytes; the process that fetches them holds the lock on this file |
//! | `<sha-256>.used` | empty; changed at each use |
//!
//! | event | then |
//! |---|---|
//! | another agent of the machine fetches the same version | this one waits for the lock, and finds the version or its first part |
//! | the controller does not answer | the request is repeated until it does, or the run is stopped |
//! | the agent is killed | the next one continues behind the bytes that are there; after a day without one they are removed |
//! | the complete bytes are wrong | they are dropped and fetched again, [`ATTEMPTS`] times in all |
//!
//! Files that are kept of a run go the other way ([`super::keep`]), also over that connection.
//!
//! The thread that prepares a run fetches over a connection of its own, which lasts as long as the fetch: heartbeats and leases of
//! the agent continue meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::AgentError;
use super::own_tools::OwnTools;
use api::archives_dir::dir_in;
use api::config::Config;
use api::tools::{ToolCache, ToolError, used_mark};
use api::wire::agent;
use api::wire::client::ReplyError;
use api::wire::requests::tool::{ToolGet, read_part};
use api::wire::requests::{FromAgent, Sender, file};
use api::{file_sender, transport};
use base::{FileName, TaskId, ToolDigest, ToolName, Wall};
use proc::background::Bell;
use proc::files::file_digest::{digest_at, digest_of};
use proc::files::file_stamp::FileStamp;
use proc::{clock, readable};
use zmtp::sockets::{Outcome, Requester};

/// Fetches of one version whose bytes are wrong.
const ATTEMPTS: usize = 3;

/// The longest wait for a part. A request that is lost with its connection is sent again on the next one.
const PART_WAIT: Duration = Duration::from_secs(5);

/// The end of the name of a file with first bytes.
const PART: &str = "part";

/// How long first bytes wait for an agent that continues behind them.
const PART_AGE_MAX: Duration = Duration::from_hours(24);

/// The unpacked tools of a machine, and the fetcher of missing ones.
///
/// # Errors
/// When a folder cannot be used.
pub(super) fn tools(config: &Config, sender: Sender, tools_dir: PathBuf) -> Result<(ToolCache, Fetcher), AgentError> {
    let state_dir = &config.paths.state_dir;
    let fetched = state_dir.join("fetched");
    let fetcher = Fetcher::new(config.clone(), sender, fetched.clone())?;
    let (limits, bytes_max) = (config.archive.clone(), config.agent.tool_cache_bytes_max);
    let cache = ToolCache::new(state_dir.join("tools"), tools_dir, limits, bytes_max)?;
    Ok((cache.with_fetched(fetched, dir_in(state_dir)), fetcher))
}

/// A subject of a fetch.
pub(super) enum Subject<'a> {
    /// The archive of a tool.
    Tool(&'a ToolName),
    /// An input of a task.
    File(&'a FileName),
}

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tool(tool) => write!(f, "tool {tool}"),
            Self::File(name) => write!(f, "file {name}"),
        }
    }
}

/// Fetches versions and files for one agent, and sends files.
pub(super) struct Fetcher {
    config: Config,
    sender: Sender,
    dir: PathBuf,
    /// The store of a controller of the same home.
    store: PathBuf,
    /// The versions and files that were found right, with their stamps then.
    right: Mutex<BTreeMap<ToolDigest, FileStamp>>,
    /// The archives of this machine that differ from the archives of the controller.
    pub(super) own: OwnTools,
    stopped: Bell,
}

impl Fetcher {
    /// # Errors
    /// When the folder cannot be made, or descriptors have run out.
    fn new(config: Config, sender: Sender, dir: PathBuf) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).recursive(true).create(&dir)?;
        let store = dir_in(&config.paths.state_dir);
        Ok(Self {
            config,
            sender,
            dir,
            store,
            right: Mutex::default(),
            own: OwnTools::default(),
            stopped: Bell::new()?,
        })
    }

    /// Wakes a fetch that waits, after its stop was set.
    pub(super) fn interrupt(&self) {
        self.stopped.ring();
    }

    /// Makes sure that a version is on this machine.
    ///
    /// # Errors
    /// When the controller does not hand it out, or it cannot be written.
    pub(super) fn fetch(&self, what: &Subject<'_>, digest: &ToolDigest, stop: &AtomicBool) -> Result<(), ToolError> {
        self.stopped.take();
        if self.dir.join(digest.to_string()).exists() || self.is_in_store(digest) {
            return Ok(());
        }
        let part = self.dir.join(format!("{digest}.{PART}"));
        let failed = |cause: io::Error| ToolError::io("write", &part, cause);
        let Some(file) = self.lock(&part, digest, stop)? else { return Ok(()) };
        let mut connection = None;
        for attempt in 0..ATTEMPTS {
            self.receive(&mut connection, (what, digest), (&file, &part), attempt > 0, stop)?;
            if digest_at(&part).map_err(failed)? == *digest {
                File::create(used_mark(&self.dir, digest)).map_err(failed)?;
                fs::rename(&part, self.dir.join(digest.to_string())).map_err(failed)?;
                log::info!("fetched version {} of {what}", digest.short());
                self.make_room(digest);
                return Ok(());
            }
            log::warn!("version {} of {what} has arrived with wrong bytes", digest.short());
            file.set_len(0).map_err(failed)?;
        }
        let why = format!("version {} has arrived with wrong bytes {ATTEMPTS} times", digest.short());
        Err(ToolError::NotFetched { what: what.to_string(), why })
    }

    /// Opens an input of a task, after fetching it if necessary. A file on this machine whose bytes have changed is fetched again.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub(super) fn open_file(&self, name: &FileName, digest: &ToolDigest, stop: &AtomicBool) -> Result<File, ToolError> {
        let failed = |cause: io::Error| ToolError::io("read", &self.dir, cause);
        for _ in 0..ATTEMPTS {
            if let Some(file) = self.open_right(digest).map_err(failed)? {
                return Ok(file);
            }
            self.fetch(&Subject::File(name), digest, stop)?;
        }
        if let Some(file) = self.open_right(digest).map_err(failed)? {
            return Ok(file);
        }
        let why = format!("{} does not stay on this machine with its own bytes", digest.short());
        Err(ToolError::NotFetched { what: Subject::File(name).to_string(), why })
    }

    fn open_right(&self, digest: &ToolDigest) -> io::Result<Option<File>> {
        for (folder, is_own) in [(&self.dir, true), (&self.store, false)] {
            let path = folder.join(digest.to_string());
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if self.is_right(&file, digest)? {
                if is_own {
                    File::create(used_mark(&self.dir, digest))?;
                }
                return Ok(Some(file));
            }
            log::warn!("{} has other bytes than its name says", path.display());
            if is_own {
                remove(&path)?;
            }
        }
        Ok(None)
    }

    /// Whether a file has its own bytes. It is read once in each life of the agent, and again when it has changed.
    fn is_right(&self, file: &File, digest: &ToolDigest) -> io::Result<bool> {
        let stamp = FileStamp::from(&file.metadata()?);
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        if right.get(digest) == Some(&stamp) {
            return Ok(true);
        }
        let is_right = digest_of(file)? == *digest;
        if is_right {
            right.insert(*digest, stamp);
        }
        Ok(is_right)
    }

    /// Puts a file into the store of the controller.
    ///
    /// # Errors
    /// When the controller does not take it, or the run was stopped, with a sentence.
    pub(super) fn send_file(
        &self,
        file: &File,
        (digest, bytes): (ToolDigest, u64),
        task: TaskId,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        self.stopped.take();
        let mut connection = None;
        let maker = file::Maker { agent: self.sender.agent.clone(), session: self.sender.session, task };
        let sent = file_sender::send(file, (digest, bytes), Some(maker), &self.store, |put| {
            let ask = file::put(put);
            loop {
                let frame = self.ask(&mut connection, ask.encode(), stop).map_err(|error| match error {
                    ToolError::Stopped => "the run was ended before that".to_owned(),
                    error => error.to_string(),
                })?;
                // A controller that does not answer is asked again, with the same part.
                if let Some(frame) = frame {
                    return ask.decode(&frame).map_err(|error| error.to_string());
                }
            }
        });
        sent.map(drop).map_err(|error| error.to_string())
    }

    /// Whether the controller of the same home has the version: it is read from its store then.
    fn is_in_store(&self, digest: &ToolDigest) -> bool {
        let path = self.store.join(digest.to_string());
        File::open(&path).and_then(|file| self.is_right(&file, digest)).unwrap_or_default()
    }

    /// The locked file for the first bytes; `None` if the version has arrived meanwhile.
    fn lock(&self, part: &Path, digest: &ToolDigest, stop: &AtomicBool) -> Result<Option<File>, ToolError> {
        let failed = |cause: io::Error| ToolError::io("write", part, cause);
        loop {
            let file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(part).map_err(failed)?;
            let Some(file) = self.locked(file, stop).map_err(failed)? else { return Err(ToolError::Stopped) };
            // The holder before may have completed it under its own name.
            let is_in_place = is_in_place(part, &file).map_err(failed)?;
            if self.dir.join(digest.to_string()).exists() {
                if is_in_place {
                    let _ = fs::remove_file(part);
                }
                return Ok(None);
            }
            if is_in_place {
                return Ok(Some(file));
            }
        }
    }

    /// Waits until another agent has released a file; `None` if the run was stopped. A thread waits for the kernel. One that is left
    /// behind by a stop lasts no longer than the fetch of the other agent, and closes the file then.
    fn locked(&self, file: File, stop: &AtomicBool) -> io::Result<Option<File>> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error.into()),
        }
        let (bell, (sender, locked)) = (Arc::new(Bell::new()?), mpsc::channel());
        let ring = Arc::clone(&bell);
        std::thread::Builder::new().name("fetch-lock".to_owned()).spawn(move || {
            let result = rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
            let _ = sender.send(result.map(|()| file));
            ring.ring();
        })?;
        loop {
            // Before the first wait, too: the ring of a stop that was set earlier may have been taken.
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if let Ok(result) = locked.try_recv() {
                return Ok(Some(result?));
            }
            readable::wait([bell.as_fd(), self.stopped.as_fd()], None);
            self.stopped.take();
        }
    }

    /// Appends the missing bytes.
    fn receive(
        &self,
        connection: &mut Option<Requester>,
        (what, digest): (&Subject<'_>, &ToolDigest),
        (mut file, part): (&File, &Path),
        is_doubted: bool,
        stop: &AtomicBool,
    ) -> Result<(), ToolError> {
        let failed = |cause: io::Error| ToolError::io("write", part, cause);
        let refused = |why: String| ToolError::NotFetched { what: what.to_string(), why };
        loop {
            let offset = file.metadata().map_err(failed)?.len();
            // Only the first part of another attempt has the controller check its version.
            let get = ToolGet { digest: *digest, offset, is_doubted: is_doubted && offset == 0 };
            let body = agent::encode(&self.sender, &FromAgent::ToolGet(get));
            let Some(frame) = self.ask(connection, body, stop)? else { continue };
            match read_part(&frame) {
                Ok((at, total, data)) if at == offset => {
                    if let Err(cause) = file.write_all(&data) {
                        // A part that nothing continues would keep a full disk full.
                        let _ = file.set_len(0);
                        let _ = fs::remove_file(part);
                        return Err(failed(cause));
                    }
                    // Bytes beyond the end are wrong too, which the digest shows.
                    if offset + data.len() as u64 >= total || data.is_empty() {
                        return Ok(());
                    }
                }
                Ok(_) => return Err(refused("an answer of the controller has another part of it".to_owned())),
                Err(ReplyError::Refused { message, .. }) => return Err(refused(message)),
                Err(ReplyError::Malformed(why)) => return Err(refused(why)),
            }
        }
    }

    /// Sends a request; `None` if there is no answer in time.
    fn ask(
        &self,
        connection: &mut Option<Requester>,
        body: Vec<u8>,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u8>>, ToolError> {
        if stop.load(Ordering::Relaxed) {
            return Err(ToolError::Stopped);
        }
        let endpoint = transport::agent_endpoint(&self.config);
        let unreachable = |cause: &dyn std::fmt::Display| {
            ToolError::io("exchange files with", Path::new(&endpoint), io::Error::other(cause.to_string()))
        };
        let requester = match connection {
            Some(requester) => requester,
            None => connection.insert(transport::client(&self.config, &endpoint).map_err(|error| unreachable(&error))?),
        };
        match requester.exchange_repeatable(body, clock::now().mono + PART_WAIT, Some(self.stopped.as_fd())) {
            Outcome::Answer(mut frames) => Ok(frames.pop()),
            Outcome::Denied(denial) => Err(unreachable(&denial)),
            Outcome::Silence | Outcome::Lost => Ok(None),
            Outcome::Interrupted => {
                self.stopped.take();
                Ok(None)
            }
        }
    }

    /// Removes the least recently used versions until the rest is within the limit, except this one.
    fn make_room(&self, kept: &ToolDigest) {
        if let Err(error) = self.evict(kept) {
            log::warn!("cannot remove old tools from {}: {error}", self.dir.display());
        }
    }

    fn evict(&self, kept: &ToolDigest) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let path = entry.path();
            if path.extension().is_some_and(|end| end == PART) {
                remove_abandoned(&path)?;
            }
            let Some(digest) = entry.file_name().to_str().and_then(|name| name.parse::<ToolDigest>().ok()) else {
                continue;
            };
            let about = match entry.metadata() {
                Ok(about) => about,
                // Another agent has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let used = fs::metadata(used_mark(&self.dir, &digest)).unwrap_or_else(|_| about.clone());
            found.push((used.modified()?, digest, about.len()));
        }
        found.sort();
        let mut bytes: u64 = found.iter().map(|(.., size)| size).sum();
        for (_, digest, size) in found {
            if bytes <= self.config.tools.fetched_bytes_max {
                return Ok(());
            }
            if digest != *kept {
                remove(&self.dir.join(digest.to_string()))?;
                let _ = fs::remove_file(used_mark(&self.dir, &digest));
                bytes -= size;
            }
        }
        Ok(())
    }
}

/// Removes the first bytes of a version that no agent fetches any more.
fn remove_abandoned(part: &Path) -> io::Result<()> {
    let file = match fs::OpenOptions::new().append(true).open(part) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let written =
        Wall::from_micros(u64::try_from(file.metadata()?.mtime()).unwrap_or_default().saturating_mul(1_000_000));
    if clock::now().wall.since(written) > PART_AGE_MAX
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && is_in_place(part, &file)?
    {
        remove(part)?;
    }
    Ok(())
}

/// Whether a path still leads to an open file, which another agent may have moved or removed.
fn is_in_place(path: &Path, file: &File) -> io::Result<bool> {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    Ok(fs::metadata(path).map(identity).ok() == Some(identity(file.metadata()?)))
}

/// Removes a file, unless another agent has removed it.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{AgentId, Session};

    /// The longest wait of a test for another thread.
    const WAIT_MAX: Duration = Duration::from_secs(30);

    fn fetcher() -> (tempfile::TempDir, Fetcher) {
        let dir = tempfile::tempdir().unwrap();
        let sender = Sender::new(AgentId::new("a").unwrap(), Session(1));
        let fetcher = Fetcher::new(Config::default(), sender, dir.path().join("fetched")).unwrap();
        (dir, fetcher)
    }

    fn open(path: &Path) -> File {
        fs::OpenOptions::new().append(true).create(true).open(path).unwrap()
    }

    #[test]
    fn a_stop_before_the_wait_for_another_agent_ends_the_wait() {
        let (_dir, fetcher) = fetcher();
        let part = fetcher.dir.join("part");
        let other = open(&part);
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        let (sender, ended) = mpsc::channel();
        std::thread::scope(|scope| {
            scope
                .spawn(|| sender.send(fetcher.locked(open(&part), &AtomicBool::new(true)).unwrap().is_none()).unwrap());
            let is_stopped = ended.recv_timeout(WAIT_MAX);
            drop(other);
            assert_eq!(is_stopped, Ok(true));
        });
    }

    #[test]
    fn first_bytes_that_no_agent_continues_are_removed() {
        let (_dir, fetcher) = fetcher();
        let digest = ToolDigest::new([0; 32]);
        let [old, held, fresh] =
            [1, 2, 3].map(|byte| fetcher.dir.join(format!("{}.part", ToolDigest::new([byte; 32]))));
        let [_old, held_file, _fresh] = [&old, &held, &fresh].map(|path| open(path));
        for path in [&old, &held] {
            let file = open(path);
            let now = file.metadata().unwrap().modified().unwrap();
            file.set_modified(now - PART_AGE_MAX - Duration::from_secs(1)).unwrap();
        }
        flock(&held_file, FlockOperation::NonBlockingLockExclusive).unwrap();
        fetcher.evict(&digest).unwrap();
        assert_eq!([&old, &held, &fresh].map(|path| path.exists()), [false, true, true]);
    }
}
