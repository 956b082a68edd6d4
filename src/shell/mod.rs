//! All that touches the world: sockets, processes, files, clocks. Loops without decisions.

pub mod agent;
pub mod clock;
pub mod controller;
pub mod curve_keys;
pub mod endpoint;
pub mod guard;
pub mod hosted;
pub mod limits;
pub mod lock;
pub mod logging;
pub mod privacy;
pub mod process;
pub mod prompt;
pub mod prompt_create;
pub mod prompt_status;
pub mod prompt_worker;
pub mod push;
pub mod removal;
mod rename;
pub mod signals;
pub mod store;
pub mod supervisor;
pub mod tools;
pub mod transport;
pub mod trust;
pub mod workspace;
pub mod zmq;
