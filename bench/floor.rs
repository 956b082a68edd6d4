//! The lower bounds on this machine, without a service: a process, many processes, a copy, a write that reaches the disk.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::BenchError;
use super::part::wait_end;
use api::tools::RUN_SCRIPT;
use base::Now;
use proc::clock;
use proc::signals::{Signals, with_clean_mask};

/// Starts the run.sh of this folder, without any service, and waits for its end; returns the times of start and end.
pub(crate) fn run(folder: &Path, signals: &mut Signals) -> Result<(Now, Now), BenchError> {
    let mut command = quiet(Command::new(format!("./{RUN_SCRIPT}")));
    command.current_dir(folder).env_clear();
    let before = clock::now();
    finish(&mut command, signals)?;
    Ok((before, clock::now()))
}

/// Runs run.sh `count` times, as `xargs -P` does it.
pub(crate) fn xargs(folder: &Path, count: usize, at_once: u16, signals: &mut Signals) -> Result<Duration, BenchError> {
    xargs_of(folder, &[&format!("./{RUN_SCRIPT}")], count, at_once, signals)
}

/// The same for any command, which gets a number as its last argument.
pub(crate) fn xargs_of(
    folder: &Path,
    words: &[&str],
    count: usize,
    at_once: u16,
    signals: &mut Signals,
) -> Result<Duration, BenchError> {
    let list = folder.with_extension("list");
    let lines: String = (0..count).map(|line| format!("{line}\n")).collect();
    fs::write(&list, lines).map_err(BenchError::io("write the input of xargs"))?;
    let input = File::open(&list).map_err(BenchError::io("read the input of xargs"))?;
    let mut command = quiet(Command::new("xargs"));
    command.args(["-P", &at_once.to_string(), "-n", "1"]).args(words).current_dir(folder).stdin(input);
    time(&mut command, signals)
}

/// Copies a tree.
pub(crate) fn copy(from: &Path, to: &Path, signals: &mut Signals) -> Result<Duration, BenchError> {
    let mut command = quiet(Command::new("cp"));
    command.arg("-r").arg(from).arg(to);
    time(&mut command, signals)
}

/// Appends a few KiB to a file and syncs it to the disk, `count` times.
pub(crate) fn sync_times(folder: &Path, count: usize) -> Result<Vec<f64>, BenchError> {
    const PAGE: u64 = 4096;
    let failed = || BenchError::io("write to the disk");
    let file = File::create(folder.join("synced")).map_err(failed())?;
    let mut times = Vec::with_capacity(count);
    let mut at = 0;
    for _ in 0..count {
        let before = clock::now().mono;
        file.write_all_at(&[1; PAGE as usize], at).map_err(failed())?;
        file.sync_data().map_err(failed())?;
        times.push(clock::now().mono.since(before).as_secs_f64());
        at += PAGE;
    }
    Ok(times)
}

/// Whether a program can be started.
pub(crate) fn require(program: &str, signals: &mut Signals) -> Result<(), BenchError> {
    let mut command = quiet(Command::new(program));
    command.arg("--version");
    match with_clean_mask(|| command.spawn()) {
        Ok(mut child) => wait_end(&mut child, signals).map(drop),
        Err(cause) => {
            Err(BenchError::Missing(format!("{program} cannot be started here ({cause}): nothing to compare with")))
        }
    }
}

fn time(command: &mut Command, signals: &mut Signals) -> Result<Duration, BenchError> {
    let before = clock::now().mono;
    finish(command, signals)?;
    Ok(clock::now().mono.since(before))
}

fn finish(command: &mut Command, signals: &mut Signals) -> Result<(), BenchError> {
    let mut child = with_clean_mask(|| command.spawn()).map_err(BenchError::io(format!("start {command:?}")))?;
    let status = wait_end(&mut child, signals)?;
    if status.success() {
        return Ok(());
    }
    Err(BenchError::Unexpected(format!("{command:?} ended with {status}")))
}

fn quiet(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Writes all dirty pages, so that one measurement does not pay for another.
pub(crate) fn settle_disk(folder: &Path) {
    // A failure only makes the numbers less even.
    let _ = File::open(folder).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
}
