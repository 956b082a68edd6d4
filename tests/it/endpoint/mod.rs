//! The ports and the link against libzmq, against each other, and against strangers.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod client;
mod conformance;
mod echo;
mod floods;
mod keys;
mod link;
mod peers;
mod places;
use crate::support::ports;
mod raw;
mod strangers;
mod turns;
mod unhurried;
