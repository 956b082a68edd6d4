//! The first signal to a run that is to end.

use std::fmt;

/// A signal that asks a program to end. SIGKILL follows, however the program reacts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndSignal {
    /// SIGTERM.
    #[default]
    Term,
    /// SIGINT, as from Ctrl-C.
    Int,
    /// SIGHUP.
    Hup,
    /// SIGQUIT.
    Quit,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
}

impl EndSignal {
    /// The valid words, for a sentence about an invalid one.
    pub const WORDS: &str = "TERM, INT, HUP, QUIT, USR1 or USR2";

    const ALL: [Self; 6] = [Self::Term, Self::Int, Self::Hup, Self::Quit, Self::Usr1, Self::Usr2];

    /// Its word: the name of the signal without SIG.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Int => "INT",
            Self::Hup => "HUP",
            Self::Quit => "QUIT",
            Self::Usr1 => "USR1",
            Self::Usr2 => "USR2",
        }
    }

    /// The signal with this word, with or without SIG before it.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let word = word.strip_prefix("SIG").unwrap_or(word);
        Self::ALL.into_iter().find(|signal| signal.word() == word)
    }
}

impl fmt::Display for EndSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
