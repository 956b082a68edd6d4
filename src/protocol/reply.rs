//! What the controller answers (document, section 2; facts, 1.2).

use std::sync::Arc;

use super::code::{Code, Refusal};
use super::json::ObjectWriter;
use super::{gate, history, task, words};
use crate::types::{AgentId, GateView, Holdup, Labels, Phase, Round, TaskId, TaskRecord, ToolSet, Wall};

/// One answer. Each request gets exactly one.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The request was done; there is nothing more to say.
    Done,
    /// A task was accepted.
    Submitted {
        /// Its id.
        task: TaskId,
        /// What was not taken as it was sent.
        warning: Option<String>,
        /// Whether it was accepted before, with the same `__SUBMIT_KEY__`.
        duplicate: bool,
    },
    /// What is known of a task.
    Task {
        /// The task.
        record: Box<TaskRecord>,
        /// How many tasks matched.
        matches: usize,
    },
    /// How many tasks are in each phase, in the order of [`Phase::ALL`].
    Statistic([usize; 6]),
    /// Some tasks, newest first.
    Tasks {
        /// The page.
        records: Vec<TaskRecord>,
        /// What it is a page of.
        page: PageOf,
    },
    /// How many agents there are.
    AgentCounts(AgentCounts),
    /// Some agents, by their ids.
    Agents {
        /// The page.
        agents: Vec<AgentView>,
        /// What it is a page of.
        page: PageOf,
    },
    /// The answer to a heartbeat.
    Heartbeat {
        /// Which life of the controller answers.
        controller: u64,
        /// Which heartbeat is answered, if that had a number.
        beat: Option<u32>,
        /// What shall become of the run that the agent has.
        wanted: Option<(TaskId, Round, Wanted)>,
        /// False if no APPLY of the agent waits here and no task is on its way to it: it shall ask.
        parked: bool,
        /// The number of the list of its tools that is known, if it has told one.
        tools: Option<u64>,
        /// The look for tools that the agent is asked for.
        look: Option<u64>,
    },
    /// A task for an agent.
    Assigned(Box<TaskRecord>),
    /// The answer to a report.
    Reported {
        /// The task.
        task: TaskId,
        /// The round that was meant.
        round: Round,
        /// The phase that was reported.
        phase: Phase,
        /// Why it was refused, if it was.
        refusal: Option<Refusal>,
    },
    /// Why a task stands where it does.
    Explained {
        /// The task.
        record: Box<TaskRecord>,
        /// What holds it up, if it waits.
        holdup: Option<Holdup>,
    },
    /// How a gate stands.
    Gate(GateView),
    /// How all gates stand.
    Gates(Vec<GateView>),
    /// The request was refused.
    Refused(Refusal),
}

/// What a controller wants of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Go on.
    Run,
    /// End it and report.
    Kill,
    /// End it; nobody wants its result.
    Drop,
}

impl Wanted {
    /// Its word on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Run => "RUN",
            Self::Kill => "KILL",
            Self::Drop => "DROP",
        }
    }

    /// What a word means.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Run, Self::Kill, Self::Drop].into_iter().find(|wanted| wanted.word() == word)
    }
}

/// Numbers of agents (document, section 2.4). Free and busy ones are those that are not lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    /// All that are known.
    pub total: usize,
    /// With a free slot.
    pub free: usize,
    /// With a task.
    pub busy: usize,
    /// Silent for two heartbeat intervals.
    pub lost: usize,
}

/// What AGENT/DETAILS shows of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentView {
    /// Its id.
    pub id: AgentId,
    /// Its state.
    pub state: AgentState,
    /// The task that it has.
    pub task: Option<TaskId>,
    /// Where it is.
    pub ip: Option<String>,
    /// What it has.
    pub tags: Labels,
    /// The tools that it has, as soon as it has been heard.
    pub tools: Option<Arc<ToolSet>>,
    /// Whether it gets no more tasks.
    pub drained: bool,
    /// When it was heard last.
    pub heard: Wall,
}

/// The state of an agent, as AGENT/QUERY counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// Its slot is free.
    Free,
    /// It has a task.
    Busy,
    /// It has been silent for two heartbeat intervals.
    Lost,
}

impl AgentState {
    const fn word(self) -> &'static str {
        match self {
            Self::Free => "FREE",
            Self::Busy => "BUSY",
            Self::Lost => "LOST",
        }
    }
}

/// What a page is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOf {
    /// How many come before it.
    pub offset: usize,
    /// How many were asked for at the most.
    pub asked: Option<usize>,
    /// How many there are in all.
    pub total: usize,
}

impl PageOf {
    /// What a client must be told that gets `shown` of them although it asked for more.
    fn warning(self, shown: usize, what: &str) -> Option<String> {
        let end = self.offset.saturating_add(shown);
        let is_cut = end < self.total && self.asked.is_none_or(|asked| shown < asked);
        let (total, offset) = (self.total, words::OFFSET);
        is_cut.then(|| format!("{shown} of {total} {what} are shown; ask for the others with {offset} {end}"))
    }
}

/// How large a page may be, in bytes: it ends early beyond this, and the client asks for the rest.
#[derive(Clone, Copy, Debug)]
pub struct PageBytes(pub usize);

