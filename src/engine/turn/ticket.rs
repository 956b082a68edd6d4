//! The names of connections and of requests whose answers are owed.

use std::ops::RangeInclusive;

/// The connection of a request. The shell assigns it and never reuses one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// Number of the door.
    pub door: u8,
    /// Number of the connection within its door.
    pub number: u64,
}

/// A request whose answer is still owed. The shell assigns it and knows the route of the answer. Tickets of one connection
/// are adjacent in the order of tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Connection of the request.
    pub connection: ConnectionId,
    /// A number that is unique among all tickets.
    pub number: u64,
}

impl Ticket {
    /// Smaller than every ticket.
    pub(crate) const MIN: Self = Self { connection: ConnectionId { door: 0, number: 0 }, number: 0 };
    /// Larger than every ticket.
    pub(crate) const MAX: Self =
        Self { connection: ConnectionId { door: u8::MAX, number: u64::MAX }, number: u64::MAX };

    /// The range of all tickets of a connection.
    pub(crate) const fn of(connection: ConnectionId) -> RangeInclusive<Self> {
        Self { connection, number: 0 }..=Self { connection, number: u64::MAX }
    }
}
