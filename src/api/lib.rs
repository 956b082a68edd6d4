//! The API of a controller: the wire, the configuration, and the archives of tools.
//!
//! A program that talks to a service needs `llts-client`, this crate and the crates below it, but no code of a controller or an
//! agent. Controllers and agents use the same types, so both ends of a message are written once.
//!
//! | module | content |
//! |---|---|
//! | [`wire`] | bytes to types and back: requests, replies, publications, rows of the store |
//! | [`transport`] | addresses of controllers, with sockets and keys as configured |
//! | [`file_sender`] | files into the store of a controller |
//! | [`config`] | typed sections, read from `defaults.toml`, which documents every key, and the user's file |
//! | [`home`], [`contexts`] | the folder of a service; named controllers of other machines |
//! | [`service_file`], [`kept_config`], [`reload`] | the running service, its configuration at the start, SIGHUP |
//! | [`tools`] | archives of tools: unpacked once per host, copied per task; packed and checked for their authors |
//! | [`archives_dir`] | where other processes of the same machine find the archives of a controller |
//! | [`trust`] | refuses folders that another user may change |
//! | [`guest`] | a master in the process of a controller: its questions, and the life of each of its runs |
//!
//! The crate has one engine, [`guest::life`]. The modules of [`wire`] are pure functions from bytes to types or back. No crate
//! above spells out a word of the wire: it calls a function here or uses a constant of [`base::words`]. [`config::Config`] is
//! checked when it is read and needs no check later.
//!
//! # Callers
//!
//! [`wire`] is used by the client (`llts-client`), the doors and the engine of `controller`, and the engine of `agent`. Every
//! process reads [`config::Config`].
//!
//! # The way of a request
//!
//! 1. A function in [`wire::requests`] makes it, for example [`submit`](wire::requests::submit::Submission::request) or
//!    [`explain`](wire::requests::explain::explain). The result is a [`wire::client::Ask`], which knows the type of the answer.
//! 2. The `Client` of `llts-client` sends it over a connection from [`transport`], which sets up the keys, and waits.
//! 3. The controller reads it with [`wire::requests::parse`], within the limits of [`wire::rules::Rules`]. A bad request becomes
//!    a [`wire::requests::Refused`] with a sentence for the sender.
//! 4. [`wire::rights::right_of`] names the right that the request needs. [`base::AllowCommands::admits`] decides, for every door.
//! 5. The engine answers with a [`wire::reply::Reply`], which [`wire::reply::encode`] writes. A refusal is a [`wire::Refusal`]: a code
//!    and one sentence.
//! 6. [`wire::client::Ask::decode`] reads the answer, such as a [`wire::client::TaskView`]. A refusal or a missing controller is a
//!    `ClientError` of `llts-client`.
//!
//! Each request has three files of the same name: in [`wire::requests`], `src/engine/requests/` and `src/llts/cli/`.
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
