//! The origin of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(SocketAddr);

/// The addresses that one person typically owns together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbourhood(IpAddr);

impl Origin {
    /// The origin with this address, as the system reports it.
    #[must_use]
    pub const fn new(address: SocketAddr) -> Self {
        Self(address)
    }

    /// The neighbourhood of its address.
    #[must_use]
    pub fn neighbourhood(self) -> Neighbourhood {
        Neighbourhood::of(self.0.ip())
    }
}

impl Neighbourhood {
    /// All of loopback together, a /64 network of IPv6, and any other address alone.
    #[must_use]
    pub fn of(ip: IpAddr) -> Self {
        Self(match ip.to_canonical() {
            ip if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
            ip @ IpAddr::V4(_) => ip,
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.0.ip().to_canonical(), self.0.port()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_one_address_has_its_neighbours() {
        let origin = |text: &str| Origin::new(text.parse().unwrap());
        let are_one = |a: &str, b: &str| origin(a).neighbourhood() == origin(b).neighbourhood();
        for (a, b) in [
            ("127.0.0.1:1", "127.9.9.9:2"),
            ("127.0.0.1:1", "[::1]:1"),
            ("127.0.0.1:1", "[::ffff:127.0.0.2]:1"),
            ("192.0.2.1:1", "[::ffff:192.0.2.1]:2"),
            ("[2001:db8::1]:1", "[2001:db8::ffff:0:0:2]:1"),
        ] {
            assert!(are_one(a, b), "{a} {b}");
        }
        assert!(!are_one("192.0.2.1:1", "192.0.2.2:1") && !are_one("[2001:db8::1]:1", "[2001:db8:0:1::1]:1"));
        assert_eq!(origin("[::ffff:192.0.2.1]:7").to_string(), "192.0.2.1:7");
    }
}
