//! An address that no other program uses. A port that is given up for a moment, or that nobody is to answer at, stays free there
//! although everybody on the machine takes ports.

use std::net::Ipv4Addr;

/// A loopback address of this process.
pub(crate) fn own_ip() -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 32 | (high & 31), middle, low.max(1))
}
