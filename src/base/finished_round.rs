//! Finished rounds and incidents, as the history keeps them.

use std::borrow::Cow;
use std::time::Duration;

use super::{Outcome, Round, TaskId, Wall};

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoundOutcome {
    /// With an outcome that a task can have.
    Ended(Outcome),
    /// run.sh asked to be run again later.
    Deferred,
    /// Its agent left, or came back without the run.
    Returned,
    /// Its agent did not have the tool.
    NoTool,
    /// The disk of its agent was full.
    DiskFull,
    /// The machine of its agent did not have the folder of its command, or its client.
    NotHere,
}

impl RoundOutcome {
    /// All outcomes. Their positions are stored, so add new ones at the end.
    pub const ALL: [Self; 12] = [
        Self::Ended(Outcome::Succeeded),
        Self::Ended(Outcome::Failed),
        Self::Ended(Outcome::TimedOut),
        Self::Ended(Outcome::Expired),
        Self::Ended(Outcome::Killed),
        Self::Ended(Outcome::Lost),
        Self::Ended(Outcome::Skipped),
        Self::Deferred,
        Self::Returned,
        Self::NoTool,
        Self::DiskFull,
        Self::NotHere,
    ];

    /// Its position in [`Self::ALL`].
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Ended(Outcome::Succeeded) => 0,
            Self::Ended(Outcome::Failed) => 1,
            Self::Ended(Outcome::TimedOut) => 2,
            Self::Ended(Outcome::Expired) => 3,
            Self::Ended(Outcome::Killed) => 4,
            Self::Ended(Outcome::Lost) => 5,
            Self::Ended(Outcome::Skipped) => 6,
            Self::Deferred => 7,
            Self::Returned => 8,
            Self::NoTool => 9,
            Self::DiskFull => 10,
            Self::NotHere => 11,
        }
    }
}

/// A finished round: a row of the history. Texts that do not apply are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRound<'a> {
    /// The task.
    pub task: TaskId,
    /// The number of the round, from 0. Task and round identify the row.
    pub round: Round,
    /// Whether no other round was to follow.
    pub is_last: bool,
    /// How it ended.
    pub outcome: RoundOutcome,
    /// Exit code of its run, if there was one with a result.
    pub exit_code: Option<i32>,
    /// The operation: the name of the tool, or the built-in one for commands.
    pub tool: Cow<'a, str>,
    /// The beginning of the command, on one line; empty for a tool.
    pub command: Cow<'a, str>,
    /// Its job.
    pub job: Cow<'a, str>,
    /// The id that its submitter chose.
    pub given_id: Cow<'a, str>,
    /// The agent that ran it.
    pub agent: Cow<'a, str>,
    /// The address of the machine of that agent; empty for the machine of the controller.
    pub host: Cow<'a, str>,
    /// Moment of acceptance of the task.
    pub submitted_at: Wall,
    /// Time from the submit, or from the end of the previous round, until an agent got it, or until its end if none did.
    pub waited: Duration,
    /// Start of its run, by the clock of the agent.
    pub started_at: Option<Wall>,
    /// Duration of its run, by the clock of the agent.
    pub ran: Option<Duration>,
    /// Moment of its end, by the clock of the controller.
    pub ended_at: Wall,
    /// For a failure, the last line of stderr, else of the report, else the reason of its end.
    pub line: Cow<'a, str>,
}

impl FinishedRound<'_> {
    /// Largest length of [`FinishedRound::line`] in bytes.
    pub const LINE_BYTES_MAX: usize = 200;
    /// Largest length of each other text in bytes.
    pub const TEXT_BYTES_MAX: usize = 120;

    /// The same row with owned texts.
    #[must_use]
    pub fn into_owned(self) -> FinishedRound<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        FinishedRound {
            task: self.task,
            round: self.round,
            is_last: self.is_last,
            outcome: self.outcome,
            exit_code: self.exit_code,
            tool: own(self.tool),
            command: own(self.command),
            job: own(self.job),
            given_id: own(self.given_id),
            agent: own(self.agent),
            host: own(self.host),
            submitted_at: self.submitted_at,
            waited: self.waited,
            started_at: self.started_at,
            ran: self.ran,
            ended_at: self.ended_at,
            line: own(self.line),
        }
    }
}

/// The kind of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IncidentKind {
    /// The controller has started.
    Started,
    /// The controller has stopped as it was told to.
    Stopped,
    /// The controller has started after one that did not stop as it was told to.
    Crashed,
    /// An agent was lost.
    AgentLost,
    /// A lost agent is back.
    AgentBack,
    /// A connection was refused.
    Refused,
    /// Pushes were dropped.
    PushDropped,
    /// A deferred task has closed a gate.
    GateClosed,
    /// Rows of the history could not be written in time.
    HistoryLag,
    /// The store could not be written.
    StoreTrouble,
    /// A client has paused or resumed the service.
    Paused,
    /// The store can be written again.
    StoreWell,
    /// A restart has failed.
    RestartFailed,
    /// The configuration was read again.
    Reloaded,
    /// Tasks that wait for their descendants hold the agents that those descendants need.
    SlotsHeld,
    /// Most agents have fallen silent at once: the controller may be cut off.
    CutOff,
    /// The store is from a backup, or from another machine.
    StoreFromElsewhere,
    /// Another controller with a newer store has the agents.
    Outdated,
    /// The clock of an agent differs from that of the controller.
    ClockSkew,
    /// The disk of an agent has no room for a task.
    AgentDisk,
    /// This home leads the queue that another one has led.
    Leads,
    /// Another home leads the queue that this one has led.
    Deposed,
}

impl IncidentKind {
    /// All kinds. Their positions are stored, so add new ones at the end.
    pub const ALL: [Self; 22] = [
        Self::Started,
        Self::Stopped,
        Self::Crashed,
        Self::AgentLost,
        Self::AgentBack,
        Self::Refused,
        Self::PushDropped,
        Self::GateClosed,
        Self::HistoryLag,
        Self::StoreTrouble,
        Self::Paused,
        Self::StoreWell,
        Self::RestartFailed,
        Self::Reloaded,
        Self::SlotsHeld,
        Self::CutOff,
        Self::StoreFromElsewhere,
        Self::Outdated,
        Self::ClockSkew,
        Self::AgentDisk,
        Self::Leads,
        Self::Deposed,
    ];
}

/// Something that an operator may want to know about later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// When it happened.
    pub at: Wall,
    /// Its kind.
    pub kind: IncidentKind,
    /// One sentence.
    pub text: String,
}
