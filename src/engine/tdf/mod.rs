//! The rules of TDF: which moves a task makes, and when. Values in, values out; the caller brings the time.
//!
//! | module | what it decides |
//! |---|---|
//! | [`moves`] | what one event makes of a task: its hops, counters and rounds |
//! | [`judge`] | which event the facts of a task are, if any |
//! | [`lease`] | when the end of a lease counts |
//! | [`watch`] | which entries of a set must be looked at |
//! | [`worker`] | what a worker does next: claim, run, report |
//! | [`backoff`] | when a callback that has failed is tried again |

pub mod backoff;
pub mod judge;
pub mod lease;
pub mod moves;
pub mod watch;
pub mod worker;
