//! AGENT/HEARTBEAT (docs/sources/controller.md, 5.1): an agent reports its state; the controller answers with instructions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{FromAgent, Kind, Reader, Refusal, words};
use crate::wire::typed::{bad, field, labels, whole};
use crate::wire::version::Version;
use base::json::{FieldLimits, ObjectWriter};
use base::{
    Epoch, Fields, KnownEpoch, Labels, Round, Scalar, Session, Skew, TaskId, ToolDigest, ToolName, ToolSet, Wall, json,
};

/// A sign of life with the state of the agent.
pub const AGENT_HEARTBEAT: Kind =
    Kind::of_agents("AGENT/HEARTBEAT", |reader| Ok(FromAgent::Heartbeat(reader.heartbeat()?)));

/// A day, in milliseconds. The tasks of a lost agent may have to wait this long.
const KILL_BUDGET_MAX: u32 = 86_400_000;

/// A sign of life. The version distinguishes two kinds of agents. A full agent has one: it runs commands and fetched programs,
/// fetches tools, handles files that travel, takes lists, and can hold a lease. A simple agent (docs/sources/controller.md, 2)
/// has none, and does none of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Whether the slot is occupied.
    pub busy: bool,
    /// The run that occupies it. If a busy agent names none, it is the run that was assigned to the agent.
    pub run: Option<(TaskId, Round)>,
    /// The IP address of the agent.
    pub ip: Option<String>,
    /// Its tags: `AGENT_TAGS`.
    pub tags: Labels,
    /// The earlier session that this one replaces. Its process has ended.
    pub replaces: Option<Session>,
    /// Its tools, if it reports them.
    pub tools: Option<ToldTools>,
    /// The data for leases; `None` from an agent that does not support them.
    pub beat: Option<Beat>,
    /// Its version; `None` from a simple agent.
    pub version: Option<Version>,
    /// Versions of tools in its own folder that went before those of the controller.
    pub own_versions: Option<Arc<OwnVersions>>,
    /// The highest epoch that it has served under, for the service that it serves now or served last.
    pub epoch: Option<KnownEpoch>,
    /// How far its clock is ahead of the controller's, if by more than a second.
    pub skew: Option<Skew>,
    /// The tools that stay at it and are running, free or with its task.
    pub warm: BTreeSet<ToolName>,
}

/// Versions of tools in an agent's own folder, which take precedence over those of the controller.
pub type OwnVersions = BTreeMap<ToolName, ToolDigest>;

/// Maximum number of versions in a heartbeat. More of them would tell nothing new.
pub const OWN_VERSIONS_MAX: usize = 50;

/// The tools that an agent reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldTools {
    /// The number of the list: a different one for each list that the agent ever reports. As long as the controller answers with
    /// it, the list need not be sent. `None` from an agent that sends its list each time.
    pub generation: Option<u64>,
    /// The list, if this heartbeat contains it.
    pub set: Option<ToolSet>,
}

/// The part of a heartbeat about leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Its number, which the answer repeats.
    pub number: u32,
    /// The time from the end of a lease to the end of the last process of its run.
    pub kill_budget: Option<Duration>,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Identifies the start of the controller that answers.
    pub controller: u64,
    /// The number of the answered heartbeat, if it had one.
    pub beat: Option<u32>,
    /// The directive for the agent's run.
    pub wanted: Option<(TaskId, Round, Directive)>,
    /// Whether the controller has an APPLY of the agent, or a task on its way to it. If not, the agent must ask.
    pub parked: bool,
    /// The number of the agent's list of tools that the controller knows.
    pub tools: Option<u64>,
    /// Whether the controller has an AGENT/SERVE of the agent; `None` from a controller that takes none.
    pub serving: Option<bool>,
    /// The identity of the controller's own tools folder on its machine, if it takes tools from there.
    pub folder: Option<Arc<str>>,
    /// The epoch of the controller's store.
    pub epoch: Option<Epoch>,
    /// The controller's wall clock.
    pub clock: Option<Wall>,
}

/// The directive of a controller about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Continue.
    Run,
    /// End the run and report.
    Kill,
    /// Tell the run of a step to finish early, and report.
    Finish,
    /// End the run; its result is not wanted.
    Drop,
}

