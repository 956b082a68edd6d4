//! The requests that are answered later: parked queries, searches over many tasks, and requests for outputs.

pub(crate) mod found_rows;
pub(crate) mod outputs;
pub(crate) mod scan;
pub(crate) mod view;
pub(crate) mod waits;

use outputs::Outputs;
use scan::Scans;
use view::View;
use waits::{Query, Subject, Waits};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// Parked queries.
    pub(crate) waits: Waits<Subject, Query>,
    pub(crate) scans: Scans,
    /// The requests for outputs, and the agents that offer some.
    pub(crate) outputs: Outputs,
    pub(crate) view: View,
}

impl Readers {
    /// The cursors that it gives out name this start of the controller.
    pub(crate) fn of_start(id: u64) -> Self {
        Self { view: View::of_start(id), ..Self::default() }
    }

    /// A turn has ended: the next one does its share of work.
    pub(crate) const fn begin_turn(&mut self) {
        self.scans.begin_turn();
    }
}
