//! Decides which connections get a place, and which one gives way to a newcomer when all places are taken.
//!
//! | when all places are taken | this connection gives way |
//! |---|---|
//! | a handshake is in progress | the oldest handshake |
//! | otherwise | the longest silent one of the machine with the most connections |
//!
//! The same holds for the places of one machine, among its own connections.
//!
//! A connection on which an agent sends requests never gives way. One that is owed an answer, such as a parked query,
//! does not give way for [`OWED_MAX`] after its last message. Among the connections of a machine, subscribers come
//! last, because they are expected to be silent. While there are free places, no connection gives way, however silent.
//! The last places are reserved for the unix socket, and those before them for the first connection of each machine.

use std::collections::VecDeque;
use std::time::Duration;

use super::machines::{ConnectionsByMachine, Machine, Standing};
use base::Mono;

/// The share of all places reserved for the unix socket, as a divisor. As many are reserved for first connections of
/// machines.
const KEPT_SHARE: usize = 32;

/// How long an owed answer protects a connection. A client that loses its place to a newcomer asks again.
const OWED_MAX: Duration = Duration::from_secs(60);

/// Maximum connections examined for one place. Exempt ones move to the back, so that a later search begins with others.
const LOOKS_MAX: usize = 16;

/// Limits for the number of connections and for their total memory.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of connections. The remaining descriptors are for other purposes.
    pub connections_max: usize,
    /// Maximum number of connections of one machine: an IPv4 address, a /64 network of IPv6, or all of loopback.
    pub per_address_max: usize,
    /// Maximum bytes that all connections make us hold: incomplete messages, and output for peers that do not read.
    pub held_bytes_max: usize,
}

/// The facts about one connection that the rules need.
#[derive(Debug)]
pub struct ConnectionInfo {
    machine: Machine,
    /// Its position among the connections of its machine.
    standing: Standing,
    is_open: bool,
    /// The time of its arrival, or of its last message.
    heard: Mono,
    /// Number of its messages without an answer.
    owed: u32,
    is_exempt: bool,
}

impl ConnectionInfo {
    /// For a connection that has just arrived from this machine, or on the unix socket.
    #[must_use]
    pub const fn new(now: Mono, machine: Machine, subscribes: bool) -> Self {
        let standing = (subscribes, now);
        Self { machine, standing, is_open: false, heard: now, owed: 0, is_exempt: false }
    }

    /// The handshake is complete.
    pub const fn opened(&mut self, now: Mono) {
        (self.is_open, self.heard) = (true, now);
    }

    /// It has sent something, possibly a message that will be answered.
    pub fn heard(&mut self, now: Mono, is_message: bool) {
        self.heard = now;
        self.owed = self.owed.saturating_add(u32::from(is_message));
    }

    /// One of its messages has been answered.
    pub const fn answered(&mut self) {
        self.owed = self.owed.saturating_sub(1);
    }

    /// Makes sure that it never gives way to a newcomer.
    pub const fn exempt(&mut self) {
        self.is_exempt = true;
    }

    /// Whether it never gives way to a newcomer, because an agent sends requests on it.
    #[must_use]
    pub const fn is_exempt(&self) -> bool {
        self.is_exempt
    }

    /// Whether the handshake is complete.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.is_open
    }
}

/// All connections of an endpoint, for the rules.
pub trait ConnectionTable<K> {
    /// The facts about an existing connection.
    fn info(&mut self, id: K) -> Option<&mut ConnectionInfo>;

    /// Number of connections.
    fn count(&self) -> usize;
}

/// The decision about a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<K> {
    /// It gets a free place.
    Admit,
    /// It replaces this connection, which has been in its handshake for too long.
    ReplaceHandshake(K),
    /// It replaces this connection, which has been silent for too long.
    ReplaceIdle(K),
    /// It is refused: its machine has this number of connections, and none of them gives way.
    Refuse(usize),
}

/// The admission of connections. See the [module](self).
#[derive(Debug)]
pub struct Admission<K> {
    limits: ConnectionLimits,
    by_machine: ConnectionsByMachine<K>,
    /// Connections whose handshake may be in progress, in order of arrival.
    handshakes: VecDeque<K>,
}

impl<K: Copy + Ord> Admission<K> {
    /// Without connections.
    #[must_use]
    pub const fn new(limits: ConnectionLimits) -> Self {
        Self { limits, by_machine: ConnectionsByMachine::new(), handshakes: VecDeque::new() }
    }

    /// Whether a newcomer of some machine would get a place. If not, further callers need not be accepted.
    pub fn has_place(&mut self, now: Mono, connections: &mut impl ConnectionTable<K>) -> bool {
        connections.count() < self.limits.connections_max
            || self.oldest_handshake(None, connections).is_some()
            || self.longest_idle(now, connections).is_some()
    }

