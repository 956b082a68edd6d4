//! The limits of step graphs.

use super::error::ConfigError;
use super::reader::{GIB, Reader};
use base::GraphLimits;

/// Reads the limits of a graph.
pub(super) fn read(reader: &mut Reader) -> Result<GraphLimits, ConfigError> {
    Ok(GraphLimits {
        bytes_max: reader.size("GRAPH_BYTES_MAX", 1024..=GIB, "bytes")?,
        steps_max: reader.size("GRAPH_STEPS_MAX", 1..=1_000_000, "steps")?,
        connections_max: reader.size("GRAPH_CONNECTIONS_MAX", 1..=10_000_000, "connections")?,
        tasks_max: reader.size("GRAPH_TASKS_MAX", 1..=10_000_000, "tasks")?,
    })
}
