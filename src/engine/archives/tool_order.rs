//! Orders of the controller about archives of tools, which a thread of the shell carries out, and their outcomes.
//!
//! The thread owns the files of the store. It answers each order except [`ToolOrder::Discard`] and [`ToolOrder::Abandon`] with one
//! [`ToolOutcome`]. Outcomes come in the order of the orders, except that others overtake the read of a large version that must be
//! checked first.

use std::sync::Arc;
use std::time::Duration;

use crate::turn::ticket::{ConnectionId, Ticket};
use api::wire::Refusal;
use api::wire::page::Page;
use api::wire::requests::file::FilePut;
use api::wire::requests::tool::{ToolFile, ToolLogRow, ToolPart, ToolPut};
use base::{HeldTool, ToolDigest, ToolName};

/// The limits of the archives of tools.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    /// How long an unneeded version is kept: `TOOL_STORE_KEEP`.
    pub keep: Duration,
    /// Maximum bytes of a pushed archive: `ARCHIVE_BYTES_MAX`.
    pub archive_bytes_max: u64,
    /// Bytes of an archive in one message to an agent: `TOOL_PART_BYTES`.
    pub part_bytes: u64,
    /// Maximum number of parts that are read at the same time: `TOOL_PARTS_MAX`.
    pub parts_max: usize,
    /// Bytes in the store beyond which no file is accepted: `FILE_STORE_BYTES_MAX`.
    pub store_bytes_max: u64,
}

/// The default values of the configuration.
impl Default for ToolSettings {
    fn default() -> Self {
        let keep = Duration::from_hours(24);
        Self { keep, archive_bytes_max: 256 << 20, part_bytes: 256 << 10, parts_max: 2, store_bytes_max: 64 << 30 }
    }
}

/// An order about archives.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOrder {
    /// Read the archive of this tool in the controller's own folder into the store.
    Take(ToolName),
    /// Write a part of a pushed archive.
    Write(Ticket, Box<ToolPut>),
    /// Write a part of a file.
    WriteFile(Ticket, Box<FilePut>, FileRoom),
    /// Remove the incomplete files of this connection, which is gone.
    Abandon(ConnectionId),
    /// Read a part of a version, at most of this number of bytes, from this offset.
    Read {
        /// The request of the agent.
        ticket: Ticket,
        /// The version.
        digest: ToolDigest,
        /// The first byte.
        offset: u64,
        /// The largest number of bytes.
        limit: u64,
        /// Whether an agent has received other bytes than these before: the whole version is checked first.
        is_doubted: bool,
    },
    /// Withdraw a pushed name, as ordered by this person.
    Remove(Ticket, ToolName, Arc<str>),
    /// List what has happened to a name.
    Log(Ticket, ToolName),
    /// List the files of a version.
    List(Ticket, ToolName, ToolDigest),
    /// Check that the store has these versions, for this page of the list of tools.
    Verify(Ticket, Page, Vec<ToolDigest>),
    /// Remove a version from the store.
    Discard(ToolDigest),
}

/// The room for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRoom {
    /// The sender of the file.
    pub uploader: Uploader,
    /// Bytes that the store has left for such senders. Incomplete files are not counted.
    pub bytes: u64,
}

/// The sender of a file that is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uploader {
    /// An agent, for its run. The files of clients make room for it.
    Run,
    /// A client that may send commands.
    Client,
    /// A client that may not, on this connection. Its incomplete files belong to the connection alone, so that no other sender
    /// relies on them, and are removed with it.
    Stranger(ConnectionId),
}

/// The outcome of an order.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// The archive in the folder; `None` if there is none that an agent could run.
    Taken(ToolName, Option<HeldTool>),
    /// A part was written.
    Written(Ticket, Result<Written, Refusal>),
    /// A part of a file was written.
    FileWritten(Ticket, Result<FileWritten, Refusal>),
    /// A part was read.
    Read(Ticket, Result<ToolPart, ReadFailure>),
    /// A pushed name was withdrawn, or the refusal to do so.
    Removed(Ticket, ToolName, Result<(), Refusal>),
    /// The changes of a name, oldest first.
    Logged(Ticket, Result<Vec<ToolLogRow>, Refusal>),
    /// The files of a version.
    Listed(Ticket, ToolName, ToolDigest, Result<Vec<ToolFile>, Refusal>),
    /// The versions that are missing or damaged.
    Verified(Ticket, Page, Vec<ToolDigest>),
}

/// The state of a pushed archive.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// It is incomplete: this many bytes of it are there.
    Part(u64),
    /// It is complete, and its name stands for it.
    Whole(Box<HeldTool>),
}

/// The state of a file that is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileWritten {
    /// The file.
    pub digest: ToolDigest,
    /// Number of bytes that are there.
    pub end: u64,
    /// Whether it is complete, with the right bytes.
    pub is_whole: bool,
}

/// Why a part cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadFailure {
    /// The version.
    pub digest: ToolDigest,
    /// Whether the version is lost: missing or damaged.
    pub is_lost: bool,
    /// The sentence for the agent.
    pub refusal: Refusal,
}
