//! The closed gates. A file names the gates that must be open before it is handed out, for example the services that its
//! work needs. A worker that hits the limit of such a service closes its gate for a while.

use std::collections::BTreeMap;

use base::Mono;

/// The closed gates, with the moments at which they open. All others are open.
#[derive(Debug, Default)]
pub(super) struct Gates {
    closed: BTreeMap<String, Mono>,
}

impl Gates {
    /// Whether all of these gates are open.
    pub(super) fn may_start(&self, gates: &[String]) -> bool {
        self.closed.is_empty() || gates.iter().all(|gate| !self.closed.contains_key(gate))
    }

    /// Closes a gate; returns the moment until which it is closed, the latest of all requests.
    pub(super) fn close(&mut self, gate: &str, until: Mono) -> Mono {
        let closed = self.closed.entry(gate.to_owned()).or_insert(until);
        *closed = until.max(*closed);
        *closed
    }

    /// The pause of a gate has passed.
    pub(super) fn open(&mut self, gate: &str) {
        self.closed.remove(gate);
    }

    /// When a gate opens, if it is closed.
    pub(super) fn closed_until(&self, gate: &str) -> Option<Mono> {
        self.closed.get(gate).copied()
    }

    pub(super) fn closed(&self) -> impl Iterator<Item = &String> {
        self.closed.keys()
    }
}
