//! The process that has the name of a worker: the session that it writes, and checks of it by others.

use std::fmt;

use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};
use serde_json::{Value, json};

use proc::process::ProcessId;
use proc::runs;

/// The kind of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerKind {
    /// `llts tdf worker`.
    Worker,
    /// A controller with agents.
    Controller,
    /// `llts tdf server`, or the server in a controller.
    Server,
}

/// A random number that no other process has.
#[derive(Clone, Debug)]
pub(super) struct Session(String);

impl Session {
    pub(super) fn fresh() -> Self {
        Self(format!("{:016x}", rand::random::<u64>()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The session of this process, for the other components.
    pub(super) fn about(&self, kind: WorkerKind) -> Value {
        let kind = match kind {
            WorkerKind::Worker => "worker",
            WorkerKind::Controller => "controller",
            WorkerKind::Server => "server",
        };
        json!({
            "host": rustix::system::uname().nodename().to_string_lossy(),
            "pid": getpid().as_raw_nonzero().get(),
            "kind": kind,
            "session": self.0,
            "realm": runs::realm(),
            "started": ProcessId::own().map(|own| own.start_time).ok(),
        })
    }
}

/// A process, as its session describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder(Value);

impl Holder {
    pub(super) fn read(about: &str) -> Self {
        Self(serde_json::from_str(about).unwrap_or_default())
    }

    /// The session; empty if the process has written none.
    pub(super) fn session(&self) -> &str {
        self.0["session"].as_str().unwrap_or_default()
    }

    /// Whether the process has certainly ended: only a process of this boot and PID namespace can be checked.
    pub(super) fn is_dead(&self) -> bool {
        let Some((pid, start_time)) = self.process() else { return false };
        match ProcessId::of(pid) {
            Ok(_) => !ProcessId { pid, start_time }.is_alive(),
            // /proc may hide the processes of other users.
            Err(_) => test_kill_process(pid) == Err(Errno::SRCH),
        }
    }

    fn process(&self) -> Option<(Pid, u64)> {
        let is_here = self.0["realm"].as_str() == Some(runs::realm().as_str());
        let pid = self.0["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).filter(|_| is_here)?;
        Some((Pid::from_raw(pid)?, self.0["started"].as_u64()?))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0["pid"].as_i64(), self.0["host"].as_str()) {
            (Some(pid), Some(host)) => write!(f, "process {pid} on {host}"),
            _ => f.write_str("a process that has not told where"),
        }
    }
}

/// The session of a server: its name, a number, and since this version its process.
pub(super) fn server_name(identity: &str) -> &str {
    let identity = identity.split_once(" {").map_or(identity, |(front, _)| front);
    identity.rsplit_once(' ').map_or(identity, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_to_be_dead_only_where_it_can_be_seen() {
        let about = Session::fresh().about(WorkerKind::Worker);
        let holder = |change: (&str, Value)| {
            let mut about = about.clone();
            about[change.0] = change.1;
            Holder::read(&about.to_string())
        };
        assert!(!holder(("kind", json!("worker"))).is_dead(), "it is this one");
        assert!(holder(("started", json!(1))).is_dead(), "a later process has its number");
        let elsewhere = holder(("realm", json!("00000000-1")));
        assert!(!elsewhere.is_dead() && elsewhere.to_string().starts_with("process "), "{elsewhere}");
        for odd in ["", "{}", "[1]", "{\"pid\":-1}"] {
            assert!(!Holder::read(odd).is_dead(), "{odd}");
        }
    }
}
