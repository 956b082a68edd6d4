//! Pushes task states to the addresses that submitters gave.
//!
//! [`Pusher`] delivers them inside the loop of its caller. [`push`](crate::push) decides what is sent when, which
//! address gets a socket, and what is dropped. This module has the sockets ([`wire`]), the wait for them ([`poller`]),
//! the thread that looks up host names ([`resolve`]), and the log. No socket ever blocks.
//!
//! An address with a key is a different receiver from the same address without one. Its connection uses CURVE, and its
//! frames are sent in no other way. A peer that cannot prove that it owns the key is treated as unreachable.
//!
//! While its connection lasts, frames for an address arrive in the order of the pushes. When the connection breaks, the
//! frames that the transport and the kernel have accepted are lost ([`wire`] states the bounds). All other losses are
//! counted in [`PushCounts`].

mod poller;
mod pusher;
mod resolve;
mod wire;

pub use crate::push::{PushConfig, PushCounts, Received};
pub use pusher::Pusher;
