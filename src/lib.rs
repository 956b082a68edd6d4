//! llts

pub mod client;
pub mod config;
pub mod engine;
pub mod protocol;
pub mod shell;
pub mod types;
