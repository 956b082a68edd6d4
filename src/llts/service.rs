//! A service of one machine: its supervisor, its guests for a while, and how other machines join it.

pub mod ephemeral;
pub mod join;
pub mod plan;
pub mod supervisor;
