//! Step graphs (docs/sources/step-graphs.md): when the tasks of each step start, and when a step has ended.
//!
//! A [`Graph`] is a document whose steps are connected. A [`Scheduler`] has the state of each step of one graph. It starts tasks by
//! effects and learns of their ends by events. It does not know what a task is or where it runs. A [`GraphRun`] has a scheduler,
//! the locations that tasks have announced, and the end of the whole. It can be rebuilt from its stored entries.
//!
//! | external event | enters by |
//! |---|---|
//! | preparation completed, main completed | [`Scheduler::handle_ended`] |
//! | upstream providing | [`Scheduler::handle_providing`] |
//! | completion instructed | [`Scheduler::handle_completion`] |
//!
//! | internal event | when | end state |
//! |---|---|---|
//! | activate | all upstream steps are ACTIVATED | ACTIVATED; without sub inputs PREPARED |
//! | prepare | a sub input is completed | PREPARING; with all of them prepared PREPARED |
//! | consume | PREPARED, all downstream steps ACTIVATED, all main inputs completed or provided as [`MainTasks`] asks | RUNNING |
//! | complete | all main tasks have ended, and all main inputs are completed | COMPLETED |
//! | deactivate | all upstream steps are COMPLETED; so are the downstream steps, or at least PREPARED if they take sub inputs only | DEACTIVATED |
//! | propagate | all downstream steps are COMPLETING or COMPLETED | as after completion instructed |
//!
//! ACTIVATED and so on mean: in that state or a later one. Each step counts the neighbours that hold it up. So an event costs O(1)
//! for each connection of a step that changes its state, and each connection is looked at a bounded number of times.

mod neighbours;
mod plan;
mod provisions;
mod run;
mod scheduler;
mod slots;

#[cfg(test)]
mod tests;

pub use plan::{Graph, Input, InputId, MainTasks, Output, OutputId, Step};
pub use run::{GraphEffect, GraphRun, StatusChange};
pub use scheduler::{Effect, Scheduler};
pub use slots::Partition;
