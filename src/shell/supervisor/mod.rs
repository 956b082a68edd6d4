//! The service of one machine: a controller and its agents, each a process, started again when it dies.

pub mod plan;
