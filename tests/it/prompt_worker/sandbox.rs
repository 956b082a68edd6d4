//! A root folder, workers in it, and a way to see every process that was started there.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use llts::shell::clock;
use rustix::process::Signal;

pub(crate) use crate::support::folder;
use crate::support::waiting;

pub(crate) use folder::{names, signal};
pub(crate) use waiting::{PATIENCE, eventually};

/// The fields with which every worker introduces itself to its master.
pub(crate) const SECRET: &str = "open sesame";

pub(crate) struct Sandbox(tempfile::TempDir);

/// A `llts` that runs. Dropping it ends it.
pub(crate) struct Program(pub(crate) Child);

/// The output of a program.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Sandbox {
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
        self.launch(folder::program(env!("CARGO_BIN_EXE_llts"), self.0.path()), arguments)
    }

    /// The same, with variables in its environment.
    pub(crate) fn start_with(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Program {
        let mut command = folder::program(env!("CARGO_BIN_EXE_llts"), self.0.path());
        command.envs(environment.iter().copied());
        self.launch(command, arguments)
    }

    fn launch(&self, mut command: Command, arguments: &[&str]) -> Program {
        command.arg("prompt").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("LLTS_PROMPT_WORKER_KILL_INTERVAL", "300").env("LLTS_PROMPT_WORKER_STRAGGLER_GRACE", "100");
        command.env("LLTS_PROMPT_WORKER_JOIN_TIMEOUT", "60000").env("LLTS_PROMPT_SECRET", SECRET);
        Program(command.spawn().expect("started"))
    }

    /// `llts prompt` with a master's address behind the verb.
    pub(crate) fn start_at(&self, verb: &str, address: SocketAddr, arguments: &[&str]) -> Program {
        let [host, port] = [address.ip().to_string(), address.port().to_string()];
        self.start(&[&[verb, &host, &port], arguments].concat())
    }

    /// A worker that another program starts, and that ends with the connection.
    pub(crate) fn worker_in(&self, wrapper: &[&str], address: SocketAddr, script: &str) -> Program {
        let [host, port] = [address.ip().to_string(), address.port().to_string()];
        let worker = ["worker", &host, &port, "--patience", "0", "--", "sh", "-c", script];
        self.start_in(wrapper, &[], &worker)
    }

    /// The same for any command, with variables in its environment.
    pub(crate) fn start_in(&self, wrapper: &[&str], environment: &[(&str, &str)], arguments: &[&str]) -> Program {
        let llts = folder::program(env!("CARGO_BIN_EXE_llts"), self.0.path());
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(llts.get_program()).current_dir(self.0.path()).stdin(Stdio::null());
        for (name, value) in llts.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.envs(environment.iter().copied());
        self.launch(command, arguments)
    }

    /// A worker of the master at `address`, which runs `script`.
    pub(crate) fn worker(&self, address: SocketAddr, options: &[&str], script: &str) -> Program {
        self.start_at("worker", address, &[options, &["--", "sh", "-c", script]].concat())
    }

    /// Living processes that were started here, without `llts` itself: pid and command line.
    pub(crate) fn commands(&self) -> Vec<(i32, String)> {
        let mut found = folder::processes(self.0.path());
        found.retain(|(_, line)| !line.contains("llts prompt") && !line.contains("llts guard"));
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

    /// The guard of a worker.
    #[track_caller]
    pub(crate) fn guard(&self, sandbox: &Sandbox) -> i32 {
        let words = format!("guard --pid {} ", self.0.id());
        let found = folder::processes(sandbox.0.path()).into_iter().find(|(_, line)| line.contains(&words));
        found.expect("a guard").0
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

/// The options of unshare(1) with which a worker may have such a namespace here; `None`, with a line on stderr, where that is not permitted.
pub(crate) fn namespace(option: &str) -> Option<Vec<&str>> {
    let ways = [vec!["unshare", option], vec!["unshare", "-Ur", option]];
    let works = |way: &Vec<&str>| {
        let tried = Command::new(way[0]).args(&way[1..]).args(["-f", "true"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    let found = ways.into_iter().find(works);
    if found.is_none() {
        let _ = writeln!(std::io::stderr(), "skipped: no namespace for {option} may be made here");
    }
    found
}
