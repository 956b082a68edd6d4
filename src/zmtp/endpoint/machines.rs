//! The connections of each machine, in the order in which they give way.

use std::collections::{BTreeMap, BTreeSet};

use base::{Mono, Neighbourhood};

/// Maximum machines tried for one place, because all connections of the largest ones may be exempt.
const MACHINES_TRIED_MAX: usize = 4;

/// A machine, as far as addresses can identify it, or `None` for the unix socket.
pub type Machine = Option<Neighbourhood>;

/// The position of a connection in the order in which those of its machine give way: whether it subscribes, and the
/// last known time of a message.
pub(super) type Standing = (bool, Mono);

/// The connections of each machine. No set is empty.
#[derive(Debug)]
pub(super) struct ConnectionsByMachine<K>(BTreeMap<Machine, BTreeSet<(Standing, K)>>);

impl<K: Copy + Ord> ConnectionsByMachine<K> {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn len(&self, machine: Machine) -> usize {
        self.0.get(&machine).map_or(0, BTreeSet::len)
    }

    pub(super) fn enter(&mut self, machine: Machine, standing: Standing, id: K) {
        self.0.entry(machine).or_default().insert((standing, id));
    }

    pub(super) fn leave(&mut self, machine: Machine, standing: Standing, id: K) {
        let Some(crowd) = self.0.get_mut(&machine) else { return };
        crowd.remove(&(standing, id));
        if crowd.is_empty() {
            self.0.remove(&machine);
        }
    }

    /// The first connection of a machine, among subscribers or among the others.
    pub(super) fn first(&self, machine: Machine, subscribes: bool) -> Option<(Standing, K)> {
        self.0.get(&machine)?.iter().find(|((it, _), _)| *it == subscribes).copied()
    }

    /// The machines with the most connections.
    pub(super) fn largest(&self) -> Vec<Machine> {
        let mut largest: Vec<(usize, Machine)> = Vec::with_capacity(MACHINES_TRIED_MAX + 1);
        for (machine, crowd) in &self.0 {
            let at = largest.partition_point(|(len, _)| *len >= crowd.len());
            largest.insert(at, (crowd.len(), *machine));
            largest.truncate(MACHINES_TRIED_MAX);
        }
        largest.into_iter().map(|(_, machine)| machine).collect()
    }

    /// All connections.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Machine, Standing, K)> {
        self.0.iter().flat_map(|(machine, crowd)| crowd.iter().map(|(standing, id)| (*machine, *standing, *id)))
    }
}
