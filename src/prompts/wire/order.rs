//! The orders of a person to a prompt master.

/// A change of what a master does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Hand out no prompt until a RESUME, across restarts.
    Pause,
    /// Hand out prompts again.
    Resume,
    /// Hand out no prompt, and end when the running ones have ended.
    Drain,
}

impl Order {
    const ALL: [Self; 3] = [Self::Pause, Self::Resume, Self::Drain];

    /// The type on the wire.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Pause => "PAUSE",
            Self::Resume => "RESUME",
            Self::Drain => "DRAIN",
        }
    }

    pub(super) fn of(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.kind() == kind)
    }
}
