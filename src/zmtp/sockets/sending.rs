//! Sending: output queues of peers, and writes to their streams.

use std::time::Duration;

use slotmap::Key as _;

use super::peer::PeerId;
use super::reactor::Endpoint;
use crate::engine::DisconnectReason;
use crate::port::Unsendable;

/// Maximum batching delay. A peer that does not read for a while is disconnected, so output must be offered to it much
/// sooner.
const UNHURRIED_MAX: Duration = Duration::from_secs(1);

impl Endpoint {
    /// Queues a message for a peer until [`Self::flush`]. A peer with a full queue is disconnected.
    ///
    /// # Errors
    /// When the peer is gone, is not open yet, or does not read.
    pub fn send<Part: AsRef<[u8]>>(&mut self, id: PeerId, parts: &[Part]) -> Result<(), Unsendable> {
        self.encode_or_disconnect(id, parts)?;
        self.mark_unsent(id);
        Ok(())
    }

    /// As [`Self::send`], but if the queue is full, the message is dropped and the peer stays. Returns whether the
    /// message was queued.
    ///
    /// # Errors
    /// When the peer is gone or is not open yet.
    pub fn offer<Part: AsRef<[u8]>>(&mut self, id: PeerId, parts: &[Part]) -> Result<bool, Unsendable> {
        let taken = self.encode(id, parts)?;
        if taken {
            self.mark_unsent(id);
        }
        Ok(taken)
    }

    /// As [`Self::send`], for a message that may be delayed this long, but at most a second, to share a write with
    /// another message to the same peer.
    ///
    /// # Errors
    /// See [`Self::send`].
    pub fn send_within<Part: AsRef<[u8]>>(
        &mut self,
        wait: Duration,
        id: PeerId,
        parts: &[Part],
    ) -> Result<(), Unsendable> {
        self.encode_or_disconnect(id, parts)?;
        if let Some(peer) = self.peers.get_mut(id)
            && !peer.is_unsent
            && peer.write_by.is_none()
        {
            peer.write_by = Some(self.now + wait.min(UNHURRIED_MAX));
            self.arm(id);
        }
        Ok(())
    }

    fn encode_or_disconnect<Part: AsRef<[u8]>>(&mut self, id: PeerId, parts: &[Part]) -> Result<(), Unsendable> {
        if self.encode(id, parts)? {
            return Ok(());
        }
        self.disconnect(id, &DisconnectReason::NotReading);
        Err(Unsendable::Full)
    }

    fn encode<Part: AsRef<[u8]>>(&mut self, id: PeerId, parts: &[Part]) -> Result<bool, Unsendable> {
        let peer = self.peers.get_mut(id).filter(|peer| peer.connection.peer().is_some());
        let peer = peer.ok_or(Unsendable::NoPeer)?;
        if peer.connection.send(self.now, parts).is_err() {
            // The stream may not have been offered the queued output yet.
            self.write(id);
            let Some(peer) = self.peers.get_mut(id) else { return Err(Unsendable::NoPeer) };
            if peer.connection.send(self.now, parts).is_err() {
                return Ok(false);
            }
        }
        if let Some(peer) = self.peers.get_mut(id) {
            peer.info.answered();
        }
        self.note_held(id);
        Ok(true)
    }

    /// Subscribes to messages with this prefix.
    pub fn subscribe(&mut self, id: PeerId, prefix: &[u8]) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.connection.subscribe(self.now, prefix);
            self.mark_unsent(id);
        }
    }

    pub(super) fn mark_unsent(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id)
            && !peer.is_unsent
            && !peer.connection.output().is_empty()
        {
            peer.is_unsent = true;
            self.unsent.push(id);
        }
    }

    /// Writes the queued output, one write for each peer.
    pub fn flush(&mut self) {
        for id in std::mem::take(&mut self.unsent) {
            if let Some(peer) = self.peers.get_mut(id) {
                peer.is_unsent = false;
                if !peer.is_blocked {
                    self.write(id);
                }
            }
        }
        self.make_room();
    }

    /// Whether output is queued that the kernel has not taken.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.peers.values().any(|peer| peer.connection.peer().is_some() && !peer.connection.output().is_empty())
    }

    pub(super) fn write(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.write_by = None;
        let (was_blocked, waiting) = (peer.is_blocked, peer.connection.output().len());
        let outcome = peer.write(self.now).and_then(|()| match peer.is_blocked {
            blocked if blocked == was_blocked => Ok(()),
            blocked => self.poller.modify(&peer.stream, id.data().as_ffi(), blocked),
        });
        if let Err(error) = outcome {
            log::debug!("a peer is gone: {error}");
            let why = peer.connection.meaning_of_end();
            return self.remove(id, why);
        }
        if peer.connection.output().len() < waiting {
            self.budget.moved(&mut peer.share);
        }
        if peer.is_held_back && !(peer.connection.is_clogged() && peer.is_blocked) {
            peer.is_held_back = false;
            self.mark_ready(id);
        }
        self.count(id);
        self.arm(id);
    }
}
