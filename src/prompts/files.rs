//! What stands in the folder of a master, and how others than the master read it and write to it.

pub mod create;
pub mod crew;
pub mod kept;
pub mod outcomes;
pub mod results;
pub mod status;
pub mod tail;
pub mod talk;
