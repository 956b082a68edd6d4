//! Effects for the shell, and its report on a socket.

use super::complaints::Complaint;
use base::{IpAddr, PublicKey};

/// Identifies a receiver for the shell and the timers. It is never reused, so that a late event cannot reach another
/// receiver.
pub type ReceiverId = u64;

/// An instruction to the shell. An effect whose receiver has no socket in the shell must be ignored.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open a socket, start to connect it, and call [`Delivery::handle_ready`](super::Delivery::handle_ready) whenever it
    /// is ready.
    Connect {
        /// The receiver, which keeps the socket until it is closed.
        id: ReceiverId,
        /// IP address to connect to.
        ip: IpAddr,
        /// Port to connect to.
        port: u16,
        /// The key that the receiver must prove to own. No frame is sent before that.
        key: Option<PublicKey>,
    },
    /// Read and write with [`Delivery::exchange`](super::Delivery::exchange), then report.
    Serve {
        /// The receiver of the socket.
        id: ReceiverId,
        /// Whether the socket has reported more than readiness for writing.
        has_news: bool,
    },
    /// Close the socket. The kernel continues to deliver the bytes that it has accepted.
    Close(ReceiverId),
    /// Look this host name up.
    Resolve(String),
    /// Log this complaint.
    Log(Complaint),
}

/// The reason for a call of [`Delivery::handle_timeout`](super::Delivery::handle_timeout).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The last turn has left work that no event announces.
    Unfinished,
    /// A receiver must be served, given up, closed, or put back into the line.
    Receiver(ReceiverId),
    /// A socket may be taken from another receiver.
    Admission,
    /// The linger time after a stop has passed.
    Linger,
}

/// The outcome of serving a socket. Of two outcomes, the greater one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// Nothing to do until the socket has news, or a frame is pushed.
    #[default]
    Settled,
    /// Work is left, but it is another socket's turn.
    More,
    /// The connection is gone.
    Lost,
}

/// The report of [`Effect::Serve`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Whether work is left.
    pub progress: Progress,
    /// Number of frames that the connection took.
    pub sent: usize,
    /// Number of frames that the receiver sent.
    pub received: usize,
    /// Bytes read and written, and the charge for handshakes.
    pub bytes: usize,
    /// Whether the handshake was complete when frames were to be written.
    pub is_up: bool,
    /// Whether the stream has taken bytes.
    pub has_written: bool,
    /// Whether the stream currently takes no more bytes.
    pub is_blocked: bool,
    /// Whether the connection holds no bytes that the stream has not taken.
    pub is_drained: bool,
    /// Whether bytes have moved in either direction since the socket was opened.
    pub is_reached: bool,
}
