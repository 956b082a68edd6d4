//! The prompt master as the real binary, over real TCP, with workers that write their bytes by hand.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
mod crowd;
mod ends;
mod files;
mod kills;
mod peer;
mod rules;
mod sandbox;
