//! TASK/STATISTIC and AGENT/QUERY (document, sections 2.5 and 2.4): how many tasks and agents there are.

use super::{Ask, Kind, Request, words};
use crate::protocol::json::ObjectWriter;
use crate::types::{Fields, Phase};

/// How many tasks are in each phase.
pub const TASK_STATISTIC: Kind = Kind::question("TASK/STATISTIC", |_| Ok(Request::TaskStatistic));

/// How many agents there are.
pub const AGENT_QUERY: Kind = Kind::question("AGENT/QUERY", |_| Ok(Request::AgentQuery));

/// Number of tasks in each phase, in the order of [`Phase::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts(pub [usize; 6]);

/// Numbers of agents (document, section 2.4). Free and busy ones are those that are not lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    /// All that are known.
    pub total: usize,
    /// With a free slot.
    pub free: usize,
    /// With a task.
    pub busy: usize,
    /// Silent for two heartbeat intervals.
    pub lost: usize,
}

/// Asks how many tasks are in each phase.
#[must_use]
pub fn tasks() -> Ask<TaskCounts> {
    TASK_STATISTIC.ask()
}

/// Asks how many agents there are.
#[must_use]
pub fn agents() -> Ask<AgentCounts> {
    AGENT_QUERY.ask()
}

impl TaskCounts {
    /// Each phase with its number.
    pub fn by_phase(self) -> impl Iterator<Item = (Phase, usize)> {
        Phase::ALL.into_iter().zip(self.0)
    }

    pub(in crate::protocol) fn write(self, writer: &mut ObjectWriter<'_>) {
        self.by_phase().for_each(|(phase, count)| writer.literal(words::phase(phase), count));
    }
}

impl From<Fields> for TaskCounts {
    fn from(fields: Fields) -> Self {
        Self(Phase::ALL.map(|phase| count(&fields, words::phase(phase))))
    }
}

impl AgentCounts {
    const NAMES: [&str; 4] = [words::TOTAL, words::FREE, words::BUSY, words::LOST];

    pub(in crate::protocol) fn write(self, writer: &mut ObjectWriter<'_>) {
        let Self { total, free, busy, lost } = self;
        Self::NAMES.into_iter().zip([total, free, busy, lost]).for_each(|(name, count)| writer.literal(name, count));
    }
}

impl From<Fields> for AgentCounts {
    fn from(fields: Fields) -> Self {
        let [total, free, busy, lost] = Self::NAMES.map(|name| count(&fields, name));
        Self { total, free, busy, lost }
    }
}

fn count(fields: &Fields, name: &str) -> usize {
    fields.count(name).and_then(|count| usize::try_from(count).ok()).unwrap_or_default()
}
