//! A folder with workers in it, and the namespace that they work for, in which a test is manager and server.

use std::fs;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{PATIENCE, Program, Start as _, within};

use crate::support::LLTS;
use crate::tdf::ground::{self, Redis};
use crate::tdf::original::{Order, Original};

pub(crate) const NAMESPACE: &str = "ns";

pub(crate) struct Place {
    place: testkit::Place,
    pub(crate) redis: Redis,
}

impl Deref for Place {
    type Target = testkit::Place;

    fn deref(&self) -> &testkit::Place {
        &self.place
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(Redis::start())
    }

    /// Workers are on a short ladder.
    pub(crate) fn with(redis: Redis) -> Self {
        let mut place = testkit::Place::new(LLTS);
        for (key, value) in [("KILL_INTERVAL", "300"), ("STRAGGLER_GRACE", "100"), ("OUTPUT_BYTES_MAX", "4096")] {
            place.set(format!("LLTS_TDF_WORKER_{key}"), value);
        }
        Self { place, redis }
    }

    /// Puts a program there.
    pub(crate) fn program(&self, name: &str, script: &str) {
        self.script(&format!("{name}/run.sh"), script);
    }

    /// The configuration of a worker that finds Redis here, and makes no pauses.
    pub(crate) fn config(&self, redis: SocketAddr) -> PathBuf {
        let name = format!("worker-{}.cfg", redis.port());
        let rest = "[worker]\n\
             task_output_filename=$program/results/$worker-$taskId-$round.out\n\
             task_error_filename=$program/results/$worker-$taskId-$round.err\n\
             sleep_after_success=0\nsleep_after_failure=0\nsleep_after_no_process_claimed=2.0\n";
        self.write(&name, ground::config(redis, NAMESPACE, rest));
        self.path(&name)
    }

    /// `llts tdf` with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(&[&["tdf"], arguments].concat());
        command.env_remove("http_proxy").env_remove("HTTP_PROXY");
        command
    }

    /// `llts tdf worker` with these arguments.
    pub(crate) fn start(&self, arguments: &[&str]) -> Program {
        self.start_in(self.root(), arguments)
    }

    fn start_in(&self, folder: &Path, arguments: &[&str]) -> Program {
        self.command(&[&["worker"], arguments].concat()).current_dir(folder).start()
    }

    /// A worker of this name.
    pub(crate) fn worker(&self, name: &str) -> Program {
        self.worker_of(name, self.redis.address())
    }

    /// One of another folder, with the programs of this one.
    pub(crate) fn worker_in(&self, folder: &Path, name: &str) -> Program {
        for program in ["p", "runs", "go"] {
            let _ = std::os::unix::fs::symlink(self.path(program), folder.join(program));
        }
        let config = self.config(self.redis.address());
        self.start_in(folder, &[name, config.to_str().expect("a path")])
    }

    /// One that finds Redis at another address.
    pub(crate) fn worker_of(&self, name: &str, redis: SocketAddr) -> Program {
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
        let instead = || format!("task {id} is in {:?}, not in {set}: {}", self.sets(id), self.field(id, "log"));
        within(PATIENCE, instead, || self.sets(id) == [set]);
    }

    /// Waits for the report of a run, and returns its output and error.
    #[track_caller]
    pub(crate) fn result(&self, id: u64) -> (String, String) {
        self.until(id, "executed");
        let round = self.field(id, "round");
        (self.field(id, &format!("{round}:output")), self.field(id, &format!("{round}:error")))
    }

    /// How often the program has run that writes a line for each run.
    pub(crate) fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).map(|text| text.lines().count()).unwrap_or_default()
    }
}
