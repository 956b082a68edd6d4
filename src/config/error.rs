//! Why a configuration is refused, in sentences that name the place, the key, the value and what is allowed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::nearest::leaf;

/// Longer values are cut in messages: whoever reads one wants to find the line, not to see a pasted file.
const SHOWN_CHARS_MAX: usize = 80;

/// Where a value was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the file that is built into the program.
    BuiltIn,
    /// In a file of the user; lines count from 1.
    File {
        /// The file as it was named.
        path: PathBuf,
        /// The line on which the key stands.
        line: usize,
    },
    /// In the environment variable of this name.
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
    /// The file cannot be read, is longer than a configuration can be, or is not UTF-8.
    #[error("cannot read the configuration {path}: {source}", path = path.display())]
    Read {
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{origin}: {message}")]
    Syntax {
        /// The place where reading stopped.
        origin: Origin,
        /// What the parser expected.
        message: String,
    },
    /// Nothing is called so.
    #[error("{origin}: {key} is no known key; the nearest is {nearest}{hint}", key = shown(key), hint = hint(key, nearest))]
    UnknownKey {
        /// The place of the key.
        origin: Origin,
        /// The key, with its table.
        key: String,
        /// The known key that resembles it most.
        nearest: String,
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
        /// What may stand there, with its range and unit.
        allowed: String,
    },
    /// The built-in file has no value for a key that a section reads. The build looks for it.
    #[error("the built-in configuration lacks {0}, or two sections read it")]
    NoDefault(String),
    /// The built-in file has a key that no section reads. The build looks for it.
    #[error("the built-in configuration has {0}, which nothing reads")]
    UnreadDefault(String),
    /// What was named as a controller is none that an agent can connect to.
    #[error("{endpoint} is no address of a controller; write tcp://IP:PORT with a numeric address, or ipc://PATH", endpoint = shown(.0))]
    BadEndpoint(String),
    /// Each value is allowed, but not all of them together.
    #[error("{0}")]
    Contradiction(String),
}

/// Text of a user for a message: control characters escaped, long texts cut.
pub(super) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_debug())
}

/// The trap of TOML: a key written below a table header belongs to that table.
fn hint(key: &str, nearest: &str) -> String {
    let misplaced = key != nearest && leaf(key) == leaf(nearest);
    match nearest.split_once('.') {
        _ if !misplaced => String::new(),
        Some((table, _)) => format!(" (it belongs below the line [{table}])"),
        None => " (it belongs above the first line in [brackets])".to_owned(),
    }
}
