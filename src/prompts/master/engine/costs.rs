//! The cost of the prompts, as far as workers report it, and the bound at which no more are handed out.
//!
//! Each running prompt is expected to cost the median of the last ones. No prompt is handed out while the sum and this expectation
//! reach the bound, so the bound is exceeded by about one prompt at most, however many workers there are. Before the first cost is
//! known, the expectation is zero.
//!
//! A worker sends the cost of a run before its report. The cost counts with the report, so a report that is repeated after a lost
//! connection counts once. The sum, the usual cost and a bound set by order are noted for a restarted master.

use std::collections::VecDeque;

use super::files::Held;
use super::{Effect, Master};
use crate::wire::RequestId;
use base::Usd;

/// Number of the last costs from which the usual one is computed.
const LAST_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Costs {
    /// `None` until a cost is known.
    pub(super) sum: Option<Usd>,
    /// The bound.
    pub(super) max: Option<Usd>,
    last: VecDeque<Usd>,
}

impl Costs {
    pub(super) fn with_max(max: Option<Usd>) -> Self {
        Self { max, ..Self::default() }
    }

    /// The median cost of the last runs.
    fn usual(&self) -> Option<Usd> {
        let mut last: Vec<Usd> = self.last.iter().copied().collect();
        last.sort_unstable();
        last.get(last.len() / 2).copied()
    }

    fn add(&mut self, cost: Usd) {
        self.sum = Some(self.sum.unwrap_or_default().plus(cost));
        if self.last.len() == LAST_MAX {
            self.last.pop_front();
        }
        self.last.push_back(cost);
    }
}

impl Master {
    /// The sum of an earlier master, the usual cost of a run under it, and the bound that a person has set for it.
    pub fn restore_costs(&mut self, sum: Option<Usd>, usual: Option<Usd>, max: Option<Usd>) {
        self.costs.sum = sum;
        self.costs.last.extend(usual);
        // An order is younger than the command line, which a supervisor repeats.
        if let (Some(own), Some(ordered)) = (self.costs.max, max)
            && own != ordered
        {
            self.journal
                .info(format!("the bound of {ordered} that was set by order holds in place of {own} (--max-cost)"));
        }
        self.costs.max = max.or(self.costs.max);
        self.stop_at_cost();
    }

    /// A worker reports the cost of its run.
    pub(super) fn record_cost(&mut self, connection: super::Connection, run: &RequestId, cost: Usd) {
        if !self.peers.set_cost(connection, run, cost) {
            self.ignored += 1;
        }
    }

    /// Counts the cost of a run with its report.
    pub(super) fn spend(&mut self, held: &Held) {
        let Some(cost) = held.cost else { return };
        self.costs.add(cost);
        let sum = self.costs.sum.unwrap_or_default();
        self.journal.info(format!("the run of {} has cost {cost}; {sum} in all", held.file));
        self.effects.push_back(Effect::NoteCost(Some(sum), self.costs.usual()));
        self.stop_at_cost();
    }

    /// A person sets another bound.
    pub(super) fn set_cost_max(&mut self, max: Usd) {
        self.costs.max = Some(max);
        self.effects.push_back(Effect::NoteCostMax(Some(max)));
    }

    /// The number of running prompts and their expected cost, if the bound is reached with them.
    pub(super) fn awaited_cost(&self) -> Option<(u64, Usd)> {
        let (sum, max) = (self.costs.sum?, self.costs.max?);
        let running = self.peers.iter().filter(|(_, peer)| peer.held().is_some()).count() + self.orphans.len();
        let expected = self.costs.usual()?.times(running as u64);
        (running > 0 && sum.plus(expected) >= max).then_some((running as u64, expected))
    }

    /// Why the next prompt waits for the cost of others, for people.
    pub(super) fn wait_for_cost(&self) -> Option<String> {
        let (sum, max) = (self.costs.sum?, self.costs.max?);
        let (running, expected) = self.awaited_cost()?;
        let prompts = if running == 1 { "prompt" } else { "prompts" };
        Some(format!(
            "waiting for the cost of {running} running {prompts}: with about {expected} for them and {sum} already, the bound of {max} \
             (--max-cost) is reached"
        ))
    }

    /// Hands out no more prompts when the bound is reached.
    pub(super) fn stop_at_cost(&mut self) {
        let (Some(sum), Some(max)) = (self.costs.sum, self.costs.max) else { return };
        if sum >= max && !self.dispatch.is_paused() {
            let reason = format!(
                "the prompts have cost {sum}, and {max} is the bound (--max-cost); llts prompt resume --max-cost USD goes on with a higher one"
            );
            self.journal.warn(format!("no more prompts are handed out: {reason}"));
            // Not noted: a restarted master compares again.
            self.dispatch.pause(reason);
        }
    }
}
