//! The running service: `service.json` in STATE_DIR, and the line in which a supervisor reports to its starter.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::wire::version;
use proc::clock;
use proc::files::state_file;
use proc::lock::{Holder, SIGNAL_MAX, StateLock};
use zmtp::sockets::absolute;

/// Its name in STATE_DIR.
pub const FILE: &str = "service.json";

/// The name of the lock in STATE_DIR.
pub const LOCK: &str = "service";

/// The process that holds the lock of the service of this STATE_DIR, if there is one.
#[must_use]
pub fn holder(state_dir: &Path) -> Option<Holder> {
    StateLock::holder(state_dir, LOCK)
}

/// As [`holder`], but ignores a process that was killed and is about to end: its lock becomes free by itself.
#[must_use]
pub fn lasting_holder(state_dir: &Path) -> Option<Holder> {
    StateLock::lasting_holder(state_dir, LOCK, SIGNAL_MAX)
}

/// The service of a supervisor that was killed: its other processes may run on, and none of them is started again.
#[must_use]
pub fn orphaned(state_dir: &Path) -> Option<Service> {
    // A supervisor that a signal is on its way to is none yet: a command that only looks does not wait for it.
    StateLock::lasting_holder(state_dir, LOCK, Duration::ZERO).is_none().then(|| Service::read(state_dir))?
}

/// The log of a service.
#[must_use]
pub fn log_file(config: &Config) -> PathBuf {
    config.log.dir.join("supervisor.log")
}

/// A running service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Process id of the supervisor.
    pub pid: u32,
    /// Time of its start: unix seconds.
    pub started: f64,
    /// Endpoint of requests: `tcp://IP:PORT`, or `ipc://` and an absolute path.
    pub controller: String,
    /// Endpoint of broadcasts.
    pub publisher: String,
    /// The unix socket, if the controller listens at one: `ipc://` and an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// The HTTP door, if there is one: `http://IP:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Number of agents.
    pub agents: u16,
    /// Warnings for the user who starts it.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The version of its supervisor.
    #[serde(default)]
    pub version: String,
    /// Whether `llts restart` can replace its processes.
    #[serde(default)]
    pub renews: bool,
    /// Seconds without work after which it ends; `None` if it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_stop: Option<f64>,
    /// Whether it takes orders of `llts up`.
    #[serde(default)]
    pub takes_orders: bool,
    /// The last order that was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// The last restart, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal: Option<Renewal>,
}

/// The state of a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// The name of the request.
    pub request: String,
    /// Whether the controller is a new process. Also true for a service without a controller.
    pub controller: bool,
    /// Number of agents whose successors are not ready.
    pub agents_left: usize,
    /// Why the request was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Renewal {
    /// A refused request, still without its name.
    pub const fn refused(why: String) -> Self {
        Self { request: String::new(), controller: false, agents_left: 0, failure: Some(why) }
    }
}

/// The actual endpoints of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// Of requests.
    pub controller: String,
    /// Of broadcasts.
    pub publisher: String,
    /// Of the HTTP door, if there is one.
    pub http: Option<String>,
}

/// The report of a supervisor to its starter: one line, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The service is up.
    Up(Box<Service>),
    /// The service is not up, and all its processes have ended.
    Failed(String),
}

impl Service {
    /// The service of this process.
    pub fn ours(endpoints: &Endpoints, agents: u16, warnings: Vec<String>) -> Self {
        let Endpoints { controller, publisher, http } = endpoints.clone();
        Self {
            pid: std::process::id(),
            started: clock::now().wall.unix_seconds(),
            controller: absolute(&controller),
            publisher: absolute(&publisher),
            socket: None,
            http,
            agents,
            warnings,
            version: version::program().to_owned(),
            renews: true,
            idle_stop: None,
            takes_orders: true,
            order: None,
            renewal: None,
        }
    }

    /// Reads the file of the service of this STATE_DIR, if it exists and is valid.
    ///
    /// A killed service may have left it: [`holder`] tells whether the service is still running.
    #[must_use]
    pub fn read(state_dir: &Path) -> Option<Self> {
        state_file::read(&file(state_dir)).ok()
    }

    /// Replaces the file atomically: a reader sees the old or the new text.
    pub fn write(&self, state_dir: &Path) -> io::Result<()> {
        state_file::replace(&file(state_dir), self)
    }
}

/// Removes the file, if it exists.
pub fn remove(state_dir: &Path) -> io::Result<()> {
    match fs::remove_file(file(state_dir)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(controller: &str, publisher: &str) -> Endpoints {
        let [controller, publisher] = [controller, publisher].map(str::to_owned);
        Endpoints { controller, publisher, http: Some("http://127.0.0.1:3".to_owned()) }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Service::read(folder.path()), None);
        let service = Service::ours(&endpoints("tcp://127.0.0.1:1", "tcp://127.0.0.1:2"), 3, vec!["careful".into()]);
        service.write(folder.path()).unwrap();
        assert_eq!(Service::read(folder.path()), Some(service));
        remove(folder.path()).unwrap();
        remove(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_endpoint_is_told_as_it_holds_in_every_folder() {
        let here = std::env::current_dir().unwrap();
        let service = Service::ours(&endpoints("ipc://state/x.sock", "tcp://127.0.0.1:2"), 3, Vec::new());
        assert_eq!(service.controller, format!("ipc://{}/state/x.sock", here.display()));
        assert_eq!(service.publisher, "tcp://127.0.0.1:2");
        assert_eq!(Service::ours(&endpoints("off", "ipc:///x"), 3, Vec::new()).publisher, "ipc:///x");
    }

    #[test]
    fn what_is_torn_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(file(folder.path()), "{\"pid\":1,").unwrap();
        assert_eq!(Service::read(folder.path()), None);
    }
}
