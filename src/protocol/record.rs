//! The record of a task as a row of the store, for those who read the history with `sqlite3` too.
//!
//! What people look for stands in columns of its own; the rest is one flat JSON object with the names of the wire.

use std::sync::Arc;

use super::json::{self, FieldLimits, ObjectWriter};
use super::{request, words};
use crate::types::{
    AddressPolicy, AgentId, Assignment, Fields, Kill, KillCause, Outcome, Phase, PhaseTimes, PushAddress, Round,
    RunResult, Scalar, TaskId, TaskRecord, TaskState, ToolName, Wall,
};

/// One row. Every number fits the signed 64 bits of SQLite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The time part of the id, in microseconds: unique, and the order of submission.
    pub micros: i64,
    /// The id.
    pub id: String,
    /// The phase, as on the wire.
    pub status: String,
    /// The tool.
    pub operation: String,
    /// The present round.
    pub round: i64,
    /// When it was accepted, in microseconds.
    pub submitted_at: i64,
    /// What was submitted, as a JSON object.
    pub submitted: String,
    /// Everything else, as a flat JSON object.
    pub state: String,
}

/// A row that is not what this program writes.
#[derive(Debug, thiserror::Error)]
#[error("the row of task {id:?} has no valid {what}")]
pub struct InvalidRow {
    id: String,
    what: &'static str,
}

/// Makes a row.
#[must_use]
pub fn encode(record: &TaskRecord) -> Row {
    let number = |micros: u64| i64::try_from(micros).unwrap_or(i64::MAX);
    let mut state = Vec::with_capacity(128);
    let mut writer = ObjectWriter::new(&mut state);
    write_state(record, &mut writer);
    writer.end();
    Row {
        micros: number(record.id.wall().micros()),
        id: record.id.to_string(),
        status: words::phase(record.phase()).to_owned(),
        operation: record.tool.as_str().to_owned(),
        round: record.round.0.into(),
        submitted_at: number(record.submitted_at.micros()),
        submitted: format!("{{{}}}", record.submitted),
        // Only texts and numbers were written.
        state: String::from_utf8(state).unwrap_or_default(),
    }
}

fn write_state(record: &TaskRecord, writer: &mut ObjectWriter<'_>) {
    writer.literal(words::SEQ, record.pushes);
    writer.literal(words::LOSSES, record.losses);
    writer.literal(words::MAX_LOSSES, record.losses_max);
    if let Some(kill) = record.kill {
        writer.literal(words::KILL_TIME, kill.at);
        if let KillCause::ParentEnded(ancestor) = kill.cause {
            writer.text(words::KILLED_BY, &ancestor.to_string());
        }
    }
    if let Some(run) = record.assignment() {
        writer.text(words::AGENT_ID, run.agent.as_str());
        writer.literal(words::DISPATCH_TIME, run.dispatched_at);
        super::agent::write_times(run.times, writer);
    }
    if let Some(result) = record.result() {
        super::agent::write_result(result, writer);
    }
    if let TaskState::Finished { at, outcome, .. } = record.state {
        writer.literal(words::END_OF_LIFE_TIME, at);
        writer.text(words::OUTCOME, words::outcome(outcome));
    }
}

/// Reads a row. The address is checked anew: what may be reached is for the present configuration to say.
///
/// # Errors
/// When it is not what [`encode`] makes; names the first thing that is wrong.
pub fn decode(row: &Row, addresses: &AddressPolicy) -> Result<TaskRecord, InvalidRow> {
    decode_parts(row, addresses).map_err(|what| InvalidRow { id: row.id.clone(), what })
}

fn decode_parts(row: &Row, addresses: &AddressPolicy) -> Result<TaskRecord, &'static str> {
    let id: TaskId = row.id.parse().map_err(|_| "id")?;
    let members = row.submitted.strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or("submitted object")?;
    let object = |text: &str, what| json::parse(text.as_bytes(), &FieldLimits::TRUSTED).map_err(|_| what);
    let submitted = object(&row.submitted, "submitted object")?;
    let state = State(object(&row.state, "state")?);
    let text = |name| submitted.get(name).and_then(Scalar::as_text);
    let address = text(words::ADDRESS).and_then(|text| {
        let address = PushAddress::parse(text, addresses);
        address.inspect_err(|error| log::warn!("task {id} is pushed to nobody: {error}")).ok()
    });
    Ok(TaskRecord {
        id,
        tool: ToolName::new(&row.operation).map_err(|_| "operation")?,
        submitted: members.into(),
        address: address.map(Arc::new),
        parent: text(words::FATHER_ID).and_then(|text| text.parse().ok()),
        submitted_at: Wall::from_micros(row.submitted_at.try_into().map_err(|_| "time of submission")?),
        round: Round(row.round.try_into().map_err(|_| "round")?),
        losses: state.count(words::LOSSES)?,
        losses_max: state.count(words::MAX_LOSSES)?,
        pushes: state.count(words::SEQ)?,
        kill: state.kill(),
        state: state.state(words::phase_of(&row.status).ok_or("status")?)?,
    })
}

struct State(Fields);

