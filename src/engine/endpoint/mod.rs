//! The rules of an endpoint: which connections it takes, which give way, and when one is made again. The shell has the sockets and
//! tells what happens to them; `K` is its name for a connection.
//!
//! | part | decides |
//! |---|---|
//! | [`Admission`] | whether a newcomer has a place, and who gives way to it |
//! | [`BufferBudget`] | who is cut when all connections together hold too much memory |
//! | [`Redial`] | when a lost connection is made again, and when to say why it was refused |
//! | [`SubscriptionQuota`] | how many prefixes a subscriber may ask for |
//! | [`Refusals`] | which refused connections the log tells of |
//!
//! What the rules need to know of one connection ([`ConnectionInfo`], [`Share`]) lies with the shell's own record of it: a message costs no
//! look-up here.

mod admission;
mod budget;
mod machines;
mod quota;
mod redial;
mod refusals;

pub use admission::{Admission, ConnectionLimits, Decision, ConnectionTable, ConnectionInfo};
pub use budget::{BufferBudget, Share};
pub use machines::Machine;
pub use quota::SubscriptionQuota;
pub use redial::Redial;
pub use refusals::Refusals;
