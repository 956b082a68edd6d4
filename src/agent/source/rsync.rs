//! A program by rsync, which gets its arguments one by one. No shell reads them, here or on the other side.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{PidfdFlags, kill_process_group, pidfd_open};

use super::{FetchOptions, SourceError, Timeouts};
use base::{ExitCode, Source};
use proc::process::{Command, CommandPlan, RunningChild, Signal, spawn_command};
use proc::{clock, readable};

/// How rsync reaches another host unless RSYNC_RSH says otherwise: it asks for no password.
const REMOTE_SHELL: &str = "ssh -o BatchMode=yes -o ConnectTimeout=10";

/// rsync could not write a file, or read one.
const FILE_IO: ExitCode = ExitCode(11);

/// Bytes of the complaint of rsync in a message.
const COMPLAINT_BYTES_MAX: u64 = 600;

/// Copies one regular file from `place` to `into`, which must not be there.
pub(super) fn fetch(
    place: &str,
    into: &Path,
    bytes_max: u64,
    timeouts: &Timeouts,
    options: &FetchOptions<'_>,
) -> Result<(), SourceError> {
    let failed = |reason: String| SourceError::Rsync { place: place.to_owned(), reason };
    let words = words(place, into, bytes_max, timeouts);
    let command =
        Command::find(&words, std::env::var_os("PATH").as_deref()).map_err(|error| failed(error.to_string()))?;
    let complaints = into.with_extension("complaints");
    let unusable = |error: std::io::Error| failed(error.to_string());
    let null = File::options().read(true).write(true).open("/dev/null").map_err(unusable)?;
    let stderr = File::create_new(&complaints).map_err(unusable)?;
    let child = spawn_command(&CommandPlan {
        command: &command,
        folder: options.folder,
        environment: options.environment,
        stdin: null.as_fd(),
        stdout: null.as_fd(),
        stderr: stderr.as_fd(),
        brand: options.brand,
        is_terminal: false,
    });
    let exit = wait(child.map_err(|error| failed(error.to_string()))?, place, timeouts.fetch, options)?;
    if exit != ExitCode::SUCCESS {
        let said = complaint(&complaints, exit);
        // rsync writes the number of an error behind its text, which is in the language of the user. On a full disk, even that may be
        // missing.
        let is_told = |errno: &Errno| said.contains(&format!("({})", errno.raw_os_error()));
        let is_silent = std::fs::metadata(&complaints).is_ok_and(|said| said.len() == 0);
        let cause = [Errno::NOSPC, Errno::DQUOT].into_iter().find(is_told).or(is_silent.then_some(Errno::NOSPC));
        return Err(match cause.filter(|_| exit == FILE_IO) {
            Some(errno) => SourceError::Io { action: "write", path: into.to_owned(), error: errno.into() },
            None => failed(said),
        });
    }
    // rsync skips folders, devices and files that are too long, with success.
    if !into.is_file() {
        return Err(failed(format!("it is no regular file, or has more than the {bytes_max} bytes that are allowed")));
    }
    Ok(())
}

/// The call of rsync. With a remote shell, rsync would start a server on the other host in place of asking the running one.
fn words(place: &str, into: &Path, bytes_max: u64, timeouts: &Timeouts) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["rsync", "--copy-links", "--times", "--secluded-args"].map(Into::into).to_vec();
    words.push(format!("--timeout={}", timeouts.silence.as_secs().max(1)).into());
    words.push(format!("--max-size={bytes_max}").into());
    if !Source::is_of_rsync_server(place) && std::env::var_os("RSYNC_RSH").is_none() {
        words.extend(["-e", REMOTE_SHELL].map(Into::into));
    }
    words.extend(["--".into(), place.into(), into.into()]);
    words
}

/// Waits for the end of rsync, or ends it.
fn wait(
    mut child: RunningChild,
    place: &str,
    limit: Duration,
    options: &FetchOptions<'_>,
) -> Result<ExitCode, SourceError> {
    let failed = |error: std::io::Error| SourceError::Rsync { place: place.to_owned(), reason: error.to_string() };
    let pid = child.id().pid;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
    let deadline = clock::now().mono + limit;
    let early = loop {
        if let Some(exit) = child.try_wait().map_err(failed)? {
            return Ok(exit.exit);
        }
        if let Err(stopped) = options.stop.check() {
            break stopped;
        }
        let left = deadline.since(clock::now().mono);
        if left.is_zero() {
            break SourceError::TimedOut { place: place.to_owned(), limit };
        }
        readable::wait([pidfd.as_fd(), options.stop.as_fd()], Some(left));
    };
    // rsync is not reaped yet, so that its number still names its group.
    let _ = kill_process_group(pid, Signal::KILL);
    while child.try_wait().map_err(failed)?.is_none() {
        readable::is_readable(&pidfd, None);
    }
    Err(early)
}

/// The output of rsync, on one line.
fn complaint(path: &Path, exit: ExitCode) -> String {
    let mut text = Vec::new();
    let _ = File::open(path).and_then(|file| file.take(COMPLAINT_BYTES_MAX).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { format!("it has ended with {}", exit.0) } else { lines.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rsync_server_is_asked_without_a_remote_shell() {
        let second = Duration::from_secs(1);
        let timeouts = Timeouts { silence: second, fetch: second };
        let has_shell = |place| words(place, Path::new("x"), 1, &timeouts).contains(&REMOTE_SHELL.into());
        assert!(has_shell("host:a/run.sh"));
        assert!(!has_shell("rsync://host/module/run.sh") && !has_shell("host::module/run.sh"));
    }
}
