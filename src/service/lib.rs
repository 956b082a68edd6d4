//! A service on one machine: its supervisor, ephemeral services for single commands, and how other machines join.
//!
//! | module | content |
//! |---|---|
//! | [`plan`] | the engine of the supervisor: when each process starts, is replaced and stops (pure) |
//! | [`supervisor`] | the supervisor as a process, and how other processes talk to it |
//! | [`ephemeral`] | a service that lasts as long as one command |
//! | [`join`] | authorises the key of another machine without copying files by hand |
//!
//! # States and events
//!
//! A [`plan::Plan`] is starting, serving or stopping. Its events are [`handle_ready`](plan::Plan::handle_ready),
//! [`handle_ended`](plan::Plan::handle_ended), a new number of agents, a new version of the program, and deadlines ([`plan::Timer`]). Its
//! instructions are [`plan::Effect`]s. A new version replaces the supervisor and the controller in their processes, by an exec
//! ([`proc::takeover`]). Each agent ends when it has no task, and is started again with the new version.
//!
//! # Callers
//!
//! `llts up`, `down`, `restart`, `run`, `map`, `invite` and `join`. The processes of a service run the same program with other commands:
//! `llts supervise`, `llts controller`, `llts agent`, `llts guard`.
//!
//! # The way of `llts up`
//!
//! 1. [`supervisor::starting`] keeps other commands from starting a service meanwhile; [`supervisor::settled`] finds out whether one
//!    runs.
//! 2. If none does, a [`supervisor::Launch`] starts `llts supervise` and waits for its report.
//! 3. [`supervisor::supervise`] takes the lock of STATE_DIR, ends the remains of an earlier service, and follows its plan: the controller
//!    first, then the agents.
//! 4. When all are ready, the plan announces it, `service.json` is written, and the report goes to the command, which prints the
//!    addresses.
//! 5. If a service runs already, an [`supervisor::Order`] changes its number of agents.

pub mod ephemeral;
pub mod join;
pub mod plan;
pub mod supervisor;
