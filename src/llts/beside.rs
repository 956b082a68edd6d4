//! What runs beside the controller, shown as its own commands show it.

/// A system that the controller does not follow: it is asked by its command, and tells no changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Prompts,
    Lists,
    Tdf,
}

impl Beside {
    pub(crate) const ALL: [Self; 3] = [Self::Prompts, Self::Lists, Self::Tdf];

    /// Its name in addresses.
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
