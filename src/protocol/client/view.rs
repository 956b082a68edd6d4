//! Tasks, agents and gates as a client sees them: all fields as they came, and the known ones by name.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::protocol::{history, words};
use crate::types::{ExitCode, Fields, OutputBytes, Phase, Scalar, ToolSet, Wall};

/// A view of all fields, as they came.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name(Fields);

        impl From<Fields> for $name {
            fn from(fields: Fields) -> Self {
                Self(fields)
            }
        }

        impl $name {
            /// All fields, as they came.
            #[must_use]
            pub const fn fields(&self) -> &Fields {
                &self.0
            }
        }
    };
}

view! {
    /// A task.
    TaskView
}

impl TaskView {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0.text(words::TASK_ID).unwrap_or_default()
    }

    /// The tool that it runs.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.0.text(words::OPERATION).unwrap_or_default()
    }

    /// The word for its phase.
    #[must_use]
    pub fn status(&self) -> &str {
        self.0.text(words::STATUS).unwrap_or_default()
    }

    /// Whether nothing more will happen to it.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        words::phase_of(self.status()) == Some(Phase::Finished)
    }

    /// Since when somebody holds it.
    #[must_use]
    pub fn held_at(&self) -> Option<Wall> {
        self.0.moment(words::HELD_TIME)
    }

    /// It waits and does not start before.
    #[must_use]
    pub fn not_before(&self) -> Option<Wall> {
        self.0.moment(words::NOT_BEFORE)
    }

    /// Which round it is in: how many came before it.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.0.count(words::ROUND).unwrap_or_default()
    }

    /// How many tasks matched the query that brought this one.
    #[must_use]
    pub fn matches(&self) -> u64 {
        self.0.count(words::MATCHES).unwrap_or_default()
    }

    /// Whether a submit found it already accepted.
    #[must_use]
    pub fn is_duplicate(&self) -> bool {
        self.0.flag(words::DUPLICATE)
    }

    /// The fields of the present round, and those of each round before it under the names that they had in theirs.
    #[must_use]
    pub fn rounds(&self) -> (Fields, BTreeMap<u32, Self>) {
        let mut present = Fields::new();
        let mut past: BTreeMap<u32, Self> = BTreeMap::new();
        for (name, value) in self.0.iter() {
            match history::split_round(name).filter(|_| history::is_of_a_round(name)) {
                Some((round, name)) => {
                    past.entry(round).or_insert_with(|| Self(Fields::new())).0.set(name, value.clone());
                }
                None => present.set(name, value.clone()),
            }
        }
        (present, past)
    }

    /// The word for why a round before the present one was over.
    #[must_use]
    pub fn round_end(&self) -> &str {
        self.0.text(words::ROUND_END).unwrap_or_default()
    }

    /// When a round before the present one was over.
    #[must_use]
    pub fn round_ended_at(&self) -> Option<Wall> {
        self.0.moment(words::ROUND_END_TIME)
    }

    /// The word for what became of it.
    #[must_use]
    pub fn outcome(&self) -> Option<&str> {
        self.0.text(words::OUTCOME)
    }

    /// Why there is no exit code of run.sh, or who asked for its end.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.0.text(words::REASON)
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
        self.0.text(words::AGENT_ID)
    }

    /// The end of its report.log.
    #[must_use]
    pub fn report(&self) -> &str {
        self.0.text(words::REPORT_LOG).unwrap_or_default()
    }

    /// The end of its standard output.
    #[must_use]
    pub fn stdout(&self) -> &str {
        self.0.text(words::STDOUT).unwrap_or_default()
    }

    /// The end of its standard error.
    #[must_use]
    pub fn stderr(&self) -> &str {
        self.0.text(words::STDERR).unwrap_or_default()
    }

    /// Bytes that it wrote to report.log, stdout and stderr, of which the result has the ends; `None` from an agent that does
    /// not say so.
    #[must_use]
    pub fn output_bytes(&self) -> Option<OutputBytes> {
        let of = |name| self.0.get(name).and_then(Scalar::as_u64);
        Some(OutputBytes {
            report: of(words::REPORT_BYTES)?,
            stdout: of(words::STDOUT_BYTES)?,
            stderr: of(words::STDERR_BYTES)?,
        })
    }

    /// What was not taken as it was sent.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.0.text(words::WARNING)
    }

    /// When it was accepted.
    #[must_use]
    pub fn submitted_at(&self) -> Option<Wall> {
        self.0.moment(words::SUBMIT_TIME)
    }

    /// When its tool was started.
    #[must_use]
    pub fn run_at(&self) -> Option<Wall> {
        self.0.moment(words::RUN_TIME)
    }

    /// When its tool had ended.
    #[must_use]
    pub fn ended_at(&self) -> Option<Wall> {
        self.0.moment(words::END_TIME)
    }
}

