//! Step graphs: the names of steps and ports, the states of a step, and the limits of a graph.

use std::sync::Arc;

use super::checked::checked_text;

/// The name of a step, unique in its graph.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepName(Arc<str>);

/// The name of an input or an output of a step. It becomes the name of a file and the end of a variable's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName(Arc<str>);

/// A text that is not the name of a step or of a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a name: use 1 to {max} characters of A-Z a-z 0-9 _{more}, and not __ first", max = NAME_BYTES_MAX)]
pub struct InvalidName {
    text: String,
    /// Further allowed characters.
    more: &'static str,
}

/// Longest name: longer than any sensible one, yet short enough for file names and prefixed variable names.
const NAME_BYTES_MAX: usize = 64;

impl StepName {
    /// Checks a text and makes it a name.
    ///
    /// # Errors
    /// When the text is empty, too long, begins with two underscores, or holds a character outside the allowed set.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        checked(text, " -").map(Self)
    }
}

impl PortName {
    /// Checks a text and makes it a name.
    ///
    /// # Errors
    /// When the text is empty, too long, begins with two underscores, or holds a character outside the allowed set.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        checked(text, "").map(Self)
    }
}

checked_text!(StepName);
checked_text!(PortName);

fn checked(text: &str, more: &'static str) -> Result<Arc<str>, InvalidName> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || (b != b' ' && more.as_bytes().contains(&b));
    // Names with this prefix are keys of the service, and the details of a graph use step names as keys.
    let ours = text.starts_with("__");
    if (1..=NAME_BYTES_MAX).contains(&text.len()) && !ours && text.bytes().all(allowed) {
        return Ok(text.into());
    }
    Err(InvalidName { text: text.chars().take(NAME_BYTES_MAX).collect(), more })
}

/// The state of a step. The order is total, and a state never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepState {
    /// Nothing has happened to it yet.
    Created,
    /// A neighbouring step may affect it.
    Activated,
    /// Its sub inputs are being processed.
    Preparing,
    /// Its sub inputs have been processed.
    Prepared,
    /// Its main inputs are being processed.
    Running,
    /// It was told to end early, and its tasks have not ended.
    Completing,
    /// All its tasks have ended, and it gets no more.
    Completed,
    /// Its neighbours no longer need it.
    Deactivated,
}

impl StepState {
    /// All states in their order.
    pub const ALL: [Self; 8] = [
        Self::Created,
        Self::Activated,
        Self::Preparing,
        Self::Prepared,
        Self::Running,
        Self::Completing,
        Self::Completed,
        Self::Deactivated,
    ];
}

/// The activity of a port, which the states of the connected steps determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortActivity {
    /// No data can pass it yet.
    Inactive,
    /// Data can pass it.
    Active,
    /// All data have passed it. Only an input has this activity.
    Completed,
}

/// The status of a whole graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphStatus {
    /// Some steps have not ended.
    Running,
    /// All steps are DEACTIVATED.
    Succeeded,
    /// One of its tasks has failed for good, and no task is left.
    Failed,
    /// It was killed, and no task is left.
    Killed,
}

/// The limits of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphLimits {
    /// Maximum bytes of its document: `GRAPH_BYTES_MAX`.
    pub bytes_max: usize,
    /// Maximum number of its steps: `GRAPH_STEPS_MAX`.
    pub steps_max: usize,
    /// Maximum number of its connections: `GRAPH_CONNECTIONS_MAX`.
    pub connections_max: usize,
    /// Maximum number of its tasks: `GRAPH_TASKS_MAX`.
    pub tasks_max: usize,
}

impl GraphLimits {
    /// The default values of the configuration.
    pub const DEFAULT: Self =
        Self { bytes_max: 16 << 20, steps_max: 10_000, connections_max: 100_000, tasks_max: 100_000 };

    /// Maximum bytes of a document in TOML, whose parser takes 140 times its size in memory. People write such
    /// documents, so they are short.
    #[must_use]
    pub const fn toml_bytes_max(&self) -> usize {
        const SHORT_BYTES: usize = 64 << 10;
        let share = self.bytes_max / 16;
        if share > SHORT_BYTES { share } else { SHORT_BYTES }
    }

    /// Maximum bytes of a message with a document: a quotation mark or a newline takes two bytes in JSON.
    #[must_use]
    pub const fn message_bytes_max(&self) -> usize {
        self.bytes_max.saturating_mul(2).saturating_add(OTHER_FIELDS_BYTES)
    }
}

/// Room for the fields other than the document.
const OTHER_FIELDS_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_may_have_a_hyphen_and_a_port_may_not() {
        for text in ["a", "A_9", "_x", &"x".repeat(64)] {
            assert!(StepName::new(text).is_ok() && PortName::new(text).is_ok(), "{text}");
        }
        for text in ["", "a b", "a.b", "__a", "é", "a\n", &"x".repeat(65)] {
            assert!(StepName::new(text).is_err() && PortName::new(text).is_err(), "{text}");
        }
        assert!(StepName::new("-a-").is_ok());
        let refused = PortName::new("a-b").unwrap_err().to_string();
        assert_eq!(refused, "\"a-b\" is not a name: use 1 to 64 characters of A-Z a-z 0-9 _, and not __ first");
    }
}
