//! llts

pub mod config;
pub mod shell;
pub mod types;
