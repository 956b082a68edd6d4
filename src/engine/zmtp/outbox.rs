//! What waits to be written: the encoded bytes of many messages, one behind the other.

use std::collections::VecDeque;

use super::{Full, Limits};

/// Room that an empty outbox keeps, so that a burst does not hold its memory for ever.
const KEPT_BYTES_MAX: usize = 8192;

/// Bytes of commands that wait at the most. They answer what the peer says, so one that says much and reads nothing fills it.
const COMMAND_BYTES_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// Of `bytes`, from the start.
    written: usize,
    /// Bytes that ever left.
    gone: u64,
    /// Where the messages end that have not left wholly, counted from the first byte of the connection.
    ends: VecDeque<u64>,
    /// Bytes of commands among those that wait, or more.
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

    /// Where commands and the handshake are written to: they wait for nobody, but their bytes count.
    pub(super) const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Room for a message of about so many bytes.
    pub(super) fn admit(&self, bytes: usize, limits: &Limits) -> Result<(), Full> {
        let fits = self.ends.len() < limits.queue_messages_max && self.len() + bytes <= limits.queue_bytes_max;
        if fits || self.is_empty() { Ok(()) } else { Err(Full) }
    }

    /// Notes that a message has been written into the buffer.
    pub(super) fn end_message(&mut self) {
        self.ends.push_back(self.gone + self.len() as u64);
    }

    /// Half of what may wait does wait: whoever answers should let the peer read first.
    pub(super) fn is_half_full(&self, limits: &Limits) -> bool {
        self.ends.len() > limits.queue_messages_max / 2 || self.len() > limits.queue_bytes_max / 2
    }

    /// Notes that a command has been written into the buffer.
    pub(super) const fn end_command(&mut self, bytes: usize) {
        self.command_bytes += bytes;
    }

    /// More commands wait than may.
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
            // So that a peer that is never quite up to date does not make the buffer grow.
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}
