//! The pushed and published changes of step graphs: every change, in order, for each address.
//!
//! A graph of 10,000 steps changes 50,000 times, often at once, and an address has room for fewer pushes. So the changes wait here,
//! in a line for each address, until the pushes have room for them. Changes without an address are only published, a slice in each
//! turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::Controller;
use crate::turn::effect::Effect;
use base::{GraphChange, PushAddress};

/// Changes of one line that leave in one turn.
const SLICE: usize = 1_000;

/// The changes that wait for room, by their address.
#[derive(Debug, Default)]
pub(crate) struct StatusLines {
    lines: BTreeMap<Option<Arc<PushAddress>>, Line>,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<GraphChange>,
    /// Changes that have left the engine, and wait for the commit that they depend on.
    leaving: usize,
}

impl Line {
    /// Number of changes that may leave, if their address has room for `room` pushes.
    fn allowed(&self, room: usize) -> usize {
        room.min(SLICE).saturating_sub(self.leaving).min(self.waiting.len())
    }
}

impl StatusLines {
    pub(crate) fn push(&mut self, change: GraphChange) {
        self.lines.entry(change.address.clone()).or_default().waiting.push_back(change);
    }
}

impl Controller {
    /// Lets changes leave, as far as their addresses have room. `room` is the number of pushes that an address has room for. Call
    /// it in each turn, after the events.
    pub fn handle_push_room(&mut self, mut room: impl FnMut(&Arc<PushAddress>) -> usize) {
        for (address, line) in &mut self.graphs.statuses.lines {
            if line.waiting.is_empty() {
                continue;
            }
            let count = line.allowed(address.as_ref().map_or(SLICE, &mut room));
            line.leaving += count;
            let leaving = line.waiting.drain(..count).map(|change| Effect::GraphStatus(Box::new(change)));
            leaving.for_each(|effect| self.turn.emit(effect));
        }
    }

    /// Whether a call of [`Self::handle_push_room`] would let a change leave.
    pub fn has_push_room(&self, mut room: impl FnMut(&Arc<PushAddress>) -> usize) -> bool {
        let mut lines = self.graphs.statuses.lines.iter().filter(|(_, line)| !line.waiting.is_empty());
        lines.any(|(address, line)| line.allowed(address.as_ref().map_or(SLICE, &mut room)) > 0)
    }

    /// A change has left for its address.
    pub fn handle_graph_status_left(&mut self, address: Option<&Arc<PushAddress>>) {
        let key = address.cloned();
        if let Some(line) = self.graphs.statuses.lines.get_mut(&key) {
            line.leaving = line.leaving.saturating_sub(1);
            if line.leaving == 0 && line.waiting.is_empty() {
                self.graphs.statuses.lines.remove(&key);
            }
        }
    }

    /// The controller stops: all changes leave. If the pushes to an address have no room for all of them, the oldest ones are
    /// dropped.
    pub(crate) fn flush_graph_statuses(&mut self) {
        for line in self.graphs.statuses.lines.values_mut() {
            line.leaving += line.waiting.len();
            let leaving = line.waiting.drain(..).map(|change| Effect::GraphStatus(Box::new(change)));
            leaving.for_each(|effect| self.turn.emit(effect));
        }
    }
}
