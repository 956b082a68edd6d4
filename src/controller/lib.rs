//! The controller as a process: it passes all input to the [`engine`], and stores, sends and logs the engine's decisions.
//!
//! | module | content |
//! |---|---|
//! | [`process`] | the process: one wait around the engine, and its effects |
//! | [`door`], [`hosted`] | the ways in: ZeroMQ, and what the program adds, such as HTTP or a master in the same process |
//! | [`store`] | the durable store, one SQLite file or a PostgreSQL server, and the thread that commits |
//! | [`archives`] | the archives of tools and the files of tasks, by their SHA-256 |
//! | [`history`] | finished rounds and incidents, a database for each day |
//! | [`metrics`] | measurements for Prometheus |
//!
//! # States and events
//!
//! The states of tasks and agents are those of the engine. The process adds few of its own: it starts (the store is read, the ports
//! are opened), serves, is in trouble (the store cannot be written; the engine refuses submits) and stops. Each turn of its loop
//! waits for one event: a request, a commit, a deadline, a signal. The store commits in a thread of its own, one commit at a time,
//! while turns go on.
//!
//! # Callers
//!
//! `llts controller` calls [`process::run`] with the [`hosted::Host`]s of `src/llts/compose.rs`. `prompts`, `tdf` and
//! `lists` are such guests. The last two ask through a [`hosted::HostedDoor`], as any client does, and hold a
//! [`Life`](api::guest::life::Life) for each run.
//!
//! # The path of a submit
//!
//! 1. A [`door::Door`] receives a [`door::Call`]: a body, its sender, a return address.
//! 2. [`process`] reads it with [`api::wire::requests::parse`], and checks the right of its sender with [`api::wire::rights::right_of`].
//!    Each refuses it with the text for the sender.
//! 3. [`engine::Sequencer::handle_message`] passes it to the engine. `src/engine/requests/submit.rs` checks it against the
//!    state, and refuses it with a [`Refusal`](api::wire::Refusal), or queues the task with an [`engine::Effect::Record`].
//! 4. If an agent with the tool is parked, its APPLY is answered in the same turn. This answer does not wait for the disk.
//! 5. [`engine::Sequencer::poll_departure`] gives the [`engine::Departure`]s of the turn. [`store::Writer::commit`] gets its records.
//! 6. The commit comes back to [`engine::Sequencer::handle_stored`]. The answer to the submit leaves now.
//! 7. Reports of the agent enter by [`engine::Controller::handle_agent`]. Only those of the present round count.
//! 8. Each change goes to subscribers ([`door::Change`]) and to the address of the task
//!    ([`Pusher::push_by`](zmtp::push_io::Pusher::push_by)). FINISHED leaves after its commit.

pub mod archives;
pub mod door;
pub mod history;
pub mod hosted;
pub mod metrics;
pub mod process;
pub mod store;
