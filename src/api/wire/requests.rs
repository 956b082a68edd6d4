//! The messages to the controller (docs/sources/controller.md, 2, 5.1): a file for each request of a client and each message of an agent.
//!
//! Such a file has the [`Kind`]s of the request, its parsed data, its constructor, and functions that write and read its answer.
//! The file of the same name in `src/engine/requests/` carries the request out, and the one in `src/llts/cli/` has its command.

pub mod agents;
pub mod apply;
pub mod down;
pub mod drain;
pub mod exit;
pub mod explain;
pub mod file;
pub mod forget;
pub mod gate;
pub mod graph;
pub mod heartbeat;
pub mod history;
pub mod hold;
pub mod job;
pub mod kill;
pub mod list;
pub mod logs;
pub mod query;
pub mod report;
pub mod retry;
pub mod rows;
pub mod serve;
pub mod stats;
pub mod status;
pub mod step;
pub mod submit;
pub mod tool;

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::client::{self, Ask, Listing};
use super::page::Page;
use super::rules::Rules;
use super::task::Filter;
use super::typed::{number, whole};
use base::code::{Code, Refusal, shown};
use base::json::{FieldLimits, List};
use base::words::kind;
use base::{AgentId, Fields, GraphId, JobName, Label, Round, Scalar, Session, StepName, TaskId, ToolName, json, words};
use zmtp::envelope;
use zmtp::envelope::{LongKind, TooLong};

/// One message to the controller.
#[expect(
    clippy::large_enum_variant,
    reason = "it is read, handled and dropped within a turn; a box would be one allocation for each"
)]
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// From a client.
    Client(Request),
    /// From an agent.
    Agent(Sender, FromAgent),
}

impl Request {
    /// Calls `each` for every tool that the message names: the tool of each submitted task, even if several have the same one, or
    /// the tool that it asks about.
    pub fn for_each_tool(&self, mut each: impl FnMut(&ToolName)) {
        let mut archive = |tool: &ToolName| {
            if tool.is_archive() {
                each(tool);
            }
        };
        match self {
            Self::Submit(submit) => archive(&submit.tool),
            Self::SubmitMany(many) => many.tasks.iter().for_each(|submit| archive(&submit.tool)),
            Self::GraphSubmit(submit) => submit.graph.steps.iter().flatten().for_each(|step| archive(&step.tool)),
            Self::ToolShow(tool) | Self::ToolLog(tool) => archive(tool),
            _ => {}
        }
    }
}

