//! The facts about a finished run.sh: how it ended, and the ends of its outputs.

use crate::slot::{Exited, ProvideFolder};
use crate::workspace::{TailLimit, TaskDir};
use api::config::AgentSection;
use api::wire::info;
use api::wire::requests::apply::Dispatch;
use base::{Defer, ExitCode, OutputBytes};
use proc::files::disk_room::check_room;
use proc::process::ChildExit;

use super::preparation::{Prepared, STDERR, STDOUT};

pub(super) const REPORT_LOG: &str = "report.log";
const DEFER_INFO: &str = "defer.info";

/// Reads the outputs that a finished run has left in its folder.
pub(super) fn read(config: &AgentSection, exit: &ChildExit, run: Option<(&Dispatch, &Prepared)>) -> Exited {
    let report = TailLimit { bytes_max: config.report_keep_bytes, drop_partial_line: true };
    let output = |bytes_max| TailLimit { bytes_max, drop_partial_line: false };
    let tails = |(dispatch, dir): (&Dispatch, &TaskDir)| {
        let stdout = dir.output_tail(STDOUT, output(config.stdout_keep_bytes));
        let stderr = dir.output_tail(STDERR, output(config.stderr_keep_bytes));
        (dir.tail(&[dispatch.tool.folder_name()], REPORT_LOG, report), stdout, stderr)
    };
    let provided = run.and_then(|(dispatch, folder)| provided(dispatch, folder));
    let run = run.map(|(dispatch, folder)| (dispatch, &folder.dir));
    let (report, stdout, stderr) = run.map(tails).unwrap_or_default();
    let is_deferred = exit.exit == ExitCode::DEFERRED;
    // Few programs notice that their last output did not fit on a full disk.
    let room = run.map_or(Ok(()), |(_, dir)| check_room(dir.path()));
    Exited {
        exit_code: exit.exit,
        error: room.err().map(|error| error.to_string()).unwrap_or_default(),
        cpu_seconds: exit.cpu_seconds,
        max_rss_kib: exit.max_rss_kib,
        output_bytes: Some(OutputBytes { report: report.bytes, stdout: stdout.bytes, stderr: stderr.bytes }),
        report_tail: report.text,
        stdout_tail: stdout.text,
        stderr_tail: stderr.text,
        defer: run.filter(|_| is_deferred).map(|(dispatch, dir)| Box::new(defer(dispatch, dir))),
        value: None,
        warm: None,
        provided,
    }
}

/// The locations that a task of a step provides.
fn provided(dispatch: &Dispatch, folder: &Prepared) -> Option<ProvideFolder> {
    let (step, out) = (dispatch.step.as_ref()?, folder.out.as_ref()?);
    let Some(path) = out.path().to_str() else {
        return Some(ProvideFolder::Invalid(format!(
            "the path {} is not UTF-8, which locations are",
            out.path().display()
        )));
    };
    Some(match folder.dir.read_provided(step, path) {
        Ok(provided) => {
            out.hand_on(&provided);
            ProvideFolder::Read(Box::new(provided))
        }
        Err(why) => ProvideFolder::Invalid(why),
    })
}

/// The request of a run that has deferred. A malformed line is ignored, because the run has ended.
fn defer(dispatch: &Dispatch, dir: &TaskDir) -> Defer {
    let limit = TailLimit { bytes_max: info::DEFER_BYTES_MAX, drop_partial_line: true };
    let (defer, bad_lines) = info::defer(&dir.tail(&[], DEFER_INFO, limit).text);
    for line in bad_lines {
        log::warn!("task {}: {DEFER_INFO}: {line}", dispatch.task);
    }
    defer
}
