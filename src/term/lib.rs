//! The frame of every command: options, the session, exit codes, tables, times.
//!
//! A command of llts reads its arguments, asks a service, and shows the answer to a person or to a program. This crate has the parts
//! that all commands share, so that they accept, show and fail alike. The commands stand in `llts` and in the `cli` modules of
//! `prompts`, `tdf` and `lists`.
//!
//! | module | content |
//! |---|---|
//! | [`session`] | the context of a command: options, configuration, home, output |
//! | [`connect`] | the options of every command, and the choice of the controller |
//! | [`exit`] | exit codes, and the failure of a command with its sentence |
//! | [`output`] | the only writer to stdout and stderr |
//! | [`schema`], [`json_lines`] | `--output json` in one form for all commands, and outputs as JSON Lines |
//! | [`table`], [`style`] | columns that fit the terminal; screens and colours |
//! | [`status_line`] | the one line at the bottom of a terminal |
//! | [`times`], [`when`] | moments and durations, written for people and read from them |
//! | [`states`] | the words for phases and outcomes, as arguments |
//! | [`hints`] | the commands in messages, with the options that name the service |
//!
//! The crate has no engine and no state of a service. A screen is a pure function of an answer, the time and the width of the terminal
//! ([`style::Look`]), so a snapshot test shows all of it. A text from a task is made printable in one place, [`style::Screen`].
//!
//! # The way of a command
//!
//! 1. The command line parses the options of every command ([`connect::Global`]) and finds the home and the configuration.
//! 2. It makes a [`session::Session`] and calls the command with it.
//! 3. [`session::Session::client`] connects to the controller that [`connect::endpoint`] chooses.
//! 4. The command asks with an [`Ask`](api::wire::client::Ask). Refusals and a missing controller become an [`exit::Failure`].
//! 5. It shows a [`table::Table`] or a [`style::Screen`] with [`output::Output`]. With `--output json` it shows one value.
//! 6. Its exit code is 0, that of the task ([`exit::of_task`]), or that of the failure.
//!
//! A new column of a table is a [`table::Column`]: what gives way when the terminal is narrow, and when the column is left out.

pub mod connect;
pub mod exit;
pub mod hints;
pub mod json_lines;
pub mod output;
pub mod schema;
pub mod session;
pub mod states;
pub mod status_line;
pub mod style;
pub mod table;
pub mod times;
pub mod when;
