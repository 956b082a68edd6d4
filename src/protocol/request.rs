//! What a client or an agent says to the controller (document, section 2; facts, 1.2).

use std::sync::Arc;
use std::time::Duration;

use super::code::{Code, Refusal, shown};
use super::json::{self, FieldLimits};
use super::task::Filter;
use super::words::{self, kind};
use crate::types::{
    AddressPolicy, AgentId, ExitCode, Fields, Phase, PhaseTimes, PushAddress, Round, RunResult, Scalar, Session,
    TaskId, ToolName, Wall,
};

/// What a message may hold.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Sizes.
    pub limits: FieldLimits,
    /// Where states may be pushed to.
    pub addresses: AddressPolicy,
    /// The longest that a request may be parked: `WAIT_MAX`.
    pub wait_max: Duration,
    /// The same for an agent that waits for a task.
    pub apply_wait_max: Duration,
}

/// One message to the controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// From a client.
    Client(Request),
    /// From an agent.
    Agent(Sender, FromAgent),
}

/// What a client may ask.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// TASK/SUBMIT
    Submit(Box<Submit>),
    /// TASK/KILL
    Kill(TaskId),
    /// TASK/QUERY; with a time, the reply waits until the task has finished or the time is over.
    Query(Filter, Option<Duration>),
    /// AGENT/QUERY
    AgentQuery,
    /// TASK/STATISTIC
    TaskStatistic,
    /// TASK/DETAILS
    TaskDetails(Filter, Page),
    /// AGENT/DETAILS
    AgentDetails(Page),
}

/// A task to be accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Submit {
    /// The tool to run.
    pub tool: ToolName,
    /// Everything that was sent, but for the names that the service sets itself.
    pub fields: Fields,
    /// Where to push states to.
    pub address: Option<PushAddress>,
    /// The task whose end ends this one.
    pub parent: Option<Parent>,
    /// `__MAX_LOSSES__`
    pub losses_max: Option<u32>,
    /// The names that were sent although the service sets them itself.
    pub ignored: Vec<String>,
}

impl Submit {
    /// Takes the father out: nobody knows it.
    pub fn forget_parent(&mut self) {
        self.parent = None;
        self.fields.remove(words::FATHER_ID);
    }

    /// What was submitted as members of a JSON object.
    #[must_use]
    pub fn members(&self) -> Arc<str> {
        json::members(&self.fields).into()
    }
}

/// What `__FATHER_ID__` named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent {
    /// An id that a task may have.
    Task(TaskId),
    /// Something that is no id.
    NoTask(String),
}

/// A part of a list, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// How many to skip.
    pub offset: usize,
    /// How many to show at the most.
    pub limit: Option<usize>,
}

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Whether the slot is taken.
    pub busy: bool,
    /// The run that it is taken by, if the agent says so.
    pub run: Option<(TaskId, Round)>,
    /// Where the agent is.
    pub ip: Option<String>,
    /// The session that this one follows: its process is known to be gone.
    pub replaces: Option<Session>,
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
    /// How run.sh ended, in ENDED and FINISHED.
    pub result: Option<RunResult>,
    /// For how long the agent waits for its next task: an APPLY in the same message.
    pub wait: Option<Duration>,
}

/// A message that is refused, with the type to answer with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The type of the message, as far as it could be read.
    pub kind: &'static str,
    /// Why.
    pub refusal: Refusal,
}

/// How many of [`KINDS`] are for clients.
const CLIENT_KINDS: usize = 7;

const KINDS: [&str; 11] = [
    kind::TASK_SUBMIT,
    kind::TASK_KILL,
    kind::TASK_QUERY,
    kind::AGENT_QUERY,
    kind::TASK_STATISTIC,
    kind::TASK_DETAILS,
    kind::AGENT_DETAILS,
    kind::AGENT_HEARTBEAT,
    kind::AGENT_EXIT,
    kind::TASK_APPLY,
    kind::TASK_REPORT,
];

