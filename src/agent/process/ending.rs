//! The facts about a finished run.sh: how it ended, and the ends of its outputs.

use crate::slot::{Exited, ProvideFolder};
use crate::workspace::{TailLimit, TaskDir, tail_of_text};
use api::config::AgentSection;
use api::wire::info;
use api::wire::requests::apply::Dispatch;
use base::{Defer, ExitCode, OutputBytes, RunResult};
use proc::files::disk_room::check_room;
use proc::process::ChildExit;

use super::preparation::{Prepared, STDERR, STDOUT};

pub(super) const REPORT_LOG: &str = "report.log";
const DEFER_INFO: &str = "defer.info";

/// Where a run has left something.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) dispatch: &'a Dispatch,
    /// The folder of the task; `None` in a tool that stays, unless it asks for one.
    pub(super) folder: Option<&'a Prepared>,
    /// The folder with its outputs.
    pub(super) outputs: &'a TaskDir,
    /// The report of a tool that stays, whose outputs are in its own folder.
    pub(super) report: Option<&'a str>,
}

/// Reads the outputs that a finished run has left.
pub(super) fn read(config: &AgentSection, exit: &ChildExit, run: Option<Places<'_>>) -> Exited {
    let report = TailLimit { bytes_max: config.report_keep_bytes, drop_partial_line: true };
    let output = |bytes_max| TailLimit { bytes_max, drop_partial_line: false };
    let tails = |places: Places<'_>| {
        let stdout = places.outputs.output_tail(STDOUT, output(config.stdout_keep_bytes));
        let stderr = places.outputs.output_tail(STDERR, output(config.stderr_keep_bytes));
        let report = match places.report {
            Some(text) => tail_of_text(text, report),
            None => places.outputs.tail(&[places.dispatch.tool.folder_name()], REPORT_LOG, report),
        };
        (report, stdout, stderr)
    };
    let folder = run.and_then(|places| Some((places.dispatch, places.folder?)));
    let provided = folder.and_then(|(dispatch, folder)| provided(dispatch, folder));
    let (report, stdout, stderr) = run.map(tails).unwrap_or_default();
    let is_deferred = exit.exit == ExitCode::DEFERRED;
    // Few programs notice that their last output did not fit on a full disk.
    let room = run.map_or(Ok(()), |places| check_room(places.outputs.path()));
    let result = RunResult {
        cpu_seconds: exit.cpu_seconds,
        max_rss_kib: exit.max_rss_kib,
        output_bytes: Some(OutputBytes { report: report.bytes, stdout: stdout.bytes, stderr: stderr.bytes }),
        report_tail: report.text,
        stdout_tail: stdout.text,
        stderr_tail: stderr.text,
        defer: run.filter(|_| is_deferred).map(|_| Box::new(folder.map(defer).unwrap_or_default())),
        ..RunResult::of(exit.exit, room.err().map(|error| error.to_string()).unwrap_or_default())
    };
    Exited { result, provided }
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
fn defer((dispatch, folder): (&Dispatch, &Prepared)) -> Defer {
    let limit = TailLimit { bytes_max: info::DEFER_BYTES_MAX, drop_partial_line: true };
    let (defer, bad_lines) = info::defer(&folder.dir.tail(&[], DEFER_INFO, limit).text);
    for line in bad_lines {
        log::warn!("task {}: {DEFER_INFO}: {line}", dispatch.task);
    }
    defer
}
