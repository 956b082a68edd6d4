//! All that touches the world: sockets, processes, files, clocks. Loops without decisions.

pub mod agent;
pub mod bench;
pub mod clock;
pub mod controller;
pub mod curve_keys;
pub mod endpoint;
pub mod guard;
pub mod hosted;
pub mod limits;
pub mod lock;
pub mod logging;
pub mod process;
pub mod prompt;
pub mod prompt_create;
pub mod prompt_status;
pub mod prompt_worker;
pub mod push;
pub mod removal;
pub mod signals;
pub mod store;
pub mod supervisor;
pub mod tools;
pub mod transport;
pub mod workspace;
pub mod zmq;
