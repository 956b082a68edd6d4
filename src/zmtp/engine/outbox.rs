//! Bytes to be written: the concatenated bytes of encoded messages.

use std::collections::VecDeque;

use super::{Full, Limits};

/// Capacity that an empty outbox keeps, so that a burst does not occupy its memory forever.
const KEPT_BYTES_MAX: usize = 8192;

/// Maximum bytes of queued commands. Most of them answer the peer, so a peer that sends a lot and reads nothing would
/// fill the memory.
const COMMAND_BYTES_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// Number of written bytes at the start of `bytes`.
    written: usize,
    /// Total number of bytes that have been removed.
    gone: u64,
    /// Ends of the messages that are not completely written, counted from the first byte of the connection.
    ends: VecDeque<u64>,
    /// Upper bound of the command bytes in the queue.
    command_bytes: usize,
}

impl Outbox {
    pub(super) fn unwritten(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Continues with exactly these bytes, which end a message.
    pub(super) fn resume(&mut self, bytes: Vec<u8>) {
        *self = Self { bytes, ..Self::default() };
        if !self.is_empty() {
            self.end_message();
        }
    }

    /// The buffer to append to. Commands and the handshake are queued without [`Self::admit`], but their bytes count.
    pub(super) const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Whether there is room for a message of about this many bytes.
    pub(super) fn admit(&self, bytes: usize, limits: &Limits) -> Result<(), Full> {
        let fits = self.ends.len() < limits.queue_messages_max && self.len() + bytes <= limits.queue_bytes_max;
        if fits || self.is_empty() { Ok(()) } else { Err(Full) }
    }

    /// A message has been written into the buffer.
    pub(super) fn end_message(&mut self) {
        self.ends.push_back(self.gone + self.len() as u64);
    }

    /// Whether the queue is more than half full, so that the peer should read before it gets further answers.
    pub(super) fn is_half_full(&self, limits: &Limits) -> bool {
        self.ends.len() > limits.queue_messages_max / 2 || self.len() > limits.queue_bytes_max / 2
    }

    /// A command has been written into the buffer.
    pub(super) const fn end_command(&mut self, bytes: usize) {
        self.command_bytes += bytes;
    }

    /// Whether more command bytes are queued than allowed.
    pub(super) const fn overflows(&self) -> bool {
        self.command_bytes > COMMAND_BYTES_MAX
    }

    pub(super) fn handle_written(&mut self, count: usize) {
        self.written += count;
        self.gone += count as u64;
        self.command_bytes = self.command_bytes.saturating_sub(count);
        while self.ends.front().is_some_and(|end| *end <= self.gone) {
            self.ends.pop_front();
        }
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES_MAX);
            self.written = 0;
        } else if self.written > KEPT_BYTES_MAX.max(self.bytes.len() / 2) {
            // Otherwise a peer that always lags a little would make the buffer grow.
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}
