//! What the integration tests of llts do with the real program: a folder to run it in, processes that end with the test, and
//! clients that talk to them.
//!
//! - [`Place`] is a temporary folder, the program, and the variables that it is configured with. It makes commands, runs them, and
//!   finds every process that was started in it, directly or not: each of them carries the variable [`MARK`] with the path of the
//!   folder. Dropping it kills those that are left, by their ids, also when the test panics. A place with a service
//!   ([`Place::home`]) stops that first, and shows the ends of its logs when the test panics.
//! - [`Start`] is what every [`Command`](std::process::Command) can do with these types: start, run to its end, run by another
//!   program.
//! - [`Program`] is a process that runs: its ready line, signals, and its end. Dropping it asks it to stop, so that it ends what it
//!   has started, and kills it when it does not. It shows what was heard from it when the test panics.
//! - [`Said`] is the output of a process with its exit code, and the usual expectations of both.
//! - [`Client`] and [`Receiver`] talk to a controller over libzmq, and [`Redis`] is a server for the tests of TDF.
//! - [`eventually`] and [`found`] wait for what no event announces, with a bound.
//!
//! ```ignore
//! let place = Place::home(env!("CARGO_BIN_EXE_llts"), "CONTROLLER_REP_PORT = 0\n");
//! place.ok("up 2");
//! let waiting = place.start("wait TASK_1");
//! place.ok("kill TASK_1");
//! waiting.said().refused(143, "was killed");
//! ```
//!
//! The parts of `tests/it` have thin types of their own around a place, for what only they have: a folder of prompts, one of lists,
//! a namespace. This crate does not know llts, so that it is not built again when llts changes; the path of the program comes from
//! the test, to which alone Cargo tells it.

mod certificates;
mod client;
mod place;
mod postgres;
mod program;
mod redis;
mod said;
mod waiting;

pub use certificates::make_certificates;
pub use client::{Client, Receiver, connected, id_of};
pub use place::{MARK, Place, Words, kill, kill_all, names, processes, signal};
pub use postgres::Postgres;
pub use program::{Program, Start};
pub use redis::{Redis, SETS, config, own_ip, sets_of};
pub use said::Said;
pub use waiting::{PATIENCE, eventually, found, pass, within};
