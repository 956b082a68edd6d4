//! Parents keep their agents while they wait for their children. If they occupy every agent that could run these children, none of
//! them can go on. This module notices and reports that.

use std::time::Duration;

use super::agent::Slot;
use crate::Controller;
use crate::turn::effect::Timer;
use base::journal::Severity;
use base::{AgentId, Holdup, IncidentKind, Now, Phase, TaskId, TaskRecord};

/// How often to check while children wait. A supervisor that lends slots has started an agent long before.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of agents that a sentence names.
const SHOWN_MAX: usize = 10;

impl Controller {
    /// A child was accepted.
    pub(crate) fn watch_slots(&mut self, now: Now) {
        if !self.turn.has_timer(&Timer::Slots) {
            self.turn.set_timer(Timer::Slots, now.mono + LOOK_INTERVAL);
        }
    }

    /// Reports held slots once, and looks again as long as children of running tasks wait.
    pub(crate) fn look_at_slots(&mut self, now: Now) {
        let parents: Vec<TaskId> = self.fleet.busy().map(|(_, task)| task).collect();
        let children: Vec<TaskId> = parents.iter().filter_map(|parent| self.waiting_child(*parent)).collect();
        if !children.is_empty() {
            self.turn.set_timer(Timer::Slots, now.mono + LOOK_INTERVAL);
        }
        let held = children.iter().find_map(|child| self.held_agents(now, self.tasks.get(*child)?));
        let was_told = std::mem::replace(&mut self.fleet.slots_are_held, held.is_some());
        if let Some(agents) = held.filter(|_| !was_told) {
            let line = format!(
                "the agents {} run tasks that wait for children of theirs, and no other agent can run these",
                shown(&agents)
            );
            self.turn.incident(Severity::Warn, IncidentKind::SlotsHeld, line);
        }
    }

    /// The agents that could run a waiting task, if each of them runs a task with children that wait.
    pub(crate) fn held_agents(&self, now: Now, child: &TaskRecord) -> Option<Vec<AgentId>> {
        let sets = &self.queue.sets;
        let is_next = |slot: Slot| slot.task().is_some_and(|parent| self.waiting_child(parent).is_some());
        let needs = child.needs();
        let mut held = Vec::new();
        for (id, agent) in self.fleet.all_with(&needs, |set| sets.has(set, &child.tool)) {
            if !is_next(agent.slot) {
                return None;
            }
            held.push(id.clone());
        }
        let can_start = || {
            let could = |needs: &_, tool: Option<&_>| {
                self.fleet.any_with(needs, |set| tool.is_none_or(|tool| sets.has(set, tool)))
            };
            matches!(self.queue.holdup(now, child, &could, 0), Holdup::Agents { .. })
        };
        (!held.is_empty() && can_start()).then_some(held)
    }

    /// [`Self::held_agents`] for a waiting child of a running task.
    pub(crate) fn held_for_child(&self, now: Now, parent: TaskId) -> Option<Vec<AgentId>> {
        self.held_agents(now, self.tasks.get(self.waiting_child(parent)?)?)
    }

    /// A descendant of this task that waits.
    fn waiting_child(&self, task: TaskId) -> Option<TaskId> {
        if !self.tasks.families.has(task) {
            return None;
        }
        let waits = |child: &TaskId| self.tasks.get(*child).is_some_and(|child| child.phase() == Phase::Waiting);
        self.tasks.families.descendants(task).into_iter().find(waits)
    }
}

/// The names of some agents, for a sentence.
pub(crate) fn shown(agents: &[AgentId]) -> String {
    let names: Vec<_> = agents.iter().take(SHOWN_MAX).map(AgentId::as_str).collect();
    match agents.len().saturating_sub(SHOWN_MAX) {
        0 => names.join(", "),
        others => format!("{} and {others} more", names.join(", ")),
    }
}
