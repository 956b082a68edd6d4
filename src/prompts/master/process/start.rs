//! The start of a prompt master: folders, lock, port, watch.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::sync::Arc;

use mio::unix::SourceFd;
use mio::{Interest, Poll, Waker};

use super::fails::FailLog;
use super::folders::Folders;
use super::incoming::Incoming;
use super::notes::{Noted, Notes};
use super::notices::Notices;
use super::scan::PendingWatch;
use super::sync::Syncer;
use super::{ANSWERS, CONNECTIONS, KEYS, LINK_LIMITS, LISTENER, MasterOptions, PromptError, PromptMaster, WAKER};
use crate::files::create::MASTER;
use crate::files::results::root_id;
use crate::master::engine::{FileName, KeptRun, Master, Settings};
use api::config::{Config, Durability, Secret};
use base::{Loopback, Now};
use proc::lock::{LockError, StateLock};
use proc::{clock, limits};
use zmtp::curve_keys::KeyFolder;
use zmtp::json::json_server::JsonServer;
use zmtp::json::json_wire::PortKeys;

impl PromptMaster {
    /// Opens the folders and the port; puts back the files that a dead master has left in `working/`.
    ///
    /// # Errors
    /// [`PromptError`].
    pub fn start(config: &Config, options: MasterOptions<'_>) -> Result<Self, PromptError> {
        let folders = Folders::open(options.root, config.prompt.prompt_bytes_max)?;
        let lock = lock(options.root, &folders.tasks)?;
        let limit = limits::raise_descriptor_limit()?;
        if limit < config.prompt.workers_max as u64 {
            log::warn!("{limit} descriptors are allowed, fewer than the {} of WORKERS_MAX", config.prompt.workers_max);
        }
        if let Some(warning) = config.prompt.secret.as_ref().and_then(|secret| secret.warning("prompt")) {
            log::warn!("{warning}");
        }
        let address = SocketAddr::new(config.prompt.bind, options.port);
        let refused = |source| PromptError::Listen { address, source };
        let poll = Poll::new()?;
        // The secret admits whichever user shows it.
        let loopback = if config.prompt.secret.is_some() { Loopback::Open } else { config.network.loopback };
        let server = JsonServer::listen(&poll, address, LISTENER, CONNECTIONS, LINK_LIMITS, loopback);
        let mut server = server.map_err(refused)?;
        secure(&mut server, config)?;
        let address = server.address()?;
        if config.prompt.is_open() && (config.network.curve_server.is_none() || config.controller.allow_insecure) {
            log::warn!("the prompt master listens on {address}, which other machines can reach");
        }
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let watch = PendingWatch::open(&poll, &folders.pending);
        let failed = |source| PromptError::Folder { path: folders.tasks.clone(), source };
        let mut notes =
            Notes::open(&folders.tasks, |file| folders.is_in_work(file), |file| folders.metadata(file).is_some())
                .map_err(failed)?;
        notes.note_start(clock::now().wall);
        let has_worker = |file: &FileName| !config.prompt.lease.is_zero() && notes.run_of(file).is_some();
        let is_kept = |file: &FileName| notes.has_ended(file) || has_worker(file);
        let left = folders.recover(is_kept)?;
        let root_id = root_id(&folders.tasks).map_err(failed)?;
        if left > 0 {
            log::warn!("{left} files were left in working/ and wait again");
        }
        let (done, failed) = folders.counts()?;
        let fails = FailLog::open(&folders.tasks)
            .map_err(|source| PromptError::Folder { path: folders.tasks.clone(), source })?;
        let durable = config.controller.durability == Durability::Disk;
        let syncer = durable.then(|| Syncer::start(folders.all().map(Path::to_owned).to_vec())).transpose()?;
        if let Some(syncer) = &syncer {
            syncer.note();
        }
        let settings = settings(config, options, root_id, limit);
        let now = clock::now();
        let mut engine = Master::new(settings, rand::random(), now, done, failed).with_fails(fails.fails().clone());
        engine = engine.with_failed(folders.failed_names());
        restore(&mut engine, now, notes.noted().clone(), &folders);
        let incoming = open_incoming(&poll, &folders, config.prompt.result_bytes_max, durable)?;
        Ok(Self {
            engine,
            folders,
            fails,
            notes,
            incoming,
            notices: Notices::new(options.audience.clone(), config.prompt.notice_timeout)?,
            poll,
            server,
            address,
            watch,
            syncer,
            waker,
            over: false,
            _lock: lock,
        })
    }
}

