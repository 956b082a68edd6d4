//! Which gates are closed. A file names the gates that must be open for it to be handed out, the services that its work needs
//! for example; a worker that meets the limit of such a service closes them for a while.

use std::collections::BTreeMap;

use crate::types::Mono;

/// The closed gates; every other one is open.
#[derive(Debug, Default)]
pub(super) struct Gates {
    closed: BTreeMap<String, Mono>,
}

impl Gates {
    /// Whether a file that names these gates may be handed out.
    pub(super) fn may_start(&self, gates: &[String]) -> bool {
        self.closed.is_empty() || gates.iter().all(|gate| !self.closed.contains_key(gate))
    }

    /// Closes a gate; returns until when, which is the latest of all that closed it.
    pub(super) fn close(&mut self, gate: &str, until: Mono) -> Mono {
        let closed = self.closed.entry(gate.to_owned()).or_insert(until);
        *closed = until.max(*closed);
        *closed
    }

    /// The time of a gate has come.
    pub(super) fn open(&mut self, gate: &str) {
        self.closed.remove(gate);
    }

    pub(super) fn closed(&self) -> impl Iterator<Item = &String> {
        self.closed.keys()
    }
}
