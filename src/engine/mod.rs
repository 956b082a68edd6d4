//! Pure state machines: values in, values out. No clock, no socket, no file, no random source.
//!
//! The contract of an engine (design, section 4):
//!
//! - `handle_*` takes an event and the time; what must be answered is answered by the return value.
//! - `poll_effect` gives what the shell must do next, in order. Every effect that can fail comes back as an event.
//! - `poll_timeout` gives the next deadline and why; `handle_timeout` is called when it has come.
//! - A stream is served by `poll_transmit` and `handle_transmitted`: the shell takes bytes or frames as far as the stream does.
//! - A line for the log is an effect, and a measurement is a return value.
//! - `sanity_check` checks every invariant; tests call it after each step.

pub mod controller;
pub mod endpoint;
pub mod gate;
pub mod master;
pub mod push;
pub mod run;
pub mod slot;
pub mod supervisor;
pub mod tdf;
pub mod timers;
pub mod worker;
pub mod zmtp;
