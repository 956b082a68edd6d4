//! All receivers, by id and by address.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::effect::ReceiverId;
use super::receiver::Receiver;
use base::{Mono, PushAddress};

/// Receivers with queued frames, a socket, or both.
#[derive(Debug, Default)]
pub(super) struct Receivers {
    by_id: BTreeMap<ReceiverId, Receiver>,
    ids: HashMap<Arc<PushAddress>, ReceiverId>,
    last_id: ReceiverId,
}

impl Receivers {
    /// Adds a new address.
    pub(super) fn add(&mut self, now: Mono, address: &Arc<PushAddress>) -> ReceiverId {
        self.last_id += 1;
        self.by_id.insert(self.last_id, Receiver::new(Arc::clone(address), now));
        self.ids.insert(Arc::clone(address), self.last_id);
        self.last_id
    }

    pub(super) fn remove(&mut self, id: ReceiverId) -> Option<Receiver> {
        let receiver = self.by_id.remove(&id)?;
        self.ids.remove(&receiver.address);
        Some(receiver)
    }

    pub(super) fn find(&self, address: &Arc<PushAddress>) -> Option<ReceiverId> {
        self.ids.get(address).copied()
    }

    pub(super) fn get(&self, id: ReceiverId) -> Option<&Receiver> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ReceiverId) -> Option<&mut Receiver> {
        self.by_id.get_mut(&id)
    }

    /// The receivers, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ReceiverId, &Receiver)> {
        self.by_id.iter().map(|(id, receiver)| (*id, receiver))
    }

    /// The ids of the receivers for which `holds` returns true, oldest first.
    pub(super) fn ids_of(&self, holds: impl Fn(&Receiver) -> bool) -> Vec<ReceiverId> {
        self.iter().filter(|(_, receiver)| holds(receiver)).map(|(id, _)| id).collect()
    }

    /// The receiver with the most queued bytes.
    pub(super) fn with_longest_queue(&mut self) -> Option<(ReceiverId, &mut Receiver)> {
        self.by_id.iter_mut().map(|(id, receiver)| (*id, receiver)).max_by_key(|(_, receiver)| receiver.queue.bytes())
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Checks that both indexes agree.
    pub(super) fn sanity_check(&self) {
        assert_eq!(self.by_id.len(), self.ids.len());
        for (id, receiver) in self.iter() {
            assert_eq!(self.find(&receiver.address), Some(id));
        }
    }
}
