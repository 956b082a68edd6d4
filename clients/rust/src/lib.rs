//! The Rust client of llts, a low-latency task service.
//!
//! ```no_run
//! use llts_client::{Client, Stream, Submission};
//!
//! let client = Client::here()?;                                          // the service that `llts` itself would use
//! let sort = Submission::shell("sort < in.txt > sorted.txt; wc -l sorted.txt");
//! let task = client.submit(&sort)?.id;                                   // on disk when this returns
//! let end = client.wait(&task)?;                                         // parked at the controller: nothing polls
//! println!("{:?} {}", end.outcome(), end.stdout());
//!
//! let word = Submission::new("helloworld").with("name", "Ada");          // a tool with a parameter
//! let task = client.submit(&word)?.id;
//! std::io::copy(&mut client.logs(&task, Stream::Stdout).follow(), &mut std::io::stdout())?;      // live
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program depends on this crate alone, which brings the types of requests and answers along. The crate has no controller, no agent
//! and no command line: `llts` is built on it, as other programs are.
//!
//! | module or type | content |
//! |---|---|
//! | [`Client`] | a connection: a method for each verb of `llts`, such as [`submit`](Client::submit), [`wait`](Client::wait), [`kill`](Client::kill) |
//! | [`Named`], [`configured`] | the controller that a program means, by its names, the environment and the home |
//! | [`Output`] | an output of a task in parts, also while the task runs |
//! | [`Pipeline`] | many requests in flight, for a program that has a loop of its own |
//! | [`requests`] | every request of the service, for [`Client::ask`] |
//! | [`tool`] | a kit for tools that stay |
//!
//! # Lost connections
//!
//! A request that may arrive twice without harm is sent again when its connection is lost, and a controller that has answered before may
//! be away for half a minute. A submit is such a request, because each has a key. Only [`Client::retry`] and [`Client::ask`] send once.

mod client;
pub mod configured;
mod file;
pub mod named;
mod output;
pub mod tool;
mod verbs;

pub use api::config::Config;
pub use api::wire::client::{Ask, Listing, ReplyError, Selector, TaskView};
pub use api::wire::command::Surroundings;
pub use api::wire::requests;
pub use api::wire::requests::agents::AgentRow;
pub use api::wire::requests::explain::Explanation;
pub use api::wire::requests::gate::GateRow;
pub use api::wire::requests::graph::{GraphAnswer, GraphSubmitted};
pub use api::wire::requests::job::JobAnswer;
pub use api::wire::requests::kill::Killed;
pub use api::wire::requests::stats::Stats;
pub use api::wire::requests::submit::many::SubmittedMany;
pub use api::wire::requests::submit::{JobOf, Submission, Submitted};
pub use base::{ExitCode, Fields, KeptFile, Outcome, Phase, Scalar, Stream, Wall, words};
pub use client::{Arrival, Client, ClientError, PARK_MAX, Pipeline, RequestId, Waited};
pub use file::FileError;
pub use named::{Named, NamedError};
pub use output::{Output, OutputPart};
pub use verbs::{Tasks, own_key};

/// The examples for those who see the repository first are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
