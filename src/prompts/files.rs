//! The folder of a master for other programs, which read it and write to it.

pub mod create;
pub mod crew;
pub mod kept;
pub mod outcomes;
pub mod results;
pub mod status;
pub mod tail;
pub mod talk;
