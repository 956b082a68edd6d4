//! The section of the HTTP door. `defaults.toml` explains every key.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::error::ConfigError;
use super::reader::Reader;
use base::is_loopback;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const HOUR: u64 = 3_600_000;

/// The HTTP door of the controller: `[http]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSection {
    /// Whether the controller opens it.
    pub enabled: bool,
    /// Address that it listens on; port 0 takes a free one.
    pub address: SocketAddr,
    /// File with the token; `None` for the one in STATE_DIR.
    pub token_file: Option<PathBuf>,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Time limit for the head of a request.
    pub head_timeout: Duration,
    /// Time limit for output that a peer does not read.
    pub send_timeout: Duration,
    /// Bytes of changes that are kept for later readers.
    pub events_bytes_max: usize,
}

impl HttpSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            enabled: reader.boolean("http.ENABLED")?,
            address: SocketAddr::new(reader.address("http.BIND")?, reader.port("http.PORT")?),
            token_file: reader.path_or_none("http.TOKEN_FILE")?,
            connections_max: reader.size("http.CONNECTIONS_MAX", 1..=100_000, "connections")?,
            head_timeout: reader.millis("http.HEAD_TIMEOUT", 1..=HOUR)?,
            send_timeout: reader.millis("http.SEND_TIMEOUT", 1..=HOUR)?,
            events_bytes_max: reader.size("http.EVENTS_BYTES_MAX", MIB..=16 * GIB, "bytes")?,
        })
    }

    /// Whether other machines can reach it.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !is_loopback(self.address.ip())
    }
}