impl Directive {
    /// Its word on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Run => "RUN",
            Self::Kill => "KILL",
            Self::Finish => "FINISH",
            Self::Drop => "DROP",
        }
    }

    /// The directive with this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Run, Self::Kill, Self::Finish, Self::Drop].into_iter().find(|wanted| wanted.word() == word)
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
        let version = Version::read(&self.fields)?;
        Ok(Heartbeat {
            busy,
            run,
            ip,
            tags,
            replaces,
            tools: self.tools(version.is_some())?,
            beat: self.beat()?,
            version,
            own_versions: self.own_versions()?,
            epoch: self.epoch()?,
            skew: skew(&self.fields)?,
            warm: read_names(self.text(words::WARM).unwrap_or_default()),
        })
    }

    fn epoch(&self) -> Result<Option<KnownEpoch>, Refusal> {
        let (service, number) = (self.number(words::SERVICE)?, self.number(words::EPOCH)?);
        let controller = self.number(words::CONTROLLER_ID)?.unwrap_or_default();
        let known = |(service, number)| KnownEpoch { epoch: Epoch { service, number }, controller };
        Ok(service.zip(number).map(known))
    }

    fn own_versions(&self) -> Result<Option<Arc<OwnVersions>>, Refusal> {
        let Some(value) = self.fields.get(words::OWN_VERSIONS) else { return Ok(None) };
        let versions = value.as_text().and_then(read_own_versions);
        let versions = versions.ok_or_else(|| bad(words::OWN_VERSIONS, value, "TOOL=SHA-256, separated by commas"))?;
        Ok(Some(Arc::new(versions)))
    }

    fn tools(&self, is_full: bool) -> Result<Option<ToldTools>, Refusal> {
        let generation = self.number(words::TOOLS_GENERATION)?;
        let Some(value) = self.fields.get(words::TOOLS) else {
            return Ok(generation.is_some().then_some(ToldTools { generation, set: None }));
        };
        let set = value.as_text().and_then(|text| ToolSet::parse(text).ok());
        let set =
            set.ok_or_else(|| bad(words::TOOLS, value, "names of tools, separated by commas, or * for every tool"))?;
        let set = if is_full { set.and_built_ins() } else { set };
        Ok(Some(ToldTools { generation, set: Some(set) }))
    }

    fn beat(&self) -> Result<Option<Beat>, Refusal> {
        let Some(number) = whole(&self.fields, words::BEAT, u32::MAX)? else { return Ok(None) };
        let budget = whole(&self.fields, words::KILL_BUDGET, KILL_BUDGET_MAX)?;
        Ok(Some(Beat { number, kill_budget: budget.map(|millis| Duration::from_millis(millis.into())) }))
    }
}

/// Names of tools as text.
pub(super) fn names(tools: &BTreeSet<ToolName>) -> String {
    tools.iter().map(ToolName::as_str).collect::<Vec<_>>().join(",")
}

/// The tools in a text as [`names`] writes it. Invalid names are left out, because no task needs such a tool.
pub(super) fn read_names(text: &str) -> BTreeSet<ToolName> {
    text.split(',').filter_map(|name| ToolName::new(name).ok()).collect()
}

/// The versions as text.
pub(in crate::wire) fn own_versions(versions: &OwnVersions) -> String {
    let one = |(tool, digest): (&ToolName, &ToolDigest)| format!("{tool}={digest}");
    versions.iter().take(OWN_VERSIONS_MAX).map(one).collect::<Vec<_>>().join(",")
}

/// The versions in a text as [`own_versions`] writes it; `None` for any other text.
pub(super) fn read_own_versions(text: &str) -> Option<OwnVersions> {
    let one = |text: &str| {
        let (tool, digest) = text.split_once('=')?;
        ToolName::new(tool).ok().zip(digest.parse().ok())
    };
    text.split(',').take(OWN_VERSIONS_MAX).map(one).collect()
}

