//! The addresses that a submitter may make the controller connect to.
//!
//! IP addresses are checked: the one in the text of a push address, and later each one that a host name resolves to.
//! Parsing the text is [`super::PushAddress`]'s concern.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::Refusal;

/// A network such as `10.0.0.0/8` or `fd00::/8`. A single address is a network of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    prefix_bits: u8,
}

/// Why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// The part before the slash is not an address.
    #[error("network {text} does not begin with an IP address; write it like 10.0.0.0/8")]
    Address {
        /// The text, quoted and shortened.
        text: String,
    },
    /// The part after the slash is not a prefix length of the family.
    #[error("network {text} has a bad prefix length; use /0 to /{bits_max}")]
    Prefix {
        /// The text, quoted and shortened.
        text: String,
        /// Bits of an address of this family.
        bits_max: u8,
    },
    /// The address has bits outside the prefix, so it may mean a host or the network.
    #[error("network {text} has bits beyond its prefix; did you mean {network}?")]
    HostBits {
        /// The text, quoted and shortened.
        text: String,
        /// The network that holds the address.
        network: Cidr,
    },
}

impl Cidr {
    /// Whether `ip` is in the network. An IPv4 address is never in an IPv6 network, nor the other way round.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.network, ip) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {
                masked(ip, self.prefix_bits) == self.network
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let short = || super::shortened(text);
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let Ok(ip) = address.parse::<IpAddr>() else { return Err(CidrError::Address { text: short() }) };
        let bits_max = if ip.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix.map(str::parse::<u8>) {
            None => bits_max,
            Some(Ok(bits)) if bits <= bits_max => bits,
            Some(_) => return Err(CidrError::Prefix { text: short(), bits_max }),
        };
        let network = Self { network: masked(ip, prefix_bits), prefix_bits };
        if network.network == ip { Ok(network) } else { Err(CidrError::HostBits { text: short(), network }) }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix_bits)
    }
}

fn masked(ip: IpAddr, prefix_bits: u8) -> IpAddr {
    let prefix_bits = u32::from(prefix_bits);
    match ip {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() & !u32::MAX.checked_shr(prefix_bits).unwrap_or(0)).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::MAX.checked_shr(prefix_bits).unwrap_or(0)).into(),
    }
}

/// The addresses that pushes may go to. Link-local addresses, multicast and our own ports are always refused.
#[derive(Clone, Debug, Default)]
pub struct AddressPolicy {
    /// Networks that may be reached. An empty list refuses all.
    pub allow: Vec<Cidr>,
    /// Addresses that this controller listens on. A wildcard covers every loopback address with its port. A caller that
    /// binds to a wildcard must also add the addresses of its interfaces.
    pub own: Vec<SocketAddr>,
}

impl AddressPolicy {
    /// Allows every network and knows no ports of our own.
    #[must_use]
    pub fn everything() -> Self {
        let all = |network| Cidr { network, prefix_bits: 0 };
        Self { allow: vec![all(Ipv4Addr::UNSPECIFIED.into()), all(Ipv6Addr::UNSPECIFIED.into())], own: Vec::new() }
    }

    /// Checks an address and returns it in the form to connect to: an IPv4 address mapped into IPv6 becomes IPv4.
    ///
    /// # Errors
    ///
    /// The rule that refuses it.
    pub fn check(&self, ip: IpAddr, port: u16) -> Result<IpAddr, Refusal> {
        let ip = ip.to_canonical();
        // A translator (NAT64, 6to4) would connect to the embedded address.
        for form in [Some(ip), embedded_v4(ip).map(IpAddr::V4)].into_iter().flatten() {
            check_kind(form)?;
            if self.own.iter().any(|own| is_own(*own, form, port)) {
                return Err(Refusal::OwnPort);
            }
        }
        if self.allow.iter().any(|network| network.contains(ip)) { Ok(ip) } else { Err(Refusal::NotAllowed) }
    }
}

fn check_kind(ip: IpAddr) -> Result<(), Refusal> {
    /// The metadata services of AWS (not link-local in IPv6) and of Alibaba (not link-local in IPv4).
    const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
    match ip {
        // All of 0.0.0.0/8 means "this host".
        IpAddr::V4(ip) if ip.octets()[0] == 0 => Err(Refusal::Unspecified),
        IpAddr::V6(ip) if ip.is_unspecified() => Err(Refusal::Unspecified),
        IpAddr::V4(ip) if ip.is_multicast() || ip.is_broadcast() => Err(Refusal::Multicast),
        IpAddr::V6(ip) if ip.is_multicast() => Err(Refusal::Multicast),
        IpAddr::V4(ip) if ip.is_link_local() || ip == METADATA_V4 => Err(Refusal::LinkLocal),
        IpAddr::V6(ip) if ip.is_unicast_link_local() || ip == METADATA_V6 => Err(Refusal::LinkLocal),
        IpAddr::V4(_) | IpAddr::V6(_) => Ok(()),
    }
}

/// The IPv4 address inside `::a.b.c.d` (deprecated), `64:ff9b::a.b.c.d` (NAT64) and `2002:a.b.c.d::` (6to4). The caller has
/// already turned the mapped form into IPv4.
pub(crate) fn embedded_v4(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    let [a, b, c, d, e, f, high, low] = ip.segments();
    if a == 0x2002 {
        return Some(Ipv4Addr::from_bits(u32::from(b) << 16 | u32::from(c)));
    }
    let prefix = [a, b, c, d, e, f];
    let hides = prefix == [0x64, 0xff9b, 0, 0, 0, 0] || (prefix == [0; 6] && high != 0);
    hides.then(|| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}

fn is_own(own: SocketAddr, ip: IpAddr, port: u16) -> bool {
    // All loopback addresses count as equal: a receiver on this machine with our port number is most likely a mistake.
    let beside = ip.is_loopback() && (own.ip().is_unspecified() || own.ip().to_canonical().is_loopback());
    own.port() == port && (own.ip().to_canonical() == ip || beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("::/0", "fe80::1", "10.0.0.1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("192.168.1.128/25", "192.168.1.200", "192.168.1.127"),
        ] {
            assert!(cidr(network).contains(inside.parse().unwrap()), "{inside} in {network}");
            assert!(!cidr(network).contains(outside.parse().unwrap()), "{outside} not in {network}");
        }
    }

    #[test]
    fn what_is_no_network_is_named() {
        for text in ["", "/8", "10.0.0/8", "example.org/8", "::g/1"] {
            assert!(matches!(text.parse::<Cidr>(), Err(CidrError::Address { .. })), "{text:?}");
        }
        for text in ["10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129", "10.0.0.0/8/8"] {
            assert!(matches!(text.parse::<Cidr>(), Err(CidrError::Prefix { .. })), "{text:?}");
        }
        let error = "10.1.2.3/8".parse::<Cidr>().unwrap_err().to_string();
        assert_eq!(error, "network \"10.1.2.3/8\" has bits beyond its prefix; did you mean 10.0.0.0/8?");
    }
}
