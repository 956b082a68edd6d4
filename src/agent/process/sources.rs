//! Programs that tasks name by their sources (`__SOURCE__`). Each is fetched once per machine, by one of its agents, and kept as the
//! archive of a tool; then it runs as a tool.
//!
//! Tasks share a program if name, source and SHA-256 are equal. An installed tool of the name takes its place, unless the task names
//! a SHA-256. The first task after `source.RECHECK_INTERVAL` asks the source whether the program has changed.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::AgentError;
use crate::slot::Failure;
use crate::source::{FetchOptions, HeldProgram, ProgramForm, ProgramName, Programs, SourceError, Stop, Timeouts};
use api::config::Config;
use api::tools::{Limits, ToolCache};
use api::wire::source::complaint;
use base::{ExitCode, Mono, TaskSource};
use proc::background::Background;
use proc::files::disk_room::is_full;
use proc::process::{Brand, Environment};
use proc::{clock, readable};

/// Time for an interrupted fetch to end. rsync ends at once; a silent server is not waited for.
const END_MAX: Duration = Duration::from_secs(1);

/// Programs that a process remembers. Forgetting one costs one question to its source.
const KNOWN_MAX: usize = 64;

/// Below the folder of the state.
const FOLDER: &str = "sources";
const PROGRAMS: &str = "programs";

/// The fetched programs, as one agent sees them.
pub(super) struct SourceTools {
    programs: Programs,
    /// The folder with the archives, each in a folder named for the key of its program.
    root: PathBuf,
    /// The folder of installed tools.
    installed: PathBuf,
    cache_dir: PathBuf,
    limits: Limits,
    bytes_max: u64,
    recheck_interval: Duration,
    environment: Environment,
    brand: Option<Brand>,
    known: Mutex<BTreeMap<String, Known>>,
}

struct Known {
    tools: Arc<ToolCache>,
    /// The last time that its source was asked.
    asked: Mono,
}

/// Ends a preparation.
pub(super) enum Halt {
    /// Without a fetch.
    Flag(AtomicBool),
    /// With one, which may wait for its source.
    Fetch(Stop),
}

impl Default for Halt {
    fn default() -> Self {
        Self::Flag(AtomicBool::new(false))
    }
}

impl Halt {
    /// # Errors
    /// When descriptors have run out.
    pub(super) fn new(fetches: bool) -> io::Result<Self> {
        Ok(if fetches { Self::Fetch(Stop::new()?) } else { Self::default() })
    }

    pub(super) fn set(&self) {
        match self {
            Self::Flag(flag) => flag.store(true, std::sync::atomic::Ordering::Relaxed),
            Self::Fetch(stop) => stop.set(),
        }
    }

    pub(super) const fn flag(&self) -> &AtomicBool {
        match self {
            Self::Flag(flag) => flag,
            Self::Fetch(stop) => stop.flag(),
        }
    }
}

impl SourceTools {
    /// # Errors
    /// When the folders cannot be made.
    pub(super) fn open(
        config: &Config,
        installed: PathBuf,
        environment: Environment,
        brand: Option<Brand>,
    ) -> Result<Self, AgentError> {
        let own = config.paths.state_dir.join(FOLDER);
        let root = own.join(PROGRAMS);
        DirBuilder::new().recursive(true).mode(0o700).create(&root)?;
        let limits = config.archive.clone();
        let timeouts = Timeouts { fetch: config.source.fetch_timeout, silence: config.source.silence_timeout };
        let programs =
            Programs::open((&root, &own), ProgramForm::Archives, limits.clone(), timeouts).map_err(io::Error::other)?;
        Ok(Self {
            programs,
            root,
            installed,
            cache_dir: config.paths.state_dir.join("tools"),
            limits,
            bytes_max: config.agent.tool_cache_bytes_max,
            recheck_interval: config.source.recheck_interval,
            environment,
            brand,
            known: Mutex::default(),
        })
    }

    /// Whether the task runs an installed tool. Costs one `stat`.
    pub(super) fn is_installed(&self, source: &TaskSource) -> bool {
        source.sha256.is_none() && fs::metadata(self.installed.join(source.program.archive_name())).is_ok()
    }

    /// The cache with the program as a tool, unless its source has to be asked first.
    pub(super) fn known(&self, source: &TaskSource) -> Option<Arc<ToolCache>> {
        let known = self.lock();
        let known = known.get(&key(source))?;
        let is_fresh = source.sha256.is_some() || clock::now().mono.since(known.asked) < self.recheck_interval;
        is_fresh.then(|| Arc::clone(&known.tools))
    }

