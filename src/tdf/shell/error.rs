//! The errors of calls to Redis.

use std::path::PathBuf;

use super::session::Holder;
use base::tdf::WorkerName;

/// Why a call to Redis has failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RedisError {
    /// Redis cannot be reached, or the connection broke: a script may have run. Trying again is safe.
    #[error("Redis at {address} is away: {message}")]
    Away {
        /// Host and port.
        address: String,
        /// The error of the connection.
        message: String,
        /// Whether there was a connection: one that was never made may have the wrong address.
        was_reached: bool,
    },
    /// Redis refuses the login.
    #[error("Redis at {address} refuses us: {message}; check username, password and db of [redis]")]
    Denied {
        /// Host and port.
        address: String,
        /// What Redis said.
        message: String,
    },
    /// The certificate of Redis is not trusted.
    #[error("Redis at {address} is not trusted: {message}; name the certificate of its authority as tls_ca in [redis]")]
    Untrusted {
        /// Host and port.
        address: String,
        /// The fault of the certificate.
        message: String,
    },
    /// Another process has the name of a worker. Nothing has changed.
    #[error("a worker {worker} already runs for this namespace as {holder}; use another name, or stop that one first")]
    NameTaken {
        /// The name.
        worker: WorkerName,
        /// The process that has it.
        holder: Box<Holder>,
    },
    /// Redis answers with an error. Nothing has changed.
    #[error("Redis at {address} cannot do {script}: {message}")]
    Failed {
        /// Host and port.
        address: String,
        /// The script.
        script: &'static str,
        /// What Redis said.
        message: String,
    },
    /// The answer does not have the form of the script.
    #[error("Redis at {address} answers to {script} what that never does; is there a Redis?")]
    Reply {
        /// Host and port.
        address: String,
        /// The script.
        script: &'static str,
    },
    /// The certificates to trust cannot be read.
    #[error("cannot read the certificates in {path}: {message}", path = path.display())]
    Certificates {
        /// The file as the configuration names it.
        path: PathBuf,
        /// The fault, as a sentence part.
        message: String,
    },
}

impl RedisError {
    /// Whether an attempt to connect is worth another one at once: there is a Redis, but no answer yet.
    pub(super) fn is_passing_at_start(&self) -> bool {
        match self {
            Self::Away { was_reached, .. } => *was_reached,
            _ => self.is_away(),
        }
    }

    /// Whether a later attempt may succeed: the connection is lost, or Redis is still loading or has no memory left. Other errors
    /// need a person.
    #[must_use]
    pub fn is_away(&self) -> bool {
        match self {
            Self::Away { .. } => true,
            Self::Failed { message, .. } => {
                ["LOADING", "BUSY", "MASTERDOWN", "READONLY", "TRYAGAIN", "OOM", "MISCONF", "NOREPLICAS"]
                    .iter()
                    .any(|code| message.starts_with(code))
            }
            Self::NameTaken { .. }
            | Self::Denied { .. }
            | Self::Untrusted { .. }
            | Self::Reply { .. }
            | Self::Certificates { .. } => false,
        }
    }
}
