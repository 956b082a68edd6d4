//! The orders of a person to a prompt master.

/// A change of what a master does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It hands out no prompt until it is resumed, across restarts.
    Pause,
    /// It hands out prompts again.
    Resume,
    /// It hands out no prompt, and ends when the running ones have ended.
    Drain,
}

impl Order {
    const ALL: [Self; 3] = [Self::Pause, Self::Resume, Self::Drain];

    /// Its type on the wire.
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
