//! The master: hands prompts out, and keeps what became of them.

pub mod engine;
pub mod process;
