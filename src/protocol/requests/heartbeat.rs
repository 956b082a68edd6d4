//! AGENT/HEARTBEAT (facts, 1.2): an agent is alive, and says what it does; the controller says what it shall do.

use std::time::Duration;

use super::{FromAgent, Kind, Reader, Refusal, words};
use crate::protocol::json::ObjectWriter;
use crate::protocol::typed::{bad, labels, whole};
use crate::types::{Fields, Labels, Round, Scalar, Session, TaskId, ToolSet};

/// Alive, and what it does.
pub const AGENT_HEARTBEAT: Kind =
    Kind::of_agents("AGENT/HEARTBEAT", |reader| Ok(FromAgent::Heartbeat(reader.heartbeat()?)));

/// Milliseconds, a day: for so long the tasks of an agent that is gone may have to wait.
const KILL_BUDGET_MAX: u32 = 86_400_000;

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

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Which life of the controller answers.
    pub controller: u64,
    /// Which heartbeat is answered, if that had a number.
    pub beat: Option<u32>,
    /// What shall become of the run that the agent has.
    pub wanted: Option<(TaskId, Round, Wanted)>,
    /// False if the controller has no APPLY of the agent and no task on its way to it: it shall ask.
    pub parked: bool,
    /// The number of the list of tools that the controller knows of this agent.
    pub tools: Option<u64>,
    /// The look for tools that the agent is asked for.
    pub look: Option<u64>,
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

impl Reader<'_> {
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
        let ip = self.text(words::AGENT_IP).map(str::to_owned);
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
}

/// Writes what an agent says.
pub(in crate::protocol) fn write(heartbeat: &Heartbeat, writer: &mut ObjectWriter<'_>) {
    writer.literal(words::AGENT_STATUS, u8::from(heartbeat.busy));
    if let Some((task, round)) = heartbeat.run {
        writer.text(words::TASK_ID, &task.to_string());
        writer.literal(words::ROUND, round);
    }
    writer.maybe_text(words::AGENT_IP, heartbeat.ip.as_deref());
    if !heartbeat.tags.is_empty() {
        writer.text(words::TAGS, &heartbeat.tags.to_string());
    }
    if let Some(Beat { number, kill_budget }) = heartbeat.beat {
        writer.literal(words::BEAT, number);
        writer.maybe(words::KILL_BUDGET, kill_budget.map(|budget| budget.as_millis()));
    }
    writer.maybe(words::REPLACES, heartbeat.replaces.map(|session| session.0));
    if let Some(told) = &heartbeat.tools {
        writer.maybe(words::TOOLS_GENERATION, told.generation);
        writer.maybe_text(words::TOOLS, told.set.as_ref().map(ToString::to_string));
        writer.maybe(words::LOOKED, told.looked);
    }
}

impl Heard {
    pub(in crate::protocol) fn write(&self, writer: &mut ObjectWriter<'_>) {
        writer.literal(words::CONTROLLER_ID, self.controller);
        writer.maybe(words::BEAT, self.beat);
        if let Some((task, round, wanted)) = self.wanted {
            writer.text(words::TASK_ID, &task.to_string());
            writer.literal(words::ROUND, round);
            writer.text(words::WANTED, wanted.word());
        }
        writer.literal(words::PARKED, self.parked);
        writer.maybe(words::TOOLS_GENERATION, self.tools);
        writer.maybe(words::LOOK, self.look);
    }

    /// Reads what [`Self::write`] wrote. `run` is the run that the answer names, if it does.
    pub(in crate::protocol) fn read(fields: &Fields, run: Option<(TaskId, Round)>) -> Self {
        let wanted = fields.text(words::WANTED).and_then(Wanted::of);
        Self {
            controller: fields.count(words::CONTROLLER_ID).unwrap_or_default(),
            beat: fields.count(words::BEAT).and_then(|beat| u32::try_from(beat).ok()),
            wanted: wanted.zip(run).map(|(wanted, (task, round))| (task, round, wanted)),
            parked: fields.get(words::PARKED) != Some(&Scalar::Bool(false)),
            tools: fields.count(words::TOOLS_GENERATION),
            look: fields.count(words::LOOK),
        }
    }
}