    /// Decides about a newcomer from this machine. The caller must remove the connection that it replaces before
    /// letting it enter.
    pub fn decide(&mut self, now: Mono, machine: Machine, connections: &mut impl ConnectionTable<K>) -> Decision<K> {
        let count = self.by_machine.len(machine);
        let is_crowd = machine.is_some() && count >= self.limits.per_address_max;
        if !is_crowd && connections.count() < self.places_for(machine) {
            return Decision::Admit;
        }
        if let Some(oldest) = self.oldest_handshake(is_crowd.then_some(machine), connections) {
            return Decision::ReplaceHandshake(oldest);
        }
        let idle = if is_crowd {
            self.longest_idle_of(now, machine, connections)
        } else {
            self.longest_idle(now, connections)
        };
        idle.map_or(Decision::Refuse(count), Decision::ReplaceIdle)
    }

    /// A newcomer has taken its place.
    pub fn enter(&mut self, id: K, info: &ConnectionInfo) {
        self.by_machine.enter(info.machine, info.standing, id);
        self.handshakes.push_back(id);
    }

    /// A connection is gone.
    pub fn leave(&mut self, id: K, info: &ConnectionInfo) {
        self.by_machine.leave(info.machine, info.standing, id);
        self.handshakes.retain(|other| *other != id);
    }

    /// The number of places open to a newcomer from this machine.
    fn places_for(&self, machine: Machine) -> usize {
        let share = self.limits.connections_max / KEPT_SHARE;
        let kept = match machine {
            None => 0,
            Some(_) if self.by_machine.len(machine) == 0 => share,
            Some(_) => 2 * share,
        };
        self.limits.connections_max - kept
    }

    /// The oldest connection in its handshake, of one machine or of all.
    fn oldest_handshake(&mut self, machine: Option<Machine>, connections: &mut impl ConnectionTable<K>) -> Option<K> {
        let mut in_handshake = |id: K| connections.info(id).filter(|info| !info.is_open).map(|info| info.machine);
        while let Some(first) = self.handshakes.front().copied()
            && in_handshake(first).is_none()
        {
            self.handshakes.pop_front();
        }
        let mut matches = |id: K| in_handshake(id).is_some_and(|of| machine.is_none_or(|machine| of == machine));
        self.handshakes.iter().copied().find(|id| matches(*id))
    }

    /// The connection that gives way to a newcomer when all places are taken.
    fn longest_idle(&mut self, now: Mono, connections: &mut impl ConnectionTable<K>) -> Option<K> {
        self.by_machine.largest().into_iter().find_map(|machine| self.longest_idle_of(now, machine, connections))
    }

    /// The connection of one machine that gives way.
    fn longest_idle_of(&mut self, now: Mono, machine: Machine, connections: &mut impl ConnectionTable<K>) -> Option<K> {
        [false, true].into_iter().find_map(|subscribes| {
            for _ in 0..LOOKS_MAX {
                let (standing, id) = self.by_machine.first(machine, subscribes)?;
                let info = connections.info(id)?;
                let stays = info.is_exempt || (info.owed > 0 && now.since(info.heard) < OWED_MAX);
                let moved = (subscribes, if stays { now } else { info.heard });
                if moved == standing {
                    return (!stays).then_some(id);
                }
                info.standing = moved;
                self.by_machine.leave(machine, standing, id);
                self.by_machine.enter(machine, moved, id);
            }
            None
        })
    }

