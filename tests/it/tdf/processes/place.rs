//! A folder with workers in it, and the namespace that they work for, in which a test is manager and server.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use llts::shell::clock;
use rustix::process::Signal;

use crate::tdf::folder::{self, signal};
use crate::tdf::ground::{self, Redis};
use crate::tdf::original::{Order, Original};
use crate::tdf::waiting::{PATIENCE, eventually};

pub(crate) const NAMESPACE: &str = "ns";

pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) redis: Redis,
}

/// A worker that runs. Dropping it ends it.
pub(crate) struct Worker(pub(crate) Child);

/// What a worker said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) err: String,
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
        let rest = "[worker]\n\
             task_output_filename=$program/results/$worker-$taskId-$round.out\n\
             task_error_filename=$program/results/$worker-$taskId-$round.err\n\
             sleep_after_success=0\nsleep_after_failure=0\nsleep_after_no_process_claimed=2.0\n";
        let text = ground::config(redis, NAMESPACE, rest);
        fs::write(&path, text).expect("a configuration");
        path
    }

    /// `llts tdf worker` with these arguments, on a short ladder.
    pub(crate) fn start(&self, arguments: &[&str]) -> Worker {
        self.start_in(self.folder.path(), arguments)
    }

    fn start_in(&self, folder: &Path, arguments: &[&str]) -> Worker {
        let mut command = self.command(&[&["worker"], arguments].concat());
        command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped());
        command.env("LLTS_TDF_WORKER_KILL_INTERVAL", "300").env("LLTS_TDF_WORKER_STRAGGLER_GRACE", "100");
        command.env("LLTS_TDF_WORKER_OUTPUT_BYTES_MAX", "4096").env_remove("http_proxy").env_remove("HTTP_PROXY");
        Worker(command.spawn().expect("started"))
    }

    /// `llts tdf` with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = folder::program(env!("CARGO_BIN_EXE_llts"), self.folder.path());
        command.arg("tdf").args(arguments);
        command
    }

    /// A worker of this name.
    pub(crate) fn worker(&self, name: &str) -> Worker {
        self.worker_of(name, self.redis.address())
    }

    /// One of another folder, with the programs of this one.
    pub(crate) fn worker_in(&self, folder: &Path, name: &str) -> Worker {
        for program in ["p", "runs", "go"] {
            let _ = std::os::unix::fs::symlink(self.path(program), folder.join(program));
        }
        let config = self.config(self.redis.address());
        self.start_in(folder, &[name, config.to_str().expect("a path")])
    }

    /// One that finds Redis at another address.
    pub(crate) fn worker_of(&self, name: &str, redis: SocketAddr) -> Worker {
        let config = self.config(redis);
        self.start(&[name, config.to_str().expect("a path")])
    }

    fn original(&self) -> Original {
        Original { redis: self.redis.connect(), namespace: NAMESPACE.to_owned() }
    }

    /// Opens a task and returns its id.
    pub(crate) fn open(&self, order: &Order<'_>) -> u64 {
        self.original().open(order)
    }

    /// Opens a task of the program `p` with this input.
    pub(crate) fn open_input(&self, input: &str) -> u64 {
        self.open(&Order { input: input.as_bytes(), ..Order::default() })
    }

    /// A field of a task; empty if it is not there.
    pub(crate) fn field(&self, id: u64, name: &str) -> String {
        let mut redis = self.redis.connect();
        let value: Option<Vec<u8>> =
            redis::cmd("HGET").arg(format!("{NAMESPACE}:task:{id}")).arg(name).query(&mut redis).expect("Redis");
        String::from_utf8_lossy(&value.unwrap_or_default()).into_owned()
    }

    /// The sets that a task is in.
    pub(crate) fn sets(&self, id: u64) -> Vec<&'static str> {
        ground::sets_of(&mut self.redis.connect(), NAMESPACE, id)
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
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

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
