//! Why a connection ends, and why a message is not taken.

/// Why a connection must be closed. What a peer sent is shown escaped and shortened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisconnectReason {
    /// The first bytes are not those of ZMTP.
    #[error("it does not speak ZMTP")]
    NotZmtp,
    /// ZMTP 1 or 2.
    #[error("it speaks ZMTP {0}, which is older than 3.0")]
    OldVersion(u8),
    /// NULL met CURVE, or the like.
    #[error("it wants the security mechanism {theirs}, and {ours} is configured here")]
    Mechanism {
        /// What it asked for.
        theirs: String,
        /// What is configured.
        ours: &'static str,
    },
    /// A frame that breaks the rules.
    #[error("it breaks the protocol: {0}")]
    Protocol(&'static str),
    /// A message, or a command, beyond its limit.
    #[error("it sends {bytes} bytes where {max} are allowed")]
    TooLong {
        /// What was announced.
        bytes: u64,
        /// What is left of the limit.
        max: usize,
    },
    /// A message of too many parts.
    #[error("it sends a message of more than {0} parts")]
    TooManyParts(usize),
    /// The two sockets have nothing to say to each other.
    #[error("its socket type {0} does not fit ours")]
    SocketType(String),
    /// The peer has sent ERROR.
    #[error("it refuses us: {0}")]
    Refused(String),
    /// A CURVE box that cannot be opened.
    #[error("its keys do not fit: {0}")]
    Keys(&'static str),
    /// It ends the connection where the answer to the first command of CURVE is due: it cannot open what is sealed for another key.
    #[error("it does not answer the first command of CURVE; it has another key")]
    Unanswered,
    /// A CURVE client whose key is not known here.
    #[error("its public key {0} is not authorised")]
    Unauthorised(String),
    /// The handshake is not done in time.
    #[error("it does not complete the handshake")]
    SlowHandshake,
    /// It takes nothing of what waits for it.
    #[error("it does not read")]
    NotReading,
    /// It has been silent for too long.
    #[error("it has not been heard of for too long")]
    Silent,
    /// All peers together hold too much, and this one has stood still the longest.
    #[error("what all peers hold together is too much, and it has stood still the longest")]
    Crowded,
    /// There is no place for a newcomer, and this one has been silent the longest.
    #[error("others have no place, and it has been silent the longest")]
    Idle,
    /// The connection has been cut before.
    #[error("the connection is over")]
    Over,
}

/// A message that is not taken because too much waits for the peer already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too much waits for the peer")]
pub struct Full;

/// The beginning of what a peer sent, fit for a log.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 64;
    bytes[..bytes.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string()
}
