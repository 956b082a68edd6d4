//! The user at the other end of a TCP connection on this machine, from the kernel's socket table.
//!
//! The kernel is asked for one socket by its two addresses (`sock_diag(7)`). Unlike reading `/proc/net/tcp`, this does
//! not get slower with the number of connections of the machine.

use std::net::{IpAddr, SocketAddr};

use rustix::fd::OwnedFd;
use rustix::io::{Errno, Result};
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Bytes of `struct nlmsghdr`, and of it with `struct inet_diag_req_v2`.
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;

/// `SOCK_DIAG_BY_FAMILY`, `NLM_F_REQUEST`, `IPPROTO_TCP` and the mask for every state of a socket.
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const TCP: u8 = 6;
const ALL_STATES: u32 = u32::MAX;

/// Offset of `idiag_state` in `struct inet_diag_msg`, whose first byte is the family.
const STATE_AT: usize = HEADER_BYTES + 1;

/// The states of a socket that is connected and has an owner: ESTABLISHED, and FIN_WAIT1 and FIN_WAIT2 of one that has
/// only stopped sending.
const CONNECTED: [u8; 3] = [1, 4, 5];

/// Offset of `idiag_uid` in `struct inet_diag_msg`: family, state, timer and retransmissions, the id of the socket, then
/// three numbers. `idiag_inode` follows it.
const UID_AT: usize = HEADER_BYTES + 4 + 48 + 12;
const INODE_AT: usize = UID_AT + 4;

/// The user that owns the socket from `here` to `there`, both from its owner's point of view. A socket that its owner
/// has closed has no owner, although the kernel names root, and no inode. The kernel reads the user before the inode,
/// so a socket that is closed between the two has no inode either.
///
/// # Errors
/// When the kernel knows no such socket, or it has no owner.
pub(crate) fn owner(here: SocketAddr, there: SocketAddr) -> Result<u32> {
    let diag: OwnedFd =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    let (here, there) = (canonical(here), canonical(there));
    sendto(&diag, &request(here, there), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 512];
    // The kernel has answered when `sendto` returns.
    let (length, _) = recv(&diag, &mut answer[..], RecvFlags::DONTWAIT)?;
    let answer = answer.get(..length).unwrap_or_default();
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let number = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let is_owned = answer.get(STATE_AT).is_some_and(|state| CONNECTED.contains(state))
        && number(INODE_AT).is_some_and(|inode| inode != 0);
    // Any other kind of answer is an error message.
    number(UID_AT).filter(|_| kind == Some(BY_FAMILY) && is_owned).ok_or(Errno::NOENT)
}

/// The address as in the kernel's table, where an IPv4 connection to an IPv6 listener counts as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn request(here: SocketAddr, there: SocketAddr) -> Vec<u8> {
    let family = if here.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend(u32::try_from(REQUEST_BYTES).unwrap_or_default().to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([u8::try_from(family.as_raw()).unwrap_or_default(), TCP, 0, 0]);
    bytes.extend(ALL_STATES.to_ne_bytes());
    bytes.extend(here.port().to_be_bytes());
    bytes.extend(there.port().to_be_bytes());
    bytes.extend(octets(here.ip()));
    bytes.extend(octets(there.ip()));
    // Any interface; no cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_names_the_user_of_a_local_connection() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let found = owner(peer, accepted.local_addr().unwrap());
            assert_eq!(found, Ok(rustix::process::getuid().as_raw()), "{address}");
            drop((stream, accepted));
        }
    }

    #[test]
    fn an_ipv4_connection_to_an_ipv6_listener_has_an_owner() {
        let Ok(listener) = TcpListener::bind("[::]:0") else { return };
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        assert!(peer.is_ipv6(), "the kernel maps the address");
        assert_eq!(owner(peer, accepted.local_addr().unwrap()), Ok(rustix::process::getuid().as_raw()));
        drop(stream);
    }

    /// The kernel reports the closed end of a connection as root's.
    #[test]
    fn a_connection_that_its_owner_has_closed_has_no_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        let own = accepted.local_addr().unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(owner(peer, own), Ok(rustix::process::getuid().as_raw()), "it is still there, and reads");
        drop(stream);
        assert_eq!(owner(peer, own), Err(Errno::NOENT));
        drop(accepted);
        assert_eq!(owner(peer, own), Err(Errno::NOENT));
    }

    #[test]
    fn an_unknown_connection_has_no_owner() {
        let (here, there) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        assert_eq!(owner(here, there), Err(Errno::NOENT));
    }
}
