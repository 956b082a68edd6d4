//! The types of sockets, and which of them may talk to each other (RFC 28 and 29).

/// The type of a socket, as READY says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One request, one reply.
    Req,
    /// The other side of it.
    Rep,
    /// Any number of requests at a time.
    Dealer,
    /// Knows its peers apart.
    Router,
    /// Sends to whoever asks.
    Pub,
    /// Asks by prefix.
    Sub,
    /// A PUB that tells what it is asked for.
    Xpub,
    /// A SUB that asks by messages.
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

    /// Whether what comes in says what is to go out.
    pub(super) const fn publishes(self) -> bool {
        matches!(self, Self::Pub | Self::Xpub)
    }

    /// Whether READY names an identity, as the RFC wants of these.
    pub(super) const fn has_identity(self) -> bool {
        matches!(self, Self::Req | Self::Dealer | Self::Router)
    }
}
