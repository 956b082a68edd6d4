//! A root folder, workers in it, and a way to see every process that was started there.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use llts::shell::clock;
use rustix::process::{Pid, Signal};

/// Everything that a test waits for happens in far less; a test that fails shall not hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Names the folder to every process that is started in it.
const MARK: &str = "PLACE";

pub(crate) struct Place(tempfile::TempDir);

/// A `llts` that runs. Dropping it ends it.
pub(crate) struct Program(pub(crate) Child);

/// What a program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::Builder::new().prefix("llts-prompt-").tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// `llts prompt` with these arguments, in this folder, on a short ladder.
    pub(crate) fn start(&self, arguments: &[&str]) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_llts"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LLTS_")) {
            command.env_remove(name);
        }
        command.arg("prompt").args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("LLTS_PROMPT_WORKER_KILL_INTERVAL", "300").env("LLTS_PROMPT_WORKER_STRAGGLER_GRACE", "100");
        command.env(MARK, self.0.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Program(command.spawn().expect("started"))
    }

    /// A worker of a master at `port`, which runs `script`.
    pub(crate) fn worker(&self, port: u16, options: &[&str], script: &str) -> Program {
        let port = port.to_string();
        let mut arguments = vec!["worker", "127.0.0.1", &port];
        arguments.extend(options);
        arguments.extend(["--", "sh", "-c", script]);
        self.start(&arguments)
    }

    /// Living processes that were started here, without `llts` itself: pid and command line.
    pub(crate) fn commands(&self) -> Vec<(i32, String)> {
        let mark = format!("{MARK}={}", self.0.path().display());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let ours = environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
            if ours && !line.contains("llts prompt") {
                found.push((pid, line));
            }
        }
        found
    }

    /// Whether neither a process nor a file of a run is left.
    #[track_caller]
    pub(crate) fn is_clean(&self) {
        assert_eq!(self.commands(), []);
        let hosts = names(&self.path(".tasks/.runs"));
        let left: Vec<_> = hosts.iter().map(|host| names(&self.path(".tasks/.runs").join(host))).collect();
        assert!(left.iter().all(Vec::is_empty), "{left:?}");
    }
}

impl Program {
    pub(crate) fn signal(&self, with: Signal) {
        signal(i32::try_from(self.0.id()).expect("a pid"), with);
    }

    /// The half of a worker that works: the child of the one that was started.
    #[track_caller]
    pub(crate) fn ward(&self) -> i32 {
        let parent = format!(" {} ", self.0.id());
        let is_child = |pid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // Behind the name and the state.
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest[2..].starts_with(&parent))
        };
        let pids = fs::read_dir("/proc")
            .expect("/proc")
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.into_iter().find(is_child).expect("a ward")
    }

    /// Waits for its end.
    pub(crate) fn said(mut self) -> Said {
        eventually("the end of the program", || self.0.try_wait().expect("a child").is_some());
        let read = |pipe: Option<&mut dyn std::io::Read>| {
            let mut text = String::new();
            pipe.expect("a pipe").read_to_string(&mut text).expect("text");
            text
        };
        let out = read(self.0.stdout.as_mut().map(|pipe| pipe as &mut dyn std::io::Read));
        let err = read(self.0.stderr.as_mut().map(|pipe| pipe as &mut dyn std::io::Read));
        Said { code: self.0.wait().expect("a child").code(), out, err }
    }
}

impl Drop for Program {
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

/// Signals a process that a test has started.
pub(crate) fn signal(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("a process of ours");
}

/// The names in a folder, if it is there.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let mut names: Vec<_> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Waits until something holds, and names it if it does not.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = clock::now().mono + PATIENCE;
    while !holds() {
        assert!(clock::now().mono < until, "never: {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
