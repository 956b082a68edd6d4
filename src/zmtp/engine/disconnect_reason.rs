//! Why a connection ends, and why a message is refused.

/// Why a connection must be closed. Text from a peer is shown escaped and shortened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisconnectReason {
    /// The first bytes are not those of ZMTP.
    #[error("it does not speak ZMTP")]
    NotZmtp,
    /// ZMTP 1 or 2.
    #[error("it speaks ZMTP {0}, which is older than 3.0")]
    OldVersion(u8),
    /// One side uses NULL and the other CURVE, or the like.
    #[error("it requires the security mechanism {theirs}, and {ours} is configured here")]
    Mechanism {
        /// The mechanism of the peer.
        theirs: String,
        /// The configured mechanism.
        ours: &'static str,
    },
    /// It violates the protocol.
    #[error("it breaks the protocol: {0}")]
    Protocol(&'static str),
    /// A message or a command exceeds its limit.
    #[error("it sends {bytes} bytes where {max} are allowed")]
    TooLong {
        /// Announced bytes.
        bytes: u64,
        /// Bytes left within the limit.
        max: usize,
    },
    /// A message has too many parts.
    #[error("it sends a message of more than {0} parts")]
    TooManyParts(usize),
    /// The two socket types cannot talk to each other.
    #[error("its socket type {0} does not fit ours")]
    SocketType(String),
    /// The peer has sent an ERROR.
    #[error("it refuses us: {0}")]
    Refused(String),
    /// A CURVE box cannot be opened.
    #[error("it uses the wrong server key ({0})")]
    Keys(&'static str),
    /// It closes the connection instead of answering the first CURVE command, because it cannot open a box sealed for
    /// another key.
    #[error("it does not answer the first CURVE command; it has another key")]
    Unanswered,
    /// The key of this CURVE client is not authorised here.
    #[error("its public key {0} is not authorised")]
    Unauthorised(String),
    /// The handshake did not complete in time.
    #[error("it does not complete the handshake")]
    SlowHandshake,
    /// It reads none of its queue.
    #[error("it does not read")]
    NotReading,
    /// It has been silent for too long.
    #[error("it has been silent for too long")]
    Silent,
    /// All peers together hold too much, and this one has stalled the longest.
    #[error("all peers together hold too much, and it has stalled the longest")]
    Crowded,
    /// It belongs to a user of this machine who is not served.
    #[error("it belongs to a user of this machine who is not served")]
    Stranger,
    /// A newcomer needs its place, and it has been silent the longest.
    #[error("a newcomer needs its place, and it has been silent the longest")]
    Idle,
    /// The connection has already been closed.
    #[error("the connection has ended")]
    Over,
}

impl DisconnectReason {
    /// Hints at the cause on the other side, for the most common mistakes.
    pub(crate) const fn remedy(&self) -> &'static str {
        match self {
            Self::Unauthorised(_) => "; a file with it in CURVE_AUTHORISED_KEYS_DIR authorises it",
            Self::Keys(_) => "; check its CURVE_SERVER_PUBLIC_KEY_FILE",
            Self::Mechanism { .. } => "; configure CURVE keys on both sides, or on neither",
            Self::TooManyParts(_) => "; MESSAGE_FRAMES_MAX is the limit",
            _ => "",
        }
    }
}

/// A message that is refused because the queue of the peer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue of the peer is full")]
pub struct Full;

/// The beginning of a peer's bytes, safe for a log.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 64;
    bytes[..bytes.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string()
}
