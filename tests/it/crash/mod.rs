//! Crash tests: the real binary under kill -9, a full disk and a damaged store. Accepted tasks must be kept.
//!
//! | variable | what | default |
//! |---|---|---|
//! | `CRASH_SEED` | decides when whom is killed | from the clock; printed |
//! | `CRASH_TASKS` | tasks of the storm | 500 |
//! | `CRASH_KILLS` | kills of the controller; agents are killed twice as often, and so are tools that stay | 8 |

mod alone;
mod dir_pool;
mod disk;
mod everything;
mod history;
mod killer;
mod lease;
mod load;
mod runs;
use crate::cli::sandbox;
mod service;
mod storm;
mod verdict;
