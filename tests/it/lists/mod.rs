//! Task lists on disk with the real binary: every arrow of docs/sources/task-lists.md, hazards, commands, and processes killed at random.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod arrows;
mod cli;
mod crash;
mod foreign;
mod hazards;
mod hosted;
mod sandbox;
