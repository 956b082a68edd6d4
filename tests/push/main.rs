//! Pushing on either transport.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]
#![expect(clippy::duplicate_mod, reason = "the same tests hold for both transports")]

mod curve;
mod driver;
mod libzmq;
#[path = "../ground/loopback.rs"]
mod loopback;
#[path = "suite.rs"]
mod own;
#[path = "../ground/ports.rs"]
mod ports;
#[path = "suite.rs"]
mod zmq;
