//! What all peers together make us hold: messages that are not complete, and answers that are not taken.
//!
//! Each peer has limits of its own; a thousand of them at their limits are still too many. Beyond the limit of all, the one that
//! has stood still the longest is cut: it has neither completed a message nor taken a byte since. Not the one that holds the
//! most, for that may be an honest client with a large message, which is complete in a moment; and nobody is left unread
//! instead, for then half messages could keep all others out.
//!
//! | a peer | is counted | stands in the order of age |
//! |---|---|---|
//! | has half a message here | yes | from its first byte, or from the message before |
//! | takes nothing of what waits for it | yes | from the last byte that it took |
//! | has something to be written in this turn | yes | no: [`Endpoint::flush`] comes first |

use std::collections::BTreeMap;

use super::reactor::{Endpoint, PeerId};
use crate::engine::zmtp::Cut;

/// The sum, and who stands still, oldest first.
#[derive(Debug)]
pub(super) struct Held {
    bytes: usize,
    bytes_max: usize,
    standing: BTreeMap<u64, PeerId>,
    next: u64,
}

/// One peer's part of it.
#[derive(Debug, Default)]
pub(super) struct Share {
    bytes: usize,
    /// Its place in the order.
    since: Option<u64>,
}

impl Held {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { bytes: 0, bytes_max, standing: BTreeMap::new(), next: 0 }
    }

    pub(super) const fn is_over(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// It has moved: whatever it holds from here on is younger than that of the others.
    pub(super) fn moved(&mut self, share: &mut Share) {
        if let Some(since) = share.since.take() {
            self.standing.remove(&since);
        }
    }

    fn count(&mut self, id: PeerId, share: &mut Share, bytes: usize, stands: bool) {
        self.bytes = self.bytes - share.bytes + bytes;
        share.bytes = bytes;
        if !stands {
            self.moved(share);
        } else if share.since.is_none() {
            share.since = Some(self.next);
            self.standing.insert(self.next, id);
            self.next += 1;
        }
    }

    /// It has gone.
    pub(super) fn forget(&mut self, share: &mut Share) {
        self.moved(share);
        self.bytes -= std::mem::take(&mut share.bytes);
    }
}

impl Endpoint {
    /// Counts what a peer makes us hold.
    pub(super) fn count(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id) {
            let (bytes, waiting) = (peer.connection.held(), peer.connection.output().len());
            let stands = bytes > waiting || (peer.is_blocked && waiting > 0);
            self.held.count(id, &mut peer.share, bytes, stands);
        }
    }

    /// Counts it when it may have become more, and makes room.
    pub(super) fn note_held(&mut self, id: PeerId) {
        self.count(id);
        if self.held.is_over() {
            self.flush();
        }
    }

    /// Cuts who has stood still the longest, until there is room.
    pub(super) fn make_room(&mut self) {
        while self.held.is_over()
            && let Some((_, oldest)) = self.held.standing.first_key_value()
        {
            self.cut(*oldest, &Cut::Crowded);
        }
    }
}
