//! A prompt on its way to a worker, and the id of the request.

use std::fmt;
use std::time::Duration;

/// The id of a request, which its acknowledgement repeats. The master makes it; to a worker it is any text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// An id of 128 random bits, which is unique and cannot be guessed.
    #[must_use]
    pub fn from_random(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }

    pub(super) const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// A prompt on its way to a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The id that the acknowledgement repeats.
    pub id: RequestId,
    /// The prompt.
    pub prompt: String,
    /// The name of its file; a master of the document does not send it.
    pub file: Option<String>,
    /// The time limit that the master sets.
    pub timeout: Option<Duration>,
}
