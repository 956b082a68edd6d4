//! TASK/STATISTIC and AGENT/QUERY (docs/sources/controller.md, 2.4, 2.5): the numbers of tasks and agents.

use super::{Ask, Kind, Request, words};
use crate::wire::client::view;
use base::json::ObjectWriter;
use base::{Fields, Phase, Wall};

/// The number of tasks in each phase.
pub const TASK_STATISTIC: Kind = Kind::question("TASK/STATISTIC", |_| Ok(Request::TaskStatistic));

/// The number of agents.
pub const AGENT_QUERY: Kind = Kind::question("AGENT/QUERY", |_| Ok(Request::AgentQuery));

/// Number of tasks in each phase, in the order of [`Phase::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts(pub [usize; 6]);

/// Numbers of agents (docs/sources/controller.md, 2.4). Lost agents are neither free nor busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    /// All known agents.
    pub total: usize,
    /// Agents with a free slot.
    pub free: usize,
    /// Agents with a task.
    pub busy: usize,
    /// Agents that have been silent for `AGENT_LOST_AFTER`, by default two heartbeat intervals.
    pub lost: usize,
}

/// Requests the number of tasks in each phase.
#[must_use]
pub fn tasks() -> Ask<TaskCounts> {
    TASK_STATISTIC.ask()
}

/// Requests the number of tasks in each phase, with a warning if the service is not in good health.
#[must_use]
pub fn service() -> Ask<Stats> {
    TASK_STATISTIC.ask()
}

view! {
    /// The state of a service.
    Stats {
        /// The number of tasks in each phase.
        counts: TaskCounts = |fields| TaskCounts::of(fields);
        /// The end of the pause, if a client has paused the service: no task starts until then.
        paused_until: Option<Wall> = |fields| fields.moment(words::PAUSED_UNTIL);
        /// A sentence about its health, if it is not good.
        warning: Option<&str> = |fields| fields.text(words::WARNING);
    }
}

/// Requests the number of agents.
#[must_use]
pub fn agents() -> Ask<AgentCounts> {
    AGENT_QUERY.ask()
}

impl TaskCounts {
    /// Each phase with its number.
    pub fn by_phase(self) -> impl Iterator<Item = (Phase, usize)> {
        Phase::ALL.into_iter().zip(self.0)
    }

    fn of(fields: &Fields) -> Self {
        Self(Phase::ALL.map(|phase| count(fields, words::phase(phase))))
    }

    pub(in crate::wire) fn write(self, writer: &mut ObjectWriter<'_>) {
        self.by_phase().for_each(|(phase, count)| writer.literal(words::phase(phase), count));
    }
}

impl From<Fields> for TaskCounts {
    fn from(fields: Fields) -> Self {
        Self::of(&fields)
    }
}

impl AgentCounts {
    const NAMES: [&str; 4] = [words::TOTAL, words::FREE, words::BUSY, words::LOST];

    pub(in crate::wire) fn write(self, writer: &mut ObjectWriter<'_>) {
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
