//! Prompts: a master hands the files of a folder out to workers, and a worker runs any command for each.
//!
//! Only the master moves the files, and a worker's report on a file counts only while the worker has it. So each prompt ends once,
//! whichever process is killed. The messages are those of the original document (`docs/sources/prompts.md`). Additions are offered in
//! JOIN ([`wire::Offer`]) and accepted in JOIN_ACK ([`wire::Welcome`]), so original programs see none of them.
//!
//! | module | content |
//! |---|---|
//! | [`wire`] | the messages of master and worker, JSON objects over TCP |
//! | [`master::engine`], [`master::process`] | which worker gets which file; sockets and folders around it |
//! | [`worker::engine`], [`worker::process`] | connection and run of a worker; the command and its files |
//! | [`worker::engine::signs`] | the signs of a limit in the output of a command |
//! | [`files`] | the folder of a master for other programs: new prompts, results, status |
//! | [`cli`] | `llts prompt` |
//!
//! # States and events
//!
//! A connection of a [`master::engine::Master`] is a stranger, settling, idle, claiming, requesting, working or disconnecting. Events
//! are files, messages, moves and deadlines ([`master::engine::Timer`]); instructions are [`master::engine::Effect`]s. A
//! [`worker::engine::Worker`] has a connection and at most one run, with [`worker::engine::Effect`] and [`worker::engine::Timer`].
//! Both engines list their events at their heads.
//!
//! # Callers
//!
//! `llts prompt` calls [`cli::run`]. With `[prompt] HOSTED` a controller runs a
//! [`HostedMaster`](master::process::HostedMaster) beside its own work.
//!
//! # The way of a prompt
//!
//! 1. A file appears in `pending/`: [`handle_found`](master::engine::Master::handle_found). The file waits for an idle worker and its gates.
//! 2. [`master::engine::Effect::Claim`] moves it to `working/`. The worker gets a [`wire::Request`] and acknowledges it.
//! 3. [`worker::engine::Effect::Start`] starts the command. Input and outputs are files, so no loop waits for it.
//! 4. The command ends, and no process of it is left: [`proc::ladder`] ends the rest, as for any run.
//! 5. Exit code 75 means a limit of the service behind the command. Otherwise [`Signs::read`](worker::engine::signs::Signs::read) searches the output for one.
//!    Error messages in JSON count, and the last lines of a run that has failed. The known patterns stand in
//!    `src/prompts/worker/engine/limits.toml`.
//! 6. The results are stored, and the worker reports DONE, FAILED or USAGE_LIMITED. The worker keeps the report until it is confirmed.
//! 7. The master moves the file to `done/` or `failed/`. After a limit the file waits again, and its gates are closed meanwhile.
//! 8. A worker that loses its connection continues for the time of its lease, and names its run when it joins again.

pub mod cli;
pub mod wire;

pub mod files;
pub mod master;
pub mod worker;
