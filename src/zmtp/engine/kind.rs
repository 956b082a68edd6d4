//! The types of sockets, and their valid combinations (RFC 28 and 29).

/// The type of a socket, as in READY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One request, one reply.
    Req,
    /// The counterpart of REQ.
    Rep,
    /// Any number of concurrent requests.
    Dealer,
    /// Addresses its peers individually.
    Router,
    /// Sends to subscribers.
    Pub,
    /// Subscribes by prefix.
    Sub,
    /// A PUB that reports its subscriptions.
    Xpub,
    /// A SUB that subscribes by messages.
    Xsub,
}

impl Kind {
    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Req => "REQ",
            Self::Rep => "REP",
            Self::Dealer => "DEALER",
            Self::Router => "ROUTER",
            Self::Pub => "PUB",
            Self::Sub => "SUB",
            Self::Xpub => "XPUB",
            Self::Xsub => "XSUB",
        }
    }

    pub(super) fn parse(name: &[u8]) -> Option<Self> {
        let all = [Self::Req, Self::Rep, Self::Dealer, Self::Router, Self::Pub, Self::Sub, Self::Xpub, Self::Xsub];
        all.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    pub(super) const fn talks_to(self, other: Self) -> bool {
        match self {
            Self::Req => matches!(other, Self::Rep | Self::Router),
            Self::Rep => matches!(other, Self::Req | Self::Dealer),
            Self::Dealer => matches!(other, Self::Rep | Self::Dealer | Self::Router),
            Self::Router => matches!(other, Self::Req | Self::Dealer | Self::Router),
            Self::Pub | Self::Xpub => matches!(other, Self::Sub | Self::Xsub),
            Self::Sub | Self::Xsub => matches!(other, Self::Pub | Self::Xpub),
        }
    }

    /// Whether its peers subscribe.
    pub(super) const fn publishes(self) -> bool {
        matches!(self, Self::Pub | Self::Xpub)
    }

    /// Whether READY contains an identity, as the RFC requires for these types.
    pub(super) const fn has_identity(self) -> bool {
        matches!(self, Self::Req | Self::Dealer | Self::Router)
    }
}
