//! The commands of an open connection, and the properties in a handshake.

use std::time::Duration;

use super::disconnect_reason::shown;
use super::frame::{COMMAND, write_header};
use super::{DisconnectReason, Kind};

/// Longest command. The longest sensible ones are a SUBSCRIBE and a READY with some properties.
pub(super) const COMMAND_BYTES_MAX: usize = 8192;

pub(super) const READY: &[u8] = b"READY";
pub(super) const ERROR: &[u8] = b"ERROR";
const PING: &[u8] = b"PING";
const PONG: &[u8] = b"PONG";
const SUBSCRIBE: &[u8] = b"SUBSCRIBE";
const CANCEL: &[u8] = b"CANCEL";

/// Maximum bytes of a PING that its PONG returns.
const CONTEXT_BYTES_MAX: usize = 16;

/// A command on an open connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    Ping {
        ttl: Duration,
        context: &'a [u8],
    },
    Pong,
    Subscribe(&'a [u8]),
    Cancel(&'a [u8]),
    Error(String),
    /// A command of a later version of ZMTP, which is ignored.
    Unknown,
}

/// Splits a command into its name and its data.
pub(super) fn split(body: &[u8]) -> Result<(&[u8], &[u8]), DisconnectReason> {
    let named = body.split_first().and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)));
    named.filter(|(name, _)| !name.is_empty()).ok_or(DisconnectReason::Protocol("a command has no name"))
}

impl<'a> Command<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, DisconnectReason> {
        let (name, data) = split(body)?;
        Ok(match name {
            PING => match data {
                [high, low, context @ ..] => Self::Ping {
                    ttl: Duration::from_millis(100 * u64::from(u16::from_be_bytes([*high, *low]))),
                    context: &context[..context.len().min(CONTEXT_BYTES_MAX)],
                },
                _ => return Err(DisconnectReason::Protocol("a PING has no TTL")),
            },
            PONG => Self::Pong,
            SUBSCRIBE => Self::Subscribe(data),
            CANCEL => Self::Cancel(data),
            ERROR => Self::Error(error_reason(data)),
            _ => Self::Unknown,
        })
    }
}

/// The reason in an ERROR.
pub(super) fn error_reason(data: &[u8]) -> String {
    let reason = data.split_first().map(|(length, rest)| &rest[..rest.len().min(usize::from(*length))]);
    shown(reason.unwrap_or_default())
}

/// Writes a command with its frame.
pub(super) fn write(out: &mut Vec<u8>, name: &[u8], data: &[&[u8]]) {
    let length = 1 + name.len() + data.iter().map(|part| part.len()).sum::<usize>();
    write_header(out, COMMAND, length);
    write_body(out, name, data);
}

/// Writes a command without its frame.
pub(super) fn write_body(out: &mut Vec<u8>, name: &[u8], data: &[&[u8]]) {
    out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(name);
    for part in data {
        out.extend_from_slice(part);
    }
}

/// Writes an ERROR with a reason.
pub(super) fn write_error(out: &mut Vec<u8>, reason: &str) {
    let reason = &reason.as_bytes()[..reason.len().min(usize::from(u8::MAX))];
    write(out, ERROR, &[&[u8::try_from(reason.len()).unwrap_or(u8::MAX)], reason]);
}

/// The body of a PING.
pub(super) fn ping(ttl: Duration) -> Vec<u8> {
    let tenths = u16::try_from(ttl.as_millis().div_ceil(100)).unwrap_or(u16::MAX);
    body(PING, &tenths.to_be_bytes())
}

/// The body of a PONG.
pub(super) fn pong(context: &[u8]) -> Vec<u8> {
    body(PONG, context)
}

/// The body of a SUBSCRIBE.
pub(super) fn subscribe(prefix: &[u8]) -> Vec<u8> {
    body(SUBSCRIBE, prefix)
}

fn body(name: &[u8], data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + name.len() + data.len());
    write_body(&mut out, name, &[data]);
    out
}

/// The properties that we declare.
pub(super) fn properties(kind: Kind) -> Vec<u8> {
    let mut out = Vec::new();
    let mut property = |name: &str, value: &[u8]| {
        out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(value);
    };
    property("Socket-Type", kind.name().as_bytes());
    if kind.has_identity() {
        property("Identity", b"");
    }
    out
}

/// Reads the properties of a peer, which must include a compatible socket type. The other properties are not needed.
pub(super) fn peer_kind(ours: Kind, mut data: &[u8]) -> Result<Kind, DisconnectReason> {
    let broken = DisconnectReason::Protocol("the properties of a handshake are cut short");
    let mut theirs = None;
    while !data.is_empty() {
        let (name, rest) = data
            .split_first()
            .and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)))
            .ok_or_else(|| broken.clone())?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(|| broken.clone())?;
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let (value, rest) = rest.split_at_checked(length).ok_or_else(|| broken.clone())?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            theirs = Some(value);
        }
        data = rest;
    }
    let name = theirs.ok_or(DisconnectReason::Protocol("a handshake names no socket type"))?;
    Kind::parse(name).filter(|kind| ours.talks_to(*kind)).ok_or_else(|| DisconnectReason::SocketType(shown(name)))
}