/// All messages, each with its kinds. The list exists only once, for both groups.
macro_rules! said {
    (
        $(#[$doc:meta])* $name:ident, $kinds:ident {
            $( $(#[$about:meta])* $variant:ident $(($($part:ty),+))? = $($kind:path),+; )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $( $(#[$about])* $variant $(($($part),+))?, )+
        }

        const $kinds: &[Kind] = &[$($($kind),+),+];
    };
}

said! {
    /// A request of a client.
    Request, OF_CLIENTS {
        /// Run a tool.
        Submit(Box<submit::Submit>) = submit::TASK_SUBMIT;
        /// Run several tools, or none of them.
        SubmitMany(Box<submit::many::SubmitMany>) = submit::many::TASK_SUBMIT_MANY;
        /// End a task, with the reason given by the sender.
        Kill(TaskId, Option<Arc<str>>) = kill::TASK_KILL;
        /// The known data of a task; with a time, the reply waits until the task has finished or the time has passed.
        Query(Filter, Option<Duration>) = query::TASK_QUERY;
        /// The number of agents.
        AgentQuery = stats::AGENT_QUERY;
        /// The number of tasks in each phase.
        TaskStatistic = stats::TASK_STATISTIC;
        /// A page of tasks.
        TaskDetails(Filter, Page) = list::TASK_DETAILS;
        /// A page of tasks as rows, narrowed down and in this order.
        TaskRows(Filter, Box<(super::Narrowing, rows::Order)>, Page) = rows::TASK_ROWS;
        /// The state of the service, or its changes; with a time, the reply waits for a change or until the time has passed.
        Status(status::StatusAsk) = status::SERVICE_STATUS;
        /// A page of agents.
        AgentDetails(Page) = agents::AGENT_DETAILS;
        /// The explanation of the present state of a task.
        Explain(Filter) = explain::TASK_EXPLAIN;
        /// A part of an output of a task; with a time, the reply waits until there is one or the time has passed.
        Output(Box<logs::OutputAsk>) = logs::TASK_OUTPUT;
        /// A question about finished rounds and incidents of the last days.
        History(Box<history::Question>) = history::HISTORY_QUERY, history::HISTORY_SUMMARY, history::HISTORY_INCIDENTS;
        /// Another round of a finished task.
        Retry(TaskId) = retry::TASK_RETRY;
        /// Forget a finished task.
        Forget(TaskId) = forget::TASK_FORGET;
        /// Hold a task; with false, release it.
        Hold(TaskId, bool) = hold::TASK_HOLD, hold::TASK_RELEASE;
        /// Exclude an agent from new tasks; with false, include it again.
        AgentDrain(AgentId, drain::Drain) = drain::AGENT_DRAIN;
        /// The settings of a gate.
        GateSet(Label, Box<gate::GateChange>) = gate::GATE_SET;
        /// The state of a gate; without a name, of all gates.
        GateQuery(Option<Label>) = gate::GATE_QUERY;
        /// The state of a job; with a time, the reply waits until all its tasks have finished or the time has passed.
        JobQuery(JobName, Option<Duration>) = job::JOB_QUERY;
        /// The ends of the tasks of a job.
        JobResults(Box<job::results::ResultsAsk>) = job::results::JOB_RESULTS;
        /// A page of jobs.
        JobDetails(Page) = job::JOB_DETAILS;
        /// Run a step graph.
        GraphSubmit(Box<graph::GraphSubmit>) = graph::GRAPH_SUBMIT;
        /// The state of a graph; with a time, the reply waits until the graph has ended or the time has passed.
        GraphQuery(GraphId, Option<Duration>) = graph::GRAPH_QUERY;
        /// A page of the steps of a graph; without one, a page of graphs.
        GraphDetails(Option<GraphId>, Page) = graph::GRAPH_DETAILS;
        /// End a graph, with the reason given by the sender.
        GraphKill(GraphId, Option<Arc<str>>) = graph::GRAPH_KILL;
        /// Pause the service: hand out no task for this time.
        Pause(Duration) = down::SERVICE_PAUSE;
        /// A change of the tasks of a job.
        JobOrder(JobName, job::JobOrder) = job::JOB_KILL, job::JOB_RETRY, job::JOB_HOLD, job::JOB_RELEASE;
        /// A part of the archive of a tool.
        ToolPut(Box<tool::ToolPut>) = tool::TOOL_PUT;
        /// A page of the tools that the controller holds.
        ToolList(Page) = tool::TOOL_LIST;
        /// Everything about one tool.
        ToolShow(ToolName) = tool::TOOL_SHOW;
        /// The removal of a pushed tool, by this person.
        ToolRemove(ToolName, Arc<str>) = tool::TOOL_REMOVE;
        /// The changes of the name of a tool.
        ToolLog(ToolName) = tool::TOOL_LOG;
        /// A part of a file.
        FilePut(Box<file::FilePut>) = file::FILE_PUT;
        /// Ask for a part of a file of a task.
        FileGet(tool::ToolGet) = file::FILE_GET;
        /// A location for the steps downstream of a running task.
        StepProviding(Box<step::Providing>) = step::STEP_PROVIDING;
        /// The early end of a step.
        StepComplete(GraphId, StepName) = step::STEP_COMPLETE;
    }
}

said! {
    /// A message of an agent.
    FromAgent, OF_AGENTS {
        /// A sign of life with its state.
        Heartbeat(heartbeat::Heartbeat) = heartbeat::AGENT_HEARTBEAT;
        /// It leaves for good.
        Exit = exit::AGENT_EXIT;
        /// It asks for a task; with a time, the reply waits until there is a task or the time has passed.
        Apply(Option<Duration>) = apply::TASK_APPLY;
        /// The state of its run.
        Report(Box<report::Report>) = report::TASK_REPORT;
        /// It offers the outputs of its runs, with the part that it was asked for before.
        Serve(serve::Served) = serve::AGENT_SERVE;
        /// It asks for a part of a version of a tool.
        ToolGet(tool::ToolGet) = tool::TOOL_GET;
    }
}

/// One kind of message to the controller: a value of `__TYPE__`, and the parser of such a message.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The value of `__TYPE__`.
    pub word: &'static str,
    read: Read,
}

#[derive(Clone, Copy, Debug)]
enum Read {
    /// A question of a client, which changes nothing.
    Question(fn(Reader<'_>) -> Result<Request, Refusal>),
    /// An order of a client, which changes something.
    Order(fn(Reader<'_>) -> Result<Request, Refusal>),
    /// A message of an agent.
    Agent(fn(Reader<'_>) -> Result<FromAgent, Refusal>),
}

impl Kind {
    const fn question(word: &'static str, read: fn(Reader<'_>) -> Result<Request, Refusal>) -> Self {
        Self { word, read: Read::Question(read) }
    }

    const fn order(word: &'static str, read: fn(Reader<'_>) -> Result<Request, Refusal>) -> Self {
        Self { word, read: Read::Order(read) }
    }

    const fn of_agents(word: &'static str, read: fn(Reader<'_>) -> Result<FromAgent, Refusal>) -> Self {
        Self { word, read: Read::Agent(read) }
    }

    /// The kind with this `__TYPE__`.
    fn named(value: &Scalar) -> Option<Self> {
        let word = value.as_text()?;
        OF_CLIENTS.iter().chain(OF_AGENTS).find(|kind| kind.word == word).copied()
    }

    fn read(self, fields: Fields, list: List, rules: &Rules) -> Result<Message, Refusal> {
        if list.len.is_some() && self.word != submit::many::TASK_SUBMIT_MANY.word {
            let message = format!(
                "field {} contains an array, which only {} has",
                words::TASKS,
                submit::many::TASK_SUBMIT_MANY.word
            );
            return Err(Refusal::new(Code::BadField, message));
        }
        let reader = |wait_max| Reader { kind: self, fields, list, rules, wait_max };
        match self.read {
            Read::Question(read) | Read::Order(read) => read(reader(rules.wait_max)).map(Message::Client),
            Read::Agent(read) => {
                let reader = reader(rules.apply_wait_max);
                let agent = reader.agent_id()?;
                let session = Session(reader.number(words::SESSION)?.unwrap_or_default());
                let sender = Sender { may_have_commands: false, ..Sender::new(agent, session) };
                Ok(Message::Agent(sender, read(reader)?))
            }
        }
    }

    /// A client's request of this kind whose answer contains no data.
    fn demand(self) -> Ask<()> {
        Ask::new(self.word, |frame| client::decode(frame).map(drop))
    }

    /// A client's request of this kind whose answer is one flat object.
    fn ask<A: From<Fields>>(self) -> Ask<A> {
        Ask::new(self.word, |frame| client::decode(frame).map(A::from))
    }

    /// A client's request of this kind whose answer is an object for each row.
    fn ask_for_rows<T: From<Fields>>(self) -> Ask<Listing<T>> {
        Ask::new(self.word, client::decode_listing)
    }
}

/// The sender of an agent's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Id of the agent.
    pub agent: AgentId,
    /// The session of its process.
    pub session: Session,
    /// Whether it may be given commands: [`base::Right::RunCommands`]. The door decides that, not the message.
    pub may_have_commands: bool,
}

impl Sender {
    /// An agent that may be given commands.
    #[must_use]
    pub const fn new(agent: AgentId, session: Session) -> Self {
        Self { agent, session, may_have_commands: true }
    }
}

/// A refused message, with the type for the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The type of the message, as far as it could be read.
    pub kind: &'static str,
    /// The code and the message of the refusal.
    pub refusal: Refusal,
}

/// Reads one message.
///
/// # Errors
/// With the code for the error (docs/sources/controller.md, 2.7).
pub fn parse(body: &[u8], rules: &Rules) -> Result<(&'static str, Message), Refused> {
    let (kind, fields, list) = open(body, rules)?;
    let message = kind.read(fields, list, rules).map_err(|refusal| Refused { kind: kind.word, refusal })?;
    Ok((kind.word, message))
}

/// Whether [`parse`] reads a message as one that changes nothing. An unreadable one may be anything.
#[must_use]
pub fn only_asks(body: &[u8], rules: &Rules) -> bool {
    open(body, rules).is_ok_and(|(kind, ..)| matches!(kind.read, Read::Question(_)))
}

/// The kind of a message, with its other fields.
fn open(body: &[u8], rules: &Rules) -> Result<(Kind, Fields, List), Refused> {
    let mut list = List::named(words::TASKS, rules.submits.tasks_max);
    let mut fields = json::parse_with_list(body, &limits_of(body, rules)?, &mut list).map_err(|rejected| Refused {
        kind: rejected.fields.get(words::TYPE).and_then(Kind::named).map_or(kind::ERROR, |kind| kind.word),
        refusal: rejected.refusal,
    })?;
    let unknown = |code, message: String| Refused { kind: kind::ERROR, refusal: Refusal::new(code, message) };
    let Some(value) = fields.remove(words::TYPE) else {
        let message = "the message has no __TYPE__; set it to the request, for example \"TASK/SUBMIT\"";
        return Err(unknown(Code::NoType, message.to_owned()));
    };
    let Some(kind) = Kind::named(&value) else {
        let known = OF_CLIENTS.iter().map(|kind| kind.word).collect::<Vec<_>>().join(", ");
        let shown = shown(&value.to_string());
        return Err(unknown(Code::UnknownType, format!("__TYPE__ {shown} is unknown; the known ones are {known}")));
    };
    Ok((kind, fields, list))
}

/// The limits of a message. The first bytes of a message may announce that it is longer than others.
fn limits_of(body: &[u8], rules: &Rules) -> Result<FieldLimits, Refused> {
    let message_bytes = rules.limits.message_bytes;
    let kind = envelope::long_kind(body);
    let max = match kind {
        LongKind::Submit => rules.submits.bytes_max.max(message_bytes),
        LongKind::Graph => rules.graphs.message_bytes_max().max(message_bytes),
        LongKind::Report => report::bytes_max(message_bytes),
        LongKind::None | LongKind::Unknown => message_bytes,
    };
    if body.len() > max {
        let too_long = TooLong { bytes: body.len() as u64, max, kind };
        return Err(Refused { kind: kind::ERROR, refusal: too_long.refusal() });
    }
    Ok(FieldLimits { message_bytes: max, ..rules.limits })
}

/// The fields of a message, for the parser of its kind.
struct Reader<'a> {
    kind: Kind,
    fields: Fields,
    list: List,
    rules: &'a Rules,
    wait_max: Duration,
}

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_text()
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        number(&self.fields, name)
    }

    fn task_id(&self) -> Result<TaskId, Refusal> {
        let Some(value) = self.fields.get(words::TASK_ID) else {
            let message = "__TASK_ID__ is missing; set it to the id that the submit returned, not by __GIVEN_ID__";
            return Err(Refusal::new(Code::InvalidTaskId, message));
        };
        let id = value.as_text().and_then(|text| text.parse().ok());
        id.ok_or_else(|| Refusal::no_such_task(value))
    }

    fn agent_id(&self) -> Result<AgentId, Refusal> {
        let Some(id) = self.fields.get(words::AGENT_ID) else {
            let message = format!("{} has no __AGENT_ID__; set it to the agent", self.kind.word);
            return Err(Refusal::new(Code::NoAgentId, message));
        };
        AgentId::new(&id.to_string()).map_err(|error| Refusal::new(Code::BadField, format!("__AGENT_ID__: {error}")))
    }

    fn round(&self) -> Result<Option<Round>, Refusal> {
        whole(&self.fields, words::ROUND, u32::MAX).map(|round| round.map(Round))
    }

    fn wait(&self) -> Result<Option<Duration>, Refusal> {
        Ok(self.number(words::WAIT)?.map(|millis| Duration::from_millis(millis).min(self.wait_max)))
    }

    /// Takes the requested page. Its fields are removed, because the remaining ones select the tasks.
    fn page(&mut self) -> Result<Page, Refusal> {
        let (offset, limit) = (self.number(words::OFFSET)?.unwrap_or_default(), self.number(words::LIMIT)?);
        self.fields.remove(words::OFFSET);
        self.fields.remove(words::LIMIT);
        let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Page { offset: size(offset), limit: limit.map(size) })
    }
}
