//! The epoch of a service: how recent its store is.

/// A service and how recent its store is. Both numbers are exact in JSON.
///
/// Each start of a controller raises the number by one. A start from a backup or on another machine raises it to the
/// moment of the start, which exceeds every earlier number. So of two controllers with the same store, the one started
/// last has the higher number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch {
    /// Identifies the service. It is made with the store and copied with it.
    pub service: u64,
    /// Rises with each start.
    pub number: u64,
}

/// The highest epoch of a service that an agent has served under, and the start of the controller that had it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownEpoch {
    /// The epoch.
    pub epoch: Epoch,
    /// The id of that start.
    pub controller: u64,
}

impl KnownEpoch {
    /// Whether a controller that started with this epoch is not the newest of its service. Two starts with the same
    /// number come from two copies of one store.
    #[must_use]
    pub fn outdates(&self, epoch: Epoch, controller: u64) -> bool {
        let is_twin = self.epoch == epoch && self.controller != controller;
        self.epoch.service == epoch.service && (self.epoch.number > epoch.number || is_twin)
    }
}
