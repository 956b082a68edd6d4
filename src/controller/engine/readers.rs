//! The requests that are answered later: parked queries, searches over many tasks, and requests for outputs.

pub(in crate::engine) mod found_rows;
pub(in crate::engine) mod outputs;
pub(in crate::engine) mod scan;
pub(in crate::engine) mod waits;

use outputs::Outputs;
use scan::Scans;
use waits::{Query, Subject, Waits};

/// See the [module](self).
#[derive(Debug, Default)]
pub(in crate::engine) struct Readers {
    /// Parked queries.
    waits: Waits<Subject, Query>,
    scans: Scans,
    /// The requests for outputs, and the agents that offer some.
    outputs: Outputs,
}

impl Readers {
    /// A turn has ended: the next one does its share of work.
    pub(in crate::engine) const fn begin_turn(&mut self) {
        self.scans.begin_turn();
    }

    pub(in crate::engine) const fn waits(&self) -> &Waits<Subject, Query> {
        &self.waits
    }

    pub(in crate::engine) const fn waits_mut(&mut self) -> &mut Waits<Subject, Query> {
        &mut self.waits
    }

    pub(in crate::engine) const fn scans(&self) -> &Scans {
        &self.scans
    }

    pub(in crate::engine) const fn scans_mut(&mut self) -> &mut Scans {
        &mut self.scans
    }

    pub(in crate::engine) const fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    pub(in crate::engine) const fn outputs_mut(&mut self) -> &mut Outputs {
        &mut self.outputs
    }
}
