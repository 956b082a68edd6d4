//! A folder with tasks, and servers and workers of the real binary on it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use llts::shell::clock;
use rustix::process::Signal;
use serde_json::Value;

use crate::lists::folder::{self, signal};
use crate::lists::waiting::{PATIENCE, eventually};

pub(crate) const ENDS: [&str; 4] = ["completed_archive", "failed_archive", "failed_time", "failed_count"];

pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
    /// Configuration, as variables.
    pub(crate) variables: Vec<(String, String)>,
}

/// A `llts` that runs. Dropping it ends it.
pub(crate) struct Program {
    pub(crate) child: Child,
    /// What stands behind "ready: " in the line of a server.
    pub(crate) address: String,
}

/// What a command has said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// A refusal with this exit code and this part of the sentence.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, part: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.starts_with("llts: ") && self.err.contains(part), "{self:?}");
    }
}

impl Sandbox {
    /// With the patience of a test: a worker is lost after two seconds.
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("llts-lists-").tempdir().expect("a folder");
        let mut sandbox = Self { folder, variables: Vec::new() };
        sandbox.set("LOST_AFTER", "2000");
        sandbox.set("KILL_INTERVAL", "300");
        sandbox.set("STRAGGLER_GRACE", "100");
        sandbox.set("LIST_AGE_MAX", "50");
        sandbox
    }

    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.variables.retain(|(name, _)| name != key);
        self.variables.push((key.to_owned(), value.to_owned()));
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// A path below the folder with the tasks.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("tasks").join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn names(&self, state: &str) -> Vec<String> {
        folder::names(&self.path(state))
    }

    /// The ids of the tasks in a state without lists.
    pub(crate) fn tasks(&self, state: &str) -> Vec<String> {
        self.names(state).iter().filter_map(|name| name.strip_suffix(".task").map(str::to_owned)).collect()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = folder::program(env!("CARGO_BIN_EXE_llts"), self.root());
        for (name, value) in &self.variables {
            command.env(format!("LLTS_LISTS_{name}"), value);
        }
        command.arg("lists").args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A command on the folder.
    pub(crate) fn llts(&self, words: &[&str]) -> Said {
        self.llts_with(words, b"")
    }

    pub(crate) fn llts_with(&self, words: &[&str], stdin: &[u8]) -> Said {
        let mut command = self.command(&[words, &["--dir", "tasks"]].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().expect("started");
        // A command that refuses its first line reads no more.
        let _ = child.stdin.take().expect("a pipe").write_all(stdin);
        let output = child.wait_with_output().expect("its end");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let said = self.llts(&[words, &["--output", "wire"]].concat()).ok();
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{said}: {error}"))
    }

    /// Adds a task and returns its id.
    pub(crate) fn add(&self, words: &[&str]) -> String {
        fs::create_dir_all(self.path("new")).expect("a folder");
        self.llts(&[&["add"], words].concat()).ok().trim().to_owned()
    }

    pub(crate) fn server(&self) -> Program {
        self.server_with(self.command(&["server", "tasks", "--port", "0"]))
    }

    pub(crate) fn server_with(&self, mut command: Command) -> Program {
        let mut child = command.spawn().expect("started");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let Some(ready) = line.strip_prefix("llts spool server ready: ") else {
            let mut said = String::new();
            let _ = child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut said));
            panic!("{line:?}: {said}");
        };
        let address = ready.split(' ').next().expect("an address").to_owned();
        Program { child, address }
    }

    pub(crate) fn worker(&self, name: &str, server: &Program) -> Program {
        self.worker_at(name, &server.address)
    }

    pub(crate) fn worker_at(&self, name: &str, address: &str) -> Program {
        let child = self.command(&["worker", name, "--server", address]).spawn().expect("started");
        Program { child, address: String::new() }
    }

    /// Waits until so many tasks are in a state without lists.
    #[track_caller]
    pub(crate) fn until(&self, state: &str, count: usize) {
        eventually(&format!("{count} tasks in {state}"), || self.tasks(state).len() == count);
    }

    /// The state of a task, and the text of the file with this ending there.
    #[track_caller]
    pub(crate) fn ended(&self, id: &str) -> &'static str {
        let mut found = ENDS;
        let mut state = "";
        eventually(&format!("the end of {id}"), || {
            found = ENDS;
            let places: Vec<&str> =
                found.into_iter().filter(|state| self.path(&format!("{state}/{id}.task")).exists()).collect();
            state = places.first().copied().unwrap_or_default();
            places.len() == 1
        });
        state
    }

    /// Living processes that were started here, without `llts` itself.
    pub(crate) fn commands(&self) -> Vec<(i32, String)> {
        let mut found = folder::processes(self.root());
        found.retain(|(_, line)| !line.contains("llts lists") && !line.contains("llts guard"));
        found
    }
}

impl Program {
    pub(crate) fn signal(&self, with: Signal) {
        signal(self.child.id().cast_signed(), with);
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("its end");
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn said(mut self) -> Said {
        eventually("the end of the program", || self.child.try_wait().expect("a child").is_some());
        let (mut out, mut err) = (String::new(), String::new());
        let _ = self.child.stdout.take().map(|mut pipe| pipe.read_to_string(&mut out));
        let _ = self.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut err));
        Said { code: self.child.wait().expect("its end").code(), out, err }
    }

    /// Asks it to stop, and waits for its end.
    #[track_caller]
    pub(crate) fn stop(self) -> Said {
        self.signal(Signal::TERM);
        self.said()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            // It ends what it has started.
            self.signal(Signal::TERM);
            let until = clock::now().mono + PATIENCE;
            while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && clock::now().mono < until {
                std::thread::park_timeout(std::time::Duration::from_millis(5));
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let mut log = String::new();
            let _ = self.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut log));
            let _ = writeln!(std::io::stderr(), "it said:\n{log}");
        }
    }
}
