//! ZMTP sockets inside the loop that uses them: no thread, one wait, bounded everywhere.
//!
//! [`crate::engine`] interprets the bytes, and this module carries them. An [`Endpoint`] listens and connects, and has
//! all peers of one loop:
//!
//! ```text
//! wait: epoll + the loop's own descriptors --> ready peers --> accept, timers
//! poll_event: one peer after another, 16 KiB each, until none is ready --> Arrival
//! send --> the peer's outbox --> flush: one write for many messages
//! ```
//!
//! | danger | answer |
//! |---|---|
//! | more connections than descriptors | at `connections_max` the oldest handshake makes room, otherwise the longest silent connection of the address with the most connections ([`Admission`](crate::endpoint::Admission)); if all are exempt, no connection is accepted until one closes, and the listener is not polled meanwhile |
//! | one machine takes all places | `connections_per_address_max`; the oldest handshake of that address goes first, then its longest silent connection, otherwise the newcomer is refused. The last places are for the unix socket, and for addresses without a connection |
//! | a peer that sends endlessly | one chunk from it is read, then the others have their turn |
//! | many peers, each within its limits | above `held_bytes_max` for all together, the longest-stalled peer is disconnected |
//! | a peer that does not read | with half of its queue full, nothing more is read from it; with the queue full, or nothing taken for long, it is disconnected |
//! | a peer whose machine is gone | TCP keep-alive, and PING |
//!
//! It uses epoll directly, without a library, because the loops also wait for signals and ends of processes. Their
//! descriptors come and go, and must be polled level-triggered in the same wait.
//!
//! [`Ports`], [`Link`], [`Requester`] and [`Pipe`] are the parts for controller, agent and clients. Pushes have their own table
//! of peers and use only the [`Stream`].

mod accept;
mod address;
mod ending;
mod link;
mod listeners;
mod peer;
mod pipe;
mod poller;
mod ports;
mod reactor;
mod redialer;
mod requester;
mod route;
mod sending;
mod socket_path;
mod stream;
mod suspended;

pub use address::{Address, BadAddress, absolute};
pub use link::Link;
pub use listeners::Counts;
pub use peer::{PeerId, Tag};
pub use pipe::{Pipe, Piped};
pub use ports::{PortSettings, Ports};
pub use reactor::{Arrival, Endpoint, What};
pub use redialer::LinkSettings;
pub use requester::{Outcome, Requester};
pub use socket_path::PATH_BYTES_MAX as SOCKET_PATH_BYTES_MAX;
pub(crate) use stream::Stream;
pub use stream::probe_unix;
