//! Views of answers for clients: all fields as they arrived, and a method for each known field.

use std::collections::BTreeMap;

use crate::wire::command;
use base::{ExitCode, Fields, OutputBytes, Phase, Progress, Wall, words};

/// Defines a view of all fields as they arrived, with a method for each known field: its name, its type, and the function
/// that reads it. A field that is missing, or has another type, is none, false or empty.
macro_rules! view {
    (
        $(#[$doc:meta])* $name:ident {
            $( $(#[$about:meta])* $field:ident: $type:ty = $read:expr; )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name(Fields);

        impl From<Fields> for $name {
            fn from(fields: Fields) -> Self {
                Self(fields)
            }
        }

        impl $name {
            /// All fields, as they arrived.
            #[must_use]
            pub const fn fields(&self) -> &Fields {
                &self.0
            }

            $(
                $(#[$about])*
                #[must_use]
                pub fn $field(&self) -> $type {
                    let read: fn(&Fields) -> $type = $read;
                    read(&self.0)
                }
            )*
        }
    };
}
pub(in crate::wire) use view;

view! {
    /// A task.
    TaskView {
        /// Id of the task.
        id: &str = |fields| fields.text(words::TASK_ID).unwrap_or_default();
        /// Name of the tool.
        tool: &str = |fields| fields.text(words::OPERATION).unwrap_or_default();
        /// Its tool, or the beginning of its command, on one line.
        work: String = |fields| command::shown(fields).unwrap_or_else(|| {
            fields.text(words::OPERATION).unwrap_or_default().to_owned()
        });
        /// The word for its phase.
        status: &str = |fields| fields.text(words::STATUS).unwrap_or_default();
        /// The time at which it was held, if it is held.
        held_at: Option<Wall> = |fields| fields.moment(words::HELD_TIME);
        /// If it waits: the time before which it does not start.
        not_before: Option<Wall> = |fields| fields.moment(words::NOT_BEFORE);
        /// The number of its round, from 0.
        round: u64 = |fields| fields.count(words::ROUND).unwrap_or_default();
        /// The number of tasks that matched the query.
        matches: u64 = |fields| fields.count(words::MATCHES).unwrap_or_default();
        /// In an earlier round: the word for the reason of its end.
        round_end: &str = |fields| fields.text(words::ROUND_END).unwrap_or_default();
        /// In an earlier round: the time of its end.
        round_ended_at: Option<Wall> = |fields| fields.moment(words::ROUND_END_TIME);
        /// The word for its outcome.
        outcome: Option<&str> = |fields| fields.text(words::OUTCOME);
        /// Why there is no exit code of run.sh, or the originator of its end.
        reason: Option<&str> = |fields| fields.text(words::REASON);
        /// The agent that has or had it.
        agent: Option<&str> = |fields| fields.text(words::AGENT_ID);
        /// The end of report.log.
        report: &str = |fields| fields.text(words::REPORT_LOG).unwrap_or_default();
        /// The value that its tool has answered, as JSON. Only a tool that stays can answer one.
        value: Option<&str> = |fields| fields.text(words::VALUE);
        /// The end of the standard output.
        stdout: &str = |fields| fields.text(words::STDOUT).unwrap_or_default();
        /// The end of the standard error.
        stderr: &str = |fields| fields.text(words::STDERR).unwrap_or_default();
        /// The time at which it was accepted.
        submitted_at: Option<Wall> = |fields| fields.moment(words::SUBMIT_TIME);
        /// The time at which its tool was started.
        run_at: Option<Wall> = |fields| fields.moment(words::RUN_TIME);
        /// If it has finished: when its agent had cleaned up or, if that is unknown, the last known time of it.
        finished_at: Option<Wall> = |fields| {
            let is_finished = fields.text(words::STATUS).and_then(words::phase_of) == Some(Phase::Finished);
            let known = [words::FINISH_TIME, words::END_TIME, words::KILL_TIME, words::DISPATCH_TIME, words::SUBMIT_TIME];
            known.into_iter().find_map(|name| fields.moment(name)).filter(|_| is_finished)
        };
        /// The time at which its tool ended.
        ended_at: Option<Wall> = |fields| fields.moment(words::END_TIME);
    }
}

impl TaskView {
    /// Whether it has finished.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        words::phase_of(self.status()) == Some(Phase::Finished)
    }

    /// The fields of the present round, and of each earlier round, under their original names.
    #[must_use]
    pub fn rounds(&self) -> (Fields, BTreeMap<u32, Self>) {
        let mut present = Fields::new();
        let mut past: BTreeMap<u32, Self> = BTreeMap::new();
        for (name, value) in self.0.iter() {
            match words::split_round(name).filter(|_| words::is_of_a_round(name)) {
                Some((round, name)) => {
                    past.entry(round).or_insert_with(|| Self(Fields::new())).0.set(name, value.clone());
                }
                None => present.set(name, value.clone()),
            }
        }
        (present, past)
    }

    /// The last line that it has written to stderr; without one, the reason of its end.
    #[must_use]
    pub fn last_line(&self) -> &str {
        let last = self.stderr().lines().rev().find(|line| !line.trim().is_empty());
        last.or_else(|| self.reason()).unwrap_or_default().trim()
    }

    /// The progress of its run, if the run reports it.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        let fraction = self.0.get(words::PROGRESS)?.as_f64()?;
        Progress::new(fraction, self.0.text(words::PROGRESS_TEXT).unwrap_or_default())
    }

    /// The exit code of its run, if there is one.
    #[must_use]
    pub fn exit_code(&self) -> Option<ExitCode> {
        let code = self.0.get(words::EXIT_CODE)?.as_i64()?;
        i32::try_from(code).ok().map(ExitCode)
    }

    /// The numbers of bytes written to report.log, stdout and stderr. The result contains only the ends of these. `None` if the
    /// agent does not report the numbers.
    #[must_use]
    pub fn output_bytes(&self) -> Option<OutputBytes> {
        let of = |name| self.0.count(name);
        let (report, stdout, stderr) = (of(words::REPORT_BYTES)?, of(words::STDOUT_BYTES)?, of(words::STDERR_BYTES)?);
        Some(OutputBytes { report, stdout, stderr })
    }
}

/// Whether a field of the service is a moment: unix seconds, which are shown to people as a date.
#[must_use]
pub fn is_time(name: &str) -> bool {
    let others = [words::START_AFTER, words::END_BEFORE, words::NOT_BEFORE, words::CLOSED_UNTIL, words::SINCE];
    name.starts_with("__") && name.ends_with("_TIME__") || others.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::client::decode;

    #[test]
    fn the_known_fields_have_names() {
        let frame = br#"{"__CODE__":0,"__TASK_ID__":"T","__STATUS__":"FINISHED","__OPERATION__":"hello",
            "__OUTCOME__":"FAILED","__EXIT_CODE__":-15,"__SUBMIT_TIME__":1480000000.120000,"__REPORT_LOG__":"x"}"#;
        let task = TaskView::from(decode(frame).unwrap());
        assert_eq!([task.id(), task.tool(), task.status(), task.report()], ["T", "hello", "FINISHED", "x"]);
        assert_eq!((task.is_finished(), task.outcome(), task.exit_code()), (true, Some("FAILED"), Some(ExitCode(-15))));
        assert_eq!(task.submitted_at(), Some(Wall::from_micros(1_480_000_000_120_000)));
        assert_eq!([task.agent(), task.reason()], [None; 2]);
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
