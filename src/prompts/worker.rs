//! The worker: runs a command for each prompt that it gets.

pub mod engine;
pub mod process;
