//! TDF: tasks in Redis, for programs and machines that share nothing else.
//!
//! Entries of an original component are read, and an original component reads all that is written here (`docs/sources/tdf.md`). Rust
//! decides by the facts of a task. One Lua script moves the task, checks the fence of the decision, and is safe to send twice.
//!
//! | module | content |
//! |---|---|
//! | [`wire`] | keys and fields of a namespace, the moves between states, lines of a log |
//! | [`engine`] | the rules: which move a task makes, and what a worker does next (pure) |
//! | [`shell`] | a method for each script, and the loops of worker, server, manager and pool |
//! | [`mod@shell::scripts`] | the Lua scripts, in `src/tdf/shell/scripts/`: `claim.lua`, `report.lua` and others |
//! | [`cli`] | `llts tdf` |
//!
//! # States and events
//!
//! A [`engine::worker::Worker`] is settling, resting, claiming, busy with a run, reporting, giving back or ended. Its events are answers
//! of Redis, results of effects, the end of the program and deadlines ([`engine::worker::Timer`]); its instructions are
//! [`engine::worker::Effect`]s. [`engine::judge`] makes a [`Verdict`](engine::judge::Verdict) of the facts of a task, and
//! [`engine::moves`] the hops that follow. An [`engine::pool::Pool`] has one
//! [`Life`](api::guest::life::Life) for each claimed task.
//!
//! # Callers
//!
//! `llts tdf` calls [`cli::run`]. With `[tdf] REDIS_URL` a controller starts [`shell::pool::host`]: each claimed task becomes a task of
//! the controller, as many as it has free agents, and an agent fetches its program.
//!
//! # The way of a claim
//!
//! 1. [`shell::Wake`] receives the message that a task is open, or the pause of a resting worker ends.
//! 2. The engine asks for [`engine::worker::Effect::Claim`] with the number of a token.
//! 3. [`shell::Namespace::claim`] sends `claim.lua` on the thread for calls. The same token gets the same task, so a lost answer is
//!    harmless. The answer is a [`engine::worker::Assignment`], whose fence guards every later call.
//! 4. [`engine::worker::Effect::Prepare`] gets the program ([`agent::source::Programs`]), on a thread of its own.
//! 5. The program runs as a tool runs at an agent: with a guard, and until no process of it is left. The lease is renewed meanwhile; a
//!    worker that has lost the task ends the program.
//! 6. [`shell::Namespace::report`] sends the result. While Redis is away, the result waits on the disk.
//! 7. The [`shell::Server`] judges the ended task: success, another round, failure.
//! 8. The [`shell::Manager`] runs a callback for it, and archives it.

pub mod cli;
pub mod engine;
pub mod shell;
pub mod wire;
