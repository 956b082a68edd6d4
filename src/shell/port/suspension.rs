//! The ports of a controller as data, for another version of the program in the same process.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::engine::zmtp::{Subscriptions, Suspended};

/// The ports as data. It contains secrets of connections.
#[derive(Default, Deserialize, Serialize)]
pub struct SuspendedPorts {
    pub(in crate::shell) listeners: Vec<SuspendedListener>,
    pub(in crate::shell) peers: Vec<SuspendedPeer>,
    /// The listener of the HTTP door.
    #[serde(default)]
    pub(in crate::shell) http: Option<i32>,
}

#[derive(Deserialize, Serialize)]
pub(in crate::shell) struct SuspendedListener {
    /// The type of its sockets.
    pub(in crate::shell) kind: String,
    pub(in crate::shell) address: String,
    pub(in crate::shell) fd: i32,
}

#[derive(Deserialize, Serialize)]
pub(in crate::shell) struct SuspendedPeer {
    /// The number of its listener.
    pub(in crate::shell) listener: usize,
    pub(in crate::shell) fd: i32,
    pub(in crate::shell) address: Option<IpAddr>,
    pub(in crate::shell) connection: Suspended,
    /// Its subscriptions, if its listener is that of broadcasts.
    pub(in crate::shell) subscriptions: Subscriptions,
    /// Bytes that were read from the stream, and not given to the connection.
    pub(in crate::shell) unread: Vec<u8>,
}

impl fmt::Debug for SuspendedPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} listeners and {} connections", self.listeners.len(), self.peers.len())
    }
}

/// [`SuspendedPorts`], and the descriptors in it, which must be open when the next program starts.
#[derive(Default)]
pub struct Suspension {
    /// The data.
    pub ports: SuspendedPorts,
    pub(in crate::shell) kept: Vec<OwnedFd>,
}
