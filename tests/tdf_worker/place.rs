//! A folder with workers in it, and the namespace that they work for, in which a test is manager and server.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use llts::shell::clock;
use rustix::process::Signal;

use crate::redis::Redis;

#[path = "../support/folder.rs"]
mod folder;
#[path = "../support/waiting.rs"]
mod waiting;

pub(crate) use folder::{names, signal};
pub(crate) use waiting::{PATIENCE, eventually};

pub(crate) const NAMESPACE: &str = "ns";

pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) redis: Redis,
}

/// A worker that runs. Dropping it ends it.
pub(crate) struct Worker(Child);

/// What a worker said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) err: String,
}

/// A task that a test opens, as an original manager would.
#[derive(Clone, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) program: &'a str,
    pub(crate) source: &'a str,
    pub(crate) input: &'a [u8],
    pub(crate) timeout: &'a str,
    pub(crate) max_timeouts: &'a str,
}

impl Default for Task<'_> {
    fn default() -> Self {
        Self { program: "p", source: "http://127.0.0.1:1/run.sh", input: b"", timeout: "inf", max_timeouts: "0" }
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(Redis::start())
    }

    pub(crate) fn with(redis: Redis) -> Self {
        let folder = tempfile::Builder::new().prefix("llts-tdf-").tempdir().expect("a folder");
        Self { folder, redis }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a program there.
    pub(crate) fn program(&self, name: &str, script: &str) {
        fs::create_dir_all(self.path(name)).expect("a folder");
        let path = self.path(name).join("run.sh");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our script");
    }

    /// The configuration of a worker that finds Redis here, and makes no pauses.
    pub(crate) fn config(&self, redis: SocketAddr) -> PathBuf {
        let path = self.path(&format!("worker-{}.cfg", redis.port()));
        let text = format!(
            "[redis]\nhost={}\nport={}\npassword=None\ndb=0\n[tdf]\nnamespace={NAMESPACE}\n[worker]\n\
             task_output_filename=$program/results/$worker-$taskId-$round.out\n\
             task_error_filename=$program/results/$worker-$taskId-$round.err\n\
             sleep_after_success=0\nsleep_after_failure=0\nsleep_after_no_process_claimed=2.0\n",
            redis.ip(),
            redis.port()
        );
        fs::write(&path, text).expect("a configuration");
        path
    }

    /// `llts tdf worker` with these arguments, on a short ladder.
    pub(crate) fn start(&self, arguments: &[&str]) -> Worker {
        let mut command = folder::program(env!("CARGO_BIN_EXE_llts"), self.folder.path());
        command.args(["tdf", "worker"]).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
        command.env("LLTS_TDF_WORKER_KILL_INTERVAL", "300").env("LLTS_TDF_WORKER_STRAGGLER_GRACE", "100");
        command.env("LLTS_TDF_WORKER_OUTPUT_BYTES_MAX", "4096").env_remove("http_proxy").env_remove("HTTP_PROXY");
        Worker(command.spawn().expect("started"))
    }

    /// A worker of this name.
    pub(crate) fn worker(&self, name: &str) -> Worker {
        self.worker_of(name, self.redis.address())
    }

    /// One that finds Redis at another address.
    pub(crate) fn worker_of(&self, name: &str, redis: SocketAddr) -> Worker {
        let config = self.config(redis);
        self.start(&[name, config.to_str().expect("a path")])
    }

    /// Opens a task and returns its id.
    pub(crate) fn open(&self, task: &Task<'_>) -> u64 {
        let mut redis = self.redis.connection();
        let id: u64 = redis::cmd("INCR").arg(format!("{NAMESPACE}:task_id")).query(&mut redis).expect("Redis");
        let text = id.to_string();
        let fields: [(&str, &[u8]); 16] = [
            ("program", task.program.as_bytes()),
            ("source", task.source.as_bytes()),
            ("input", task.input),
            ("id", text.as_bytes()),
            ("start_after", b"0"),
            ("end_before", b"inf"),
            ("timeout", task.timeout.as_bytes()),
            ("max_fails", b"0"),
            ("max_timeouts", task.max_timeouts.as_bytes()),
            ("state", b"open"),
            ("round", b"0"),
            ("fails", b"0"),
            ("timeouts", b"0"),
            ("log", b""),
            ("namespace", NAMESPACE.as_bytes()),
            ("0:open", b"1795312915.493763"),
        ];
        let mut hash = redis::cmd("HSET");
        hash.arg(format!("{NAMESPACE}:task:{id}"));
        for (name, value) in fields {
            hash.arg(name).arg(value);
        }
        let () = hash.query(&mut redis).expect("Redis");
        let () = redis::cmd("ZADD").arg(format!("{NAMESPACE}:open")).arg(0).arg(id).query(&mut redis).expect("Redis");
        id
    }

    /// Opens a task of the program `p` with this input.
    pub(crate) fn open_input(&self, input: &str) -> u64 {
        self.open(&Task { input: input.as_bytes(), ..Task::default() })
    }

    /// A field of a task; empty if it is not there.
    pub(crate) fn field(&self, id: u64, name: &str) -> String {
        let mut redis = self.redis.connection();
        let value: Option<Vec<u8>> =
            redis::cmd("HGET").arg(format!("{NAMESPACE}:task:{id}")).arg(name).query(&mut redis).expect("Redis");
        String::from_utf8_lossy(&value.unwrap_or_default()).into_owned()
    }

    /// The sets that a task is in.
    pub(crate) fn sets(&self, id: u64) -> Vec<&'static str> {
        const SETS: [&str; 10] = [
            "open",
            "running",
            "executed",
            "timeout",
            "timed_out",
            "expired",
            "succeeded",
            "failure",
            "failed",
            "archived",
        ];
        let is_in = |set: &&str| self.redis.ask::<Option<f64>>(&format!("ZSCORE {NAMESPACE}:{set} {id}")).is_some();
        SETS.into_iter().filter(is_in).collect()
    }

    /// Waits until a task is in this set, and in no other.
    #[track_caller]
    pub(crate) fn until(&self, id: u64, set: &str) {
        let mut found = Vec::new();
        let until = clock::now().mono + PATIENCE;
        while found != [set] {
            assert!(clock::now().mono < until, "task {id} is in {found:?}, not in {set}: {}", self.field(id, "log"));
            std::thread::park_timeout(Duration::from_millis(5));
            found = self.sets(id);
        }
    }

    /// Waits for the report of a run, and returns its output and error.
    #[track_caller]
    pub(crate) fn result(&self, id: u64) -> (String, String) {
        self.until(id, "executed");
        let round = self.field(id, "round");
        (self.field(id, &format!("{round}:output")), self.field(id, &format!("{round}:error")))
    }

    /// Living processes that were started here, without `llts` itself: pid and command line.
    pub(crate) fn commands(&self) -> Vec<(i32, String)> {
        let mut found = folder::processes(self.folder.path());
        found.retain(|(_, line)| !line.contains("llts tdf") && !line.contains("llts guard"));
        found
    }

    /// How often the program has run that writes a line for each run.
    pub(crate) fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).map(|text| text.lines().count()).unwrap_or_default()
    }
}

