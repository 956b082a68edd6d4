//! A folder that the program runs in.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::program::{Program, Start as _, ends};
use crate::said::Said;
use crate::waiting::pass;

/// Names the folder to every process that is started in it.
pub const MARK: &str = "PLACE";

/// Processes of llts that stay. None of them is a command that a worker was given.
const KEEPERS: [&str; 4] = ["llts guard", "llts lists", "llts prompt", "llts tdf"];

/// The pause between two looks at processes that were killed.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Lines of a log or an output that are shown.
const SHOWN: usize = 60;

/// A temporary folder, the program, and its configuration. Dropping it ends every process that was started there.
pub struct Place {
    folder: tempfile::TempDir,
    program: PathBuf,
    variables: Vec<(OsString, OsString)>,
    /// Whether a service is stopped at the end.
    is_home: bool,
}

impl Place {
    /// An empty folder.
    pub fn new(program: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("llts-place-").tempdir().expect("a folder");
        Self { folder, program: program.into(), variables: Vec::new(), is_home: false }
    }

    /// A home with this configuration, for a service that logs to `log`.
    pub fn home(program: &str, config: &str) -> Self {
        let mut place = Self::new(program);
        place.is_home = true;
        for name in ["log", "tools"] {
            fs::create_dir(place.path(name)).expect("a folder");
        }
        place.write("config.toml", config);
        place
    }

    /// Sets a variable for all commands.
    pub fn set(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The text of a file.
    #[track_caller]
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Writes a file, and makes its folder.
    #[track_caller]
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("written");
    }

    /// Adds lines to a file.
    #[track_caller]
    pub fn append(&self, name: &str, lines: &str) {
        self.write(name, format!("{}{lines}\n", self.text(name)));
    }

    /// Writes a script for sh.
    #[track_caller]
    pub fn script(&self, name: &str, script: &str) {
        self.write(name, format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("its own file");
    }

    /// The program with these words, in this folder. Its output goes into pipes.
    pub fn command(&self, words: &(impl Words + ?Sized)) -> Command {
        let mut command = self.program(&self.program);
        command.args(words.words());
        command
    }

    /// Any program in this folder, and nothing of our environment that would configure llts.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LLTS_")) {
            command.env_remove(name);
        }
        command.current_dir(self.root()).env(MARK, self.root()).env_remove("CONTROLLER_ADDRESS");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The home of a command that finds no other one.
        command.env("XDG_STATE_HOME", self.path("user"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the program with these words.
    #[track_caller]
    pub fn start(&self, words: &(impl Words + ?Sized)) -> Program {
        self.command(words).start()
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn llts(&self, words: &(impl Words + ?Sized)) -> Said {
        self.command(words).said()
    }

    /// Runs it to its end, which must be a good one.
    #[track_caller]
    pub fn ok(&self, words: &(impl Words + ?Sized)) -> Said {
        let said = self.llts(words);
        assert_eq!(said.code, Some(0), "{:?}: {said:?}", words.words());
        said
    }

    /// All living processes that were started here, directly or not: pid and command line.
    pub fn processes(&self) -> Vec<(i32, String)> {
        processes(self.root())
    }

    /// Those that are no part of llts: the commands that it runs.
    pub fn commands(&self) -> Vec<(i32, String)> {
        let mut found = self.processes();
        found.retain(|(_, line)| !KEEPERS.iter().any(|keeper| line.contains(keeper)));
        found
    }

    /// The process whose command line ends so, and not a child of it that is about to run another program.
    pub fn pid(&self, end: &str) -> Option<i32> {
        let mut found = self.processes();
        found.retain(|(_, line)| line.trim_end().ends_with(end));
        let is_found = |parent: i32| found.iter().any(|(pid, _)| *pid == parent);
        found.iter().find(|(pid, _)| parent(*pid).is_some_and(|parent| !is_found(parent))).map(|(pid, _)| *pid)
    }

    /// The same, which must be there.
    #[track_caller]
    pub fn process(&self, end: &str) -> i32 {
        self.pid(end).unwrap_or_else(|| panic!("no {end}: {:?}", self.processes()))
    }

    /// The guard of a worker.
    #[track_caller]
    pub fn guard_of(&self, worker: &Program) -> i32 {
        let words = format!("guard --pid {} ", worker.pid());
        self.processes().into_iter().find(|(_, line)| line.contains(&words)).expect("a guard").0
    }

    fn show_logs(&self) {
        for name in names(&self.path("log")) {
            let end = last_lines(&fs::read(self.path("log").join(&name)).unwrap_or_default());
            let _ = writeln!(std::io::stderr(), "end of {name}:\n{end}\n");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_home {
            // Supervisors first, so that no killed process is started again.
            let down = self.command("down").output();
            if std::thread::panicking() {
                self.show_logs();
                let left = [names(&self.path("work")), names(&self.path("state/runs"))];
                let _ = writeln!(std::io::stderr(), "down: {down:?}\nwork and runs: {left:?}\n{:?}", self.processes());
            }
        }
        // A command may fork meanwhile, and one that was killed ends when it gets a core.
        for _ in 0..1000 {
            let left = self.processes();
            left.iter().for_each(|(pid, _)| kill(*pid));
            if left.is_empty() {
                return;
            }
            pass(LOOK_PAUSE);
        }
    }
}

/// The words of a command: a line that is split at its blanks, or several of them.
pub trait Words {
    /// One after the other.
    fn words(&self) -> Vec<&str>;
}

impl Words for str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Words for String {
    fn words(&self) -> Vec<&str> {
        self.as_str().words()
    }
}

impl Words for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const COUNT: usize> Words for [&str; COUNT] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Words for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

/// All living processes with the mark of a folder: pid and command line.
pub fn processes(folder: &Path) -> Vec<(i32, String)> {
    let mark = [MARK.as_bytes(), b"=", folder.as_os_str().as_encoded_bytes()].concat();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            // One without a command line has ended between the two looks.
            if !line.is_empty() {
                found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
            }
        }
    }
    found
}

/// `None` when the process has ended.
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything. The state follows, then the parent.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The end of a text that may be long.
pub(crate) fn last_lines(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN)..].join("\n")
}

/// Signals a process that a test has started. One that is to be killed may have ended: the death of one process of a service ends others.
#[track_caller]
pub fn signal(pid: i32, with: Signal) {
    let sent = kill_process(Pid::from_raw(pid).expect("a pid"), with);
    assert!(
        sent.is_ok() || (with, sent) == (Signal::KILL, Err(Errno::SRCH)),
        "{with:?} to a process of ours: {sent:?}"
    );
}

/// Kills these processes at once, and waits until each has ended: one that dies loses its arguments before its locks.
#[track_caller]
pub fn kill_all(pids: impl IntoIterator<Item = i32>) {
    let pids = pids.into_iter().map(|pid| Pid::from_raw(pid).expect("a pid"));
    // The death of one may end another before its turn.
    let dying: Vec<_> = pids.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).collect();
    for pidfd in &dying {
        let _ = pidfd_send_signal(pidfd, Signal::KILL);
    }
    assert!(dying.iter().all(ends), "a process that was killed has not ended");
}

/// As `kill -9`.
#[track_caller]
pub fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

/// The names in a folder, sorted, if it is there.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let mut names: Vec<_> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
