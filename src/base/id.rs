//! Ids of tasks, graphs, agents, agent sessions and rounds.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::Wall;
use super::checked::checked_text;
use super::time::WALL_BYTES_MAX;

/// Letters of the random part of an id (docs/sources/controller.md, 3.2).
const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A moment and random letters: `<unix seconds with six decimals>_<five letters>`.
///
/// It holds two numbers, not text, so an id has 16 bytes and is `Copy`. The order of ids is the order of submission,
/// because the controller never hands out the same microsecond twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Stamp {
    micros: u64,
    suffix: [u8; TaskId::SUFFIX_LEN],
}

impl Stamp {
    fn new(submitted: Wall, random: [u32; TaskId::SUFFIX_LEN]) -> Self {
        Self { micros: submitted.micros(), suffix: random.map(|n| LETTERS[n as usize % LETTERS.len()]) }
    }

    fn parse(text: &str) -> Option<Self> {
        let (time, suffix) = text.split_once('_')?;
        let (seconds, decimals) = time.split_once('.')?;
        let canonical = !seconds.is_empty() && (seconds == "0" || !seconds.starts_with('0')) && decimals.len() == 6;
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if !canonical || !digits(seconds) || !digits(decimals) {
            return None;
        }
        let micros = seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(decimals.parse().ok()?)?;
        let suffix: [u8; TaskId::SUFFIX_LEN] = suffix.as_bytes().try_into().ok()?;
        suffix.iter().all(u8::is_ascii_alphabetic).then_some(Self { micros, suffix })
    }

    /// Writes an id in one call: a text that grows piece by piece is reallocated for each piece.
    fn write(self, prefix: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUFFIX_AT: usize = Stamp::PREFIX_BYTES_MAX + WALL_BYTES_MAX + 1;
        let mut text = [b'_'; SUFFIX_AT + TaskId::SUFFIX_LEN];
        text[SUFFIX_AT..].copy_from_slice(&self.suffix);
        let time_at = Wall::from_micros(self.micros).write_before(SUFFIX_AT - 1, &mut text);
        let at = time_at - prefix.len();
        text[at..time_at].copy_from_slice(prefix.as_bytes());
        f.write_str(std::str::from_utf8(&text[at..]).unwrap_or_default())
    }

    /// Bytes of the longest prefix.
    const PREFIX_BYTES_MAX: usize = "GRAPH_".len();
}

