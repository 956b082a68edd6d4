//! The ends of the tasks of a map, and the exit code for them.

use std::collections::BTreeMap;

use api::wire::client::TaskView;
use base::{ExitCode, Outcome, pattern, words};

/// Failed tasks that are named at the end of a map.
pub const EXAMPLES_MAX: usize = 10;

/// Patterns of last lines that are counted; failures beyond them are in no group.
const PATTERNS_MAX: usize = 100;

/// More failed tasks than this give an exit code one above it, as in GNU parallel.
const FAILED_MAX: u8 = 100;

/// The exit code of an interrupted map: shells report it for a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// The numbers of tasks by their ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Succeeded in this run of the map.
    pub succeeded: u64,
    /// Had succeeded before this run of the map.
    pub before: u64,
    /// Ended in any other way, and lines that are no tasks.
    pub failed: u64,
    /// Were not run because the job was stopped or something that they wait for has failed.
    pub skipped: u64,
    /// Were not run, or ended, because the map was interrupted.
    pub left: u64,
    /// Further rounds of finished tasks in this run of the map.
    pub rounds: u64,
    /// The failed tasks by how they failed.
    pub ends: BTreeMap<End, u64>,
    /// Some of the failed tasks.
    pub examples: Vec<Example>,
    /// The failed ones by the pattern of their last line.
    pub patterns: BTreeMap<String, u64>,
}

/// A way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// With an exit code other than 0.
    Exit(i32),
    /// By a signal.
    Signal(i32),
    /// With an outcome that has no exit code.
    Outcome(&'static str),
    /// The line is no task.
    NoTask,
    /// The service does not know the task any more.
    Forgotten,
}

/// A failed task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The number of its line.
    pub number: u64,
    /// The way it failed.
    pub end: End,
    /// The values that it was made of.
    pub values: String,
    /// The last line that it wrote to stderr, or the reason of its end.
    pub last_line: String,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::Outcome(word) => f.write_str(word),
            Self::NoTask => f.write_str("no task"),
            Self::Forgotten => f.write_str("forgotten"),
        }
    }
}

impl End {
    /// How a finished task failed.
    fn of(task: &TaskView) -> Self {
        let outcome = task.outcome().and_then(words::outcome_of).unwrap_or(Outcome::Failed);
        let code = task.exit_code().filter(|_| outcome == Outcome::Failed);
        match (code.and_then(ExitCode::signal), code) {
            (Some(signal), _) => Self::Signal(signal),
            (None, Some(ExitCode(code @ 1..))) => Self::Exit(code),
            _ => Self::Outcome(words::outcome(outcome)),
        }
    }
}

impl Tally {
    /// The number of tasks that are done.
    #[must_use]
    pub const fn finished(&self) -> u64 {
        self.succeeded + self.before + self.failed + self.skipped
    }

    /// Counts a finished task. `first_round` is its first round in this run of the map. With `is_ending`, the map has killed its open
    /// tasks, so a killed task is not a failure.
    pub(super) fn count(&mut self, (number, values): (u64, &str), task: &TaskView, first_round: u64, is_ending: bool) {
        self.rounds += task.round().saturating_sub(first_round);
        match task.outcome().and_then(words::outcome_of) {
            Some(Outcome::Succeeded) => self.succeeded += 1,
            Some(Outcome::Skipped) => self.skipped += 1,
            Some(Outcome::Killed) if is_ending => self.left += 1,
            Some(_) | None => {
                let end = End::of(task);
                self.fail(end);
                self.group(task.last_line());
                if self.examples.len() < EXAMPLES_MAX {
                    let (values, last_line) = (values.to_owned(), task.last_line().to_owned());
                    self.examples.push(Example { number, end, values, last_line });
                }
            }
        }
    }

    fn group(&mut self, last_line: &str) {
        let pattern = pattern(last_line.trim());
        if let Some(count) = self.patterns.get_mut(&pattern) {
            *count += 1;
        } else if self.patterns.len() < PATTERNS_MAX && !pattern.is_empty() {
            self.patterns.insert(pattern, 1);
        }
    }