/// Gives the engine the facts that an earlier master has noted.
fn restore(engine: &mut Master, now: Now, noted: Noted, folders: &Folders) {
    let Noted { runs, ends, losses, gates, paused, cost, usual_cost, cost_max, .. } = noted;
    let runs = runs.into_iter().filter(|(file, _)| folders.is_in_work(file) && !ends.contains_key(file));
    let kept = runs.map(|(file, (run, away))| KeptRun { front: folders.front_of_working(&file), file, run, away });
    engine.restore_losses(losses);
    engine.restore_runs(now, kept.collect());
    engine.restore_ends(ends.into_iter().filter(|(file, _)| folders.is_in_work(file)));
    engine.restore_rests(now, gates.into_iter().collect(), paused);
    engine.restore_costs(cost, usual_cost, cost_max);
}

fn open_incoming(poll: &Poll, folders: &Folders, bytes_max: u64, durable: bool) -> io::Result<Incoming> {
    let incoming = Incoming::open(&folders.root, &folders.tasks, bytes_max, durable)?;
    poll.registry().register(&mut SourceFd(&incoming.as_fd().as_raw_fd()), ANSWERS, Interest::READABLE)?;
    Ok(incoming)
}

/// With keys, the port takes CURVE, and plain connections of this machine.
fn secure(server: &mut JsonServer, config: &Config) -> Result<(), PromptError> {
    let Some(files) = &config.network.curve_server else { return Ok(()) };
    let folder = KeyFolder::open(files).map_err(PromptError::Keys)?;
    log::info!("{} keys may connect to the prompt master", folder.keys().authorised.len());
    Ok(server.secure(PortKeys { folder, plain_from_anywhere: config.controller.allow_insecure }, KEYS)?)
}

fn lock(root: &Path, tasks: &Path) -> Result<StateLock, PromptError> {
    StateLock::acquire(tasks, MASTER).map_err(|error| match error {
        LockError::Held { pid, .. } => PromptError::InUse { path: root.to_owned(), pid },
        error @ LockError::Io { .. } => PromptError::Lock(error),
    })
}

fn settings(config: &Config, options: MasterOptions<'_>, root_id: String, descriptors: u64) -> Settings {
    let prompt = &config.prompt;
    Settings {
        timer_interval: prompt.timer_interval,
        request_timeout: prompt.request_timeout,
        join_timeout: prompt.join_timeout,
        disconnect_timeout: prompt.disconnect_timeout,
        shutdown_timeout: prompt.shutdown_timeout,
        retry_after: prompt.retry_after,
        keep_alive: options.keep_alive,
        workers_max: prompt.workers_max,
        // The rest is for files, and for the controller that may be the host.
        connections_max: usize::try_from(descriptors / 4 * 3).unwrap_or(usize::MAX),
        sending_bytes_max: prompt.sending_bytes_max,
        secret: prompt.secret.as_ref().map(Secret::reveal).map(str::to_owned),
        refusal_pause: prompt.refusal_pause,
        lease: prompt.lease,
        result_bytes_max: prompt.result_bytes_max,
        root_id,
        starts_max: options.starts_max,
        timeout: options.timeout,
        cost_max: options.cost_max,
        losses_max: (prompt.losses_max > 0).then_some(prompt.losses_max),
    }
}
