//! One run of a task: its phases, their times, and the result.

use std::time::Duration;

use super::{ExitCode, KeptFiles, Labels, Wall};

/// The phase of a task (docs/sources/controller.md, 5.3), in order. Only a new round moves a phase backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// In the queue.
    Waiting,
    /// Handed to an agent that has not reported on it yet.
    Dispatched,
    /// The agent makes the work folder and unpacks the tool.
    Preparing,
    /// run.sh runs.
    Running,
    /// run.sh has ended and the agent cleans up.
    Ended,
    /// Only the record is left.
    Finished,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Dispatched, Self::Preparing, Self::Running, Self::Ended, Self::Finished];
}

/// The moments at which a run reached its phases, by the clock of its agent. A run that was killed early skips some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseTimes {
    /// `__PREPARE_TIME__`
    pub prepare: Option<Wall>,
    /// `__RUN_TIME__`
    pub run: Option<Wall>,
    /// `__END_TIME__`
    pub end: Option<Wall>,
    /// `__FINISH_TIME__`
    pub finish: Option<Wall>,
}

impl PhaseTimes {
    /// The times of this phase and the earlier ones. If the time of this phase itself is unknown, it is `now`.
    #[must_use]
    pub fn up_to(self, phase: Phase, now: Wall) -> Self {
        let of = |one: Phase, time: Option<Wall>| {
            if one == phase { time.or(Some(now)) } else { time.filter(|_| one < phase) }
        };
        Self {
            prepare: of(Phase::Preparing, self.prepare),
            run: of(Phase::Running, self.run),
            end: of(Phase::Ended, self.end),
            finish: of(Phase::Finished, self.finish),
        }
    }
}

/// Bytes that a run has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBytes {
    /// To report.log.
    pub report: u64,
    /// To stdout.
    pub stdout: u64,
    /// To stderr.
    pub stderr: u64,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunResult {
    /// Exit code of run.sh, or a code for what ended the run.
    pub exit_code: ExitCode,
    /// Why run.sh itself has no exit code: one sentence, or empty.
    pub error: String,
    /// The end of report.log.
    pub report_tail: String,
    /// The end of stdout.
    pub stdout_tail: String,
    /// The end of stderr.
    pub stderr_tail: String,
    /// Total sizes of these three outputs, if the agent reports them.
    pub output_bytes: Option<OutputBytes>,
    /// Processor time of run.sh and of the processes that it waited for, in seconds.
    pub cpu_seconds: f64,
    /// Peak resident memory of the largest process, in KiB.
    pub max_rss_kib: u64,
    /// Number of processes that outlived run.sh and had to be ended.
    pub reaped: u32,
    /// Whether run.sh had ended before its agent sent any signal.
    pub by_itself: bool,
    /// Whether its agent told it to finish early, as the controller ordered for its step. Its end is then not a failure.
    pub told_to_finish: bool,
    /// The request of a run that deferred.
    pub defer: Option<Box<Defer>>,
    /// The value that a tool that stays has answered, as JSON.
    pub value: Option<Box<str>>,
    /// Whether the task found its tool running; `None` for a tool that does not stay.
    pub warm: Option<bool>,
    /// The files that are kept with the task, if it names any.
    pub files: Option<Box<KeptFiles>>,
}

impl RunResult {
    /// Bytes of memory that this result costs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let texts = [&self.error, &self.report_tail, &self.stdout_tail, &self.stderr_tail];
        let files = self.files.as_ref().map_or(0, |files| files.bytes());
        let value = self.value.as_ref().map_or(0, |value| value.len());
        size_of::<Self>() + texts.map(String::len).iter().sum::<usize>() + files + value
    }

    /// A result with nothing but an exit code and a reason.
    #[must_use]
    pub fn of(exit_code: ExitCode, error: String) -> Self {
        Self { exit_code, error, ..Self::default() }
    }
}

/// The request of a run that ended with [`ExitCode::DEFERRED`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defer {
    /// Pause before the next round.
    pub retry_after: Option<Duration>,
    /// Whether the next round waits for TASK/RELEASE.
    pub until_released: bool,
    /// Gates to close for all tasks during the pause. Only gates that the task names itself are closed.
    pub gates: Labels,
}
