//! The API of a controller: the wire, the configuration, and the archives of tools.
//!
//! A program that talks to a service needs this crate and those below it, with `llts-client` above it, and nothing of a controller or an
//! agent. Controllers and agents use the same types, so both ends of a message are written once.
//!
//! | module | content |
//! |---|---|
//! | [`wire`] | bytes to types and back: requests, replies, publications, rows of the store |
//! | [`transport`] | addresses of controllers, and the sockets and keys to them as the configuration wants them |
//! | [`file_sender`] | files into the store of a controller |
//! | [`config`] | `defaults.toml`, which documents every key, and the user's file over it, to typed sections |
//! | [`home`], [`contexts`] | the folder of a service; named controllers of other machines |
//! | [`service_file`], [`kept_config`], [`reload`] | the running service, the configuration that it was started with, SIGHUP |
//! | [`tools`] | archives of tools: unpacked once per host, copied per task; packed and checked for their authors |
//! | [`archives_dir`] | the archives of a controller, as other processes of its machine find them |
//! | [`trust`] | folders that another user may change are refused |
//! | [`guest`] | a master in the process of a controller: its questions, and the life of each of its runs |
//!
//! The crate has one engine, [`guest::life`]. Each module of [`wire`] is made of pure functions from bytes to types or back. No crate above spells a word
//! of this wire: it calls a function or takes a constant of [`base::words`]. [`config::Config`] is checked when it is read, and needs no check later.
//!
//! # Callers
//!
//! The client (`llts-client`), the doors and the engine of `controller`, and the engine of `agent` use [`wire`]. Every process reads [`config::Config`].
//!
//! # The way of a request
//!
//! 1. A function of its file in [`wire::requests`] makes it: [`submit`](wire::requests::submit::Submission::request) or
//!    [`explain`](wire::requests::explain::explain). The [`wire::client::Ask`] knows the type of its answer.
//! 2. The `Client` of `llts-client` sends it and waits. [`transport`] makes its connection, with the keys.
//! 3. The controller reads it with [`wire::requests::parse`], within the limits of [`wire::rules::Rules`]. A bad one becomes a
//!    [`wire::requests::Refused`], with the sentence for its sender.
//! 4. [`wire::rights::right_of`] names the right that it needs. [`base::AllowCommands::admits`] decides, for every door.
//! 5. The engine answers with a [`wire::reply::Reply`], which [`wire::reply::encode`] writes. A refusal is a [`wire::Refusal`]: a code
//!    and one sentence.
//! 6. [`wire::client::Ask::decode`] reads the answer, such as a [`wire::client::TaskView`]. A refusal or a missing controller is a
//!    `ClientError` of `llts-client`.
//!
//! A request is a column of three files of one name: [`wire::requests`], `src/engine/requests/` and `src/llts/cli/`.
//! `CONTRIBUTING.md` follows one from end to end.

pub mod archives_dir;
pub mod config;
pub mod contexts;
pub mod file_sender;
pub mod guest;
pub mod home;
pub mod kept_config;
pub mod reload;
pub mod service_file;
pub mod tools;
pub mod transport;
pub mod trust;
pub mod wire;
