//! What receivers send back: short frames go to whoever asked for them, all else is thrown away.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use nix::sys::eventfd::EventFd;

use super::counts::{Counters, add};
use crate::types::PushAddress;

/// A longer frame is no acknowledgement: that holds an id and a number.
const ACK_BYTES_MAX: usize = 4096;

/// A frame that came from a receiver. It is not read here: its text is a stranger's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The address that was pushed to.
    pub from: Arc<PushAddress>,
    /// At most 4 KiB.
    pub frame: Vec<u8>,
}

/// Where frames from receivers go. What does not fit into the channel is thrown away and counted.
#[derive(Clone, Debug)]
pub struct AckSink {
    /// Bounded by the reader.
    pub sender: SyncSender<Received>,
    /// Written to after something was put into the channel, once for many frames.
    pub wake: Arc<EventFd>,
}

/// The sink with its counters, as the push thread holds it.
#[derive(Debug)]
pub(super) struct Inbox {
    sink: Option<AckSink>,
    counters: Arc<Counters>,
    unannounced: bool,
}

impl Inbox {
    pub(super) const fn new(sink: Option<AckSink>, counters: Arc<Counters>) -> Self {
        Self { sink, counters, unannounced: false }
    }

    /// Takes one frame, or one part of a longer message. An empty one is the delimiter of a REP or ROUTER receiver.
    pub(super) fn take(&mut self, from: &Arc<PushAddress>, frame: &[u8]) {
        if frame.is_empty() {
            return;
        }
        let taken = frame.len() <= ACK_BYTES_MAX
            && self.sink.as_ref().is_some_and(|sink| {
                sink.sender.try_send(Received { from: Arc::clone(from), frame: frame.to_vec() }).is_ok()
            });
        self.unannounced |= taken;
        add(if taken { &self.counters.received } else { &self.counters.discarded }, 1);
    }

    /// Wakes the reader if there is something new.
    pub(super) fn announce(&mut self) {
        if std::mem::take(&mut self.unannounced)
            && let Some(sink) = &self.sink
        {
            super::ring(&sink.wake);
        }
    }
}
