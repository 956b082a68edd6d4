//! Calls of git, each for a repository that is named, or for the one around a folder.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use proc::background::Bell;
use proc::readable::PollSet;
use proc::signals::with_clean_mask;

/// Variables of git that are about people or the installation, and not about a repository.
const HARMLESS: [&str; 5] =
    ["GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_EXEC_PATH"];

/// Runs git in a folder, whose repository it finds; returns its output, without the line end.
pub(super) fn git(folder: &Path, words: &[&str]) -> Result<String, String> {
    run(command(folder, None, words), name_of(words))
}

/// The subcommand.
pub(super) fn name_of<'a>(words: &[&'a str]) -> &'a str {
    words.iter().find(|word| !word.starts_with('-') && !word.contains('=')).copied().unwrap_or_default()
}

/// A git in a folder, for a repository and its files, or for those that it finds.
pub(super) fn command(folder: &Path, named: Option<(&Path, &Path)>, words: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder);
    // A git that has started this worker, as in a hook, has set variables about another folder.
    for (name, _) in std::env::vars_os() {
        let is_of_git = name.to_str().is_some_and(|name| {
            name.starts_with("GIT_") && !HARMLESS.iter().any(|harmless| name.starts_with(harmless))
        });
        if is_of_git {
            command.env_remove(name);
        }
    }
    if let Some((git_dir, files)) = named {
        for (option, path) in [("--git-dir=", git_dir), ("--work-tree=", files)] {
            let mut word = OsString::from(option);
            word.push(path);
            command.arg(word);
        }
        // Nor does a git that it starts for a submodule find another one.
        command.env("GIT_CEILING_DIRECTORIES", files);
    }
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"]).args(words);
    command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(super) fn run(command: Command, name: &str) -> Result<String, String> {
    run_until(command, name, None)
}

/// Runs git until this bell rings, because the worker is to end: a filter, such as that of git-lfs, may wait for a server.
pub(super) fn run_until(mut command: Command, name: &str, stop: Option<&Bell>) -> Result<String, String> {
    let output = match stop {
        Some(stop) => output(&mut command, stop),
        None => with_clean_mask(|| command.spawn()).and_then(Child::wait_with_output).map(Some),
    };
    let output = output.map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            "there is no program \"git\" in any folder of PATH".to_owned()
        } else {
            format!("git cannot be run: {error}")
        }
    })?;
    let Some(Output { status, stdout, stderr }) = output else {
        return Err(format!("git {name} was killed, because its worker is to end"));
    };
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).trim_end().to_owned());
    }
    let text = String::from_utf8_lossy(&stderr);
    let said = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    Err(said.map_or_else(|| format!("git {name} has ended with {status}"), str::to_owned))
}

/// The output of git; `None` if it was killed, with everything in its process group.
fn output(command: &mut Command, stop: &Bell) -> io::Result<Option<Output>> {
    // Files, because a process that git leaves behind may keep a pipe open.
    let [mut out, mut err] = [memory("out")?, memory("err")?];
    command.process_group(0).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let mut child = with_clean_mask(|| command.spawn())?;
    let pid = Pid::from_child(&child);
    let end = pidfd_open(pid, PidfdFlags::empty())?;
    let mut set = PollSet::default();
    let (ended, stopped) = (set.add(end.as_fd()), set.add(stop.as_fd()));
    set.wait(None);
    let is_killed = set.is_readable(Some(stopped)) && !set.is_readable(Some(ended));
    if is_killed {
        // The child is not reaped yet, so its group is still its own.
        kill_process_group(pid, Signal::KILL)?;
    }
    let status = child.wait()?;
    Ok((!is_killed).then_some(Output { status, stdout: text(&mut out)?, stderr: text(&mut err)? }))
}

fn memory(name: &str) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MemfdFlags::CLOEXEC)?))
}

fn text(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map(|_| bytes)
}
