//! Task lists on disk (TDF2): tasks and lists are files in folders that are named for their states.
//!
//! A move is one rename, so a kill at any instant leaves each task in one place. The name of a running list is its fence: results count
//! only from the connection that has the list of this name. The original is described in `docs/sources/task-lists.md`.
//!
//! | module | content |
//! |---|---|
//! | [`wire`] | the messages of server and workers, JSON objects over TCP |
//! | [`engine::server`] | which tasks form a list, which worker has it, when it is opened again |
//! | [`engine::worker`] | the tasks of a list one after the other, and the delivery of their results |
//! | [`engine::agents`] | the agents of a controller as one worker |
//! | [`engine::task`] | the content of a task file, and what follows a failure |
//! | [`shell`] | the folders, the loops of server and worker, the thread that stores results |
//! | [`cli`] | `llts spool` |
//!
//! # States and events
//!
//! A list is in `open/`, `running/` or `closed/`, and its tasks in `new/`, `completed/`, `failed/` and the folders behind them: a
//! [`State`](shell::folders::State). A [`engine::server::Server`] gets files, moves, messages and deadlines
//! ([`engine::server::Timer`]) as events, and instructs with [`engine::server::Effect`]s. A [`engine::worker::Worker`] has a connection,
//! a list and one command, with [`engine::worker::Effect`] and [`engine::worker::Timer`].
//!
//! # Callers
//!
//! `llts spool` calls [`cli::run`]. With `[lists] DIR` a controller starts [`shell::host`] on a thread of its own, behind a
//! [`HostedDoor`](controller::hosted::HostedDoor): each task of a claimed list becomes a task of the controller, with a key made of both
//! names.
//!
//! # The way of a list
//!
//! 1. A file appears in `new/`: [`handle_seen`](engine::server::Server::handle_seen). Its [`Task`](engine::task::Task) waits for others.
//! 2. Enough tasks, or old ones, are moved to `open/` as one list: [`engine::server::Effect::Gather`].
//! 3. A worker sends CLAIM ([`wire::FromWorker`]). [`engine::server::Effect::Start`] renames the list to `running/`; its new name says
//!    which worker has it since when.
//! 4. The worker runs the commands in their order ([`engine::worker::Effect::Start`]), also while the server is away.
//! 5. It sends RESULTS. The keeper thread writes them and syncs once for many, and the server acknowledges them after that.
//! 6. [`engine::server::Effect::Close`] moves the list to `closed/`, and its tasks to `completed/` or `failed/`.
//! 7. A failed task is judged ([`engine::task::judge`]): its duplicate goes to `new/`, or the task stays as failed.
//! 8. If the worker is lost, [`engine::server::Effect::Reopen`] puts the rest of the list back to `open/`.

pub mod cli;
pub mod engine;
pub mod shell;
pub mod wire;
