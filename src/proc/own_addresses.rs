//! The addresses at which other machines reach this one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// Addresses reserved for documentation: no machine has them, and every default route leads there.
const OUTSIDE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// The address of this machine on the route to another machine; `None` without a route.
fn way_to(other: IpAddr) -> Option<IpAddr> {
    let any = if other.is_ipv4() { SocketAddr::from(([0; 4], 0)) } else { SocketAddr::from(([0_u16; 8], 0)) };
    let socket = UdpSocket::bind(any).ok()?;
    // No packet is sent: connecting a UDP socket only chooses the route.
    socket.connect((other, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// The address of this machine on the default route; that of the same family as `any` first.
fn way_out(any: IpAddr) -> Option<IpAddr> {
    let first = usize::from(any.is_ipv6());
    [OUTSIDE[first], OUTSIDE[1 - first]].into_iter().find_map(way_to)
}

/// The address from which this machine reaches the controller. Other machines that reach the controller most likely
/// reach this address, too. If the controller listens on all addresses of this machine, it is the address of the
/// default route; without a TCP port, loopback.
pub fn own_address(controller: Option<IpAddr>) -> IpAddr {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    match controller {
        None => loopback,
        Some(any) if any.is_unspecified() => {
            way_out(any).unwrap_or(if any.is_ipv4() { loopback } else { Ipv6Addr::LOCALHOST.into() })
        }
        Some(controller) => way_to(controller).unwrap_or(controller),
    }
}

/// The addresses at which other machines can reach a listener on the unspecified address `any`, that of the default
/// route first. A listener on `::` accepts both families.
#[must_use]
pub fn own_addresses(any: IpAddr) -> Vec<IpAddr> {
    let interfaces = getifaddrs().into_iter().flatten();
    let up =
        interfaces.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING));
    let ip = up.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    });
    let is_reached = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => any.is_ipv6() && !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let mut addresses: Vec<IpAddr> = Vec::new();
    for ip in way_out(any).into_iter().chain(ip).filter(is_reached) {
        if !addresses.contains(&ip) {
            addresses.push(ip);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_default_route_comes_first_and_none_is_of_this_machine_alone() {
        let addresses = own_addresses(Ipv4Addr::UNSPECIFIED.into());
        assert!(addresses.iter().all(|ip| ip.is_ipv4() && !ip.is_loopback() && !ip.is_unspecified()), "{addresses:?}");
        let way = way_out(Ipv4Addr::UNSPECIFIED.into()).filter(|ip| ip.is_ipv4() && !ip.is_loopback());
        assert!(way.is_none() || addresses.first() == way.as_ref(), "{way:?} {addresses:?}");
    }

    #[test]
    fn the_own_address_is_one_that_others_reach_where_there_is_one() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(own_address(None), loopback);
        assert_eq!(own_address(Some(loopback)), loopback);
        assert_eq!(own_address(Some(Ipv6Addr::LOCALHOST.into())), IpAddr::V6(Ipv6Addr::LOCALHOST));
        let beside_all = own_address(Some(Ipv4Addr::UNSPECIFIED.into()));
        assert!(!beside_all.is_unspecified());
        let has_a_way_out = way_to(Ipv4Addr::new(192, 0, 2, 1).into());
        assert!(has_a_way_out.is_none_or(|way| way == beside_all && !beside_all.is_loopback()), "{beside_all}");
    }
}
