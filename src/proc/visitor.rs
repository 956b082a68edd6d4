//! The process at the other end of an accepted TCP connection: where it is, and which user owns it. The kernel is asked
//! once, when the connection is accepted. Later the owner may have closed the connection, and the kernel then knows no
//! owner.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::net::{SocketAddrAny, getpeername, getsockname};

use super::socket_owner;
use base::{CallerPlace, Loopback, is_loopback};

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// Where it is.
    pub place: CallerPlace,
    /// Its user, if that is another user of this machine.
    user: Option<u32>,
}

impl Visitor {
    /// The process that has connected from `peer` to `own`.
    pub(crate) fn of(peer: SocketAddr, own: SocketAddr) -> Self {
        if !is_loopback(peer.ip()) {
            return Self { place: CallerPlace::Elsewhere, user: None };
        }
        let owner = socket_owner::owner(peer, own);
        let owner = owner.inspect_err(|error| log::info!("cannot tell whose {peer} is: {error}")).ok();
        Self::on_this_machine(owner, rustix::process::geteuid().as_raw())
    }

    /// The process at the other end of an accepted stream. It is unknown if the connection is already gone.
    pub fn of_stream(stream: &impl AsFd) -> Self {
        let address = |address: Option<SocketAddrAny>| SocketAddr::try_from(address?).ok();
        let peer = address(getpeername(stream).ok().flatten());
        let ends = peer.zip(address(getsockname(stream).ok()));
        ends.map_or(Self { place: CallerPlace::Loopback, user: None }, |(peer, own)| Self::of(peer, own))
    }

    /// A process of this machine with this owner, as seen by the user `us`.
    pub fn on_this_machine(owner: Option<u32>, us: u32) -> Self {
        match owner.filter(|owner| *owner != 0 && *owner != us) {
            None if owner.is_some() => Self { place: CallerPlace::SameUser, user: None },
            user => Self { place: CallerPlace::Loopback, user },
        }
    }

    /// Why its connections without a key are not served; `None` if they are.
    pub fn refusal(self, loopback: Loopback) -> Option<String> {
        (!loopback.admits(self.place)).then(|| match self.user {
            Some(user) => format!(
                "LOOPBACK is \"same-user\", and the connection belongs to user {user} of this machine; connect as the user of the \
                 service or as root, or set LOOPBACK = \"open\" there"
            ),
            None => "LOOPBACK is \"same-user\", and the system does not say whose connection it is: it may be closed already; \
                     connect again, as the user of the service or as root"
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_of_this_machine_is_the_owner_root_or_a_stranger() {
        for (owner, place, named) in [
            (Some(1001), CallerPlace::SameUser, None),
            (Some(0), CallerPlace::SameUser, None),
            (Some(1002), CallerPlace::Loopback, Some("user 1002")),
            (None, CallerPlace::Loopback, Some("closed already")),
        ] {
            let visitor = Visitor::on_this_machine(owner, 1001);
            assert_eq!(visitor.place, place, "{owner:?}");
            let refusal = visitor.refusal(Loopback::SameUser);
            assert_eq!(refusal.is_some(), named.is_some(), "{refusal:?}");
            assert!(refusal.unwrap_or_default().contains(named.unwrap_or_default()));
            assert_eq!(visitor.refusal(Loopback::Open), None);
        }
        let elsewhere = Visitor::of("192.0.2.1:1".parse().unwrap(), "192.0.2.2:2".parse().unwrap());
        assert_eq!((elsewhere.place, elsewhere.refusal(Loopback::SameUser)), (CallerPlace::Elsewhere, None));
    }
}
