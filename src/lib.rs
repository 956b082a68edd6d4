//! llts

pub mod shell;
pub mod types;
