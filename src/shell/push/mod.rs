//! Pushes states of tasks to the addresses that submitters named.
//!
//! [`Pusher`] delivers, inside the loop of its caller. What is sent when, who gets a socket and what is dropped is decided by
//! [`engine::push`](crate::engine::push); here are the sockets ([`wire`]), the wait for them ([`poller`]), the thread that looks
//! host names up ([`resolve`]), and the log. No socket ever blocks.
//!
//! An address with a key is another receiver than the same one without: it is connected to with CURVE, and nothing that is for it
//! ever goes any other way. A peer that cannot prove it owns the key is treated as unreachable.
//!
//! Frames for an address arrive in the order of the pushes while its connection lasts. When the connection breaks, those that
//! the transport and the kernel have taken are lost ([`wire`] says how many); all other losses are counted in [`PushCounts`].

mod poller;
mod pusher;
mod resolve;
mod wire;

pub use crate::engine::push::{PushConfig, PushCounts, Received};
pub use pusher::Pusher;
