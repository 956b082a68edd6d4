//! `__CODE__`: 0, or the reason of a refusal (docs/sources/controller.md, 2.7, 6).

use std::fmt;

use crate::JobName;

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Not one frame with one flat JSON object.
    NotJson,
    /// No `__TYPE__`.
    NoType,
    /// An unknown `__TYPE__`.
    UnknownType,
    /// A `__TASK_ID__` that no task has.
    InvalidTaskId,
    /// No `__AGENT_ID__`.
    NoAgentId,
    /// No `__OPERATION__`, or one that is not a valid tool name; a step graph with a tool that no agent has.
    BadOperation,
    /// A field has an invalid value.
    BadField,
    /// A limit is reached.
    LimitReached,
    /// The service is stopping.
    Stopping,
    /// No task is available for this agent.
    NoTask,
    /// Not allowed in the current state.
    NotAllowed,
}

impl Code {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::NotJson => -1001,
            Self::NoType => -1002,
            Self::UnknownType => -1003,
            Self::InvalidTaskId => -1004,
            Self::NoAgentId => -1005,
            Self::BadOperation => -1006,
            Self::BadField => -1007,
            Self::LimitReached => -1008,
            Self::Stopping => -1009,
            Self::NoTask => -1010,
            Self::NotAllowed => -1011,
        }
    }
}

/// A refused request: the code, and one sentence that names the field and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub code: Code,
    /// `__ERROR_MSG__`
    pub message: String,
    /// The index of the refused task, from 0, if the request has several.
    pub index: Option<usize>,
}

impl Refusal {
    /// A refusal with its message.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), index: None }
    }

    /// The same refusal, about one of several tasks.
    #[must_use]
    pub const fn about(mut self, index: usize) -> Self {
        self.index = Some(index);
        self
    }

    /// The refusal of a name that no job has.
    #[must_use]
    pub fn no_such_job(name: &JobName) -> Self {
        let message = format!("no job {name}; no task of it was submitted here, or their retention time has passed");
        Self::new(Code::InvalidTaskId, message)
    }

    /// The refusal of an id that no graph has.
    #[must_use]
    pub fn no_such_graph(id: impl fmt::Display) -> Self {
        let shown = shown(&id.to_string());
        let message = format!("no graph {shown}; it was never submitted here, or its retention time has passed");
        Self::new(Code::InvalidTaskId, message)
    }

    /// The refusal of an id that no task has.
    #[must_use]
    pub fn no_such_task(id: impl fmt::Display) -> Self {
        let shown = shown(&id.to_string());
        let message = format!("no task {shown}; it was never submitted here, or its retention time has passed");
        Self::new(Code::InvalidTaskId, message)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code.number())
    }
}

/// A value from outside for use in a sentence: quoted, with control characters escaped, and truncated.
#[must_use]
pub fn shown(value: &str) -> String {
    /// Enough to recognise a value, too little to flood a log.
    const CHARS_MAX: usize = 80;
    let head: String = value.chars().take(CHARS_MAX).collect();
    let more = if head.len() < value.len() { "…" } else { "" };
    format!("{head:?}{more}")
}
