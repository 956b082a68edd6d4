//! The ports of a controller as data, for another version of the program in the same process.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::engine::{Subscriptions, Suspended};

/// The ports as data, including secrets of connections.
#[derive(Default, Deserialize, Serialize)]
pub struct SuspendedPorts {
    /// The listeners.
    pub listeners: Vec<SuspendedListener>,
    pub(crate) peers: Vec<SuspendedPeer>,
    /// The listener of the HTTP door.
    #[serde(default)]
    pub http: Option<i32>,
}

#[derive(Deserialize, Serialize)]
pub struct SuspendedListener {
    /// The type of its sockets.
    pub(crate) kind: String,
    pub(crate) address: String,
    pub(crate) fd: i32,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct SuspendedPeer {
    /// The index of its listener.
    pub(crate) listener: usize,
    pub(crate) fd: i32,
    pub(crate) address: Option<IpAddr>,
    pub(crate) connection: Suspended,
    /// Its subscriptions, if its listener is that of broadcasts.
    pub(crate) subscriptions: Subscriptions,
    /// Bytes that were read from the stream but not passed to the connection.
    pub(crate) unread: Vec<u8>,
}

impl fmt::Debug for SuspendedPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} listeners and {} connections", self.listeners.len(), self.peers.len())
    }
}

/// [`SuspendedPorts`] and its descriptors, which must be open when the next program starts.
#[derive(Default)]
pub struct Suspension {
    /// The data.
    pub ports: SuspendedPorts,
    /// Descriptors that must stay open.
    pub kept: Vec<OwnedFd>,
}
