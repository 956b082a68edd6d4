//! The program `llts`: the command line, the HTTP door, and the place where all crates meet.
//!
//! `llts` runs small programs with low latency. A client submits a task, a controller hands it to a free agent, the agent runs it, and
//! the submitter is told of each change. `docs/design/architecture.md` has the crates, their arrows and the way of a task through them.
//!
//! | module | content |
//! |---|---|
//! | [`cli`] | a file for each command, named as the command; arguments in `cli/args.rs`, help and the manual |
//! | [`map`] | the engine of `llts map`: lines to tasks, and their ends to outputs (pure) |
//! | [`compose`] | the systems that a controller hosts: HTTP, prompts, task lists, TDF |
//! | [`http`] | the HTTP door: requests, `/metrics`, `/events` |
//!
//! # States and events
//!
//! A [`map::Map`] takes [`map::Item`]s while it wants some, and gives [`map::Effect`]s. It follows the ends of its job with one parked
//! request ([`api::wire::requests::job::results`]), so its memory is bounded, whatever its input has.
//!
//! # Callers
//!
//! `src/main.rs` calls [`cli::run()`]. Each process of a service is this program with another command: `llts supervise`,
//! `llts controller`, `llts agent`, `llts guard`.
//!
//! # A home
//!
//! A service lives in one folder, its home ([`api::home::Home`]), which is the current folder of all its parts. A client puts relative
//! paths of the configuration behind it, and finds the controller by the unix socket there. So a command means the same service in every
//! folder. The supervisor also runs agents alone, for a controller elsewhere.
//!
//! # The way of `llts submit`
//!
//! 1. [`cli::run()`] reads the arguments, finds the home and the configuration, and makes a [`term::session::Session`].
//! 2. `cli/submit.rs` makes a [`Submission`](api::wire::requests::submit::Submission) of tool, parameters, policy and a submit key.
//! 3. [`Client::submit`](llts_client::Client::submit) asks the controller, and asks again after a lost answer: the key makes one task of both.
//!    `cli/hand_over.rs` prints the warnings.
//! 4. The controller answers when the task is on the disk. The command prints the id.
//! 5. A refusal becomes a [`Failure`](term::exit::Failure) with the sentence of the controller and exit code 4.

mod backup;
mod beside;
pub mod cli;
pub mod compose;
pub mod http;
pub mod map;
