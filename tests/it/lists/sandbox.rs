//! A folder with tasks, and servers and workers of the real binary on it.

use std::fs;
use std::io::Write as _;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::Place;

use crate::support::LLTS;

pub(crate) use testkit::{Program, Said, Start, eventually, found, names, signal};

pub(crate) const ENDS: [&str; 4] = ["completed_archive", "failed_archive", "failed_time", "failed_count"];

pub(crate) struct Sandbox(Place);

impl Deref for Sandbox {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Sandbox {
    /// One whose workers are not lost because they get no core for some seconds: each command runs once.
    pub(crate) fn new() -> Self {
        Self::of(Place::new(LLTS))
    }

    /// The same, with a worker that is lost after two seconds.
    pub(crate) fn impatient() -> Self {
        let mut sandbox = Self::new();
        sandbox.set("LOST_AFTER", "2000");
        sandbox
    }

    /// The same in a home, whose controller serves the folder.
    pub(crate) fn home(config: &str) -> Self {
        let mut sandbox = Self::of(Place::home(LLTS, config));
        sandbox.set("DIR", "tasks");
        sandbox.set("PORT", "0");
        sandbox
    }

    fn of(place: Place) -> Self {
        let mut sandbox = Self(place);
        for (key, value) in
            [("LOST_AFTER", "30000"), ("KILL_INTERVAL", "300"), ("STRAGGLER_GRACE", "100"), ("LIST_AGE_MAX", "50")]
        {
            sandbox.set(key, value);
        }
        sandbox
    }

    /// Configures it with a key of `[lists]`.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.0.set(format!("LLTS_LISTS_{key}"), value);
    }

    /// A path below the folder with the tasks.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join("tasks").join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.0.text(&format!("tasks/{name}"))
    }

    pub(crate) fn names(&self, state: &str) -> Vec<String> {
        names(&self.path(state))
    }

    /// The ids of the tasks in a state without lists.
    pub(crate) fn tasks(&self, state: &str) -> Vec<String> {
        self.names(state).iter().filter_map(|name| name.strip_suffix(".task").map(str::to_owned)).collect()
    }

    /// A command that is not about lists.
    pub(crate) fn plain(&self, line: &str) -> Said {
        self.0.llts(line)
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        self.0.command(&[&["lists"], words].concat())
    }

    /// A command on the folder.
    pub(crate) fn llts(&self, words: &[&str]) -> Said {
        self.llts_with(words, b"")
    }

    pub(crate) fn llts_with(&self, words: &[&str], stdin: &[u8]) -> Said {
        let mut command = self.command(&[words, &["--dir", "tasks"]].concat());
        let mut program = command.stdin(Stdio::piped()).start();
        // A command that refuses its first line reads no more.
        let _ = program.stdin.take().expect("a pipe").write_all(stdin);
        program.said()
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        self.llts(&[words, &["--output", "wire"]].concat()).ok().json()
    }

    /// Adds a task and returns its id.
    pub(crate) fn add(&self, words: &[&str]) -> String {
        fs::create_dir_all(self.path("new")).expect("a folder");
        self.llts(&[&["add"], words].concat()).ok().line().to_owned()
    }

    pub(crate) fn server(&self) -> Program {
        self.server_at("0")
    }

    pub(crate) fn server_at(&self, port: &str) -> Program {
        server_with(self.command(&["server", "tasks", "--port", port]))
    }

    pub(crate) fn worker(&self, name: &str, server: &Program) -> Program {
        self.worker_at(name, address(server))
    }

    pub(crate) fn worker_at(&self, name: &str, address: &str) -> Program {
        self.command(&["worker", name, "--server", address]).start()
    }

    /// Waits until so many tasks are in a state without lists.
    #[track_caller]
    pub(crate) fn until(&self, state: &str, count: usize) {
        eventually(&format!("{count} tasks in {state}"), || self.tasks(state).len() == count);
    }

    /// The state of a task that has ended, or will.
    #[track_caller]
    pub(crate) fn ended(&self, id: &str) -> &'static str {
        found(&format!("the end of {id}"), || {
            let mut places = ENDS.into_iter().filter(|state| self.path(&format!("{state}/{id}.task")).exists());
            places.next().filter(|_| places.next().is_none())
        })
    }
}

/// A server that serves.
pub(crate) fn server_with(mut command: Command) -> Program {
    command.start().ready("llts spool server ready: ")
}

/// Where a server listens.
pub(crate) fn address(server: &Program) -> &str {
    server.word(4)
}

/// The port of that.
pub(crate) fn port(server: &Program) -> String {
    address(server).rsplit_once(':').expect("a port").1.to_owned()
}
