//! An address that no other program uses. A port that is released for a moment, or that must have no listener, stays free there
//! although other programs of the machine take ports.

use std::net::Ipv4Addr;

/// A loopback address of this process.
pub(crate) fn own_ip() -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 32 | (high & 31), middle, low.max(1))
}
