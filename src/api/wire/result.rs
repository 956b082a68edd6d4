//! The result of a run as fields: the times of its phases, and its end. Agents report it, and the store keeps it.

use super::task_files;
use super::typed::{bad, labels, number, seconds, whole};
use base::code::Refusal;
use base::json::ObjectWriter;
use base::{Defer, ExitCode, Fields, OutputBytes, PhaseTimes, RunResult, Scalar, words};

/// Writes the times of the phases of a run.
pub(super) fn write_times(times: PhaseTimes, writer: &mut ObjectWriter<'_>) {
    let PhaseTimes { prepare, run, end, finish } = times;
    for (name, wall) in
        [(words::PREPARE_TIME, prepare), (words::RUN_TIME, run), (words::END_TIME, end), (words::FINISH_TIME, finish)]
    {
        writer.maybe_moment(name, wall);
    }
}

/// Writes the end of a run.
pub(super) fn write(result: &RunResult, writer: &mut ObjectWriter<'_>) {
    writer.literal(words::EXIT_CODE, result.exit_code);
    for (name, text) in [
        (words::REASON, &result.error),
        (words::REPORT_LOG, &result.report_tail),
        (words::STDOUT, &result.stdout_tail),
        (words::STDERR, &result.stderr_tail),
    ] {
        if !text.is_empty() {
            writer.text(name, text);
        }
    }
    writer.maybe_text(words::VALUE, result.value.as_deref());
    writer.maybe(words::WARM, result.warm);
    if let Some(OutputBytes { report, stdout, stderr }) = result.output_bytes {
        writer.literal(words::REPORT_BYTES, report);
        writer.literal(words::STDOUT_BYTES, stdout);
        writer.literal(words::STDERR_BYTES, stderr);
    }
    writer.scalar(words::CPU_SECONDS, &Scalar::from(result.cpu_seconds));
    writer.literal(words::MAX_RSS_KB, result.max_rss_kib);
    writer.literal(words::REAPED, result.reaped);
    if result.by_itself {
        writer.literal(words::BY_ITSELF, true);
    }
    if result.told_to_finish {
        writer.literal(words::TOLD_TO_FINISH, true);
    }
    if let Some(files) = &result.files {
        task_files::write_kept(files, writer);
    }
    if let Some(defer) = &result.defer {
        writer.maybe(words::RETRY_AFTER, defer.retry_after.map(|after| Scalar::from(after.as_secs_f64())));
        if defer.until_released {
            writer.literal(words::UNTIL_RELEASED, true);
        }
        if !defer.gates.is_empty() {
            writer.text(words::CLOSE_GATE, &defer.gates.to_string());
        }
    }
}

/// The reported end of a run, if there is one.
pub(super) fn read(fields: &Fields) -> Result<Option<RunResult>, Refusal> {
    let Some(value) = fields.get(words::EXIT_CODE) else { return Ok(None) };
    let text = |name| fields.text(name).unwrap_or_default().to_owned();
    let exit_code = value.as_i64().and_then(|code| i32::try_from(code).ok()).map(ExitCode);
    let exit_code = exit_code.ok_or_else(|| bad(words::EXIT_CODE, value, "a whole number"))?;
    Ok(Some(RunResult {
        exit_code,
        error: text(words::REASON),
        report_tail: text(words::REPORT_LOG),
        stdout_tail: text(words::STDOUT),
        stderr_tail: text(words::STDERR),
        output_bytes: output_bytes(fields)?,
        cpu_seconds: fields.get(words::CPU_SECONDS).and_then(Scalar::as_f64).unwrap_or_default(),
        max_rss_kib: number(fields, words::MAX_RSS_KB)?.unwrap_or_default(),
        reaped: whole(fields, words::REAPED, u32::MAX)?.unwrap_or_default(),
        by_itself: fields.flag(words::BY_ITSELF),
        told_to_finish: fields.flag(words::TOLD_TO_FINISH),
        defer: defer(fields)?,
        value: fields.text(words::VALUE).map(Into::into),
        warm: fields.get(words::WARM).and_then(Scalar::as_bool),
        files: task_files::read_kept(fields)?,
    }))
}

fn output_bytes(fields: &Fields) -> Result<Option<OutputBytes>, Refusal> {
    let of = |name| number(fields, name);
    let (report, stdout, stderr) = (of(words::REPORT_BYTES)?, of(words::STDOUT_BYTES)?, of(words::STDERR_BYTES)?);
    let or_none = |bytes: Option<u64>| bytes.unwrap_or_default();
    let told = report.is_some() || stdout.is_some() || stderr.is_some();
    Ok(told.then(|| OutputBytes { report: or_none(report), stdout: or_none(stdout), stderr: or_none(stderr) }))
}

fn defer(fields: &Fields) -> Result<Option<Box<Defer>>, Refusal> {
    let retry_after = seconds(fields, words::RETRY_AFTER)?;
    let until_released = fields.flag(words::UNTIL_RELEASED);
    let defer = Defer { retry_after, until_released, gates: labels(fields, words::CLOSE_GATE)? };
    Ok((defer != Defer::default()).then(|| Box::new(defer)))
}
