//! The processes of a run: starts it, detects its end, and ends all processes that it has started.
//!
//! The caller is one thread around one `poll()`. No function here waits for a process, except [`RunRecords::sweep`],
//! which is used at start-up. The order of calls:
//!
//! 1. Once, before any thread and any run: [`become_subreaper`], [`limit_processes`], [`RunRecords::sweep`].
//! 2. For each run: [`spawn()`]; on [`SpawnError::Busy`] again after a timer.
//! 3. After run.sh has ended: [`any_left`]. Usually no process is left and the run has ended. Otherwise [`Tree::terminate`], a grace
//!    period, then [`Tree::kill`] until [`any_left`] finds none.
//! 4. After each SIGCHLD from the signalfd: [`RunningChild::try_wait`] for each known child first, then
//!    [`reap_orphans`], then [`any_left`]. A subreaper is notified of the end of every orphan, so no timer is needed.
//!
//! The root of a run is a run.sh ([`spawn()`]) or a command of the user ([`spawn_command`], [`spawn_program`]); the rest is the same.
//!
//! # Why no parent-death signal
//!
//! `PR_SET_PDEATHSIG` is not used. It fires when the *thread* that forked ends, not the process. It covers the direct
//! child only. A set-user-id exec clears it. A run outlives its agent only until the supervisor adopts it, or until the
//! guard of an agent without a supervisor sweeps it by its [`RunRecord`]. The next start sweeps what both miss, for
//! example because both were killed.
//!
//! # How a sweep recognises the processes of a run
//!
//! | recognised by | escaped by |
//! |---|---|
//! | the cgroup of the dead agent, where one can be made | moving to another cgroup, which takes rights there |
//! | the [`Brand`] among its resource limits | raising a hard limit, which takes `CAP_SYS_RESOURCE`, or lowering `RLIMIT_RTTIME` |
//! | the task and round in its initial environment | clearing or overwriting it |
//! | the group and the session of run.sh | `setsid` |
//! | descent from any such process | the end of its parent |

mod brand;
mod cgroup;
mod child;
mod command;
mod environment;
mod kept;
mod procfs;
mod record;
mod run;
pub mod spawn;
mod sweep;
mod sys;
mod tree;
mod tree_scan;

pub use brand::Brand;
pub use cgroup::own_cgroup;
pub use child::{ChildExit, RunningChild};
pub use command::{Command, CommandError, CommandPlan, spawn_command, spawn_program};
pub use environment::{Environment, UnpassableVariable};
pub use procfs::ProcessId;
pub use record::{RecordError, RecordFile, RunRecord, RunRecords, Subject, SweepReport, TaskRun};
pub use run::{ChildEnd, Rest, RunProcesses};
pub use spawn::{PROGRAM, SpawnError, SpawnPlan, limit_processes, spawn};
pub use sweep::{Cookie, sweep_by_cookie};
pub use sys::close_all_on_exec;
pub use tree::{
    Signalled, Spared, Tree, any_left, become_subreaper, end_all, end_below, end_of, named, reap_orphans, stragglers,
    wait_for_end, without_adoption,
};
pub use tree_scan::Ended;

pub use procfs::boot_id;
pub(crate) use sys::adopt_descriptor;

/// The types of process ids and signals in this module's functions.
pub use rustix::process::{Pid, Signal};