/// Reads one message.
///
/// # Errors
/// With the code of the document's section 2.7 for whatever is wrong with it.
pub fn parse(body: &[u8], rules: &Rules) -> Result<(&'static str, Message), Refused> {
    let mut fields = json::parse(body, &rules.limits).map_err(|rejected| Refused {
        kind: rejected.fields.get(words::TYPE).and_then(known_kind).unwrap_or(kind::ERROR),
        refusal: rejected.refusal,
    })?;
    let unknown = |code, message: String| Refused { kind: kind::ERROR, refusal: Refusal { code, message } };
    let Some(value) = fields.remove(words::TYPE) else {
        let message = "the message has no __TYPE__; name the request, for example \"TASK/SUBMIT\"";
        return Err(unknown(Code::NoType, message.to_owned()));
    };
    let Some(kind) = known_kind(&value) else {
        let (shown, known) = (shown(&value.to_string()), KINDS[..CLIENT_KINDS].join(", "));
        return Err(unknown(Code::UnknownType, format!("__TYPE__ {shown} is unknown; the known ones are {known}")));
    };
    let message = parse_kind(kind, fields, rules).map_err(|refusal| Refused { kind, refusal })?;
    Ok((kind, message))
}

fn known_kind(value: &Scalar) -> Option<&'static str> {
    let text = value.as_text()?;
    KINDS.into_iter().find(|known| *known == text)
}

fn parse_kind(kind: &str, fields: Fields, rules: &Rules) -> Result<Message, Refusal> {
    let is_apply = [kind::TASK_APPLY, kind::TASK_REPORT].contains(&kind);
    let mut reader = Reader { fields, wait_max: if is_apply { rules.apply_wait_max } else { rules.wait_max } };
    let request = match kind {
        kind::TASK_SUBMIT => Request::Submit(Box::new(submit(reader.fields, rules)?)),
        kind::TASK_KILL => Request::Kill(reader.task_id()?),
        kind::TASK_QUERY => {
            let wait = reader.wait()?;
            reader.fields.remove(words::WAIT);
            Request::Query(Filter::new(&reader.fields), wait)
        }
        kind::AGENT_QUERY => Request::AgentQuery,
        kind::TASK_STATISTIC => Request::TaskStatistic,
        kind::TASK_DETAILS => {
            let page = reader.page()?;
            Request::TaskDetails(Filter::new(&reader.fields), page)
        }
        kind::AGENT_DETAILS => Request::AgentDetails(reader.page()?),
        _ => return from_agent(kind, &reader),
    };
    Ok(Message::Client(request))
}

fn submit(mut fields: Fields, rules: &Rules) -> Result<Submit, Refusal> {
    let tool = match fields.get(words::OPERATION) {
        None => Err("__OPERATION__ is missing; name the tool to run, for example \"helloworld\"".to_owned()),
        Some(Scalar::Text(name)) => ToolName::new(name).map_err(|error| format!("__OPERATION__ {error}")),
        Some(other) => Err(format!("__OPERATION__ {other} is not a text; name the tool to run")),
    };
    let tool = tool.map_err(|message| Refusal::new(Code::BadOperation, message))?;
    let mut ignored = Vec::new();
    fields.retain(|name, _| {
        let ours = super::task::is_ours(name);
        if ours {
            ignored.push(name.to_owned());
        }
        !ours
    });
    let address = match fields.get(words::ADDRESS) {
        None => None,
        Some(value) => {
            let text =
                value.as_text().ok_or_else(|| bad(words::ADDRESS, value, "a text such as tcp://127.0.0.1:5000"))?;
            let address = PushAddress::parse(text, &rules.addresses);
            Some(address.map_err(|error| Refusal::new(Code::BadField, format!("__ADDRESS__ {error}")))?)
        }
    };
    let parent = fields.get(words::FATHER_ID).map(|value| {
        let id = value.as_text().and_then(|text| text.parse().ok());
        id.map_or_else(|| Parent::NoTask(value.to_string()), Parent::Task)
    });
    let losses_max = count_up_to(&fields, words::MAX_LOSSES, 1_000_000)?;
    Ok(Submit { tool, fields, address, parent, losses_max, ignored })
}

fn from_agent(kind: &str, reader: &Reader) -> Result<Message, Refusal> {
    let Some(id) = reader.fields.get(words::AGENT_ID) else {
        return Err(Refusal::new(Code::NoAgentId, format!("{kind} has no __AGENT_ID__; an agent names itself")));
    };
    let agent = AgentId::new(&id.to_string())
        .map_err(|error| Refusal::new(Code::BadField, format!("__AGENT_ID__: {error}")))?;
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

fn bad(name: &str, value: &Scalar, wanted: &str) -> Refusal {
    Refusal::new(Code::BadField, format!("{name} is {}; it must be {wanted}", shown(&value.to_string())))
}

fn count_up_to(fields: &Fields, name: &str, max: u32) -> Result<Option<u32>, Refusal> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    let count = value.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count <= max);
    count.map(Some).ok_or_else(|| bad(name, value, &format!("a whole number from 0 to {max}")))
}

