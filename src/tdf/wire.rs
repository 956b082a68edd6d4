//! A TDF namespace in Redis: its keys, the fields of a task's hash, lines of its log. What an original component writes is read,
//! and what is written an original component reads.

pub mod agents;
pub mod facts;
pub mod hop;
pub mod log;
pub mod task;
pub mod terms;
pub mod words;

pub use facts::{Budget, Facts, Poison};
pub use hop::Hop;
pub use task::Task;
pub use terms::{BadTerm, Terms};
