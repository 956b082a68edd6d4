//! What the tests of several parts share, beside the kit.

pub(crate) mod ports;

/// The program under test.
pub(crate) const LLTS: &str = env!("CARGO_BIN_EXE_llts");
