//! A user with an empty home folder, who starts `llts` in folders of their own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::folder;
use crate::support::waiting;

pub(crate) use folder::{names, signal};
pub(crate) use waiting::eventually;

/// The user. Dropping it stops the services that [`User::service`] has counted.
pub(crate) struct User {
    ground: tempfile::TempDir,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl User {
    pub(crate) fn new() -> Self {
        let ground = tempfile::Builder::new().prefix("llts-user-").tempdir().expect("a folder");
        for name in ["home", "tmp", "elsewhere/below"] {
            fs::create_dir_all(ground.path().join(name)).expect("a folder");
        }
        Self { ground }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.ground.path().join(name)
    }

    /// The home of the services of this user.
    pub(crate) fn usual(&self) -> PathBuf {
        self.path("home/.local/state/llts")
    }

    /// `llts` with these arguments in this folder, which is relative to the ground. Ports are free ones.
    pub(crate) fn command(&self, folder: &str, line: &str) -> Command {
        let mut command = folder::program(env!("CARGO_BIN_EXE_llts"), self.ground.path());
        command.current_dir(self.path(folder)).args(line.split_whitespace());
        command.env("HOME", self.path("home")).env("XDG_STATE_HOME", self.path("home/.local/state"));
        command.env("XDG_CONFIG_HOME", self.path("home/.config")).env("TMPDIR", self.path("tmp"));
        command.env("LLTS_CONTROLLER_REP_PORT", "0").env("LLTS_CONTROLLER_PUB_PORT", "0");
        command.env("LLTS_ZMQ_RECV_TIMEOUT", "15000").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn llts(&self, folder: &str, line: &str) -> Said {
        Self::said(self.command(folder, line).spawn().expect("started"))
    }

    #[track_caller]
    pub(crate) fn ok(&self, folder: &str, line: &str) -> Said {
        let said = self.llts(folder, line);
        assert_eq!(said.code, Some(0), "{line}: {said:?}");
        said
    }

    pub(crate) fn said(child: Child) -> Said {
        let output = child.wait_with_output().expect("its output");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// All living processes that were started here.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        folder::processes(self.ground.path())
    }

    /// Every path below a folder of the ground, without what it leads to.
    pub(crate) fn all_below(&self, name: &str) -> Vec<PathBuf> {
        fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                found.push(entry.path());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    visit(&entry.path(), found);
                }
            }
        }
        let mut found = Vec::new();
        visit(&self.path(name), &mut found);
        found.sort();
        found
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // Each home that a test has used lies in one of these.
        for home in
            ["home/.local/state/llts", "a", "b", "c"].map(|name| self.path(name)).iter().filter(|home| home.is_dir())
        {
            let line = format!("--home {} down", home.display());
            let said = self.llts("home", &line);
            if std::thread::panicking() {
                let log = fs::read_to_string(home.join("supervisor.log")).unwrap_or_default();
                let _ = writeln!(std::io::stderr(), "down: {said:?}\n{log}");
            }
        }
    }
}
