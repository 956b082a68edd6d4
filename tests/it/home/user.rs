//! A user with an empty home folder, who starts `llts` in folders of their own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::Place;

use crate::support::LLTS;

pub(crate) use testkit::{Program, Said, Start, eventually, found, names, signal};

/// The user. Dropping it stops the services of their homes.
pub(crate) struct User {
    ground: Place,
}

impl User {
    pub(crate) fn new() -> Self {
        let mut ground = Place::new(LLTS);
        for name in ["home", "tmp", "elsewhere/below"] {
            fs::create_dir_all(ground.path(name)).expect("a folder");
        }
        let folders = [
            ("HOME", "home"),
            ("XDG_STATE_HOME", "home/.local/state"),
            ("XDG_CONFIG_HOME", "home/.config"),
            ("TMPDIR", "tmp"),
        ];
        folders.into_iter().for_each(|(key, folder)| ground.set(key, ground.path(folder)));
        for (key, value) in [("CONTROLLER_REP_PORT", "0"), ("CONTROLLER_PUB_PORT", "0"), ("ZMQ_RECV_TIMEOUT", "15000")]
        {
            ground.set(format!("LLTS_{key}"), value);
        }
        Self { ground }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.ground.path(name)
    }

    /// The home of the services of this user.
    pub(crate) fn usual(&self) -> PathBuf {
        self.path("home/.local/state/llts")
    }

    /// `llts` with these arguments in this folder, which is relative to the ground. Ports are free ones.
    pub(crate) fn command(&self, folder: &str, line: &str) -> Command {
        let mut command = self.ground.command(line);
        command.current_dir(self.path(folder));
        command
    }

    pub(crate) fn llts(&self, folder: &str, line: &str) -> Said {
        self.command(folder, line).said()
    }

    #[track_caller]
    pub(crate) fn ok(&self, folder: &str, line: &str) -> Said {
        let said = self.llts(folder, line);
        assert_eq!(said.code, Some(0), "{line}: {said:?}");
        said
    }

    /// All living processes that were started here.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        self.ground.processes()
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
            let down = self.command("home", &format!("--home {} down", home.display())).output();
            if std::thread::panicking() {
                let log = fs::read_to_string(home.join("supervisor.log")).unwrap_or_default();
                let _ = writeln!(std::io::stderr(), "down: {down:?}\n{log}");
            }
        }
    }
}
