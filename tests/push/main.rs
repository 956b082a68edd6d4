//! Pushing, to receivers of libzmq and to whatever else may listen at an address.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod curve;
mod driver;
#[path = "../support/loopback.rs"]
mod loopback;
#[path = "../support/ports.rs"]
mod ports;
mod suite;
