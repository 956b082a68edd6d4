//! Frames: a flag byte, a length of 1 or 8 bytes, a body.
//!
//! The reader accepts any split of the stream. It collects a header in nine bytes, and a body in the buffer that
//! becomes the frame.

use serde::{Deserialize, Serialize};

use super::{DisconnectReason, LongMessages};
use crate::envelope::TooLong;

pub(super) const MORE: u8 = 1;
const LONG: u8 = 2;
pub(super) const COMMAND: u8 = 4;

const HEADER_BYTES_MAX: usize = 9;

/// A complete frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) is_command: bool,
    pub(super) has_more: bool,
    /// The body; empty if it was skipped because it is too long.
    pub(super) body: Vec<u8>,
    pub(super) too_long: Option<TooLong>,
}

/// The limits of a frame at its place in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub(super) command_bytes: usize,
    pub(super) message_bytes: usize,
    /// The messages that may be longer.
    pub(super) long: Option<LongMessages>,
    /// Whether a message that is too long is skipped, up to [`SKIPPED_BYTES_MAX`], so that its sender can be told.
    pub(super) skips: bool,
    /// Bytes of a frame that are not part of its message.
    pub(super) overhead: usize,
    /// Bytes of the parts before it in its message.
    pub(super) before: usize,
}

impl Allowance {
    /// Whether a part of this length is permitted in a message of some kind.
    fn may_be_long(&self, length: usize) -> bool {
        self.long.is_some_and(|long| length <= long.bytes_max().saturating_sub(self.before))
    }
}

/// Longest message that is skipped. A longer one is not worth reading and ends its connection. The largest submit, if
/// its type is not its first key, is still below this.
pub(super) const SKIPPED_BYTES_MAX: u64 = 5 << 20;

/// The frame that is being read.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct FrameReader {
    header: [u8; HEADER_BYTES_MAX],
    have: usize,
    /// Missing bytes of the body, once the header is complete.
    missing: Option<usize>,
    body: Vec<u8>,
    /// The length of a body that is too long, unless its first bytes permit it.
    doubtful: Option<usize>,
    /// Set if the body is being skipped.
    too_long: Option<TooLong>,
}

impl FrameReader {
    /// Reads one frame, or the available part of it, from the input; `None` while it is incomplete.
    pub(super) fn read(&mut self, input: &mut &[u8], allowed: Allowance) -> Result<Option<Frame>, DisconnectReason> {
        let missing = match self.missing {
            Some(missing) => missing,
            None => match self.read_header(input, allowed)? {
                Some(length) => length,
                None => return Ok(None),
            },
        };
        let (now, rest) = input.split_at(missing.min(input.len()));
        *input = rest;
        if self.too_long.is_none() {
            // The body grows with the received bytes. An announced length reserves nothing.
            self.body.extend_from_slice(now);
        }
        if let (Some(length), Some(long)) = (self.doubtful, allowed.long) {
            match long.bytes_of(&self.body) {
                Some(max) if length <= max.saturating_sub(allowed.before) => self.doubtful = None,
                None if now.len() < missing => {}
                max => {
                    let max = max.unwrap_or_default().max(allowed.message_bytes);
                    let kind = (long.kind)(&self.body);
                    self.skip(TooLong { bytes: length as u64, max, kind }, allowed)?;
                }
            }
        }
        if now.len() < missing {
            self.missing = Some(missing - now.len());
            return Ok(None);
        }
        let flags = self.header[0];
        (self.have, self.missing) = (0, None);
        let (body, too_long) = (std::mem::take(&mut self.body), self.too_long.take());
        Ok(Some(Frame { is_command: flags & COMMAND != 0, has_more: flags & MORE != 0, body, too_long }))
    }

    /// Skips the rest of a body.
    fn skip(&mut self, too_long: TooLong, allowed: Allowance) -> Result<(), DisconnectReason> {
        if !allowed.skips || too_long.bytes > SKIPPED_BYTES_MAX {
            return Err(DisconnectReason::TooLong { bytes: too_long.bytes, max: too_long.max });
        }
        (self.doubtful, self.body, self.too_long) = (None, Vec::new(), Some(too_long));
        Ok(())
    }

    /// Bytes held for an incomplete frame.
    pub(super) const fn held(&self) -> usize {
        self.body.capacity()
    }

    fn read_header(&mut self, input: &mut &[u8], allowed: Allowance) -> Result<Option<usize>, DisconnectReason> {
        loop {
            let wanted = if self.have > 0 && self.header[0] & LONG != 0 { HEADER_BYTES_MAX } else { 2 };
            if self.have == wanted {
                break;
            }
            let Some((byte, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            self.header[self.have] = *byte;
            self.have += 1;
            if self.have == 1 {
                check_flags(*byte)?;
            }
        }
        let [flags, short, ..] = self.header;
        let length = if flags & LONG == 0 {
            u64::from(short)
        } else {
            self.header[1..].iter().fold(0, |length, byte| length << 8 | u64::from(*byte))
        };
        let max = if flags & COMMAND == 0 { allowed.message_bytes } else { allowed.command_bytes };
        match usize::try_from(length) {
            Ok(length) if length <= max => Ok(Some(length)),
            Ok(length) if flags & COMMAND == 0 && allowed.may_be_long(length) => {
                self.doubtful = Some(length);
                Ok(Some(length))
            }
            Ok(missing) if flags & COMMAND == 0 => {
                let own = |bytes: usize| bytes - allowed.overhead.min(bytes);
                self.skip(TooLong::message(own(missing) as u64, own(max)), allowed)?;
                Ok(Some(missing))
            }
            _ => Err(DisconnectReason::TooLong { bytes: length, max }),
        }
    }
}

const fn check_flags(flags: u8) -> Result<(), DisconnectReason> {
    if flags & !(MORE | LONG | COMMAND) != 0 {
        return Err(DisconnectReason::Protocol("a frame has reserved flags"));
    }
    if flags & COMMAND != 0 && flags & MORE != 0 {
        return Err(DisconnectReason::Protocol("a command cannot have a further part"));
    }
    Ok(())
}

/// Writes the header of a frame.
pub(super) fn write_header(out: &mut Vec<u8>, flags: u8, length: usize) {
    match u8::try_from(length) {
        Ok(short) => out.extend_from_slice(&[flags, short]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}
