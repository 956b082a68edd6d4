//! The section of the HTTP door. `defaults.toml` explains every key.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::error::ConfigError;
use super::layers::Value;
use super::reader::{GIB, HOUR, MIB, Reader, bad};
use base::is_loopback;

/// When the controller opens the HTTP door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpOpening {
    /// As a part of a service whose ports are open to this machine only.
    Auto,
    /// In any case.
    Always,
    /// In no case.
    Never,
}

/// The HTTP door of the controller: `[http]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSection {
    /// When the controller opens it: `ENABLED`.
    pub opening: HttpOpening,
    /// Address that it listens on; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether the port is the default, because no other port is configured.
    pub port_is_usual: bool,
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
        let port_is_usual = !reader.is_set("http.PORT");
        Ok(Self {
            opening: HttpOpening::read(reader)?,
            port_is_usual,
            address: SocketAddr::new(reader.address("http.BIND")?, reader.port("http.PORT")?),
            token_file: reader.path_or_none("http.TOKEN_FILE")?,
            connections_max: reader.size("http.CONNECTIONS_MAX", 1..=100_000, "connections")?,
            head_timeout: reader.millis("http.HEAD_TIMEOUT", 1..=HOUR)?,
            send_timeout: reader.millis("http.SEND_TIMEOUT", 1..=HOUR)?,
            events_bytes_max: reader.size("http.EVENTS_BYTES_MAX", MIB..=16 * GIB, "bytes")?,
        })
    }

    /// Whether it takes another port if the usual one is in use. A configuration that asks for the door, or for a port, insists
    /// on its port.
    #[must_use]
    pub fn may_move(&self) -> bool {
        self.opening == HttpOpening::Auto && self.port_is_usual
    }

    /// Whether other machines can reach it.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !is_loopback(self.address.ip())
    }
}

impl HttpOpening {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let key = "http.ENABLED";
        let setting = reader.take(key)?;
        match &setting.value {
            Value::Bool(true) => Ok(Self::Always),
            Value::Bool(false) => Ok(Self::Never),
            // Variables of the environment are always texts.
            Value::Text(text) if text == "true" => Ok(Self::Always),
            Value::Text(text) if text == "false" => Ok(Self::Never),
            Value::Text(text) if text == "auto" => Ok(Self::Auto),
            _ => Err(bad(key, &setting, "true, false or \"auto\"")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_door_opens_as_the_configuration_says() {
        let read = |text: &str| {
            let file = format!("[http]\n{text}");
            Config::from_parts(Some((std::path::Path::new("my.toml"), &file)), [])
                .map(|config| (config.http.opening, config.http.may_move()))
                .map_err(|error| error.to_string())
        };
        for (text, expected) in [
            ("", (HttpOpening::Auto, true)),
            ("ENABLED = \"auto\"", (HttpOpening::Auto, true)),
            ("PORT = 15557", (HttpOpening::Auto, false)),
            ("ENABLED = true", (HttpOpening::Always, false)),
            ("ENABLED = false", (HttpOpening::Never, false)),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for text in ["ENABLED = \"yes\"", "ENABLED = 1", "ENABLED = \"\""] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains("true, false or \"auto\""), "{refused}");
        }
        for (value, expected) in
            [("false", HttpOpening::Never), ("true", HttpOpening::Always), ("auto", HttpOpening::Auto)]
        {
            let variable = ("LLTS_HTTP_ENABLED".to_owned(), value.to_owned());
            assert_eq!(Config::from_parts(None, [variable]).unwrap().http.opening, expected);
        }
    }
}
