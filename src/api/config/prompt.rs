//! The section of the prompt master, its workers and its status clients. `defaults.toml` explains every key.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::error::ConfigError;
use super::reader::{DAY, GIB, HOUR, MIB, Reader};
use base::is_loopback;

/// Shortest secret that cannot be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// A text that must not be shown, such as a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(super) const fn new(text: String) -> Self {
        Self(text)
    }

    /// A warning about a secret that is easy to guess: on the same machine, an attempt takes less than a millisecond.
    #[must_use]
    pub fn warning(&self, section: &str) -> Option<String> {
        let bytes = self.0.len();
        (bytes < SECRET_BYTES_MIN).then(|| {
            format!(
                "SECRET of [{section}] has {bytes} bytes, which can be guessed; use {SECRET_BYTES_MIN} or more, as from \
                 `openssl rand -hex 16`"
            )
        })
    }

    /// The secret itself, for sending.
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

/// Whether a text is the secret. The comparison takes the same time for all texts of one length, even if one is almost right.
#[must_use]
pub fn is_secret(secret: &str, shown: &str) -> bool {
    let differ = secret.bytes().zip(shown.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    secret.len() == shown.len() && differ == 0
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
    /// Secret that a worker must send.
    pub secret: Option<Secret>,
    /// Pause before a wrong secret is answered.
    pub refusal_pause: Duration,
    /// The folder with `.tasks`.
    pub root_dir: PathBuf,
    /// Interval between two TIMERs.
    pub timer_interval: Duration,
    /// Time limit for an acknowledgement.
    pub request_timeout: Duration,
    /// Time limit for JOIN.
    pub join_timeout: Duration,
    /// Time limit for closing one connection.
    pub disconnect_timeout: Duration,
    /// Time limit for closing all connections when the master ends.
    pub shutdown_timeout: Duration,
    /// Whether it keeps running when there is no prompt file left.
    pub keep_alive: bool,
    /// How long gates are closed if the worker names no time.
    pub retry_after: Duration,
    /// Bytes of a prompt file.
    pub prompt_bytes_max: usize,
    /// Bytes of prompts that are sent but not acknowledged.
    pub sending_bytes_max: usize,
    /// Maximum number of workers.
    pub workers_max: usize,
    /// Number of workers that a prompt may lose; 0 for any number.
    pub losses_max: u32,
    /// How long a prompt is kept for a worker without a connection.
    pub lease: Duration,
    /// Bytes of each output that a worker may send; 0 takes no results.
    pub result_bytes_max: u64,
    /// Time limit for a command of `--on-end` or `--on-fail`.
    pub notice_timeout: Duration,
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
            losses_max: reader.count("prompt.LOSSES_MAX")?,
            lease: reader.millis("prompt.LEASE", 0..=DAY)?,
            result_bytes_max: reader.number("prompt.RESULT_BYTES_MAX", 0..=16 * GIB, "bytes")?,
            notice_timeout: reader.millis("prompt.NOTICE_TIMEOUT", 1..=DAY)?,
        })
    }

    /// Whether other machines can reach it.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !is_loopback(self.bind)
    }

    /// The address that the master listens on. With port 0, the real port is another one.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind, self.port)
    }
}

#[expect(clippy::option_option, reason = "the outer one says whether the text is allowed")]
pub(super) fn secret(text: &str) -> Option<Option<Secret>> {
    (text.len() <= 1024).then(|| (!text.is_empty()).then(|| Secret(text.to_owned())))
}
