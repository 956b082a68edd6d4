//! The ports and the link of `TRANSPORT = "own"` against libzmq, against each other, and against strangers.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

/// Each of these tests with either `TRANSPORT`.
macro_rules! over_both {
    ($($test:ident),* $(,)?) => {
        mod own {
            $(#[test] fn $test() { super::$test("own"); })*
        }
        mod zmq {
            $(#[test] fn $test() { super::$test("zmq"); })*
        }
    };
}

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
