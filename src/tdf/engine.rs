//! The rules of TDF (docs/sources/tdf.md): which moves a task makes, and when. Values in, values out; the caller brings the time.
//!
//! | module | what it decides |
//! |---|---|
//! | [`moves`] | what one event makes of a task: its hops, counters and rounds |
//! | [`judge`] | which event the facts of a task are, if any |
//! | [`lease`] | when the end of a lease counts |
//! | [`watch`] | which entries of a set are new or due |
//! | [`worker`] | what a worker does next: claim, run, report |
//! | [`pool`] | the same for the agents of a controller: many runs at once |
//! | [`cut`] | which bytes of a long output are reported |
//! | [`backoff`] | when a callback that has failed is tried again, and for how long Redis is |

pub mod backoff;
pub mod cut;
mod doubts;
pub mod judge;
pub mod lease;
pub mod moves;
mod outage;
pub mod pool;
pub mod watch;
pub mod worker;
