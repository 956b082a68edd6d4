//! A controller as a worker pool: `[tdf] REDIS_URL`. Open tasks of a namespace become tasks of the controller.
//!
//! ```text
//! Redis <-- RedisCalls, a thread <-- PoolThread --> request --> HostedDoor --> loop of the controller --> agent
//!   ^                                  ^                            |
//!   +-- Server, a thread               +------- answer, change -----+
//! ```
//!
//! [`crate::engine::pool`] decides. Each agent fetches the programs of its tasks (`src/agent/process/sources.rs`), so that agents need no
//! common folder; results that wait for Redis are in the folder `[tdf] DIR`. A server of the namespace runs beside the pool; one of all
//! servers of a namespace is the leader.

mod thread;

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::caller::Caller;
use super::calls::RedisCalls;
use super::results::Results;
use super::worker::WorkerDir;
use super::{Channel, Namespace, RedisError, Server, ServerError, Wake, WakeError, WorkerKind};
use crate::engine::pool::Pool;
use crate::wire::agents::JOB;
use api::config::{Config, ServerConfig, TdfPool, TdfSection};
use base::AllowCommands;
use base::tdf::WorkerName;
use controller::hosted::{Guest, HostedDoor};
use proc::background::Bell;
use proc::clock;
use proc::worker::WorkerStartError;

use thread::PoolThread;

/// Why a controller cannot work for a namespace.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The controller takes no commands.
    #[error("tdf.REDIS_URL is set, and ALLOW_COMMANDS = \"no\" takes none: the tasks of a namespace are commands")]
    NoCommands,
    /// The folder cannot be made.
    #[error("cannot make the folder {} of tdf.DIR: {error}", path.display())]
    Folder {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The name of the worker is taken.
    #[error(transparent)]
    Place(#[from] WorkerStartError),
    /// The settings of Redis cannot be used.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// The messages of new tasks cannot be received.
    #[error(transparent)]
    Wake(#[from] WakeError),
    /// The server cannot start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The system is out of something.
    #[error("cannot work for a TDF namespace: {0}")]
    System(#[from] io::Error),
}

/// Begins to work for the namespace of the configuration, if there is one, and waits for the end of an outage of Redis.
///
/// # Errors
/// [`PoolError`], when the folder or the section cannot be used.
pub fn host(config: &Config) -> Result<Option<Guest>, Box<dyn Error + Send + Sync>> {
    let guest = config.tdf.pool.as_ref().map(|pool| start(config, pool)).transpose()?;
    Ok(guest)
}

fn start(config: &Config, pool: &TdfPool) -> Result<Guest, PoolError> {
    if config.controller.allow_commands == AllowCommands::No {
        return Err(PoolError::NoCommands);
    }
    let made = std::fs::create_dir_all(&pool.dir);
    made.map_err(|error| PoolError::Folder { path: pool.dir.clone(), error })?;
    let name = pool.name.clone().unwrap_or_else(|| usual_name(config));
    let dir = WorkerDir::open(&pool.dir, &name)?;
    let (redis, namespace) = (&pool.redis, &pool.namespace);
    let shown = format!("{}:{}/{} {namespace}", redis.host, redis.port, redis.db);
    let results = Results::open(&dir.own, &name, shown.clone())?;
    let left = results.left()?;
    let (kind, unconnected) = (WorkerKind::Controller, Namespace::unconnected(redis, namespace)?);
    let caller = Caller::new(unconnected, name.clone(), kind, false);
    let calls = RedisCalls::start(caller, config.tdf.max_losses)?;
    let wake = Wake::start(redis, namespace, &[Channel::Open])?;
    let (mut door, link) = HostedDoor::new(JOB)?;
    let silence_max = config.agent.heartbeat_interval * 2;
    let engine = Pool::new(clock::now(), config.tdf_worker.output_bytes_max, silence_max, left.clone());
    let server = HostedServer::start(config, pool, &name)?;
    let ready_line = format!("llts tdf worker ready: {name} for {namespace} of {}:{}", redis.host, redis.port);
    let namespace = namespace.clone();
    door.start(move || {
        let mut thread = PoolThread::new(engine, link, namespace, left);
        thread.serve(&calls, wake, &results);
        drop(dir);
    })?;
    let stop = move || {
        server.stop();
        Ok(())
    };
    Ok(Guest { stop_after: Some(Box::new(stop)), ..Guest::behind(door, ready_line) })
}

/// A name that no other controller has, and this one has again after a restart.
fn usual_name(config: &Config) -> WorkerName {
    let host = rustix::system::uname().nodename().to_string_lossy().replace('/', "-");
    let home = config.paths.state_dir.canonicalize().unwrap_or_else(|_| config.paths.state_dir.clone());
    let home = crc32fast::hash(home.as_os_str().as_encoded_bytes());
    let host: String = host.chars().filter(|letter| !letter.is_control()).take(24).collect();
    let Ok(name) = WorkerName::new(&format!("controller-{host}-{home:08x}")) else {
        unreachable!("{host} is a part of a name")
    };
    name
}

/// The server of the namespace in a controller.
#[derive(Debug)]
struct HostedServer {
    stop: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl HostedServer {
    fn start(config: &Config, pool: &TdfPool, name: &WorkerName) -> Result<Self, PoolError> {
        let tdf = TdfSection { redis: pool.redis.clone(), namespace: pool.namespace.clone(), warnings: Vec::new() };
        let section = ServerConfig { tdf, round_duration: pool.round_duration };
        let server = Server::unconnected(&section, name.as_str(), config.tdf.max_losses, rand::random())?;
        let stop = Arc::new(Bell::new()?);
        let bell = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("tdf-server".to_owned());
        let thread = thread.spawn(move || server.run_until(&bell))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends the server, so that another one need not wait for the end of the lease.
    fn stop(mut self) {
        self.stop.ring();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread of the TDF server has panicked");
        }
    }
}
