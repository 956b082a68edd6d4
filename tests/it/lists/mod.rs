//! Task lists on disk with the real binary: every arrow of the document, hazards, commands, and processes killed at random.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support::folder;
use crate::support::waiting;

mod arrows;
mod cli;
mod crash;
mod foreign;
mod hazards;
mod hosted;
mod sandbox;
