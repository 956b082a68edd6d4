//! The record of a fetched program: its source, with the validators and the checksum that show a change.

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use base::ToolDigest;
use proc::files::draft::{SHARED, replace};

/// The validators of an answer of a server, by which the server recognises its own bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Validators {
    /// The header ETag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) etag: Option<String>,
    /// The header Last-Modified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_modified: Option<String>,
}

impl Validators {
    pub(super) const fn are_any(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }
}

/// The SHA-256 of the received bytes, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Digest(String);

impl Digest {
    pub(super) fn of(bytes: ToolDigest) -> Self {
        Self(bytes.to_string())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The record of one program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The source, as the task names it.
    pub(super) source: String,
    /// The validators of the received bytes.
    pub(super) validators: Validators,
    /// The checksum of these bytes.
    pub(super) digest: Digest,
}

impl Record {
    /// `None` for a program that was not fetched.
    pub(super) fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Writes the record, which is complete at every instant.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        replace(path, SHARED, |file| Ok(serde_json::to_writer(file, self)?))
    }
}
