//! Which connection gives way when there is no place for a newcomer.
//!
//! The address with the most connections loses the one that has been silent the longest. A connection that is owed an answer, as a
//! parked query is, and one by which an agent speaks never give way. Of an address, subscribers come last: silence is all that
//! is expected of them. While there are places, nobody gives way, however silent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use super::reactor::{Endpoint, PeerId};
use crate::types::Mono;

/// Connections that are looked at for one place. Those that may stay go behind the others, so that a later look begins with others.
const LOOKS_MAX: usize = 16;

/// Addresses that are tried for one place: all connections of the largest may be such that stay.
const CROWDS_MAX: usize = 4;

/// A machine: its address, or `None` for the unix socket.
pub(super) type Machine = Option<IpAddr>;

/// All loopback addresses of one family are this machine: one process may have any of them.
pub(super) fn machine(address: Option<IpAddr>) -> Machine {
    match address.map(|ip| ip.to_canonical()) {
        Some(IpAddr::V4(ip)) if ip.is_loopback() => Some(Ipv4Addr::LOCALHOST.into()),
        other => other,
    }
}

/// A place in the order in which the connections of a machine give way: whether it subscribes, and when it was heard as far as is known.
pub(super) type Standing = (bool, Mono);

/// The connections of each machine. No set is empty.
#[derive(Debug, Default)]
pub(super) struct Crowds(BTreeMap<Machine, BTreeSet<(Standing, PeerId)>>);

impl Crowds {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn len(&self, machine: Machine) -> usize {
        self.0.get(&machine).map_or(0, BTreeSet::len)
    }

    pub(super) fn join(&mut self, machine: Machine, standing: Standing, id: PeerId) {
        self.0.entry(machine).or_default().insert((standing, id));
    }

    pub(super) fn leave(&mut self, machine: Machine, standing: Standing, id: PeerId) {
        let Some(crowd) = self.0.get_mut(&machine) else { return };
        crowd.remove(&(standing, id));
        if crowd.is_empty() {
            self.0.remove(&machine);
        }
    }

    /// The first of a machine, among those that subscribe or among the others.
    fn first(&self, machine: Machine, subscribes: bool) -> Option<(Standing, PeerId)> {
        self.0.get(&machine)?.iter().find(|((it, _), _)| *it == subscribes).copied()
    }

    /// The machines with the most connections.
    fn largest(&self) -> Vec<Machine> {
        let mut largest: Vec<(usize, Machine)> = Vec::with_capacity(CROWDS_MAX + 1);
        for (machine, crowd) in &self.0 {
            let at = largest.partition_point(|(len, _)| *len >= crowd.len());
            largest.insert(at, (crowd.len(), *machine));
            largest.truncate(CROWDS_MAX);
        }
        largest.into_iter().map(|(_, machine)| machine).collect()
    }
}

impl Endpoint {
    /// The connection that gives way to a newcomer when all places are taken.
    pub(super) fn longest_idle(&mut self) -> Option<PeerId> {
        self.accepting.crowds.largest().into_iter().find_map(|machine| self.longest_idle_of(machine))
    }

    /// The same among the connections of one machine.
    pub(super) fn longest_idle_of(&mut self, machine: Machine) -> Option<PeerId> {
        [false, true].into_iter().find_map(|subscribes| {
            for _ in 0..LOOKS_MAX {
                let (standing, id) = self.accepting.crowds.first(machine, subscribes)?;
                let peer = self.peers.get_mut(id)?;
                let stays = peer.is_kept || peer.owed > 0;
                let moved = (peer.connection.subscribes(), if stays { self.now } else { peer.heard });
                if moved == standing {
                    return (!stays).then_some(id);
                }
                peer.standing = moved;
                self.accepting.crowds.leave(machine, standing, id);
                self.accepting.crowds.join(machine, moved, id);
            }
            None
        })
    }
}