impl Worker {
    pub(crate) fn signal(&self, with: Signal) {
        signal(i32::try_from(self.0.id()).expect("a pid"), with);
    }

    /// Its guard.
    #[track_caller]
    pub(crate) fn guard(&self, place: &Place) -> i32 {
        let words = format!("guard --pid {} ", self.0.id());
        let found = folder::processes(place.folder.path()).into_iter().find(|(_, line)| line.contains(&words));
        found.expect("a guard").0
    }

    /// As `kill -9`; returns when it is gone.
    pub(crate) fn kill(mut self) {
        self.0.kill().expect("our child");
        self.0.wait().expect("our child");
    }

    /// Waits for its end.
    pub(crate) fn said(mut self) -> Said {
        eventually("the end of the worker", || self.0.try_wait().expect("a child").is_some());
        let mut err = String::new();
        self.0.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
        Said { code: self.0.wait().expect("a child").code(), err }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            // It ends what it has started.
            self.signal(Signal::TERM);
            let until = clock::now().mono + PATIENCE;
            while self.0.try_wait().is_ok_and(|ended| ended.is_none()) && clock::now().mono < until {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
        if std::thread::panicking() {
            let mut log = String::new();
            let _ = self.0.stderr.take().map(|mut pipe| pipe.read_to_string(&mut log));
            let _ = writeln!(std::io::stderr(), "the worker said:\n{log}");
        }
    }
}
