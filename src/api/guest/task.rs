//! A task of a controller as a master in the same process sees it: how far it is, and how it has ended.

use crate::wire::client::{Ask, TaskView};
use crate::wire::requests::submit::{Submission, Submitted};
use base::json::FieldLimits;
use base::words::kind;
use base::{ExitCode, Outcome, OutputBytes, Phase, Stream, TaskId, Wall, exact_tail, json, words};

/// A task, as its controller knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Its id at the controller.
    pub task: TaskId,
    /// Whether a client keeps it from starting.
    pub is_held: bool,
    /// How far it is.
    pub stage: Stage,
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// No agent has it.
    Waiting,
    /// An agent has it.
    Started,
    /// It has finished.
    Finished(Box<End>),
}

/// The end of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// The number of its last round.
    pub round: u64,
    /// When its command was started; `None` if it was not.
    pub started: Option<Wall>,
    /// When its command ended, if that is known.
    pub ended: Option<Wall>,
    /// The exit code, if there is one.
    pub exit: Option<ExitCode>,
    /// The outcome.
    pub outcome: Outcome,
    /// The originator of its end, or why there is no exit code.
    pub reason: Option<String>,
    /// The ends of its stdout and of its stderr.
    pub tails: [String; 2],
    /// The bytes that it has written, if they are known.
    pub written: Option<OutputBytes>,
}

impl End {
    /// The length of an output. If the agent does not count the bytes, the length of its tail.
    #[must_use]
    pub fn length(&self, stream: Stream) -> u64 {
        match (stream, self.written) {
            (Stream::Stdout, Some(written)) => written.stdout,
            (Stream::Stderr, Some(written)) => written.stderr,
            (Stream::Report, _) => 0,
            (stream, None) => self.tail(stream).len() as u64,
        }
    }

    /// The whole output, if the tail contains all of it.
    #[must_use]
    pub fn whole(&self, stream: Stream) -> Option<&str> {
        let tail = self.tail(stream);
        (self.written.is_none() || exact_tail(tail, self.length(stream)) == Some(0)).then_some(tail)
    }

    fn tail(&self, stream: Stream) -> &str {
        let [out, err] = &self.tails;
        match stream {
            Stream::Stdout => out,
            Stream::Stderr => err,
            Stream::Report => "",
        }
    }
}

/// A request that reads the answer to any submit of one task. It is not sent.
#[must_use]
pub fn reading_submit() -> Ask<Submitted> {
    Submission::default().request()
}

impl Snapshot {
    /// Reads the change of a task; `None` for any other message.
    #[must_use]
    pub fn of_change(frame: &[u8]) -> Option<Self> {
        let fields = json::parse(frame, &FieldLimits::TRUSTED).ok()?;
        (fields.text(words::TYPE)? == kind::TASK_STATUS).then(|| Self::of(&TaskView::from(fields)))?
    }

    /// Reads a task; `None` if it has no id or no phase.
    #[must_use]
    pub fn of(view: &TaskView) -> Option<Self> {
        let stage = match words::phase_of(view.status())? {
            Phase::Waiting => Stage::Waiting,
            Phase::Dispatched | Phase::Preparing | Phase::Running | Phase::Ended => Stage::Started,
            Phase::Finished => Stage::Finished(Box::new(End {
                round: view.round(),
                started: view.run_at(),
                ended: view.ended_at(),
                exit: view.exit_code(),
                outcome: words::outcome_of(view.outcome()?)?,
                reason: view.reason().map(str::to_owned),
                tails: [view.stdout(), view.stderr()].map(str::to_owned),
                written: view.output_bytes(),
            })),
        };
        Some(Self { task: view.id().parse().ok()?, is_held: view.held_at().is_some(), stage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_waits_has_started_or_has_finished() {
        let id = "TASK_1480000000.120000_abcde";
        let sight = |rest: &str| {
            let frame = format!(r#"{{"__TYPE__":"TASK/STATUS","__TASK_ID__":"{id}"{rest}}}"#);
            Snapshot::of_change(frame.as_bytes())
        };
        let stage = |rest: &str| sight(rest).map(|sight| sight.stage);
        assert_eq!(stage(r#","__STATUS__":"WAITING""#), Some(Stage::Waiting));
        assert_eq!(stage(r#","__STATUS__":"RUNNING""#), Some(Stage::Started));
        assert_eq!(stage(""), None);
        let end = r#","__STATUS__":"FINISHED","__OUTCOME__":"FAILED","__EXIT_CODE__":-9,"__STDOUT__":"b","__STDERR__":"e",
            "__REPORT_BYTES__":0,"__STDOUT_BYTES__":2,"__STDERR_BYTES__":1"#;
        let Some(Stage::Finished(end)) = stage(end) else { panic!("no end") };
        assert_eq!((end.exit, end.length(Stream::Stdout), end.whole(Stream::Stdout)), (Some(ExitCode(-9)), 2, None));
        assert_eq!(end.whole(Stream::Stderr), Some("e"));
        assert_eq!(Snapshot::of_change(br#"{"__TYPE__":"JOB/STATUS"}"#), None);
    }
}