    /// The patterns of the last lines of failed tasks, the most frequent first, where several tasks share one.
    #[must_use]
    pub fn alike(&self) -> Vec<(&str, u64)> {
        let several = self.patterns.iter().filter(|(_, count)| **count > 1);
        let mut alike: Vec<_> = several.map(|(pattern, count)| (pattern.as_str(), *count)).collect();
        alike.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        alike
    }

    pub(super) fn fail(&mut self, end: End) {
        self.failed += 1;
        *self.ends.entry(end).or_default() += 1;
    }

    /// The number of failed tasks that the service knows.
    #[must_use]
    pub fn failed_tasks(&self) -> u64 {
        let known = self.ends.iter().filter(|(end, _)| !matches!(end, End::NoTask | End::Forgotten));
        known.map(|(_, count)| count).sum()
    }

    /// The exit code.
    #[must_use]
    pub fn exit_code(&self, is_interrupted: bool) -> u8 {
        if is_interrupted {
            return INTERRUPTED;
        }
        u8::try_from(self.failed).unwrap_or(u8::MAX).min(FAILED_MAX + 1)
    }

    /// The ways to fail with their numbers, the most frequent first: `exit 1: 2, exit 3: 1`.
    #[must_use]
    pub fn failures(&self) -> String {
        let mut ends: Vec<_> = self.ends.iter().collect();
        ends.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        ends.iter().map(|(end, count)| format!("{end}: {count}")).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Fields;

    fn ended(outcome: &str, code: Option<i32>) -> TaskView {
        let fields = Fields::new().with(words::TASK_ID, "T").with(words::OUTCOME, outcome);
        code.into_iter().fold(fields, |fields, code| fields.with(words::EXIT_CODE, code)).into()
    }

    #[test]
    fn failures_are_counted_by_their_ways() {
        let mut tally = Tally::default();
        for (outcome, code) in [
            ("SUCCEEDED", Some(0)),
            ("FAILED", Some(3)),
            ("FAILED", Some(1)),
            ("FAILED", Some(1)),
            ("FAILED", Some(-9)),
            ("TIMED_OUT", Some(-15)),
            ("SKIPPED", None),
            ("KILLED", Some(-15)),
        ] {
            tally.count((1, "x"), &ended(outcome, code), 0, false);
        }
        tally.fail(End::NoTask);
        assert_eq!(tally.failures(), "exit 1: 2, exit 3: 1, signal 9: 1, KILLED: 1, TIMED_OUT: 1, no task: 1");
        assert_eq!((tally.succeeded, tally.failed, tally.skipped, tally.failed_tasks()), (1, 7, 1, 6));
        tally.count((1, "x"), &ended("KILLED", Some(-15)), 0, true);
        assert_eq!((tally.failed, tally.left), (7, 1), "the map has killed it");
    }

    #[test]
    fn failures_with_lines_of_one_pattern_are_alike() {
        let mut tally = Tally::default();
        for line in ["cannot open 7", "no space", "cannot open 12", "", "cannot open 3"] {
            let fields = Fields::new().with(words::OUTCOME, "FAILED").with(words::EXIT_CODE, 1);
            tally.count((1, "x"), &fields.with(words::STDERR, line).into(), 0, false);
        }
        assert_eq!(tally.alike().iter().map(|(_, count)| *count).collect::<Vec<_>>(), [3]);
        assert!(tally.alike()[0].0.starts_with("cannot open "), "{:?}", tally.alike());
    }

    #[test]
    fn the_exit_code_is_the_number_of_failed_tasks() {
        let code = |failed: u64, is_interrupted| Tally { failed, ..Tally::default() }.exit_code(is_interrupted);
        assert_eq!([code(0, false), code(1, false), code(100, false), code(101, false)], [0, 1, 100, 101]);
        assert_eq!([code(5_000, false), code(5_000, true), code(0, true)], [101, 130, 130]);
    }
}
