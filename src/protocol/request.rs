//! What a client or an agent says to the controller (document, section 2; facts, 1.2).

use std::sync::Arc;
use std::time::Duration;

mod from_agent;

pub(super) use from_agent::result;
pub use from_agent::{Beat, FromAgent, Heartbeat, Report, Sender, ToldTools};

pub use super::gate::GateChange;

use super::code::{Code, Refusal, shown};
use super::json::{self, FieldLimits};
use super::task::Filter;
use super::typed::{bad, number, whole};
use super::words::{self, kind};
use super::{address, gate, policy};
use crate::types::{AddressPolicy, AgentId, Fields, Label, Policy, PushAddress, Round, Scalar, TaskId, ToolName};

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
    /// The policy of a task that does not say otherwise: `[task_defaults]`.
    pub defaults: Arc<Policy>,
}

impl Rules {
    /// For records that are only to be read, whatever the present configuration allows.
    #[must_use]
    pub fn of_history() -> Self {
        let (limits, addresses) = (FieldLimits::TRUSTED, AddressPolicy::everything());
        let wait_max = Duration::ZERO;
        Self { limits, addresses, wait_max, apply_wait_max: wait_max, defaults: Arc::default() }
    }
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
    /// TASK/KILL, with what its sender says of it.
    Kill(TaskId, Option<Arc<str>>),
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
    /// TASK/EXPLAIN
    Explain(Filter),
    /// TASK/RETRY
    Retry(TaskId),
    /// TASK/HOLD, or with false TASK/RELEASE
    Hold(TaskId, bool),
    /// AGENT/DRAIN
    AgentDrain(AgentId, bool),
    /// GATE/SET
    GateSet(Label, Box<GateChange>),
    /// GATE/QUERY; without a name, all gates.
    GateQuery(Option<Label>),
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
    /// What it demands of its life.
    pub policy: Arc<Policy>,
    /// The names that were sent although the service sets them itself.
    pub ignored: Vec<String>,
    /// The names that look like fields of the service and are none: those of a newer one, or mistyped. They are parameters.
    pub unknown: Vec<String>,
}

impl Submit {
    /// Takes the father out: nobody knows it.
    pub fn forget_parent(&mut self) {
        self.parent = None;
        self.fields.remove(words::FATHER_ID);
    }

    /// `__SUBMIT_KEY__` as JSON.
    #[must_use]
    pub fn submit_key(&self) -> Option<String> {
        let key = self.fields.get(words::SUBMIT_KEY)?;
        super::task::value_of(&json::members(&Fields::new().with(words::SUBMIT_KEY, key.clone()))).map(str::to_owned)
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

/// A message that is refused, with the type to answer with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The type of the message, as far as it could be read.
    pub kind: &'static str,
    /// Why.
    pub refusal: Refusal,
}

/// How many of [`KINDS`] are for clients.
const CLIENT_KINDS: usize = 14;

const KINDS: [&str; 18] = [
    kind::TASK_SUBMIT,
    kind::TASK_KILL,
    kind::TASK_QUERY,
    kind::AGENT_QUERY,
    kind::TASK_STATISTIC,
    kind::TASK_DETAILS,
    kind::AGENT_DETAILS,
    kind::TASK_EXPLAIN,
    kind::TASK_RETRY,
    kind::TASK_HOLD,
    kind::TASK_RELEASE,
    kind::AGENT_DRAIN,
    kind::GATE_SET,
    kind::GATE_QUERY,
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

/// Whether a request of this `__TYPE__` is a question that changes nothing. A kind that is unknown might.
#[must_use]
pub fn only_asks(kind: &str) -> bool {
    [
        kind::TASK_QUERY,
        kind::TASK_STATISTIC,
        kind::TASK_DETAILS,
        kind::TASK_EXPLAIN,
        kind::AGENT_QUERY,
        kind::AGENT_DETAILS,
        kind::GATE_QUERY,
    ]
    .contains(&kind)
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
        kind::TASK_KILL => Request::Kill(reader.task_id()?, reader.said()),
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
        kind::TASK_EXPLAIN => Request::Explain(Filter::new(&reader.fields)),
        kind::TASK_RETRY => Request::Retry(reader.task_id()?),
        kind::TASK_HOLD => Request::Hold(reader.task_id()?, true),
        kind::TASK_RELEASE => Request::Hold(reader.task_id()?, false),
        kind::AGENT_DRAIN => {
            let drain = super::typed::truth(&reader.fields, words::DRAIN)?.unwrap_or(true);
            Request::AgentDrain(agent_id(kind, &reader.fields)?, drain)
        }
        kind::GATE_SET => Request::GateSet(gate::name(&reader.fields)?, Box::new(gate::change(&reader.fields)?)),
        kind::GATE_QUERY if reader.fields.get(words::GATE).is_none() => Request::GateQuery(None),
        kind::GATE_QUERY => Request::GateQuery(Some(gate::name(&reader.fields)?)),
        _ => return from_agent::read(kind, &reader),
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
    let address = address::read(&fields, rules)?;
    let parent = fields.get(words::FATHER_ID).map(|value| {
        let id = value.as_text().and_then(|text| text.parse().ok());
        id.map_or_else(|| Parent::NoTask(value.to_string()), Parent::Task)
    });
    let policy = policy::read(&fields, &rules.defaults)?;
    if let Some(key) = fields.get(words::SUBMIT_KEY).filter(|key| key.as_text().is_none_or(str::is_empty)) {
        return Err(bad(words::SUBMIT_KEY, key, "a text that is not empty, chosen anew for each task"));
    }
    let unknown = fields.iter().map(|(name, _)| name).filter(|name| is_unknown(name)).map(str::to_owned).collect();
    Ok(Submit { tool, fields, address, parent, policy, ignored, unknown })
}

/// Whether a name has the form of those of the service, and a submit has no field of that name.
fn is_unknown(name: &str) -> bool {
    const KNOWN: [&str; 6] =
        [words::OPERATION, words::GIVEN_ID, words::FATHER_ID, words::ADDRESS, words::ADDRESS_KEY, words::SUBMIT_KEY];
    let inner = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"));
    let of_our_form =
        inner.is_some_and(|inner| inner.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'));
    of_our_form && !KNOWN.contains(&name) && policy::field(name).is_none()
}

fn agent_id(kind: &str, fields: &Fields) -> Result<AgentId, Refusal> {
    let Some(id) = fields.get(words::AGENT_ID) else {
        return Err(Refusal::new(Code::NoAgentId, format!("{kind} has no __AGENT_ID__; name the agent")));
    };
    AgentId::new(&id.to_string()).map_err(|error| Refusal::new(Code::BadField, format!("__AGENT_ID__: {error}")))
}

struct Reader {
    fields: Fields,
    wait_max: Duration,
}

impl Reader {
    fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        number(&self.fields, name)
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

    /// What the sender of a kill says of it: for people, so it is cut rather than refused.
    fn said(&self) -> Option<Arc<str>> {
        const CHARS_MAX: usize = 200;
        let text = self.fields.get(words::REASON)?.as_text()?;
        Some(text.chars().filter(|c| !c.is_control()).take(CHARS_MAX).collect::<String>().into())
    }

    fn round(&self) -> Result<Option<Round>, Refusal> {
        whole(&self.fields, words::ROUND, u32::MAX).map(|round| round.map(Round))
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
