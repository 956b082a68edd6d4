//! How new the store of a service is.

/// A service, and how new its store is. Both numbers are exact in JSON.
///
/// Each start of a controller raises the number by one; a start from a backup, or on another machine, raises it to the moment of the
/// start, which is above every number before. So of two controllers with one store, the one that was started from it last has the
/// higher number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch {
    /// Made with the store, and copied with it.
    pub service: u64,
    /// Never the same twice.
    pub number: u64,
}

/// The highest epoch of a service that an agent has served under, and the start of the controller that had it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownEpoch {
    /// The epoch.
    pub epoch: Epoch,
    /// Identifies the start.
    pub controller: u64,
}

impl KnownEpoch {
    /// Whether a controller that has started with this epoch is not the newest one of its service. Two starts with one number are
    /// starts from two copies of one store.
    #[must_use]
    pub fn outdates(&self, epoch: Epoch, controller: u64) -> bool {
        let is_twin = self.epoch == epoch && self.controller != controller;
        self.epoch.service == epoch.service && (self.epoch.number > epoch.number || is_twin)
    }
}
