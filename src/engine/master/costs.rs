//! What the prompts have cost, as far as their workers say it, and the bound at which no more are handed out.
//!
//! A worker tells the cost of a run before its report. It counts with the report, so that a report that is repeated after a lost
//! connection counts once. The sum and a raised bound are noted for a restarted master.

use super::files::Held;
use super::{Effect, Master};
use crate::protocol::prompt::RequestId;
use crate::types::Usd;

#[derive(Debug, Default)]
pub(super) struct Costs {
    /// `None` until a cost is known.
    pub(super) sum: Option<Usd>,
    /// The bound.
    pub(super) max: Option<Usd>,
}

impl Master {
    /// The sum of an earlier master, and the bound that it was resumed with.
    pub fn restore_costs(&mut self, sum: Option<Usd>, max: Option<Usd>) {
        self.costs.sum = sum;
        // A bound that was raised by order holds, whatever the master is started with.
        self.costs.max = self.costs.max.map(|own| max.map_or(own, |raised| raised.max(own)));
        self.stop_at_cost();
    }

    /// A worker tells what its run has cost.
    pub(super) fn note_cost(&mut self, connection: super::Connection, run: &RequestId, cost: Usd) {
        if !self.peers.set_cost(connection, run, cost) {
            self.ignored += 1;
        }
    }

    /// A run has been reported.
    pub(super) fn spend(&mut self, held: &Held) {
        let Some(cost) = held.cost else { return };
        let sum = self.costs.sum.unwrap_or_default().plus(cost);
        self.costs.sum = Some(sum);
        self.journal.info(format!("the run of {} has cost {cost}; {sum} in all", held.file));
        self.effects.push_back(Effect::NoteCost(Some(sum)));
        self.stop_at_cost();
    }

    /// A person sets another bound.
    pub(super) fn set_cost_max(&mut self, max: Usd) {
        self.costs.max = Some(max);
        self.effects.push_back(Effect::NoteCostMax(Some(max)));
    }

    /// Hands out no more prompts when the bound is reached.
    pub(super) fn stop_at_cost(&mut self) {
        let (Some(sum), Some(max)) = (self.costs.sum, self.costs.max) else { return };
        if sum >= max && self.paused.is_none() {
            let reason = format!(
                "the prompts have cost {sum}, and {max} is the bound (--max-cost); llts prompt resume --max-cost USD goes on with a higher one"
            );
            self.journal.warn(format!("no more prompts are handed out: {reason}"));
            // Not noted: a restarted master compares again.
            self.paused = Some(reason);
        }
    }
}
