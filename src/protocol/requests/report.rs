//! TASK/INTERNAL/REPORT (facts, 1.2): an agent reports the state of its task.

use std::time::Duration;

use super::{FromAgent, Kind, Reader, Refusal, words};
use crate::protocol::json::ObjectWriter;
use crate::protocol::result;
use crate::protocol::typed::{bad, moment, seconds};
use crate::types::{Phase, PhaseTimes, Round, RunResult, Scalar, TaskId};

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
    /// The longest time that the agent waits for its next task: an APPLY in the same message.
    pub wait: Option<Duration>,
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
        Ok(Report { task, round: self.round()?, phase, times, ran, result, wait: self.wait()? })
    }
}

/// Writes a report.
pub(in crate::protocol) fn write(report: &Report, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TASK_ID, &report.task.to_string());
    writer.maybe(words::ROUND, report.round);
    writer.text(words::STATUS, words::phase(report.phase));
    result::write_times(report.times, writer);
    writer.maybe(words::RAN_SECONDS, report.ran.map(|ran| Scalar::from(ran.as_secs_f64())));
    if let Some(result) = &report.result {
        result::write(result, writer);
    }
    writer.maybe(words::WAIT, report.wait.map(|wait| wait.as_millis()));
}

/// Writes which report is answered. A refusal is written before that.
pub(in crate::protocol) fn write_answer(task: TaskId, round: Round, phase: Phase, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TASK_ID, &task.to_string());
    writer.literal(words::ROUND, round);
    writer.text(words::STATUS, words::phase(phase));
}
