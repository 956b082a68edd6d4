//! The invariants of the table of tasks and its indexes between two events.

use std::collections::BTreeMap;

use super::change::is_active;
use super::pins::files_of;
use crate::Controller;
use base::{Phase, ToolDigest, ToolName};

impl Controller {
    /// Checks every invariant. `graphs` are the pins of graphs that have not ended.
    pub(crate) fn check_tasks<'a>(&self, graphs: impl Iterator<Item = (&'a ToolName, &'a ToolDigest)>) {
        let mut counts = [0; Phase::ALL.len()];
        for record in self.tasks.records.values() {
            counts[record.shown_phase() as usize] += 1;
        }
        assert_eq!(counts, self.tasks.counts, "the counts of the phases have drifted");
        self.tasks.figures.sanity_check(self.tasks.newest_before(None));
        self.queue.sanity_check(self.tasks.newest_before(None).filter(|record| record.phase() == Phase::Waiting));
        self.relations.jobs.sanity_check(self.tasks.newest_before(None));
        self.relations
            .dependants
            .sanity_check(self.tasks.newest_before(None).filter(|record| record.phase() == Phase::Waiting));
        self.check_gates();
        let unfinished = self.tasks.newest_before(None).filter(|record| record.phase() < Phase::Finished);
        let pins = unfinished.filter_map(|record| Some((record.tool.clone(), record.pin?)));
        let pins = pins.chain(graphs.map(|(tool, digest)| (tool.clone(), *digest)));
        self.archives.catalog.sanity_check(pins, self.tasks.newest_before(None).flat_map(files_of));
        for (at, id) in &self.tasks.end_before {
            let lives = self.tasks.records.get(id).is_some_and(|task| task.phase() < Phase::Finished);
            assert!(lives, "task {id} is still to end at {at}");
        }
        for names in [&self.tasks.given_ids, &self.tasks.submit_keys] {
            names.sanity_check(|id| self.tasks.records.contains_key(&id));
        }
    }

    /// A gate counts exactly the tasks that have passed it and are with agents.
    fn check_gates(&self) {
        let mut running = BTreeMap::new();
        for record in self.tasks.records.values().filter(|record| is_active(record.phase())) {
            for gate in record.policy.needs.gates.iter() {
                *running.entry(gate).or_insert(0) += 1;
            }
        }
        for (gate, count) in self.queue.gates.running() {
            assert_eq!(count, running.remove(gate).unwrap_or(0), "tasks beyond gate {gate}");
        }
        assert!(running.is_empty(), "gates that are not known: {running:?}");
    }
}