view! {
    /// An agent.
    AgentRow
}

impl AgentRow {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0.text(words::AGENT_ID).unwrap_or_default()
    }

    /// The word for its state.
    #[must_use]
    pub fn status(&self) -> &str {
        self.0.text(words::AGENT_STATUS).unwrap_or_default()
    }

    /// The task that it has, or an empty text.
    #[must_use]
    pub fn task(&self) -> &str {
        self.0.text(words::TASK_ID).unwrap_or_default()
    }

    /// What it has that a task may require.
    #[must_use]
    pub fn tags(&self) -> &str {
        self.0.text(words::TAGS).unwrap_or_default()
    }

    /// The tools that it has; `None` for one that has not been heard since the controller was started.
    #[must_use]
    pub fn tools(&self) -> Option<ToolSet> {
        self.0.text(words::TOOLS).and_then(|text| ToolSet::parse(text).ok())
    }

    /// Whether it gets no more tasks.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.0.flag(words::DRAINED)
    }

    /// Where it is.
    #[must_use]
    pub fn ip(&self) -> &str {
        self.0.text(words::AGENT_IP).unwrap_or_default()
    }

    /// When it was heard last.
    #[must_use]
    pub fn heard_at(&self) -> Option<Wall> {
        self.0.moment(words::HEARD_TIME)
    }
}

view! {
    /// Why a task stands where it does.
    Explanation
}

impl Explanation {
    /// The task.
    #[must_use]
    pub fn task(&self) -> &str {
        self.0.text(words::TASK_ID).unwrap_or_default()
    }

    /// The word for its phase.
    #[must_use]
    pub fn status(&self) -> &str {
        self.0.text(words::STATUS).unwrap_or_default()
    }

    /// One sentence; moments in it are unix seconds.
    #[must_use]
    pub fn why(&self) -> &str {
        self.0.text(words::WHY).unwrap_or_default()
    }

    /// A line for each transition, which begins with its moment in unix seconds.
    #[must_use]
    pub fn log(&self) -> &str {
        self.0.text(words::LOG).unwrap_or_default()
    }
}

view! {
    /// A gate.
    GateRow
}

impl GateRow {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.text(words::GATE).unwrap_or_default()
    }

    /// The word for whether it lets one more pass.
    #[must_use]
    pub fn status(&self) -> &str {
        self.0.text(words::STATUS).unwrap_or_default()
    }

    /// Whether it lets nobody pass before a moment.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.status() == crate::protocol::gate::CLOSED
    }

    /// Tasks that have passed it and are with agents.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.0.count(words::RUNNING).unwrap_or_default()
    }

    /// How many those may be at once.
    #[must_use]
    pub fn running_max(&self) -> Option<u64> {
        self.0.count(words::MAX_RUNNING)
    }

    /// Tasks that wait and must pass it.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.0.count(words::WAITING).unwrap_or_default()
    }

    /// How many may start in how long.
    #[must_use]
    pub fn pace(&self) -> Option<(u64, Duration)> {
        let interval = self.0.get(words::INTERVAL)?.as_f64()?;
        Some((self.0.count(words::MAX_STARTS)?, Duration::try_from_secs_f64(interval).ok()?))
    }

    /// Nothing passes before.
    #[must_use]
    pub fn closed_until(&self) -> Option<Wall> {
        self.0.moment(words::CLOSED_UNTIL)
    }
}

/// Whether a field of the service holds a moment: unix seconds, which a person wants to read as a date.
#[must_use]
pub fn is_time(name: &str) -> bool {
    let others = [words::START_AFTER, words::END_BEFORE, words::NOT_BEFORE, words::CLOSED_UNTIL];
    name.starts_with("__") && name.ends_with("_TIME__") || others.contains(&name)
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
    fn past_rounds_are_told_apart_from_parameters() {
        let frame = br#"{"__CODE__":0,"__TASK_ID__":"T","__ROUND__":2,"0:__ROUND_END__":"FAILED","0:__EXIT_CODE__":7,
            "1:__ROUND_END__":"LOST","0:x":"mine"}"#;
        let task = TaskView::from(decode(frame).unwrap());
        let (present, past) = task.rounds();
        assert_eq!(present, Fields::new().with(words::TASK_ID, "T").with(words::ROUND, 2u32).with("0:x", "mine"));
        let ends: Vec<_> = past.iter().map(|(round, past)| (*round, past.round_end(), past.exit_code())).collect();
        assert_eq!(ends, [(0, "FAILED", Some(ExitCode(7))), (1, "LOST", None)]);
    }

    #[test]
    fn only_fields_of_the_service_are_moments() {
        assert!(is_time(words::SUBMIT_TIME) && is_time(words::HEARD_TIME));
        assert!(!is_time("TIME") && !is_time(words::TASK_ID));
    }
}
