//! Frames that receivers send back: short frames are kept until they are polled, and all others are discarded.

use std::collections::VecDeque;
use std::sync::Arc;

use base::PushAddress;

/// A longer frame cannot be an acknowledgement, which holds an id and a number.
const ACK_BYTES_MAX: usize = 4096;

/// A frame from a receiver. Its text is untrusted, and is not read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The address that was pushed to.
    pub from: Arc<PushAddress>,
    /// Its bytes, at most 4 KiB.
    pub frame: Vec<u8>,
}

/// Frames to be polled, oldest first. A frame without room is discarded: its sender will confirm the next push.
#[derive(Debug)]
pub(super) struct Inbox {
    frames: VecDeque<Received>,
    frames_max: usize,
    /// Numbers of kept and discarded frames since the start.
    pub(super) received: u64,
    pub(super) discarded: u64,
}

impl Inbox {
    pub(super) const fn new(frames_max: usize) -> Self {
        Self { frames: VecDeque::new(), frames_max, received: 0, discarded: 0 }
    }

    /// Takes one frame, or one part of a longer message. An empty one is the delimiter of a REP or ROUTER receiver.
    pub(super) fn take(&mut self, from: &Arc<PushAddress>, frame: &[u8]) {
        if frame.is_empty() {
            return;
        }
        if frame.len() > ACK_BYTES_MAX || self.frames.len() >= self.frames_max {
            self.discarded += 1;
            return;
        }
        self.received += 1;
        self.frames.push_back(Received { from: Arc::clone(from), frame: frame.to_vec() });
    }

    /// The oldest frame.
    pub(super) fn pop(&mut self) -> Option<Received> {
        self.frames.pop_front()
    }
}
