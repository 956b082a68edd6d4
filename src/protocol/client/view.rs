//! Tasks and agents as a client sees them: all fields as they came, and the known ones by name.

use crate::protocol::words;
use crate::types::{ExitCode, Fields, Phase, Scalar, Wall};

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskView(Fields);

impl From<Fields> for TaskView {
    fn from(fields: Fields) -> Self {
        Self(fields)
    }
}

impl TaskView {
    /// All fields, as they came.
    #[must_use]
    pub const fn fields(&self) -> &Fields {
        &self.0
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Scalar::as_text)
    }

    fn moment(&self, name: &str) -> Option<Wall> {
        self.0.get(name).and_then(Scalar::as_f64).and_then(Wall::from_unix_seconds)
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text(words::TASK_ID).unwrap_or_default()
    }

    /// The tool that it runs.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.text(words::OPERATION).unwrap_or_default()
    }

    /// The word for its phase.
    #[must_use]
    pub fn status(&self) -> &str {
        self.text(words::STATUS).unwrap_or_default()
    }

    /// Whether nothing more will happen to it.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        words::phase_of(self.status()) == Some(Phase::Finished)
    }

    /// The word for what became of it.
    #[must_use]
    pub fn outcome(&self) -> Option<&str> {
        self.text(words::OUTCOME)
    }

    /// Why there is no exit code of run.sh, or who asked for its end.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.text(words::REASON)
    }

    /// How its run ended, if one did.
    #[must_use]
    pub fn exit_code(&self) -> Option<ExitCode> {
        let code = self.0.get(words::EXIT_CODE)?.as_i64()?;
        i32::try_from(code).ok().map(ExitCode)
    }

    /// The agent that has it, or had it.
    #[must_use]
    pub fn agent(&self) -> Option<&str> {
        self.text(words::AGENT_ID)
    }

    /// The end of its report.log.
    #[must_use]
    pub fn report(&self) -> &str {
        self.text(words::REPORT_LOG).unwrap_or_default()
    }

    /// The end of its standard output.
    #[must_use]
    pub fn stdout(&self) -> &str {
        self.text(words::STDOUT).unwrap_or_default()
    }

    /// The end of its standard error.
    #[must_use]
    pub fn stderr(&self) -> &str {
        self.text(words::STDERR).unwrap_or_default()
    }

    /// What was not taken as it was sent.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.text(words::WARNING)
    }

    /// When it was accepted.
    #[must_use]
    pub fn submitted_at(&self) -> Option<Wall> {
        self.moment(words::SUBMIT_TIME)
    }

    /// When its tool was started.
    #[must_use]
    pub fn run_at(&self) -> Option<Wall> {
        self.moment(words::RUN_TIME)
    }

    /// When its tool had ended.
    #[must_use]
    pub fn ended_at(&self) -> Option<Wall> {
        self.moment(words::END_TIME)
    }
}

/// An agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRow(Fields);

impl From<Fields> for AgentRow {
    fn from(fields: Fields) -> Self {
        Self(fields)
    }
}

impl AgentRow {
    /// All fields, as they came.
    #[must_use]
    pub const fn fields(&self) -> &Fields {
        &self.0
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Scalar::as_text).unwrap_or_default()
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text(words::AGENT_ID)
    }

    /// The word for its state.
    #[must_use]
    pub fn status(&self) -> &str {
        self.text(words::AGENT_STATUS)
    }

    /// The task that it has, or an empty text.
    #[must_use]
    pub fn task(&self) -> &str {
        self.text(words::TASK_ID)
    }

    /// Where it is.
    #[must_use]
    pub fn ip(&self) -> &str {
        self.text(words::AGENT_IP)
    }

    /// When it was heard last.
    #[must_use]
    pub fn heard_at(&self) -> Option<Wall> {
        self.0.get(words::HEARD_TIME).and_then(Scalar::as_f64).and_then(Wall::from_unix_seconds)
    }
}

/// Whether a field of the service holds a moment: unix seconds, which a person wants to read as a date.
#[must_use]
pub fn is_time(name: &str) -> bool {
    name.starts_with("__") && name.ends_with("_TIME__")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::client::decode;

    #[test]
    fn the_known_fields_have_names() {
        let frame = br#"{"__CODE__":0,"__TASK_ID__":"T","__STATUS__":"FINISHED","__OPERATION__":"hello",
            "__OUTCOME__":"FAILED","__EXIT_CODE__":-15,"__SUBMIT_TIME__":1480000000.120000,"__REPORT_LOG__":"x"}"#;
        let task = TaskView::from(decode(frame).unwrap());
        assert_eq!([task.id(), task.tool(), task.status(), task.report()], ["T", "hello", "FINISHED", "x"]);
        assert_eq!((task.is_finished(), task.outcome(), task.exit_code()), (true, Some("FAILED"), Some(ExitCode(-15))));
        assert_eq!(task.submitted_at(), Some(Wall::from_micros(1_480_000_000_120_000)));
        assert_eq!([task.agent(), task.reason(), task.warning()], [None; 3]);
    }

    #[test]
    fn only_fields_of_the_service_are_moments() {
        assert!(is_time(words::SUBMIT_TIME) && is_time(words::HEARD_TIME));
        assert!(!is_time("TIME") && !is_time(words::TASK_ID));
    }
}