    /// Checks that every connection is in its place exactly once, and that no other one is held.
    ///
    /// # Panics
    /// When one is not.
    pub fn sanity_check(&self, connections: &mut impl ConnectionTable<K>) {
        for (machine, standing, id) in self.by_machine.iter() {
            let info = connections.info(id).map(|info| (info.machine, info.standing));
            assert_eq!(info, Some((machine, standing)), "a connection is in the wrong place");
        }
        assert!(self.handshakes.len() <= connections.count(), "a connection that is gone is held");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use base::Neighbourhood;

    type World = BTreeMap<u32, ConnectionInfo>;

    impl ConnectionTable<u32> for World {
        fn info(&mut self, id: u32) -> Option<&mut ConnectionInfo> {
            self.get_mut(&id)
        }

        fn count(&self) -> usize {
            self.len()
        }
    }

    fn at(seconds: u64) -> Mono {
        Mono::from_nanos(seconds * 1_000_000_000)
    }

    fn ip(last: u8) -> Machine {
        Some(Neighbourhood::of([10, 0, 0, last].into()))
    }

    fn admission(connections_max: usize, per_address_max: usize) -> Admission<u32> {
        Admission::new(ConnectionLimits { connections_max, per_address_max, held_bytes_max: 0 })
    }

    fn enter(admission: &mut Admission<u32>, world: &mut World, id: u32, machine: Machine, is_open: bool) {
        let mut info = ConnectionInfo::new(at(id.into()), machine, false);
        if is_open {
            info.opened(at(id.into()));
        }
        admission.enter(id, &info);
        world.insert(id, info);
        admission.sanity_check(world);
    }

    #[test]
    fn the_oldest_handshake_gives_way_before_anybody_who_is_in() {
        let (mut admission, mut world) = (admission(3, 9), World::new());
        enter(&mut admission, &mut world, 1, ip(1), true);
        enter(&mut admission, &mut world, 2, ip(2), false);
        assert_eq!(admission.decide(at(9), ip(3), &mut world), Decision::Admit);
        enter(&mut admission, &mut world, 3, ip(3), false);
        assert_eq!(admission.decide(at(9), ip(4), &mut world), Decision::ReplaceHandshake(2));
        world.get_mut(&2).unwrap().opened(at(9));
        assert_eq!(admission.decide(at(9), ip(4), &mut world), Decision::ReplaceHandshake(3));
        world.get_mut(&3).unwrap().opened(at(9));
        assert_eq!(admission.decide(at(9), ip(4), &mut world), Decision::ReplaceIdle(1));
    }

    #[test]
    fn connections_that_are_gone_are_forgotten() {
        let (mut admission, mut world) = (admission(3, 9), World::new());
        enter(&mut admission, &mut world, 1, ip(1), true);
        for id in 2..10 {
            enter(&mut admission, &mut world, id, ip(1), id % 2 == 0);
            let info = world.remove(&id).unwrap();
            admission.leave(id, &info);
            admission.sanity_check(&mut world);
        }
    }

    #[test]
    fn the_largest_crowd_loses_its_longest_silent_connection() {
        let (mut admission, mut world) = (admission(4, 9), World::new());
        enter(&mut admission, &mut world, 1, ip(1), true);
        for id in 2..=4 {
            enter(&mut admission, &mut world, id, ip(2), true);
        }
        assert_eq!(admission.decide(at(9), ip(3), &mut world), Decision::ReplaceIdle(2));
        world.get_mut(&2).unwrap().heard(at(8), false);
        assert_eq!(admission.decide(at(9), ip(3), &mut world), Decision::ReplaceIdle(3));
        world.get_mut(&3).unwrap().heard(at(8), true);
        assert_eq!(admission.decide(at(9), ip(3), &mut world), Decision::ReplaceIdle(4), "the other is owed an answer");
        world.get_mut(&3).unwrap().answered();
        world.get_mut(&4).unwrap().exempt();
        assert_eq!(admission.decide(at(9), ip(3), &mut world), Decision::ReplaceIdle(2));
        admission.sanity_check(&mut world);
    }

    #[test]
    fn nobody_gives_way_who_is_kept_and_a_newcomer_is_refused_then() {
        let (mut admission, mut world) = (admission(64, 2), World::new());
        for id in 1..=2 {
            enter(&mut admission, &mut world, id, ip(1), true);
            world.get_mut(&id).unwrap().exempt();
        }
        assert_eq!(admission.decide(at(9), ip(1), &mut world), Decision::Refuse(2));
        assert_eq!(admission.decide(at(9), ip(2), &mut world), Decision::Admit, "another machine");
        assert!(admission.has_place(at(9), &mut world));
    }

    #[test]
    fn the_last_places_are_for_machines_without_a_connection() {
        let (mut admission, mut world) = (admission(64, 64), World::new());
        for id in 1..=60 {
            assert_eq!(admission.decide(at(99), ip(1), &mut world), Decision::Admit, "{id}");
            enter(&mut admission, &mut world, id, ip(1), true);
        }
        assert_eq!(admission.decide(at(99), ip(1), &mut world), Decision::ReplaceIdle(1));
        for (id, last) in [(61, 2), (62, 3)] {
            assert_eq!(admission.decide(at(99), ip(last), &mut world), Decision::Admit);
            enter(&mut admission, &mut world, id, ip(last), true);
        }
        assert_eq!(admission.decide(at(99), ip(4), &mut world), Decision::ReplaceIdle(1), "however many machines come");
        assert_eq!(
            admission.decide(at(99), None, &mut world),
            Decision::Admit,
            "the unix socket has places of its own"
        );
    }

    /// Otherwise a machine could shut all others out with requests that wait for an hour.
    #[test]
    fn an_owed_answer_protects_for_a_while() {
        let (mut admission, mut world) = (admission(64, 2), World::new());
        for id in 1..=2 {
            enter(&mut admission, &mut world, id, ip(1), true);
            world.get_mut(&id).unwrap().heard(at(10), true);
        }
        assert_eq!(admission.decide(at(69), ip(1), &mut world), Decision::Refuse(2));
        assert_eq!(admission.decide(at(70), ip(1), &mut world), Decision::ReplaceIdle(1));
        world.get_mut(&1).unwrap().heard(at(60), true);
        assert_eq!(admission.decide(at(70), ip(1), &mut world), Decision::ReplaceIdle(2), "it has asked again");
        admission.sanity_check(&mut world);
    }

    #[test]
    fn subscribers_come_last() {
        let (mut admission, mut world) = (admission(2, 9), World::new());
        let mut info = ConnectionInfo::new(at(1), ip(1), true);
        info.opened(at(1));
        admission.enter(1, &info);
        world.insert(1, info);
        enter(&mut admission, &mut world, 2, ip(1), true);
        assert_eq!(admission.decide(at(9), ip(2), &mut world), Decision::ReplaceIdle(2));
        world.get_mut(&2).unwrap().exempt();
        assert_eq!(admission.decide(at(9), ip(2), &mut world), Decision::ReplaceIdle(1));
    }
}
