//! All that touches the world: sockets, processes, files, clocks. Loops without decisions.

pub mod clock;
pub mod supervisor;
