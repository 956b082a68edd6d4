//! Pushes states of tasks to the addresses that submitters named.
//!
//! [`PushAddress`](crate::types::PushAddress) is what a submitter may name, under a policy; [`Pusher`] delivers to it from a thread of
//! its own, so that an address that is dead, slow or hostile costs the controller nothing, and the other
//! addresses next to nothing. What a frame says is not looked at here.
//!
//! One DEALER socket for each address stays open while it is used. Frames for an address arrive in the order of the pushes
//! while its connection lasts. A frame may be lost: when the connection breaks, those that the transport and the kernel have taken
//! are gone ([`wire`] says how many); all other losses are counted in [`PushCounts`].
//!
//! ```text
//! Pusher --batches--> worker: one wait (poller), then table --> peer: queue + link --> wire: one socket
//!                                               |  \--> room: who gets a socket
//!                                               \-----> resolve: names, on a thread
//! ```

mod complaints;
mod counts;
mod deadlines;
mod inbox;
mod pace;
mod peer;
mod poller;
mod pusher;
mod queue;
mod resolve;
mod room;
mod table;
mod wire;
mod worker;

pub use counts::PushCounts;
pub use inbox::{AckSink, Acknowledgements, Received};
pub use pusher::{PushConfig, Pusher};

/// Wakes whoever waits for the descriptor. It fails when the counter is full; then it is readable anyway.
fn ring(wake: &nix::sys::eventfd::EventFd) {
    let _ = wake.write(1);
}
