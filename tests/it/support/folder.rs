//! A folder that `llts` runs in: programs that carry its mark, and a way to see every process that was started there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};

/// Names the folder to every process that is started in it.
pub(crate) const MARK: &str = "PLACE";

/// A program of ours in this folder, and nothing of our environment that would configure it.
pub(crate) fn program(path: &str, folder: &Path) -> Command {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LLTS_")) {
        command.env_remove(name);
    }
    command.current_dir(folder).stdin(Stdio::null()).env(MARK, folder).env_remove("CONTROLLER_ADDRESS");
    // The home of a command that finds no other one.
    command.env("XDG_STATE_HOME", folder.join("user"));
    command
}

/// All living processes that were started here, directly or not: pid and command line.
pub(crate) fn processes(folder: &Path) -> Vec<(i32, String)> {
    let mark = format!("{MARK}={}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            // One without a command line has ended between the two looks.
            if !line.is_empty() {
                found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
            }
        }
    }
    found
}

/// Signals a process that a test has started.
pub(crate) fn signal(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("a process of ours");
}

/// The names in a folder, sorted, if it is there.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let mut names: Vec<_> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
