//! Addresses to listen on or connect to: `tcp://127.0.0.1:15555`, `tcp://[::1]:15555`, `ipc:///run/llts.sock`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use base::{broadcast_socket, path_of_text, path_text};

/// An address that this transport can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port; 0 takes a free one.
    Tcp(SocketAddr),
    /// A unix socket.
    Ipc(PathBuf),
}

/// An address that this transport cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither tcp://ADDRESS:PORT with a numeric address nor ipc:///PATH of at most {PATH_BYTES_MAX} bytes")]
pub struct BadAddress(String);

/// Longest path of a file, without the final zero byte. The limit for sockets is lower, but [`super::socket_path`]
/// works around it.
const PATH_BYTES_MAX: usize = 4095;

/// The address with an absolute socket path, because its reader may be in another folder than this process.
#[must_use]
pub fn absolute(endpoint: &str) -> String {
    match Address::parse(endpoint) {
        Ok(Address::Ipc(path)) => Address::Ipc(std::path::absolute(&path).unwrap_or(path)).to_string(),
        Ok(Address::Tcp(_)) | Err(_) => endpoint.to_owned(),
    }
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// When it belongs to another transport or is malformed.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let tcp = text.strip_prefix("tcp://").and_then(|rest| rest.parse().ok()).map(Self::Tcp);
        let ipc = || {
            let path = text.strip_prefix("ipc://")?;
            // In libzmq, "@" means a name outside the file system, where no permissions protect it.
            let is_path = !path.is_empty() && !path.starts_with('@') && !path.contains('\0');
            let path = is_path.then(|| path_of_text(path))?;
            (path.as_os_str().len() <= PATH_BYTES_MAX).then_some(Self::Ipc(path))
        };
        tcp.or_else(ipc).ok_or_else(|| BadAddress(text.to_owned()))
    }

    /// The broadcast address that belongs to this request address, if it is a unix socket. A TCP address stays the same.
    #[must_use]
    pub fn of_broadcasts(&self) -> Self {
        match self {
            Self::Tcp(_) => self.clone(),
            Self::Ipc(path) => Self::Ipc(broadcast_socket(path)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Ipc(path) => write!(f, "ipc://{}", path_text(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_read_as_they_are_written() {
        for text in
            ["tcp://127.0.0.1:0", "tcp://[::1]:15555", "ipc:///run/llts.sock", "ipc://relative.sock", "ipc://%2Fa%0A"]
        {
            assert_eq!(Address::parse(text).map(|address| address.to_string()), Ok(text.to_owned()));
        }
        let shown = absolute("ipc://relative.sock");
        assert!(shown.starts_with("ipc:///") && shown.ends_with("/relative.sock"), "{shown}");
        for whole in ["ipc:///run/llts.sock", "ipc://%2Fa%0A", "tcp://a:1"] {
            assert_eq!(absolute(whole), whole);
        }
        let long = format!("ipc://{}", "x".repeat(4096));
        for text in
            ["", "tcp://localhost:1", "tcp://*:1", "tcp://127.0.0.1", "ws://127.0.0.1:1", "ipc://", "ipc://@x", &long]
        {
            assert_eq!(Address::parse(text), Err(BadAddress(text.to_owned())));
        }
    }
}
