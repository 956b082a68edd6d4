//! The requests that are answered later: parked queries, searches over many tasks, and requests for outputs.

pub(crate) mod found_rows;
pub(crate) mod outputs;
pub(crate) mod scan;
pub(crate) mod waits;

use outputs::Outputs;
use scan::Scans;
use waits::{Query, Subject, Waits};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// Parked queries.
    waits: Waits<Subject, Query>,
    scans: Scans,
    /// The requests for outputs, and the agents that offer some.
    outputs: Outputs,
}

impl Readers {
    /// A turn has ended: the next one does its share of work.
    pub(crate) const fn begin_turn(&mut self) {
        self.scans.begin_turn();
    }

    pub(crate) const fn waits(&self) -> &Waits<Subject, Query> {
        &self.waits
    }

    pub(crate) const fn waits_mut(&mut self) -> &mut Waits<Subject, Query> {
        &mut self.waits
    }

    pub(crate) const fn scans(&self) -> &Scans {
        &self.scans
    }

    pub(crate) const fn scans_mut(&mut self) -> &mut Scans {
        &mut self.scans
    }

    pub(crate) const fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    pub(crate) const fn outputs_mut(&mut self) -> &mut Outputs {
        &mut self.outputs
    }
}
