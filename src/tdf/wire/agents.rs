//! A TDF task as a task of a controller: its command, its submit, and the key of its run. The agent that runs it fetches its program.

use std::time::Duration;

use api::guest::task::Snapshot;
use api::wire::client::{Ask, Selector, TaskView};
use api::wire::requests::submit::{JobOf, Submission, Submitted};
use api::wire::source;
use api::wire::source::complaint;
use base::json::FieldLimits;
use base::tdf::Fence;
use base::{Phase, ProgramName, SECONDS_MAX, Source, ToolName, json, words};

/// The job of all tasks of a namespace.
pub const JOB: &str = "tdf";

/// A run to be submitted.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The claim.
    pub fence: &'a Fence,
    /// The name of the program.
    pub program: &'a str,
    /// The source of the program.
    pub source: &'a str,
    /// The text behind run.sh in the line for the shell.
    pub input: &'a [u8],
}

impl Run<'_> {
    /// Checks what a controller would refuse.
    ///
    /// # Errors
    /// The sentence for the task.
    pub fn check(&self) -> Result<(), String> {
        ProgramName::new(self.program).map_err(|error| error.to_string())?;
        if ToolName::new(self.program).is_err() {
            let program = self.program;
            return Err(format!(
                "{program:?} is hidden: only 'llts tdf worker' runs a program whose name begins with a dot"
            ));
        }
        Source::new(self.source).map_err(|error| complaint(self.program, &error.to_string()))?;
        if self.input.contains(&0) {
            return Err("cannot run the program: its input holds a NUL byte".to_owned());
        }
        Ok(())
    }

    /// The submit of the run. The key comes from the fence: a run is submitted only once, and a restarted controller finds the task
    /// that it has. `timeout` is the remaining time.
    #[must_use]
    pub fn submit(&self, namespace: &str, timeout: Option<Duration>) -> Ask<Submitted> {
        let (word, input) = source::input_field(self.input);
        let submission = Submission {
            given_id: Some(self.fence.task.to_string()),
            submit_key: Some(format!("{}{}", prefix(namespace), key(self.fence))),
            job: Some(JobOf { name: JOB.to_owned(), ..JobOf::default() }),
            ..Submission::new(self.program)
        };
        let submission = submission.with(words::SOURCE, self.source).with(words::SOURCE_UNCHECKED, true);
        let submission = submission.with(word, input).with("__FAIL_ON_STDERR__", true);
        // No limit is 0, and a longer one is none.
        let seconds = timeout.map_or(0.0, |timeout| timeout.as_secs_f64().max(0.001));
        let submission = submission.with("__TIMEOUT__", if seconds > SECONDS_MAX { 0.0 } else { seconds });
        // The server of the namespace decides about repetitions, and a program has no file for a deferral.
        let budgets = ["__MAX_FAILS__", "__MAX_TIMEOUTS__", "__MAX_DEFERS__"];
        budgets.into_iter().fold(submission, |submission, budget| submission.with(budget, 0u32)).request()
    }
}

/// All tasks of the job.
#[must_use]
pub fn all() -> Selector {
    Selector::all().and(words::JOB, JOB.to_owned())
}

/// The phases of a task that may still be ended.
pub const UNFINISHED: [Phase; 4] = [Phase::Waiting, Phase::Dispatched, Phase::Preparing, Phase::Running];

/// The tasks of the job in this phase.
#[must_use]
pub fn unfinished(phase: Phase) -> Selector {
    all().and(words::STATUS, words::phase(phase).to_owned())
}

/// The submit key of a run, unique in its namespace.
#[must_use]
pub fn key(fence: &Fence) -> String {
    format!("{} {} {}", fence.task, fence.round, fence.started)
}

/// Reads the change of a task of a run of this namespace, with the key of the run; `None` if it is none. Any client may name its job
/// like ours.
#[must_use]
pub fn of_change(namespace: &str, frame: &[u8]) -> Option<(Snapshot, String)> {
    of_task(namespace, &TaskView::from(json::parse(frame, &FieldLimits::TRUSTED).ok()?))
}

/// Reads a listed task of a run of this namespace, with the key of the run.
#[must_use]
pub fn of_task(namespace: &str, task: &TaskView) -> Option<(Snapshot, String)> {
    let key = task.fields().text(words::SUBMIT_KEY)?.strip_prefix(&prefix(namespace))?.to_owned();
    Some((Snapshot::of(task)?, key))
}

fn prefix(namespace: &str) -> String {
    format!("tdf {namespace} ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Fields;
    use base::tdf::{TaskId, WorkerName};

    fn submitted(input: &[u8], timeout: Option<Duration>) -> Fields {
        let worker = WorkerName::new("w").unwrap();
        let fence = Fence { task: TaskId(7), round: 2, worker, started: "12.5".to_owned() };
        let run = Run { fence: &fence, program: "p", source: "rsync:/p/run.sh", input };
        run.check().unwrap();
        run.submit("ns", timeout).fields().clone()
    }

    #[test]
    fn a_submit_has_the_program_and_the_key_of_its_run() {
        let input = "\"b c\" $HOME; true #";
        let fields = submitted(input.as_bytes(), Some(Duration::from_millis(1500)));
        let texts = ["__OPERATION__", "__SOURCE__", "__INPUT__", "__JOB__"].map(|name| fields.text(name));
        assert_eq!(texts, [Some("p"), Some("rsync:/p/run.sh"), Some(input), Some("tdf")]);
        assert_eq!(fields.text("__SUBMIT_KEY__"), Some("tdf ns 7 2 12.5"));
        assert_eq!(fields.get("__TIMEOUT__"), Some(&1.5.into()));
        for none in [None, Some(Duration::MAX)] {
            assert_eq!(submitted(b"", none).get("__TIMEOUT__"), Some(&0.0.into()));
        }
    }

    #[test]
    fn what_cannot_be_run_is_a_sentence() {
        let worker = WorkerName::new("w").unwrap();
        let fence = Fence { task: TaskId(7), round: 2, worker, started: "12.5".to_owned() };
        let check = |program, source, input| Run { fence: &fence, program, source, input }.check().unwrap_err();
        assert!(check("../p", "http://x/run.sh", b"").starts_with("\"../p\" is not"));
        assert!(check("p", "ftp://x/run.sh", b"").starts_with("program './p/run.sh' does not exist! the source \"ftp"));
        assert!(check("p", "http://x/run.sh", b"a\0b").contains("NUL byte"));
    }

    #[test]
    fn only_tasks_with_a_key_of_the_namespace_are_ours() {
        let frame = |key: &str| {
            format!(
                r#"{{"__TYPE__":"TASK/STATUS","__TASK_ID__":"TASK_1480000000.120000_abcde","__STATUS__":"WAITING"
                ,"__JOB__":"tdf","__SUBMIT_KEY__":"{key}"}}"#
            )
        };
        let key = of_change("ns", frame("tdf ns 7 2 12.5").as_bytes()).map(|(_, key)| key);
        assert_eq!(key.as_deref(), Some("7 2 12.5"));
        for key in ["tdf other 7 2 12.5", "mine", ""] {
            assert_eq!(of_change("ns", frame(key).as_bytes()), None, "{key}");
        }
    }
}