/// Writes a heartbeat.
pub(in crate::wire) fn write(heartbeat: &Heartbeat, writer: &mut ObjectWriter<'_>) {
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
    if let Some(version) = &heartbeat.version {
        version.write(writer);
    }
    if let Some(versions) = &heartbeat.own_versions {
        writer.text(words::OWN_VERSIONS, &own_versions(versions));
    }
    if let Some(KnownEpoch { epoch, controller }) = heartbeat.epoch {
        write_epoch(epoch, writer);
        writer.literal(words::CONTROLLER_ID, controller);
    }
    writer.maybe(words::SKEW, heartbeat.skew.map(|skew| Scalar::from(skew.seconds())));
    if !heartbeat.warm.is_empty() {
        writer.text(words::WARM, &names(&heartbeat.warm));
    }
    writer.maybe(words::REPLACES, heartbeat.replaces.map(|session| session.0));
    if let Some(told) = &heartbeat.tools {
        writer.maybe(words::TOOLS_GENERATION, told.generation);
        writer.maybe_text(words::TOOLS, told.set.as_ref().map(ToString::to_string));
    }
}

fn write_epoch(epoch: Epoch, writer: &mut ObjectWriter<'_>) {
    writer.literal(words::SERVICE, epoch.service);
    writer.literal(words::EPOCH, epoch.number);
}

fn read_epoch(fields: &Fields) -> Option<Epoch> {
    Some(Epoch { service: fields.count(words::SERVICE)?, number: fields.count(words::EPOCH)? })
}

/// The epoch of a store, as a JSON object.
#[must_use]
pub fn encode_epoch(epoch: Epoch) -> String {
    let fields = Fields::new().with(words::SERVICE, epoch.service).with(words::EPOCH, epoch.number);
    String::from_utf8(json::to_vec(&fields)).unwrap_or_default()
}

/// The epoch in a text as [`encode_epoch`] makes it.
#[must_use]
pub fn decode_epoch(text: &str) -> Option<Epoch> {
    read_epoch(&json::parse(text.as_bytes(), &FieldLimits::TRUSTED).ok()?)
}

fn skew(fields: &Fields) -> Result<Option<Skew>, Refusal> {
    field(fields, words::SKEW, "a number of seconds", |value| Skew::of_seconds(value.as_f64()?))
}

impl Heard {
    /// An answer that only identifies the controller.
    #[must_use]
    pub const fn of(controller: u64) -> Self {
        Self {
            controller,
            beat: None,
            wanted: None,
            parked: true,
            tools: None,
            serving: None,
            folder: None,
            epoch: None,
            clock: None,
        }
    }

    pub(in crate::wire) fn write(&self, writer: &mut ObjectWriter<'_>) {
        writer.literal(words::CONTROLLER_ID, self.controller);
        writer.maybe(words::BEAT, self.beat);
        if let Some((task, round, wanted)) = self.wanted {
            writer.text(words::TASK_ID, &task.to_string());
            writer.literal(words::ROUND, round);
            writer.text(words::WANTED, wanted.word());
        }
        writer.literal(words::PARKED, self.parked);
        writer.maybe(words::TOOLS_GENERATION, self.tools);
        writer.maybe(words::SERVING, self.serving);
        writer.maybe_text(words::TOOLS_FOLDER, self.folder.as_deref());
        if let Some(epoch) = self.epoch {
            write_epoch(epoch, writer);
        }
        writer.maybe(words::CLOCK, self.clock);
    }

    /// Reads an answer as written by [`Self::write`]. `run` is the run that the answer names, if any.
    pub(in crate::wire) fn read(fields: &Fields, run: Option<(TaskId, Round)>) -> Self {
        let wanted = fields.text(words::WANTED).and_then(Directive::of);
        Self {
            controller: fields.count(words::CONTROLLER_ID).unwrap_or_default(),
            beat: fields.count(words::BEAT).and_then(|beat| u32::try_from(beat).ok()),
            wanted: wanted.zip(run).map(|(wanted, (task, round))| (task, round, wanted)),
            parked: fields.get(words::PARKED) != Some(&Scalar::Bool(false)),
            tools: fields.count(words::TOOLS_GENERATION),
            serving: fields.get(words::SERVING).and_then(Scalar::as_bool),
            folder: fields.text(words::TOOLS_FOLDER).map(Into::into),
            epoch: read_epoch(fields),
            clock: fields.moment(words::CLOCK),
        }
    }
}
