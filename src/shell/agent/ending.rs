//! The facts about a finished run.sh: how it ended, and the ends of its outputs.

use crate::config::AgentSection;
use crate::engine::slot::Exited;
use crate::protocol::info;
use crate::protocol::requests::apply::Job;
use crate::shell::process::ChildExit;
use crate::shell::workspace::{TailLimit, TaskDir};
use crate::types::{Defer, ExitCode, OutputBytes};

use super::preparation::{STDERR, STDOUT};

pub(super) const REPORT_LOG: &str = "report.log";
const DEFER_INFO: &str = "defer.info";

/// Reads the outputs that a finished run has left in its folder.
pub(super) fn read(config: &AgentSection, exit: &ChildExit, run: Option<(&Job, &TaskDir)>) -> Exited {
    let report = TailLimit { bytes_max: config.report_keep_bytes, drop_partial_line: true };
    let output = |bytes_max| TailLimit { bytes_max, drop_partial_line: false };
    let tails = |(job, dir): (&Job, &TaskDir)| {
        let stdout = dir.output_tail(STDOUT, output(config.stdout_keep_bytes));
        let stderr = dir.output_tail(STDERR, output(config.stderr_keep_bytes));
        (dir.tail(&[job.tool.folder_name()], REPORT_LOG, report), stdout, stderr)
    };
    let (report, stdout, stderr) = run.map(tails).unwrap_or_default();
    let is_deferred = exit.exit == ExitCode::DEFERRED;
    Exited {
        exit_code: exit.exit,
        cpu_seconds: exit.cpu_seconds,
        max_rss_kib: exit.max_rss_kib,
        output_bytes: Some(OutputBytes { report: report.bytes, stdout: stdout.bytes, stderr: stderr.bytes }),
        report_tail: report.text,
        stdout_tail: stdout.text,
        stderr_tail: stderr.text,
        defer: run.filter(|_| is_deferred).map(|(job, dir)| Box::new(defer(job, dir))),
    }
}

/// The request of a run that has deferred. A malformed line is ignored, because the run has ended.
fn defer(job: &Job, dir: &TaskDir) -> Defer {
    let limit = TailLimit { bytes_max: info::DEFER_BYTES_MAX, drop_partial_line: true };
    let (defer, bad_lines) = info::defer(&dir.tail(&[], DEFER_INFO, limit).text);
    for line in bad_lines {
        log::warn!("task {}: {DEFER_INFO}: {line}", job.task);
    }
    defer
}
