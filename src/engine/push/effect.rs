//! What the shell must do for the pushes, and what it reports of a socket.

use super::complaints::Complaint;
use crate::types::{IpAddr, PublicKey};

/// Names a receiver for the shell and the timers. It is never used again, so that a late event meets no other receiver.
pub type ReceiverId = u64;

/// What the shell must do next. An effect whose receiver has no socket in the shell is to be ignored.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open a socket, start to connect it, and call [`Delivery::handle_ready`](super::Delivery::handle_ready) whenever it has news.
    Connect {
        /// The receiver, which keeps the socket until it is closed.
        id: ReceiverId,
        /// Where to connect to.
        ip: IpAddr,
        /// The port there.
        port: u16,
        /// What the receiver must prove to own; nothing is sent to it before that.
        key: Option<PublicKey>,
    },
    /// Read and write by [`Delivery::exchange`](super::Delivery::exchange), then report.
    Serve {
        /// Its socket.
        id: ReceiverId,
        /// The socket has had news other than that it can be written to.
        has_news: bool,
    },
    /// Close the socket. The kernel goes on delivering what it has taken.
    Close(ReceiverId),
    /// Look this host name up.
    Resolve(String),
    /// Log this.
    Log(Complaint),
}

/// Why [`Delivery::handle_timeout`](super::Delivery::handle_timeout) must be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The last turn has left work over that no event announces.
    Unfinished,
    /// A receiver is to be served, given up, closed, or put into the line again.
    Receiver(ReceiverId),
    /// A socket can be taken from another receiver.
    Admission,
    /// The delivery goes on no longer after a stop.
    Linger,
}

/// What a service of a socket leaves behind; of two the greater counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// Nothing to do until the socket has news, or a frame is pushed.
    #[default]
    Settled,
    /// There is more to do, but it is another socket's turn.
    More,
    /// The connection is gone.
    Lost,
}

/// The report of [`Effect::Serve`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Whether there is more to do.
    pub progress: Progress,
    /// Frames that the connection took.
    pub sent: usize,
    /// Frames that the receiver sent.
    pub received: usize,
    /// Bytes read and written, and what handshakes count for.
    pub bytes: usize,
    /// The handshake was complete when frames were to be written.
    pub is_up: bool,
    /// The stream has taken bytes.
    pub has_written: bool,
    /// The stream takes no more for the moment.
    pub is_blocked: bool,
    /// The connection holds no bytes that the stream has not taken.
    pub is_drained: bool,
    /// Bytes have gone in either direction since the socket was opened.
    pub is_reached: bool,
}
