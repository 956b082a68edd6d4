//! The program `llts`: the command line, the HTTP door, and the place where all crates meet.
//!
//! `llts` runs small programs with low latency. A client submits a task, a controller hands it to a free agent, the agent runs it, and
//! the submitter is told of each change. `docs/design/architecture.md` describes the crates, their dependencies and the way of a task
//! through them.
//!
//! | module | content |
//! |---|---|
//! | [`cli`] | one file per command, named after it; arguments in `cli/args.rs`; help and the manual |
//! | [`map`] | the engine of `llts map`: turns lines into tasks, and their ends into outputs (pure) |
//! | [`compose`] | the systems that a controller hosts: HTTP, prompts, task lists, TDF |
//! | [`http`] | the HTTP door: requests, `/metrics`, `/events` |
//!
//! # States and events
//!
//! A [`map::Map`] takes [`map::Item`]s while it wants more, and returns [`map::Effect`]s. It follows the ends of its job with one parked
//! request ([`api::wire::requests::job::results`]), so its memory is bounded for an input of any length.
//!
//! # Callers
//!
//! `src/main.rs` calls [`cli::run()`]. Each process of a service is this program with another command: `llts supervise`,
//! `llts controller`, `llts agent`, `llts guard`.
//!
//! # A home
//!
//! A service lives in one folder, its home ([`api::home::Home`]), which is the current folder of all its processes. A client resolves
//! relative paths of the configuration against the home, and finds the controller by the unix socket there. So a command means the same
//! service from every folder. The supervisor can also run agents alone, for a controller on another machine.
//!
//! # The way of `llts submit`
//!
//! 1. [`cli::run()`] reads the arguments, finds the home and the configuration, and makes a [`term::session::Session`].
//! 2. `cli/submit.rs` builds a [`Submission`](api::wire::requests::submit::Submission) from the tool, its parameters, the policy and a
//!    submit key.
//! 3. [`Client::submit`](llts_client::Client::submit) sends it to the controller, and sends it again if the answer is lost: with the same
//!    key, both requests make one task. `cli/hand_over.rs` prints the warnings.
//! 4. The controller answers when the task is on the disk. The command prints the id.
//! 5. A refusal becomes a [`Failure`](term::exit::Failure) with the sentence of the controller and exit code 4.

mod backup;
mod beside;
pub mod cli;
pub mod compose;
pub mod http;
pub mod map;
