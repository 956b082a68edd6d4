//! Bytes to types and back, for any input. The words of the wire and flat objects are in `base`.
//!
//! | module | content |
//! |---|---|
//! | [`requests`] | the messages of clients and agents to the controller: a file for each, with its answer |
//! | [`reply`] | the answers of the controller |
//! | [`page`] | lists in pages |
//! | [`rules`] | the limits of a message |
//! | [`policy`] | the policy of a submit |
//! | [`command`] | a plain command in the fields of a submit |
//! | [`task_files`] | the files that travel with a task, in the fields of a submit and of a result |
//! | [`history`] | the rounds of a task, and its log for people |
//! | [`brief`], [`what`] | why a task waits or failed, and what it does, in one line |
//! | [`task`] | the record of a task as a flat object; matching a query against it |
//! | [`publish`] | the messages of the PUB port |
//! | [`agent`] | the agent's side of the conversation |
//! | [`client`] | the client's side of the conversation |
//! | [`rounds`] | the rows of the history |
//! | [`record`] | the record of a task as a row of the store |
//! | [`info`] | the files and the environment variables for a tool |
//! | [`step_files`] | the files of a task of a step |
//! | [`graph`] | the document of a step graph, and its events in the store |
//! | [`tool_manifest`] | `tool.toml`, and the check of a submit against it |

mod address;
pub mod agent;
pub mod brief;
pub mod client;
pub mod command;
pub mod graph;
pub mod history;
pub mod info;
pub mod join;
mod locations;
mod narrowing;
pub mod page;
pub mod policy;
pub mod publish;
pub mod record;
pub mod relations;
pub mod reply;
pub mod requests;
mod result;
pub mod rights;
pub mod rounds;
pub mod rules;
pub mod source;
pub mod step_files;
pub mod task;
pub mod task_files;
pub mod tool_manifest;
mod typed;
pub mod version;
pub mod what;

pub use base::code::{Code, Refusal};
pub use narrowing::Narrowing;