/// A kind of id that consists of a prefix and a [`Stamp`].
macro_rules! stamped_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $invalid:ident, $error:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Stamp);

        impl $name {
            /// Makes an id from the moment of submission and random numbers, one for each letter.
            #[must_use]
            pub fn new(submitted: Wall, random: [u32; TaskId::SUFFIX_LEN]) -> Self {
                Self(Stamp::new(submitted, random))
            }

            /// The moment of submission in the id.
            #[must_use]
            pub const fn wall(self) -> Wall {
                Wall::from_micros(self.0.micros)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                const { assert!($prefix.len() <= Stamp::PREFIX_BYTES_MAX) };
                self.0.write($prefix, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        /// A text that does not have the form of an id.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
        #[error($error)]
        pub struct $invalid;

        impl FromStr for $name {
            type Err = $invalid;

            fn from_str(text: &str) -> Result<Self, $invalid> {
                text.strip_prefix($prefix).and_then(Stamp::parse).map(Self).ok_or($invalid)
            }
        }
    };
}

stamped_id! {
    /// The id of a task: `TASK_<unix seconds with six decimals>_<five letters>` (docs/sources/controller.md, 3.2).
    TaskId, "TASK_", InvalidTaskId, "not of the form TASK_<seconds>.<six digits>_<five letters>"
}

stamped_id! {
    /// The id of a step graph: `GRAPH_<unix seconds with six decimals>_<five letters>`. It is also a valid job name.
    GraphId, "GRAPH_", InvalidGraphId, "not of the form GRAPH_<seconds>.<six digits>_<five letters>"
}

impl TaskId {
    /// Number of random letters at the end of an id (docs/sources/controller.md, 3.2).
    pub const SUFFIX_LEN: usize = 5;

    /// The random letters at its end.
    #[must_use]
    pub const fn letters(self) -> [u8; Self::SUFFIX_LEN] {
        self.0.suffix
    }

    /// The id with these parts; `None` if `letters` contains any other byte.
    #[must_use]
    pub fn from_parts(submitted: Wall, letters: [u8; Self::SUFFIX_LEN]) -> Option<Self> {
        letters.iter().all(u8::is_ascii_alphabetic).then(|| Self(Stamp { micros: submitted.micros(), suffix: letters }))
    }

    /// Smaller than every id that is handed out.
    pub const MIN: Self = Self(Stamp { micros: 0, suffix: [0; Self::SUFFIX_LEN] });

    /// Larger than every id that is handed out.
    pub const MAX: Self = Self(Stamp { micros: u64::MAX, suffix: [u8::MAX; Self::SUFFIX_LEN] });
}

/// The id of an agent: a text chosen by the agent, with up to [`AgentId::BYTES_MAX`] bytes from a small set of characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(Arc<str>);

/// A text that is not a valid agent id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("agent id {0:?} must be 1 to {max} characters of A-Z a-z 0-9 . _ : @ + -, and neither . nor __ first", max = AgentId::BYTES_MAX)]
pub struct InvalidAgentId(String);

impl AgentId {
    /// Longest id. It is part of file names of logs and work folders, and a file name has at most 255 bytes.
    pub const BYTES_MAX: usize = 128;

    /// Checks a text and makes it an id.
    ///
    /// # Errors
    /// When the text is empty, too long, or contains a character that is unfit for a file name or a log line.
    pub fn new(text: &str) -> Result<Self, InvalidAgentId> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._:@+-".contains(&b);
        // Names that begin with two underscores are keys of the service, and a list of agents uses agent ids as keys.
        let fits = (1..=Self::BYTES_MAX).contains(&text.len()) && !text.starts_with('.') && !text.starts_with("__");
        if fits && text.bytes().all(allowed) {
            return Ok(Self(text.into()));
        }
        Err(InvalidAgentId(text.chars().take(Self::BYTES_MAX).collect()))
    }
}

checked_text!(AgentId);

/// One lifetime of one agent process. It is 0 for an agent that does not name its session.
///
/// It distinguishes two processes that use the same agent id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// The number of earlier runs of a task; the first round is 0. It serves as a fence: messages about an older round are
/// refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round(pub u32);

impl Round {
    /// The next round.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_id_reads_back_as_itself() {
        let id = TaskId::new(Wall::from_micros(1_480_000_000_120_000), [0, 25, 26, 51, 52]);
        assert_eq!(id.to_string(), "TASK_1480000000.120000_AZazA");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn what_is_not_an_id_is_refused() {
        for text in [
            "",
            "TASK_",
            "TASK_1480000000.12_AZazA",
            "TASK_1480000000.120000_AZaz",
            "TASK_1480000000.120000_AZaz1",
            "TASK_01480000000.120000_AZazA",
            "TASK_+1480000000.120000_AZazA",
            "TASK_99999999999999999999.120000_AZazA",
            "task_1480000000.120000_AZazA",
            "TASK_1480000000.120000_AZazA\n",
        ] {
            assert_eq!(text.parse::<TaskId>(), Err(InvalidTaskId), "{text:?}");
        }
    }

    #[test]
    fn ids_sort_by_time_of_submission() {
        let early = TaskId::new(Wall::from_micros(5), [51; 5]);
        let late = TaskId::new(Wall::from_micros(6), [0; 5]);
        assert!(early < late);
    }

    #[test]
    fn a_graph_id_is_told_from_a_task_id_and_is_the_name_of_a_job() {
        let id = GraphId::new(Wall::from_micros(1_480_000_000_120_000), [0, 25, 26, 51, 52]);
        assert_eq!(id.to_string(), "GRAPH_1480000000.120000_AZazA");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(id.to_string().parse::<TaskId>().is_err() && "TASK_1.120000_AZazA".parse::<GraphId>().is_err());
        assert!(crate::JobName::new(&id.to_string()).is_ok());
    }

    #[test]
    fn an_agent_id_is_safe_as_a_file_name() {
        assert!(AgentId::new("AGENT_1480000000.120000_AZazA").is_ok());
        for text in ["", ".hidden", "__a", "a/b", "a\nb", "a b", &"x".repeat(129)] {
            assert!(AgentId::new(text).is_err(), "{text:?}");
        }
    }
}
