//! The agent: one slot, the process in it, its work folder and its outputs.
//!
//! An agent runs one task at a time. It asks its controller for a task, places the tool, starts `run.sh`, ends all processes of the
//! run, and reports. It has no port: outputs of its runs are read over the connection that it has made.
//!
//! | module | content |
//! |---|---|
//! | [`slot`] | the engine: the phases of the run, orders about it, reports and their confirmation |
//! | [`process`] | the process: one connection, one wait, and the effects of the engine |
//! | [`workspace`] | one folder per task, restored for a later task or removed |
//! | [`outputs`] | the outputs of runs that have ended, compressed, and read in parts |
//! | [`source`] | programs that are fetched over http, https or with rsync |
//!
//! # States and events
//!
//! The run in a [`slot::Slot`] is Free, Preparing, Running, Ended, Keeping, Removing, Finished or Held. Events are answers of the
//! controller ([`handle_answer`](slot::Slot::handle_answer)), results of effects ([`handle_prepared`](slot::Slot::handle_prepared) and
//! others), the end of `run.sh` and deadlines ([`slot::Timer`]). Instructions are [`slot::Effect`]s; results come back as events.
//! [`slot::Settings`] has the pauses between kill signals, from `AGENT_KILL_INTERVAL`; [`proc::ladder`] decides by them.
//!
//! An exclusive run holds a lease ([`base::lease`]). The engine ends the run when the controller does not answer in time, and the guard
//! or the supervisor ends it if the agent itself is stopped.
//!
//! # Callers
//!
//! `llts agent` calls [`process::run`], and the supervisor starts one such process for each agent. `tdf` fetches its programs with
//! [`source::Programs`].
//!
//! # The way of a run
//!
//! 1. The answer to the parked APPLY brings a [`Dispatch`](api::wire::requests::apply::Dispatch), or a list of short ones. The engine asks for
//!    [`slot::Effect::Prepare`].
//! 2. The tool comes from the [`ToolCache`](api::tools::ToolCache), from the archives of the controller, or from its source
//!    ([`source::Programs`]). A small one gets the folder of an earlier run from the [`workspace::DirPool`], compared and restored.
//! 3. [`slot::Effect::Spawn`] starts `run.sh` by [`proc::process::spawn()`]. The report says RUNNING.
//! 4. SIGCHLD announces the end of `run.sh`. The ends of its outputs are read ([`workspace::Tail`]).
//! 5. [`slot::Effect::CheckTree`] looks for processes that it has left. They get SIGTERM, then SIGKILL.
//! 6. A run of a step is read for what it provides. Files that the task names are kept ([`slot::Effect::Keep`]), and long outputs go
//!    to [`outputs::Outputs`].
//! 7. [`slot::Effect::Remove`] gives the folder to the next task of the tool, or to the [`workspace::Remover`].
//! 8. The final report and the next APPLY are one message. The report is repeated until the controller confirms it.

pub mod outputs;
pub mod process;
pub mod slot;
pub mod source;
pub mod workspace;
