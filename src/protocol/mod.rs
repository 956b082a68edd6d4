//! Bytes to types and back, total on hostile input. The words of the wire stand here and nowhere else.
//!
//! | module | what it translates |
//! |---|---|
//! | [`envelope`] | the frames of a REQ or DEALER peer |
//! | [`json`] | text to flat objects and back |
//! | [`request`] | what a client or an agent says to the controller |
//! | [`reply`] | what the controller answers |
//! | [`policy`] | what a submit demands of the life of its task |
//! | [`gate`] | gates, their settings and how they stand |
//! | [`history`] | the rounds of a task, and the story of it for people |
//! | [`task`] | the record of a task as a flat object; matching a query against it |
//! | [`publish`] | what the PUB port sends |
//! | [`agent`] | the agent's side of the conversation |
//! | [`client`] | the client's side of it |
//! | [`record`] | the record of a task as a row of the store |
//! | [`info`] | the files and the environment that a tool finds |
//! | [`prompt`] | what the prompt master and its workers say to each other |

mod address;
pub mod agent;
pub mod client;
pub mod code;
pub mod envelope;
pub mod gate;
pub mod history;
pub mod info;
pub mod join;
pub mod json;
pub mod policy;
pub mod prompt;
pub mod publish;
pub mod record;
pub mod reply;
pub mod request;
pub mod task;
mod typed;
pub mod words;

pub use code::{Code, Refusal};
