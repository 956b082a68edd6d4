//! TASK/INTERNAL/REPORT (docs/sources/controller.md, 5.1): an agent reports the state of its task.

use std::time::Duration;

use super::{FromAgent, Kind, Reader, Refusal, words};
use crate::wire::typed::{bad, field, moment, seconds, whole};
use crate::wire::{locations, result};
use base::json::ObjectWriter;
use base::{Phase, PhaseTimes, Progress, Provided, Round, RunResult, Scalar, StepContext, TaskId};

/// The state of the agent's task.
pub const TASK_REPORT: Kind =
    Kind::of_agents("TASK/INTERNAL/REPORT", |reader| Ok(FromAgent::Report(Box::new(reader.report()?))));

/// The state of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The task.
    pub task: TaskId,
    /// Its round, if the agent names it.
    pub round: Option<Round>,
    /// The phase that it has reached; the earlier ones are implied.
    pub phase: Phase,
    /// The times of its phases.
    pub times: PhaseTimes,
    /// The run time of run.sh, by a clock that does not jump; in RUNNING, if the agent reports it.
    pub ran: Option<Duration>,
    /// The result of run.sh, in ENDED and FINISHED.
    pub result: Option<RunResult>,
    /// The locations that the run of a step provides, in FINISHED, if it has succeeded or was told to finish early.
    pub provided: Option<Box<Provided>>,
    /// The progress that the run reports, in RUNNING.
    pub progress: Option<Box<Progress>>,
    /// The list of which the agent starts no more tasks, if there is one.
    pub let_go: Option<LetGo>,
    /// The longest time that the agent waits for its next task: an APPLY in the same message.
    pub wait: Option<Duration>,
}

/// The end of a list: the agent has started some of its tasks, in order, and starts no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetGo {
    /// Number of the list.
    pub list: u64,
    /// Number of its tasks that have been started.
    pub started: u32,
}

/// Maximum bytes of a report, if other messages have at most `message_bytes`. The text of [`Report::provided`] has no control
/// characters, so escapes at most double it.
#[must_use]
pub const fn bytes_max(message_bytes: usize) -> usize {
    message_bytes.saturating_add(2 * StepContext::PROVIDED_BYTES_MAX)
}

impl Reader<'_> {
    fn report(&self) -> Result<Report, Refusal> {
        let task = self.task_id()?;
        let status = self.fields.get(words::STATUS).unwrap_or(&Scalar::Null);
        let phase = status.as_text().and_then(words::phase_of).filter(|phase| *phase >= Phase::Preparing);
        let phase = phase.ok_or_else(|| bad(words::STATUS, status, "PREPARING, RUNNING, ENDED or FINISHED"))?;
        let times = PhaseTimes {
            prepare: moment(&self.fields, words::PREPARE_TIME)?,
            run: moment(&self.fields, words::RUN_TIME)?,
            end: moment(&self.fields, words::END_TIME)?,
            finish: moment(&self.fields, words::FINISH_TIME)?,
        };
        let result = if phase >= Phase::Ended { result::read(&self.fields)? } else { None };
        let ran = seconds(&self.fields, words::RAN_SECONDS)?;
        let provided =
            field(&self.fields, words::PROVIDED, "a JSON object of arrays of locations, in a text", |value| {
                locations::read_provided(value.as_text()?)
            })?;
        let provided = provided.filter(|_| phase == Phase::Finished).map(Box::new);
        let list = self.number(words::LIST)?;
        let started = whole(&self.fields, words::LIST_STARTED, u32::MAX)?;
        let let_go = list.zip(started).map(|(list, started)| LetGo { list, started });
        let progress =
            self.fields.get(words::PROGRESS).and_then(Scalar::as_f64).and_then(|fraction| {
                Progress::new(fraction, self.fields.text(words::PROGRESS_TEXT).unwrap_or_default())
            });
        let progress = progress.filter(|_| phase == Phase::Running).map(Box::new);
        let (round, wait) = (self.round()?, self.wait()?);
        Ok(Report { task, round, phase, times, ran, result, provided, progress, let_go, wait })
    }
}

/// Writes a report.
pub(in crate::wire) fn write(report: &Report, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TASK_ID, &report.task.to_string());
    writer.maybe(words::ROUND, report.round);
    writer.text(words::STATUS, words::phase(report.phase));
    result::write_times(report.times, writer);
    writer.maybe(words::RAN_SECONDS, report.ran.map(|ran| Scalar::from(ran.as_secs_f64())));
    if let Some(result) = &report.result {
        result::write(result, writer);
    }
    writer.maybe_text(words::PROVIDED, report.provided.as_ref().map(|provided| locations::to_text(provided)));
    if let Some(progress) = &report.progress {
        writer.scalar(words::PROGRESS, &Scalar::from(progress.fraction()));
        writer.text(words::PROGRESS_TEXT, &progress.text);
    }
    if let Some(LetGo { list, started }) = report.let_go {
        writer.literal(words::LIST, list);
        writer.literal(words::LIST_STARTED, started);
    }
    writer.maybe(words::WAIT, report.wait.map(|wait| wait.as_millis()));
}

/// Writes which report the answer is for. A refusal is written before.
pub(in crate::wire) fn write_answer(task: TaskId, round: Round, phase: Phase, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TASK_ID, &task.to_string());
    writer.literal(words::ROUND, round);
    writer.text(words::STATUS, words::phase(phase));
}
