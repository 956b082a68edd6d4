//! Ids of tasks, agents, agent sessions and rounds.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::Wall;
use super::checked::checked_text;

/// The id of a task: `TASK_<unix seconds with six decimals>_<five letters>` (document, section 3.2).
///
/// Two numbers instead of text: 16 bytes, `Copy`, and the order of ids is the order of submission, because the controller
/// never hands out the same microsecond twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    micros: u64,
    suffix: [u8; TaskId::SUFFIX_LEN],
}

impl TaskId {
    /// Number of random letters at the end of an id (document, section 3.2).
    pub const SUFFIX_LEN: usize = 5;

    /// Smaller than every id that is handed out.
    pub const MIN: Self = Self { micros: 0, suffix: [0; Self::SUFFIX_LEN] };

    /// Larger than every id that is handed out.
    pub const MAX: Self = Self { micros: u64::MAX, suffix: [u8::MAX; Self::SUFFIX_LEN] };

    /// Makes an id from the moment of submission and random numbers, one for each letter.
    #[must_use]
    pub fn new(submitted: Wall, random: [u32; Self::SUFFIX_LEN]) -> Self {
        const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        Self { micros: submitted.micros(), suffix: random.map(|n| LETTERS[n as usize % LETTERS.len()]) }
    }

    /// The moment of submission in the id.
    #[must_use]
    pub const fn wall(self) -> Wall {
        Wall::from_micros(self.micros)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TASK_{}_", self.wall())?;
        self.suffix.iter().try_for_each(|&letter| fmt::Write::write_char(f, char::from(letter)))
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that does not have the form of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not of the form TASK_<seconds>.<six digits>_<five letters>")]
pub struct InvalidTaskId;

impl FromStr for TaskId {
    type Err = InvalidTaskId;

    fn from_str(text: &str) -> Result<Self, InvalidTaskId> {
        Self::parse(text).ok_or(InvalidTaskId)
    }
}

impl TaskId {
    fn parse(text: &str) -> Option<Self> {
        let (time, suffix) = text.strip_prefix("TASK_")?.split_once('_')?;
        let (seconds, decimals) = time.split_once('.')?;
        let canonical = !seconds.is_empty() && (seconds == "0" || !seconds.starts_with('0')) && decimals.len() == 6;
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if !canonical || !digits(seconds) || !digits(decimals) {
            return None;
        }
        let micros = seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(decimals.parse().ok()?)?;
        let suffix: [u8; Self::SUFFIX_LEN] = suffix.as_bytes().try_into().ok()?;
        suffix.iter().all(u8::is_ascii_alphabetic).then_some(Self { micros, suffix })
    }
}

/// The id of an agent: a text that the agent chose, of up to [`AgentId::BYTES_MAX`] bytes of a small set of characters.
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
        // Names that begin with two underscores are keys of the service, and a list of agents has a key for each agent.
        let fits = (1..=Self::BYTES_MAX).contains(&text.len()) && !text.starts_with('.') && !text.starts_with("__");
        if fits && text.bytes().all(allowed) {
            return Ok(Self(text.into()));
        }
        Err(InvalidAgentId(text.chars().take(Self::BYTES_MAX).collect()))
    }
}

checked_text!(AgentId);

/// One lifetime of one agent process; 0 is an agent that does not name its session.
///
/// It distinguishes two processes that use the same agent id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// The number of runs of a task before this one: the first round is 0. It is the fence: messages about an older round are
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
    fn an_agent_id_is_safe_as_a_file_name() {
        assert!(AgentId::new("AGENT_1480000000.120000_AZazA").is_ok());
        for text in ["", ".hidden", "__a", "a/b", "a\nb", "a b", &"x".repeat(129)] {
            assert!(AgentId::new(text).is_err(), "{text:?}");
        }
    }
}
