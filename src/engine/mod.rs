//! Pure state machines: values in, values out. They use no clock, socket, file or random source.
//!
//! The contract of an engine (design, section 4):
//!
//! - `handle_*` takes an event and the time; the answer, if any, is the return value.
//! - `poll_effect` returns the next effect for the shell; the order matters. Every effect that can fail comes back as an
//!   event.
//! - `poll_timeout` returns the next deadline and its reason; the shell then calls `handle_timeout`.
//! - `poll_transmit` and `handle_transmitted` serve a stream: the shell takes as many bytes or frames as the stream
//!   accepts.
//! - Log lines are data ([`journal`]): `take_log` returns those since the last call. Measurements are return values.
//! - `sanity_check` checks every invariant; tests call it after each step.

pub mod controller;
pub mod endpoint;
pub mod gate;
pub mod graph;
pub mod history;
pub mod hosted;
pub mod journal;
pub mod lists;
pub mod map;
pub mod master;
pub mod push;
pub mod run;
pub mod slot;
pub mod supervisor;
pub mod tdf;
pub mod timers;
pub mod worker;
pub mod zmtp;
