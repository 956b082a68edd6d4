//! What receivers send back: short frames go to whoever asked for them, all else is thrown away.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};

use nix::sys::eventfd::{EfdFlags, EventFd};

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

/// The reader's end of a sink.
#[derive(Debug)]
pub struct Acknowledgements {
    frames: Receiver<Received>,
    sink: AckSink,
}

impl Acknowledgements {
    /// Frames that wait for the reader; a receiver whose frame is dropped confirms the next push.
    const FRAMES_MAX: usize = 10_000;

    /// Makes both ends.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn new() -> std::io::Result<Self> {
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let (sender, frames) = mpsc::sync_channel(Self::FRAMES_MAX);
        Ok(Self { frames, sink: AckSink { sender, wake } })
    }

    /// The other end.
    #[must_use]
    pub fn sink(&self) -> AckSink {
        self.sink.clone()
    }

    /// Waits to be woken anew. Called before the frames are taken, so that none is missed.
    pub fn drain_wake(&self) {
        // It fails when nobody has rung since.
        let _ = self.sink.wake.read();
    }

    /// The next frame, if there is one.
    #[must_use]
    pub fn take(&self) -> Option<Received> {
        self.frames.try_recv().ok()
    }
}

/// Readable when frames have come.
impl AsFd for Acknowledgements {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sink.wake.as_fd()
    }
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