impl State {
    fn count(&self, name: &str) -> Result<u32, &'static str> {
        let count = self.0.get(name).and_then(Scalar::as_u64).and_then(|count| u32::try_from(count).ok());
        count.ok_or("count of pushes or losses")
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Scalar::as_text)
    }

    fn moment(&self, name: &str) -> Option<Wall> {
        self.0.get(name).and_then(Scalar::as_f64).and_then(Wall::from_unix_seconds)
    }

    fn kill(&self) -> Option<Kill> {
        let by = self.text(words::KILLED_BY).and_then(|text| text.parse().ok());
        Some(Kill { at: self.moment(words::KILL_TIME)?, cause: by.map_or(KillCause::Client, KillCause::ParentEnded) })
    }

    fn state(&self, phase: Phase) -> Result<TaskState, &'static str> {
        let run = || self.assignment().ok_or("agent");
        let result = self.result()?;
        Ok(match phase {
            Phase::Waiting => TaskState::Waiting,
            Phase::Dispatched => TaskState::Dispatched(run()?),
            Phase::Preparing => TaskState::Preparing(run()?),
            Phase::Running => TaskState::Running(run()?),
            Phase::Ended => TaskState::Ended { assignment: run()?, result },
            Phase::Finished => TaskState::Finished {
                at: self.moment(words::END_OF_LIFE_TIME).ok_or("time of the end")?,
                outcome: self.outcome().ok_or("outcome")?,
                run: result.map(|result| run().map(|run| (run, result))).transpose()?,
            },
        })
    }

    fn assignment(&self) -> Option<Box<Assignment>> {
        let times = PhaseTimes {
            prepare: self.moment(words::PREPARE_TIME),
            run: self.moment(words::RUN_TIME),
            end: self.moment(words::END_TIME),
            finish: self.moment(words::FINISH_TIME),
        };
        let agent = AgentId::new(self.text(words::AGENT_ID)?).ok()?;
        Some(Box::new(Assignment { agent, dispatched_at: self.moment(words::DISPATCH_TIME)?, times }))
    }

    fn result(&self) -> Result<Option<Arc<RunResult>>, &'static str> {
        request::result(&self.0).map(|result| result.map(Arc::new)).map_err(|_| "result")
    }

    fn outcome(&self) -> Option<Outcome> {
        words::outcome_of(self.text(words::OUTCOME)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ExitCode;

    fn record(state: TaskState) -> TaskRecord {
        let ancestor = TaskId::new(Wall::from_micros(1_700_000_000_000_001), [1; 5]);
        TaskRecord {
            id: TaskId::new(Wall::from_micros(1_795_239_916_024_113), [7; 5]),
            tool: ToolName::new("t").unwrap(),
            submitted: format!(
                "\"{}\":\"t\",\"{}\":\"{ancestor}\",\"a\":\"ü\\n\",\"n\":1",
                words::OPERATION,
                words::FATHER_ID
            )
            .into(),
            address: None,
            parent: Some(ancestor),
            submitted_at: Wall::from_micros(1_795_239_916_024_113),
            round: Round(2),
            losses: 1,
            losses_max: 3,
            pushes: 4,
            kill: Some(Kill { at: Wall::from_micros(1_795_239_917_000_001), cause: KillCause::ParentEnded(ancestor) }),
            state,
        }
    }

    fn assignment() -> Box<Assignment> {
        let at = |micros: u64| Some(Wall::from_micros(1_795_239_916_000_000 + micros));
        let times = PhaseTimes { prepare: at(1), run: None, end: at(3), finish: at(999_999) };
        let agent = AgentId::new("agent-1").unwrap();
        Box::new(Assignment { agent, dispatched_at: Wall::from_micros(1_795_239_916_024_114), times })
    }

    fn result() -> Arc<RunResult> {
        Arc::new(RunResult {
            exit_code: ExitCode(-129),
            error: "no such tool".to_owned(),
            report_tail: "r\n".to_owned(),
            stdout_tail: String::new(),
            stderr_tail: "\u{fffd}".to_owned(),
            cpu_seconds: 0.125,
            max_rss_kib: 8348,
            reaped: 2,
        })
    }

    #[test]
    fn every_state_reads_back_as_itself() {
        let at = Wall::from_micros(1_795_239_918_000_007);
        let states = [
            TaskState::Waiting,
            TaskState::Dispatched(assignment()),
            TaskState::Ended { assignment: assignment(), result: Some(result()) },
            TaskState::Ended { assignment: assignment(), result: None },
            TaskState::Finished { at, outcome: Outcome::Failed, run: Some((assignment(), result())) },
            TaskState::Finished { at, outcome: Outcome::Lost, run: None },
        ];
        for state in states {
            let record = record(state);
            assert_eq!(decode(&encode(&record), &AddressPolicy::default()).unwrap(), record);
        }
    }

    #[test]
    fn a_row_of_another_kind_is_refused_with_what_is_wrong() {
        let good = encode(&record(TaskState::Dispatched(assignment())));
        for (change, what) in [
            (Row { id: "x".to_owned(), ..good.clone() }, "id"),
            (Row { status: "ASLEEP".to_owned(), ..good.clone() }, "status"),
            (Row { state: "{}".to_owned(), ..good.clone() }, "count of pushes or losses"),
            (Row { submitted: "[]".to_owned(), ..good.clone() }, "submitted object"),
            (Row { round: -1, ..good.clone() }, "round"),
        ] {
            assert_eq!(decode(&change, &AddressPolicy::default()).unwrap_err().what, what);
        }
    }
}