struct Reader {
    fields: Fields,
    wait_max: Duration,
}

impl Reader {
    fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        number(&self.fields, name)
    }

    fn moment(&self, name: &str) -> Result<Option<Wall>, Refusal> {
        let Some(value) = self.fields.get(name) else { return Ok(None) };
        let wall = value.as_f64().and_then(Wall::from_unix_seconds);
        wall.map(Some).ok_or_else(|| bad(name, value, "unix seconds with decimals"))
    }

    fn task_id(&self) -> Result<TaskId, Refusal> {
        let Some(value) = self.fields.get(words::TASK_ID) else {
            let message =
                "__TASK_ID__ is missing; name the task by the id that its submit returned, not by __GIVEN_ID__";
            return Err(Refusal::new(Code::InvalidTaskId, message));
        };
        let id = value.as_text().and_then(|text| text.parse().ok());
        id.ok_or_else(|| no_such_task(&value.to_string()))
    }

    fn round(&self) -> Result<Option<Round>, Refusal> {
        count_up_to(&self.fields, words::ROUND, u32::MAX).map(|round| round.map(Round))
    }

    fn wait(&self) -> Result<Option<Duration>, Refusal> {
        Ok(self.number(words::WAIT)?.map(|millis| Duration::from_millis(millis).min(self.wait_max)))
    }

    fn page(&mut self) -> Result<Page, Refusal> {
        let offset = self.number(words::OFFSET)?.unwrap_or_default();
        let limit = self.number(words::LIMIT)?;
        self.fields.remove(words::OFFSET);
        self.fields.remove(words::LIMIT);
        let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Page { offset: size(offset), limit: limit.map(size) })
    }

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
            (Some(_), round) => Some((self.task_id()?, round.unwrap_or_default())),
            (None, _) => None,
        };
        let ip = self.fields.get(words::AGENT_IP).and_then(Scalar::as_text).map(str::to_owned);
        Ok(Heartbeat { busy, run, ip, replaces: self.number(words::REPLACES)?.map(Session) })
    }

    fn report(&self) -> Result<Report, Refusal> {
        let task = self.task_id()?;
        let status = self.fields.get(words::STATUS).unwrap_or(&Scalar::Null);
        let phase = status.as_text().and_then(words::phase_of).filter(|phase| *phase >= Phase::Preparing);
        let phase = phase.ok_or_else(|| bad(words::STATUS, status, "PREPARING, RUNNING, ENDED or FINISHED"))?;
        let times = PhaseTimes {
            prepare: self.moment(words::PREPARE_TIME)?,
            run: self.moment(words::RUN_TIME)?,
            end: self.moment(words::END_TIME)?,
            finish: self.moment(words::FINISH_TIME)?,
        };
        let result = if phase >= Phase::Ended { result(&self.fields)? } else { None };
        Ok(Report { task, round: self.round()?, phase, times, result, wait: self.wait()? })
    }
}

/// What is told of the end of a run, if anything is.
pub(super) fn result(fields: &Fields) -> Result<Option<RunResult>, Refusal> {
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
        cpu_seconds: fields.get(words::CPU_SECONDS).and_then(Scalar::as_f64).unwrap_or_default(),
        max_rss_kib: number(fields, words::MAX_RSS_KB)?.unwrap_or_default(),
        reaped: count_up_to(fields, words::REAPED, u32::MAX)?.unwrap_or_default(),
    }))
}

fn number(fields: &Fields, name: &str) -> Result<Option<u64>, Refusal> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    value.as_u64().map(Some).ok_or_else(|| bad(name, value, "a whole number that is not negative"))
}

/// The refusal of an id that names no task.
#[must_use]
pub fn no_such_task(id: &str) -> Refusal {
    let shown = shown(id);
    Refusal::new(
        Code::InvalidTaskId,
        format!("no task {shown}; it was never submitted here, or its time to be kept is over"),
    )
}
