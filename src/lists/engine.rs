//! Task lists on disk (TDF2, docs/sources/task-lists.md): a server that keeps tasks and lists in folders named for their
//! states, and workers that claim lists.
//!
//! | module | content |
//! |---|---|
//! | [`task`] | the content of a task file, and what follows a failure |
//! | [`server`] | which tasks form a list, which worker has it, when it is opened again |
//! | [`agents`] | the agents of a controller as a worker of its own lists |
//! | [`worker`] | the tasks of a list one after the other, and the delivery of their results |
//!
//! ```text
//! new --full, or old enough--> open --claimed--> running --all tasks have ended--> closed --> completed --> completed_archive
//!  ^                            ^                  |                                  +-----> failed ----> failed_time
//!  |                            +--its worker lost-+                                             +-------> failed_count
//!  +---------------------------- duplicate ------------------------------------------------------+-------> failed_archive
//! ```
//!
//! The name of a running list is the fence: results count only from the connection that has the list of this name.

pub mod agents;
mod result;
pub mod server;
pub mod task;
pub mod worker;

#[cfg(test)]
mod scenarios;

pub use proc::ladder::Signal;

/// The seconds of a moment, as files have them.
const fn seconds(wall: base::Wall) -> u64 {
    wall.micros() / 1_000_000
}