/// Writes a reply to a request of this kind.
#[must_use]
pub fn encode(kind: &str, reply: &Reply, page_bytes: PageBytes) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let mut writer = ObjectWriter::typed(&mut out, kind);
    match reply {
        Reply::Refused(refusal) | Reply::Reported { refusal: Some(refusal), .. } => {
            writer.literal(words::CODE, refusal.code.number());
            writer.text(words::ERROR_MSG, &refusal.message);
        }
        _ => writer.literal(words::CODE, 0),
    }
    write_body(reply, page_bytes, &mut writer);
    writer.end();
    out
}

fn write_body(reply: &Reply, page_bytes: PageBytes, writer: &mut ObjectWriter<'_>) {
    match reply {
        Reply::Done | Reply::Refused(_) => {}
        Reply::Submitted { task, warning, duplicate } => {
            writer.text(words::TASK_ID, &task.to_string());
            if *duplicate {
                writer.literal(words::DUPLICATE, true);
            }
            write_warning(warning.as_deref(), writer);
        }
        Reply::Task { record, matches } => {
            task::write(record, writer);
            history::write(record, writer);
            writer.literal(words::MATCHES, matches);
        }
        Reply::Explained { record, holdup } => {
            writer.text(words::TASK_ID, &record.id.to_string());
            writer.text(words::STATUS, words::phase(record.phase()));
            writer.text(words::WHY, &history::why(record, holdup.as_ref()));
            writer.text(words::LOG, &history::log(record));
        }
        Reply::Gate(gate) => gate::write(gate, writer),
        Reply::Gates(gates) => {
            writer.literal(words::TOTAL, gates.len());
            for gate in gates {
                writer.object(gate.name.as_str(), |writer| gate::write(gate, writer));
            }
        }
        Reply::Assigned(record) => write_job(record, writer),
        Reply::Statistic(counts) => {
            for (phase, count) in Phase::ALL.into_iter().zip(counts) {
                writer.literal(words::phase(phase), count);
            }
        }
        Reply::Tasks { records, page } => {
            writer.literal(words::TOTAL, page.total);
            let mut shown = 0;
            for record in records {
                writer.object(&record.id.to_string(), |writer| task::write(record, writer));
                shown += 1;
                if writer.bytes() > page_bytes.0 {
                    break;
                }
            }
            write_warning(page.warning(shown, "tasks").as_deref(), writer);
        }
        Reply::AgentCounts(counts) => {
            writer.literal(words::TOTAL, counts.total);
            writer.literal(words::FREE, counts.free);
            writer.literal(words::BUSY, counts.busy);
            writer.literal(words::LOST, counts.lost);
        }
        Reply::Agents { agents, page } => {
            writer.literal(words::TOTAL, page.total);
            for agent in agents {
                writer.object(agent.id.as_str(), |writer| write_agent(agent, writer));
                if writer.bytes() > page_bytes.0 {
                    break;
                }
            }
            write_warning(page.warning(agents.len(), "agents").as_deref(), writer);
        }
        Reply::Heartbeat { .. } => write_heartbeat(reply, writer),
        Reply::Reported { task, round, phase, .. } => {
            writer.text(words::TASK_ID, &task.to_string());
            writer.literal(words::ROUND, round);
            writer.text(words::STATUS, words::phase(*phase));
        }
    }
}

fn write_heartbeat(reply: &Reply, writer: &mut ObjectWriter<'_>) {
    let Reply::Heartbeat { controller, beat, wanted, parked, tools, look } = reply else { return };
    writer.literal(words::CONTROLLER_ID, controller);
    if let Some(beat) = beat {
        writer.literal(words::BEAT, beat);
    }
    if let Some((task, round, wanted)) = wanted {
        writer.text(words::TASK_ID, &task.to_string());
        writer.literal(words::ROUND, round);
        writer.text(words::WANTED, wanted.word());
    }
    writer.literal(words::PARKED, parked);
    if let Some(generation) = tools {
        writer.literal(words::TOOLS_GENERATION, generation);
    }
    if let Some(number) = look {
        writer.literal(words::LOOK, number);
    }
}

fn write_job(record: &TaskRecord, writer: &mut ObjectWriter<'_>) {
    task::write(record, writer);
    if let Some(batch_delay) = Some(record.batch_delay()).filter(|batch_delay| !batch_delay.is_zero()) {
        writer.literal(words::SLACK, batch_delay.as_millis());
    }
    if let Some(lease) = record.lease() {
        writer.literal(words::LEASE, lease.term.as_millis());
    }
}

fn write_warning(warning: Option<&str>, writer: &mut ObjectWriter<'_>) {
    if let Some(warning) = warning {
        writer.text(words::WARNING, warning);
    }
}

fn write_agent(agent: &AgentView, writer: &mut ObjectWriter<'_>) {
    writer.text(words::AGENT_ID, agent.id.as_str());
    writer.text(words::AGENT_STATUS, agent.state.word());
    if let Some(task) = agent.task {
        writer.text(words::TASK_ID, &task.to_string());
    }
    if let Some(ip) = &agent.ip {
        writer.text(words::AGENT_IP, ip);
    }
    if !agent.tags.is_empty() {
        writer.text(words::TAGS, &agent.tags.to_string());
    }
    if let Some(tools) = &agent.tools {
        writer.text(words::TOOLS, &tools.to_string());
    }
    if agent.drained {
        writer.literal(words::DRAINED, true);
    }
    writer.literal(words::HEARD_TIME, agent.heard);
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What an agent is told when there is nothing for it to do.
#[must_use]
pub fn no_task() -> Reply {
    Reply::Refused(Refusal::new(Code::NoTask, "no task waits for an agent"))
}
