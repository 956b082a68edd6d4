//! The rules of an endpoint: which connections it accepts, which give way, and when one is made again. The shell owns
//! the sockets and reports their events. `K` is its id of a connection.
//!
//! | part | decides |
//! |---|---|
//! | [`Admission`] | whether a newcomer gets a place, and which connection gives way to it |
//! | [`BufferBudget`] | which connection is closed when all together hold too much memory |
//! | [`Redial`] | when a lost connection is made again, and when to report why it was refused |
//! | [`SubscriptionQuota`] | the number of prefixes of a subscriber |
//! | [`Refusals`] | which refused connections are logged |
//!
//! The facts about a connection that the rules need ([`ConnectionInfo`], [`Share`]) are part of the shell's own record
//! of it, so that a message costs no look-up here.

mod admission;
mod budget;
mod machines;
mod quota;
mod redial;
mod refusals;

pub use admission::{Admission, ConnectionInfo, ConnectionLimits, ConnectionTable, Decision};
pub use budget::{BufferBudget, Share};
pub use machines::Machine;
pub use quota::SubscriptionQuota;
pub use redial::Redial;
pub use refusals::Refusals;
