//! The ports and the link against libzmq, against each other, and against strangers.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod client;
mod conformance;
mod echo;
mod floods;
mod keys;
mod link;
#[path = "../support/loopback.rs"]
mod loopback;
mod peers;
mod places;
#[path = "../support/ports.rs"]
mod ports;
mod raw;
mod strangers;
mod turns;
mod unhurried;
