//! Pushing, to receivers of libzmq and to whatever else may listen at an address.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod curve;
mod driver;
use crate::support::ports;
mod suite;
