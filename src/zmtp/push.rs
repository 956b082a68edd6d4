//! Delivers frames to the addresses that submitters named. It decides which address gets a socket, when frames are
//! written, and when they are dropped.
//!
//! The content of a frame is not read here. The shell has the sockets, a thread that resolves host names, and the log.
//!
//! A [`Receiver`](receiver::Receiver) is an address with or without a key: the same host and port with another key is
//! another receiver. It has a queue of frames and at most one socket, which stays open while it is used. While its
//! connection lasts, frames for a receiver are written in the order of the pushes. Frames that a connection has taken
//! may be lost with it. All other losses are counted in [`PushCounts`].
//!
//! # The order of calls
//!
//! ```text
//! a turn of the loop:  handle_turn, handle_ready*, handle_resolved*, handle_timeout, handle_flush, poll_effect until None
//! pushes:              (handle_push, poll_effect until None)*, handle_flush, poll_effect until None
//! Effect::Serve:       exchange: frames in and out; then handle_served
//! Effect::Connect:     handle_connect_failed, if it fails
//! Effect::Resolve:     handle_resolved, in this turn or a later one
//! the end:             handle_stop; then turns until is_stopped
//! ```
//!
//! Each part of the state is a type in its own file:
//!
//! | part | state |
//! |---|---|
//! | [`receiver`] | one address: its queue, the stage of its socket, its next deadline |
//! | [`receivers`] | all receivers, by id and by address |
//! | [`backlog`] | queued frames, and the limits of one queue and of all |
//! | [`sockets`] | the open sockets, the line of receivers that want one, and the choice of a victim |
//! | [`host_names`] | host names: known addresses and open questions |
//! | [`turn`] | the receivers to serve, and the budget of a turn |
//! | [`pace`], [`inbox`] | frames from receivers |
//! | [`complaints`] | log lines |
//! | [`lifecycle`] | the stages of receivers, and the timers, effects and counts that follow from them |
//! | [`delivery`] | the engine: inputs, and the order of outputs |
//!
//! # The cost of an address
//!
//! Addresses may be dead, slow or hostile, and the loop has other work. A turn, including its flushes, does at most
//! ([`turn`]):
//!
//! | work | at most | bounds the load of |
//! |---|---|---|
//! | sockets served | 64, and none after 1 MiB; a step of a handshake with keys counts as 64 KiB | endless input, fast readers with long queues, floods of handshakes |
//! | timers | 64, each of which may close a socket | thousands of addresses given up at the same time |
//! | admissions to a socket | 16, each searching all receivers if one has to make room | floods of dead addresses |
//! | answers to host names | 16, each searching all receivers | floods of names |
//!
//! Every 256 frames queued for one receiver in a turn trigger one more service of its socket, which is charged to the
//! turn. The next turn begins with the work left over, and each marked receiver is served once before any is served
//! twice.

mod backlog;
mod complaints;
mod config;
mod counts;
mod delivery;
mod effect;
mod exchange;
mod host_names;
mod inbox;
mod invariants;
mod lifecycle;
mod pace;
mod receiver;
mod receivers;
mod sockets;
mod turn;

#[cfg(test)]
mod scenarios;

pub use complaints::Complaint;
pub use config::PushConfig;
pub use counts::PushCounts;
pub use delivery::Delivery;
pub use effect::{Effect, Progress, ReceiverId, Served, Timer};
pub use exchange::Exchange;
pub use inbox::Received;
pub use turn::ANSWERS_PER_TURN;
