//! TDF on Redis: a namespace with one method for each script, and the loops around it.
//!
//! Rust decides by the rules of [`crate::engine`], a script moves: it checks the fence of the decision, and writes fields,
//! sets and log in one step with the time of Redis. Each script is safe to send twice, because a reply can be lost after its script
//! has run.

mod caller;
mod calls;
mod error;
mod fetch;
mod holder;
mod link;
pub mod manage;
pub mod namespace;
pub mod opener;
mod outage;
pub mod pool;
mod reply;
mod results;
pub mod scripts;
pub mod server;
mod session;
pub mod view;
mod wake;
pub mod worker;

use api::config::RedisSection;

pub use error::RedisError;
pub use manage::{CallbackError, Callbacks, Manager, ManagerError};
pub use namespace::{Claim, Ending, LostRun, Namespace, Report, Reported};
pub use opener::{OpenError, Order};
pub use server::{Server, ServerError};
pub use session::{Holder, WorkerKind};
pub use wake::{Channel, Message, Wake, WakeError};

/// Whether a Redis answers and lets us in.
///
/// # Errors
/// [`RedisError`], with its address and what is wrong.
pub fn reach(section: &RedisSection) -> Result<(), RedisError> {
    link::Address::new(section)?.connect().map(drop)
}

/// The names and the texts of all scripts: an EVALSHA of a log or of MONITOR shows no more than the digest of a text.
pub fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
    scripts::ALL.iter().map(|code| (code.name, code.text))
}
