//! The systems beside the controller, shown as their own commands show them.

/// A system that the controller does not follow. Its command is run for its state, and it reports no changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Prompts,
    Lists,
    Tdf,
}

impl Beside {
    pub(crate) const ALL: [Self; 3] = [Self::Prompts, Self::Lists, Self::Tdf];

    /// The name of the system in addresses.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Lists => "lists",
            Self::Tdf => "tdf",
        }
    }

    /// The words of the command that shows its state.
    pub(crate) const fn command(self) -> &'static [&'static str] {
        match self {
            Self::Prompts => &["prompt", "status"],
            Self::Lists => &["spool", "status"],
            Self::Tdf => &["tdf", "stats"],
        }
    }
}
