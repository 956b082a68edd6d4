//! The common frame of all commands: options, the session, exit codes, tables, times.
//!
//! A command of llts reads its arguments, asks a service, and shows the answer to a person or a program. This crate has
//! the parts that all commands share, so that they behave alike. The commands themselves are in `llts` and in the `cli`
//! modules of `prompts`, `tdf` and `lists`.
//!
//! | module | content |
//! |---|---|
//! | [`session`] | the context of a command: options, configuration, home, output |
//! | [`connect`] | the options of every command |
//! | [`exit`] | exit codes, and failures of commands |
//! | [`output`] | the only writer to stdout and stderr |
//! | [`schema`], [`json_lines`] | `--output json` in one form for all commands, and task outputs as JSON Lines |
//! | [`table`], [`style`] | columns that fit the terminal; screens and colours |
//! | [`status_line`] | the status line at the bottom of a terminal |
//! | [`times`], [`when`] | formatting and parsing of moments and durations for people |
//! | [`states`] | the words for phases and outcomes, as arguments |
//! | [`hints`] | the commands in messages, with the options that name the service |
//!
//! The crate has no engine and no state of a service. A screen is a pure function of an answer, the time and the width
//! of the terminal ([`style::Look`]), so a snapshot test covers all of it. Texts from tasks are made printable in one
//! place, [`style::Screen`].
//!
//! # The way of a command
//!
//! 1. The program parses the options of every command ([`connect::Global`]) and finds the home and the configuration.
//! 2. It makes a [`session::Session`] and calls the command with it.
//! 3. [`session::Session::client`] connects to the controller that these options name ([`llts_client::Named`]), or the configuration.
//! 4. The command asks with an [`Ask`](api::wire::client::Ask). Refusals and a missing controller become an [`exit::Failure`].
//! 5. It shows a [`table::Table`] or a [`style::Screen`] through [`output::Output`]. With `--output json` it shows one
//!    value.
//! 6. Its exit code is 0, the task's ([`exit::of_task`]), or the failure's.
//!
//! A new column of a table is a [`table::Column`], which says how it gives way on a narrow terminal, and when it is
//! left out.

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