    /// The cache with the program as a tool, after fetching a missing or changed program. The program stays there as long as
    /// [`HeldProgram`] exists. Waits for the source, at most until `halt` is set.
    pub(super) fn fetch(
        self: &Arc<Self>,
        source: &TaskSource,
        halt: &Arc<Halt>,
    ) -> Result<(Arc<ToolCache>, HeldProgram), Failure> {
        let Halt::Fetch(stop) = &**halt else { return Err(failure("its preparation cannot be halted")) };
        let (sources, wanted, its_halt) = (Arc::clone(self), source.clone(), Arc::clone(halt));
        let fetch = Background::start("fetch", move |(), done: &dyn Fn(_)| {
            if let Halt::Fetch(stop) = &*its_halt {
                done(sources.fetch_now(&wanted, stop));
            }
        });
        let fetch = fetch.map_err(|error| failure(&error.to_string()))?;
        fetch.give(());
        readable::wait([fetch.as_fd(), stop.as_fd()], None);
        let outcome = fetch.poll().unwrap_or_else(|| {
            // The fetch removes its partial download; at the latest, the next agent does.
            readable::is_readable(&fetch, Some(END_MAX));
            Err(SourceError::Stopped)
        });
        outcome.map_err(|error| {
            let sentence = complaint(source.program.as_str(), &error.to_string());
            let exit_code = if is_full(&error) { ExitCode::DISK_FULL } else { error.exit_code() };
            Failure { exit_code, error: sentence }
        })
    }

    fn fetch_now(&self, source: &TaskSource, stop: &Stop) -> Result<(Arc<ToolCache>, HeldProgram), SourceError> {
        let key = key(source);
        let name = ProgramName::new(&key).map_err(|error| io_error("name", &self.root, io::Error::other(error)))?;
        let options = FetchOptions {
            stop,
            folder: Path::new("."),
            environment: &self.environment,
            brand: self.brand,
            allowed: source.allowed.as_ref(),
            sha256: source.sha256.as_deref(),
            tool: Some(&source.program),
        };
        let asked = clock::now().mono;
        // A program with the wanted SHA-256 cannot change.
        let fetch = if source.sha256.is_some() { Programs::fetch } else { Programs::look_again };
        let held = fetch(&self.programs, &name, source.source.as_str(), &options)?;
        let known = self.lock().get(&key).map(|known| Arc::clone(&known.tools));
        let tools = match known {
            Some(tools) => tools,
            None => {
                self.programs.evict(self.bytes_max);
                let folder = self.root.join(&key);
                let cache = ToolCache::new(self.cache_dir.clone(), folder, self.limits.clone(), self.bytes_max);
                Arc::new(cache.map_err(|error| io_error("use", &self.cache_dir, io::Error::other(error)))?)
            }
        };
        let mut known = self.lock();
        known.insert(key, Known { tools: Arc::clone(&tools), asked });
        while known.len() > KNOWN_MAX {
            let Some(oldest) = known.iter().min_by_key(|(_, known)| known.asked).map(|(key, _)| key.clone()) else {
                break;
            };
            known.remove(&oldest);
        }
        drop(known);
        Ok((tools, held))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        // No code that could panic leaves the map half changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failure(reason: &str) -> Failure {
    Failure { exit_code: ExitCode::PREPARE_FAILED, error: format!("cannot fetch the program: {reason}") }
}

fn io_error(action: &'static str, path: &Path, error: io::Error) -> SourceError {
    SourceError::Io { action, path: path.to_owned(), error }
}

/// The name of the folder that all tasks with this program share.
fn key(source: &TaskSource) -> String {
    let mut hasher = Sha256::new();
    for part in [source.program.as_str(), source.source.as_str(), source.sha256.as_deref().unwrap_or_default()] {
        hasher.update(part);
        // No part contains a newline.
        hasher.update("\n");
    }
    hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The exit code of a run whose program has disappeared between two steps of its preparation. A tool that is missing would send the
/// task to another agent.
pub(super) fn exit_code(of_the_tool: ExitCode) -> ExitCode {
    if of_the_tool == ExitCode::TOOL_MISSING { ExitCode::PREPARE_FAILED } else { of_the_tool }
}
