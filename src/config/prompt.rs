//! The section of the prompt master and of those who talk to it. `defaults.toml` explains every key.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::error::ConfigError;
use super::network::is_loopback;
use super::reader::Reader;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(super) const fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself, to send it or to compare it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The prompt master: `[prompt]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSection {
    /// Whether the controller hosts it.
    pub hosted: bool,
    /// The TCP port; 0 takes a free one.
    pub port: u16,
    /// The address that it listens on.
    pub bind: IpAddr,
    /// What a worker must show.
    pub secret: Option<Secret>,
    /// How long an address waits after a wrong one.
    pub refusal_pause: Duration,
    /// The folder with `.tasks`.
    pub root_dir: PathBuf,
    /// Between two TIMERs.
    pub timer_interval: Duration,
    /// For an acknowledgement.
    pub request_timeout: Duration,
    /// For JOIN.
    pub join_timeout: Duration,
    /// For one connection to close.
    pub disconnect_timeout: Duration,
    /// For all of them at the end.
    pub shutdown_timeout: Duration,
    /// Whether it stays when no file is left.
    pub keep_alive: bool,
    /// For which gates are closed when nobody says how long.
    pub retry_after: Duration,
    /// Bytes of a prompt file.
    pub prompt_bytes_max: usize,
    /// Bytes of prompts that are on their way.
    pub sending_bytes_max: usize,
    /// Workers at once.
    pub workers_max: usize,
}

impl PromptSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            hosted: reader.boolean("prompt.HOSTED")?,
            port: reader.port("prompt.PORT")?,
            bind: reader.address("prompt.BIND")?,
            secret: reader.parsed("prompt.SECRET", "\"\" or a text of up to 1024 bytes", secret)?,
            refusal_pause: reader.millis("prompt.REFUSAL_PAUSE", 0..=HOUR)?,
            root_dir: reader.path("prompt.ROOT_DIR")?,
            timer_interval: reader.millis("prompt.TIMER_INTERVAL", 10..=DAY)?,
            request_timeout: reader.millis("prompt.REQUEST_TIMEOUT", 1..=HOUR)?,
            join_timeout: reader.millis("prompt.JOIN_TIMEOUT", 1..=HOUR)?,
            disconnect_timeout: reader.millis("prompt.DISCONNECT_TIMEOUT", 1..=HOUR)?,
            shutdown_timeout: reader.millis("prompt.SHUTDOWN_TIMEOUT", 1..=HOUR)?,
            keep_alive: reader.boolean("prompt.KEEP_ALIVE")?,
            retry_after: reader.millis("prompt.RETRY_AFTER", 1..=DAY)?,
            prompt_bytes_max: reader.size("prompt.PROMPT_BYTES_MAX", 1..=16 * MIB, "bytes")?,
            sending_bytes_max: reader.size("prompt.SENDING_BYTES_MAX", 1..=16 * GIB, "bytes")?,
            workers_max: reader.size("prompt.WORKERS_MAX", 1..=100_000, "workers")?,
        })
    }

    /// Whether other machines may reach it.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !is_loopback(self.bind)
    }

    /// Where the master listens, if its port is not a free one.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind, self.port)
    }
}

#[expect(clippy::option_option, reason = "the outer one says whether the text is allowed")]
fn secret(text: &str) -> Option<Option<Secret>> {
    (text.len() <= 1024).then(|| (!text.is_empty()).then(|| Secret(text.to_owned())))
}
