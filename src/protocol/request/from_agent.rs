//! What an agent says: heartbeat, exit, apply, report (facts, 1.2).

use std::time::Duration;

use super::{Message, Reader, agent_id};
use crate::protocol::code::Refusal;
use crate::protocol::typed::{bad, labels, moment, number, seconds, whole};
use crate::protocol::words::{self, kind};
use crate::types::{
    AgentId, Defer, ExitCode, Fields, Labels, OutputBytes, Phase, PhaseTimes, Round, RunResult, Scalar, Session,
    TaskId, ToolSet,
};

/// Milliseconds, a day: for so long the tasks of an agent that is gone may have to wait.
const KILL_BUDGET_MAX: u32 = 86_400_000;

/// Which life of which agent speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Its id.
    pub agent: AgentId,
    /// Its life.
    pub session: Session,
}

/// What an agent may say.
#[derive(Clone, Debug, PartialEq)]
pub enum FromAgent {
    /// AGENT/HEARTBEAT
    Heartbeat(Heartbeat),
    /// AGENT/EXIT
    Exit,
    /// TASK/INTERNAL/APPLY; with a time, the reply waits until there is a task or the time is over.
    Apply(Option<Duration>),
    /// TASK/INTERNAL/REPORT
    Report(Box<Report>),
}

/// A sign of life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Whether the slot is taken.
    pub busy: bool,
    /// The run that it is taken by. An agent that is busy and does not say so means the one that it was given.
    pub run: Option<(TaskId, Round)>,
    /// Where the agent is.
    pub ip: Option<String>,
    /// What it has: `AGENT_TAGS`.
    pub tags: Labels,
    /// The session that this one follows: its process is known to be gone.
    pub replaces: Option<Session>,
    /// Which tools it has, if it tells.
    pub tools: Option<ToldTools>,
    /// What leases rest on; `None` of an agent that does not know of them.
    pub beat: Option<Beat>,
}

/// What an agent tells of its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldTools {
    /// Another number for each list that it tells in its life: as long as the controller answers with it, the list need not be
    /// told. `None` of an agent that tells its list each time.
    pub generation: Option<u64>,
    /// The list, if it is told in this heartbeat.
    pub set: Option<ToolSet>,
    /// The number of the last look that the agent was asked for; what it has told is from then, or later. `None` of an agent that
    /// cannot be asked.
    pub looked: Option<u64>,
}

/// What a heartbeat says for the sake of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Its number: the answer says which heartbeat was heard.
    pub number: u32,
    /// From the end of a lease to that of the last process of its run.
    pub kill_budget: Option<Duration>,
}

/// How a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The task.
    pub task: TaskId,
    /// Its round, if the agent says so.
    pub round: Option<Round>,
    /// The phase that it has reached; those before it are implied.
    pub phase: Phase,
    /// When it reached its phases.
    pub times: PhaseTimes,
    /// For how long run.sh has run, by a clock that does not jump; in RUNNING, if the agent says so.
    pub ran: Option<Duration>,
    /// How run.sh ended, in ENDED and FINISHED.
    pub result: Option<RunResult>,
    /// For how long the agent waits for its next task: an APPLY in the same message.
    pub wait: Option<Duration>,
}

/// Reads a message of one of the kinds that agents send.
pub(super) fn read(kind: &str, reader: &Reader) -> Result<Message, Refusal> {
    let agent = agent_id(kind, &reader.fields)?;
    let session = Session(reader.number(words::SESSION)?.unwrap_or_default());
    let message = match kind {
        kind::AGENT_HEARTBEAT => FromAgent::Heartbeat(reader.heartbeat()?),
        kind::AGENT_EXIT => FromAgent::Exit,
        kind::TASK_APPLY => FromAgent::Apply(reader.wait()?),
        kind::TASK_REPORT => FromAgent::Report(Box::new(reader.report()?)),
        _ => unreachable!("{kind} stands in KINDS and in no match"),
    };
    Ok(Message::Agent(Sender { agent, session }, message))
}

impl Reader {
    fn heartbeat(&self) -> Result<Heartbeat, Refusal> {
        let busy = match self.fields.get(words::AGENT_STATUS) {
            None => false,
            Some(value) => match (value.as_text(), value.as_u64()) {
                (Some("FREE" | "0"), _) | (_, Some(0)) => false,
                (Some("BUSY" | "1"), _) | (_, Some(1)) => true,
                _ => return Err(bad(words::AGENT_STATUS, value, "0 (free) or 1 (busy)")),
            },
        };
        let run = match (self.fields.get(words::TASK_ID), self.round()?) {
            (Some(_), round) => {
                let task = self.task_id()?;
                round.map(|round| (task, round))
            }
            (None, _) => None,
        };
        let ip = self.fields.get(words::AGENT_IP).and_then(Scalar::as_text).map(str::to_owned);
        let tags = labels(&self.fields, words::TAGS)?;
        let replaces = self.number(words::REPLACES)?.map(Session);
        Ok(Heartbeat { busy, run, ip, tags, replaces, tools: self.tools()?, beat: self.beat()? })
    }

    fn tools(&self) -> Result<Option<ToldTools>, Refusal> {
        let (generation, looked) = (self.number(words::TOOLS_GENERATION)?, self.number(words::LOOKED)?);
        let Some(value) = self.fields.get(words::TOOLS) else {
            return Ok(generation.is_some().then_some(ToldTools { generation, set: None, looked }));
        };
        let set = value.as_text().and_then(|text| ToolSet::parse(text).ok());
        let set =
            set.ok_or_else(|| bad(words::TOOLS, value, "names of tools with commas between them, or * for every one"))?;
        Ok(Some(ToldTools { generation, set: Some(set), looked }))
    }

    fn beat(&self) -> Result<Option<Beat>, Refusal> {
        let Some(number) = whole(&self.fields, words::BEAT, u32::MAX)? else { return Ok(None) };
        let budget = whole(&self.fields, words::KILL_BUDGET, KILL_BUDGET_MAX)?;
        Ok(Some(Beat { number, kill_budget: budget.map(|millis| Duration::from_millis(millis.into())) }))
    }

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
        let result = if phase >= Phase::Ended { result(&self.fields)? } else { None };
        let ran = seconds(&self.fields, words::RAN_SECONDS)?;
        Ok(Report { task, round: self.round()?, phase, times, ran, result, wait: self.wait()? })
    }
}

/// What is told of the end of a run, if anything is.
pub(in crate::protocol) fn result(fields: &Fields) -> Result<Option<RunResult>, Refusal> {
    let Some(value) = fields.get(words::EXIT_CODE) else { return Ok(None) };
    let text = |name| fields.get(name).and_then(Scalar::as_text).unwrap_or_default().to_owned();
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
        by_itself: fields.get(words::BY_ITSELF).and_then(Scalar::as_bool).unwrap_or_default(),
        defer: defer(fields)?,
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
    let gates = labels(fields, words::CLOSE_GATE)?;
    Ok((retry_after.is_some() || !gates.is_empty()).then(|| Box::new(Defer { retry_after, gates })))
}
