//! A service of one machine: its supervisor, a service for the time of a command, and how other machines join it.
//!
//! | module | content |
//! |---|---|
//! | [`plan`] | the engine of the supervisor: when each process starts, is replaced and stops (pure) |
//! | [`supervisor`] | the supervisor as a process, and the calls of other processes to it |
//! | [`ephemeral`] | a service for the time of one command |
//! | [`join`] | the key of another machine, let in without copying files by hand |
//!
//! # States and events
//!
//! A [`plan::Plan`] is starting, serving or stopping. Its events are [`handle_ready`](plan::Plan::handle_ready),
//! [`handle_ended`](plan::Plan::handle_ended), a change of the number of agents, a new version of the program, and deadlines
//! ([`plan::Timer`]). Its instructions are [`plan::Effect`]s. A new version takes the place of a process by an exec ([`proc::takeover`]):
//! the controller first, then each agent when it is free.
//!
//! # Callers
//!
//! `llts up`, `down`, `restart`, `run`, `map`, `invite` and `join`. The processes that it starts are the same program with another
//! command: `llts supervise`, `llts controller`, `llts agent`, `llts guard`.
//!
//! # The way of `llts up`
//!
//! 1. [`supervisor::starting`] keeps other commands from starting one meanwhile; [`supervisor::settled`] sees whether one runs.
//! 2. If none does, a [`supervisor::Launch`] starts `llts supervise` and waits for its report.
//! 3. [`supervisor::supervise`] takes the lock of STATE_DIR, ends what an earlier service has left, and follows its plan: the controller
//!    first, then the agents.
//! 4. All are ready: the plan says so, `service.json` is written, and the report goes to the command, which prints the addresses.
//! 5. If one runs, an [`supervisor::Order`] changes its number of agents.

pub mod ephemeral;
pub mod join;
pub mod plan;
pub mod supervisor;
