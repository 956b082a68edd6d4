//! Reasons for refusing a configuration, as sentences that name the place, the key, the value and the allowed values.

use std::path::PathBuf;
use std::{fmt, io};

use base::leaf;

/// Longer values are shortened in messages: the reader needs to find the line, not to see a pasted file.
const SHOWN_CHARS_MAX: usize = 80;

/// The place where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The file that is built into the program.
    BuiltIn,
    /// A file of the user; lines count from 1.
    File {
        /// The path as it was given.
        path: PathBuf,
        /// The line of the key.
        line: usize,
    },
    /// The environment variable of this name.
    Environment(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("the built-in configuration"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {}", shown(name)),
        }
    }
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, is too long for a configuration, or is not UTF-8.
    #[error("cannot read the configuration {path}: {source}", path = path.display())]
    Read {
        /// The path as it was given.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{origin}: {message}")]
    Syntax {
        /// The place where reading stopped.
        origin: Origin,
        /// The message of the parser.
        message: String,
    },
    /// No key has this name.
    #[error("{origin}: {key} is not a known key{hint}", key = shown(key), hint = hint(key, nearest.as_deref()))]
    UnknownKey {
        /// The place of the key.
        origin: Origin,
        /// The key, with its table.
        key: String,
        /// The known key that was probably meant.
        nearest: Option<String>,
    },
    /// The value has the wrong type or lies outside its range.
    #[error("{origin}: {key} is {value}; allowed is {allowed}")]
    BadValue {
        /// The place of the value.
        origin: Origin,
        /// The key, with its table.
        key: String,
        /// The value, escaped and shortened.
        value: String,
        /// The allowed values, with range and unit.
        allowed: String,
    },
    /// The built-in file has no value for a key that a section reads. A test checks this.
    #[error("the built-in configuration lacks {0}, or two sections read it")]
    NoDefault(String),
    /// The built-in file has a key that no section reads. A test checks this.
    #[error("the built-in configuration has {0}, which no section reads")]
    UnreadDefault(String),
    /// The given endpoint is not a controller address that an agent can connect to.
    #[error("{endpoint} is not an address of a controller; write tcp://IP:PORT, tcp://NAME:PORT, several of them as tcp://IP:PORT,NAME:PORT with one port, or ipc://PATH", endpoint = shown(.0))]
    BadEndpoint(String),
    /// Each value is allowed by itself, but not in this combination.
    #[error("{0}")]
    Contradiction(String),
}

/// User text for a message: control characters escaped, long texts shortened.
pub(super) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_debug())
}

/// Names the nearest key, and explains a trap of TOML: a key written below a table header belongs to that table.
fn hint(key: &str, nearest: Option<&str>) -> String {
    let Some(nearest) = nearest else { return String::new() };
    let misplaced = key != nearest && leaf(key) == leaf(nearest);
    let place = match nearest.split_once('.') {
        _ if !misplaced => String::new(),
        Some((table, _)) => format!(" (it belongs below the line [{table}])"),
        None => " (it belongs above the first line in [brackets])".to_owned(),
    };
    format!("; the nearest is {nearest}{place}")
}
