//! A folder with `.tasks`, and masters of the real binary on it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::prompt::peer::Peer;

use crate::support::waiting;

pub(crate) use waiting::{PATIENCE, eventually};

/// An hour: so long that only what happens at once can be what a test sees.
const NEVER: &str = "3600000";

pub(crate) const FOLDERS: [&str; 4] = ["pending", "working", "done", "failed"];

pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    /// A root with these prompts, each saying its name.
    pub(crate) fn new(prompts: &[&str]) -> Self {
        let sandbox = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(sandbox.path("pending")).unwrap();
        for name in prompts {
            sandbox.write(name, format!("do {name}").as_bytes());
        }
        sandbox
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// A path below `.tasks`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(".tasks").join(name)
    }

    /// Puts a prompt there, whole: a master that looks meanwhile sees all of it or nothing.
    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        let draft = self.path("draft");
        fs::write(&draft, content).unwrap();
        fs::rename(draft, self.path("pending").join(name)).unwrap();
    }

    /// The names in a folder, without what stands beside prompts.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).map(|entries| entries.flatten().collect()).unwrap_or_default();
        let entries: Vec<fs::DirEntry> = entries;
        let mut names: Vec<String> =
            entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.ends_with(".reason"));
        names.sort();
        names
    }

    /// How many prompts are in each of the four folders.
    pub(crate) fn counts(&self) -> [usize; 4] {
        FOLDERS.map(|folder| self.names(folder).len())
    }

    /// In which folders each prompt is.
    pub(crate) fn whereabouts(&self) -> BTreeMap<String, Vec<&'static str>> {
        let mut found: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
        for folder in FOLDERS {
            for name in self.names(folder) {
                found.entry(name).or_default().push(folder);
            }
        }
        found
    }

    pub(crate) fn command(&self, arguments: &[&str], keys: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_llts"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LLTS_")) {
            command.env_remove(name);
        }
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.env("LLTS_HOME", self.folder.path());
        command.env("LLTS_PROMPT_KEEP_ALIVE", "true").env("LLTS_LOG_LEVEL", "error");
        // A worker that is delayed on a busy machine is not disconnected for it, and no message arrives that a test does
        // not request.
        for key in ["TIMER_INTERVAL", "REQUEST_TIMEOUT", "JOIN_TIMEOUT"] {
            command.env(format!("LLTS_PROMPT_{key}"), NEVER);
        }
        command.envs(keys.iter().map(|(key, value)| (format!("LLTS_PROMPT_{key}"), *value)));
        command
    }

    /// A master that stays, with its keys of `[prompt]`.
    pub(crate) fn master(&self, keys: &[(&str, &str)]) -> Running {
        Running::start(self.command(&["prompt", "master", "0"], keys))
    }

    /// The stderr of a command that ends at once, and its exit code.
    pub(crate) fn refused(&self, arguments: &[&str], keys: &[(&str, &str)]) -> (Option<i32>, String) {
        let output = self.command(arguments, keys).stderr(Stdio::piped()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

/// A running process that has said where its prompt master listens.
pub(crate) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) port: u16,
    /// The line that it is ready with.
    pub(crate) ready: String,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        while !ready.starts_with("llts prompt master ready: ") {
            ready.clear();
            assert!(out.read_line(&mut ready).unwrap() > 0, "the master does not start: {:?}", child.wait());
        }
        let address = ready.split(' ').nth(4).unwrap();
        let port = address.rsplit(':').next().unwrap().parse().unwrap();
        Self { child, out, port, ready }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> Peer {
        Peer::connect(self.port)
    }

    pub(crate) fn join(&self, id: &str) -> Peer {
        let mut peer = self.connect();
        peer.join(id);
        peer
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Waits for the end; its exit code and the rest of its stdout.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, text)
    }

    /// Kills it and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
