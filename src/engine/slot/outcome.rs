//! What effects say, and what comes back of them.

use crate::types::{Defer, ExitCode, Mono, OutputBytes, RunResult};

/// How long the run of an exclusive task may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// From here on the agent ends it, and nothing of it is started.
    pub until: Mono,
    /// From here on all that is left of it is ended with SIGKILL, by the guard if the agent does not do it.
    pub kill_at: Mono,
}

/// How an agent parts from its controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As it was told to, and the controller has heard its good-bye.
    Left,
    /// As it was told to, but the controller does not answer: the next agent of the name has to replace it.
    Unheard,
    /// The controller does not want it, for this reason.
    Rejected(String),
}

/// Why a run never started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// -128 to -131.
    pub exit_code: ExitCode,
    /// One sentence.
    pub error: String,
}

/// Why run.sh did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpawnFailure {
    /// Somebody still has run.sh open for writing (ETXTBSY); worth another try.
    Busy,
    /// It will never start.
    Failed(Failure),
}

/// How run.sh ended, and what it left to read.
#[derive(Clone, Debug, PartialEq)]
pub struct Exited {
    /// Its code.
    pub exit_code: ExitCode,
    /// Processor time, in seconds.
    pub cpu_seconds: f64,
    /// Peak resident memory, in KiB.
    pub max_rss_kib: u64,
    /// The end of report.log.
    pub report_tail: String,
    /// The end of stdout.
    pub stdout_tail: String,
    /// The end of stderr.
    pub stderr_tail: String,
    /// How much these are the ends of.
    pub output_bytes: Option<OutputBytes>,
    /// What defer.info asks for, if run.sh deferred.
    pub defer: Option<Box<Defer>>,
}

impl Exited {
    /// The result of a run that ended like this, `by_itself` or by a signal of its agent.
    pub(super) fn into_result(self, by_itself: bool) -> RunResult {
        RunResult {
            exit_code: self.exit_code,
            error: String::new(),
            report_tail: self.report_tail,
            stdout_tail: self.stdout_tail,
            stderr_tail: self.stderr_tail,
            output_bytes: self.output_bytes,
            cpu_seconds: self.cpu_seconds,
            max_rss_kib: self.max_rss_kib,
            reaped: 0,
            by_itself,
            defer: self.defer,
        }
    }
}

/// Why a run that is killed before it starts has not started.
pub(super) fn killed_preparing() -> Failure {
    Failure { exit_code: ExitCode::KILLED_PREPARING, error: "killed while it was being prepared".to_owned() }
}

/// What the controller hears of a run that had to be ended because of its lease, whatever it was ended with.
pub(super) fn lease_over() -> RunResult {
    let error = "its agent could not reach the controller, and its lease was over".to_owned();
    RunResult::of(ExitCode::LEASE_OVER, error)
}
