//! The position of a task in its step graph, as its agent needs it, and the locations that tasks pass on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{GraphId, PortName, StepName};

/// The locations that each port of a step was provided with, in order. The location of an empty partition is empty. The
/// tasks of a step share the lists.
pub type Inputs = BTreeMap<PortName, Arc<[Arc<str>]>>;

/// The locations that a run provides, in order, for each output with a file. An empty list means that there is no
/// partition.
pub type Provided = BTreeMap<PortName, Vec<Arc<str>>>;

/// The data that a task of a step needs besides its own fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepContext {
    /// The graph.
    pub graph: GraphId,
    /// The step.
    pub step: StepName,
    /// The role of the task in the step.
    pub role: StepRole,
    /// The number of its partition, or of the task among those of its role, from 0.
    pub partition: u32,
    /// All locations that its role was provided with.
    pub inputs: Inputs,
    /// The ports on which it may provide; none for [`StepRole::Prepare`].
    pub outputs: Arc<[PortName]>,
    /// The time from SIGTERM to SIGKILL when the task is told to finish: `STEP_GRACE`.
    pub grace: Duration,
}

/// The role of a task in its step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepRole {
    /// It processes the main inputs.
    Main,
    /// It processes this sub input.
    Prepare(PortName),
}

impl StepContext {
    /// Maximum number of locations that one task may provide, on all its ports together. A whole graph may have as many
    /// partitions by default.
    pub const PROVIDED_MAX: usize = 100_000;

    /// Maximum bytes of these locations as JSON: 10,000 long paths fit.
    pub const PROVIDED_BYTES_MAX: usize = 4 << 20;
}

/// A text that cannot be the location of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLocation {
    /// It is too long.
    #[error("has {0} bytes; a location has at most {LOCATION_BYTES_MAX}")]
    TooLong(usize),
    /// It contains a newline or a NUL.
    #[error("contains a newline or a NUL, which a location cannot")]
    Character,
}

/// Longest location: that of the longest path.
const LOCATION_BYTES_MAX: usize = 4096;

/// Checks a text and makes it a location.
///
/// # Errors
/// When it is too long, or contains a newline or a NUL.
pub fn checked_location(text: &str) -> Result<Arc<str>, InvalidLocation> {
    if text.len() > LOCATION_BYTES_MAX {
        return Err(InvalidLocation::TooLong(text.len()));
    }
    if text.contains(['\n', '\0']) { Err(InvalidLocation::Character) } else { Ok(text.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_one_line_of_the_length_of_a_path() {
        for text in ["", "/a b/ü\r\t", &"x".repeat(4096)] {
            assert_eq!(checked_location(text).as_deref(), Ok(text));
        }
        assert_eq!(checked_location("a\nb"), Err(InvalidLocation::Character));
        assert_eq!(checked_location("\0"), Err(InvalidLocation::Character));
        let refused = checked_location(&"x".repeat(4097)).unwrap_err().to_string();
        assert_eq!(refused, "has 4097 bytes; a location has at most 4096");
    }
}
