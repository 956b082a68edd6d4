//! A folder to run `llts` in: a configuration with free ports, tools, and a way to see every process that was started there.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::support::folder;
use crate::support::waiting;

pub(crate) use folder::{names, signal};
pub(crate) use waiting::eventually;

/// A client, a run or an agent may be delayed for seconds on a busy machine. A run that only SIGKILL ends takes a second more.
const CONFIG: &str = "\
CONTROLLER_REP_PORT = 0
CONTROLLER_PUB_PORT = 0
ZMQ_RECV_TIMEOUT = 15000
AGENT_HEARTBEAT_INTERVAL = 2000
AGENT_KILL_INTERVAL = 1000
LOG_DIR = \"log\"
";

/// The folder. Dropping it stops the service in it.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// The one JSON value on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The first line on stdout.
    #[track_caller]
    pub(crate) fn line(&self) -> &str {
        self.out.lines().next().unwrap_or_else(|| panic!("{self:?}"))
    }
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("llts-place-").tempdir().expect("a folder");
        for name in ["log", "tools", "tmp"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        fs::write(folder.path().join("config.toml"), CONFIG).expect("written");
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the configuration with these further lines.
    pub(crate) fn configure(&self, lines: &str) {
        fs::write(self.path("config.toml"), format!("{CONFIG}{lines}")).expect("written");
    }

    /// Makes the source of a tool.
    pub(crate) fn tool(&self, name: &str, script: &str) {
        let folder = self.path("tools").join(name);
        fs::create_dir(&folder).expect("a new folder");
        let run = folder.join("run.sh");
        fs::write(&run, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).expect("its own file");
    }

    /// `llts` with these arguments, in this folder.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_llts"));
        command.args(line.split_whitespace());
        command
    }

    /// A program of ours, in this folder.
    pub(crate) fn program(&self, path: &str) -> Command {
        let mut command = folder::program(path, self.folder.path());
        command.env("TMPDIR", self.path("tmp"));
        command
    }

    /// Runs `llts` to its end.
    pub(crate) fn llts(&self, line: &str) -> Said {
        self.said(self.start(line))
    }

    /// Runs `llts` to its end, which must be a good one.
    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> Said {
        let said = self.llts(line);
        assert_eq!(said.code, Some(0), "{line}: {said:?}");
        said
    }

    /// Starts `llts`.
    pub(crate) fn start(&self, line: &str) -> Child {
        self.spawn(&mut self.command(line))
    }

    /// Starts what [`Sandbox::command`] has made; [`Sandbox::said`] hears it.
    pub(crate) fn spawn(&self, command: &mut Command) -> Child {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
    }

    /// Waits for the end of what was started.
    pub(crate) fn said(&self, child: Child) -> Said {
        let output = child.wait_with_output().expect("its output");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// All living processes that were started here, directly or not: pid and command line.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        folder::processes(self.folder.path())
    }

    /// The process whose command line ends so.
    #[track_caller]
    pub(crate) fn process(&self, end: &str) -> i32 {
        let processes = self.processes();
        let found = processes.iter().find(|(_, line)| line.trim_end().ends_with(end));
        found.unwrap_or_else(|| panic!("no {end}: {processes:?}")).0
    }

    /// The agents of the service, as JSON.
    pub(crate) fn agents(&self) -> Vec<serde_json::Value> {
        let said = self.llts("agents --output wire");
        said.json()["agents"].as_array().cloned().unwrap_or_default()
    }

    /// Whether nothing that was started here is left: neither a process nor a folder.
    #[track_caller]
    pub(crate) fn is_clean(&self) {
        // It waits for the end of the supervisor, and ends after it.
        let is_standby = |(_, line): &(i32, String)| line.contains(" --standby ");
        eventually("the standby of a restart ends", || !self.processes().iter().any(is_standby));
        assert_eq!(self.processes(), []);
        assert_eq!(names(&self.path("tmp")), [""; 0]);
        let work = names(&self.path("work"));
        assert!(work.iter().all(|name| [".trash", ".spare", ".outputs", ".out"].contains(&name.as_str())), "{work:?}");
        assert_eq!(names(&self.path("work/.trash")), [""; 0]);
        // An agent that ends in peace takes its own along; one that was killed leaves it to the next one.
        for of_an_agent in names(&self.path("work/.spare")) {
            assert_eq!(names(&self.path("work/.spare").join(of_an_agent)), [""; 0]);
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let said = self.llts("down");
        if std::thread::panicking() {
            let log = fs::read_to_string(self.path("log/supervisor.log")).unwrap_or_default();
            let _ = writeln!(std::io::stderr(), "down: {said:?}\nsupervisor.log:\n{log}");
        }
    }
}
