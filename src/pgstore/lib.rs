//! The store in PostgreSQL: the rows of the queue, and the one row of the controller that leads.
//!
//! A [`Session`] is one connection, used by one thread at a time. The rows are those of the store in SQLite, with the same checksums,
//! so that a copy is a copy of rows.
//!
//! # The leader
//!
//! The table `leader` has one row: the epoch, the owner, the number of commits, and until when the lease lasts by the clock of the
//! server. No clock of another machine counts.
//!
//! | event | the row |
//! |---|---|
//! | a controller begins to lead ([`Session::lead`]) | the next epoch, if the lease has ended, or is of the same owner |
//! | a commit or a renewal ([`Session::commit`]) | one commit more and a new end of the lease, if epoch and number of commits are as this session knows them |
//! | the leader ends ([`Session::resign`]) | the lease has ended |
//!
//! A commit carries both numbers, so one of a controller that was deposed fails as a whole, and one that a broken connection left on its
//! way cannot come late. After a commit without an answer ([`CommitError::Unknown`]) the row says whether it was made.
//!
//! A server that was promoted without the last commits has a smaller number than a controller has seen; [`Seen`] is what it remembers.

mod batch;
mod connect;
mod error;
mod files;
mod lead;
mod read;
mod schema;
mod tls;

use std::time::Duration;

pub use batch::Batch;
pub use connect::Session;
pub use error::{CommitError, Error};
pub use files::PART_BYTES;
pub use lead::{Claim, Leader, Seen};
pub use read::{Checked, Entry, Rest, Setting};

/// The longest time without an answer: then the connection is given up.
const ANSWER_MAX: Duration = Duration::from_secs(10);
