//! A line in the log for each task that has finished without success: a limited number in ten seconds, and one line for the others.

use std::time::Duration;

use super::effect::Timer;
use crate::Controller;
use api::wire::rounds::of_record;
use base::{FinishedRound, Mono, Now, Outcome, RoundOutcome, TaskId, words};

/// The time in which lines are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// Maximum number of lines in that time, so that the log of a bad day stays readable and keeps other events. The history has every
/// end.
const LINES_MAX: u32 = 20;

/// The lines of the present ten seconds.
#[derive(Debug)]
pub(crate) struct EndLines {
    until: Mono,
    lines: u32,
    /// Ends without a line, by outcome.
    others: [u64; Outcome::ALL.len()],
}

impl Default for EndLines {
    fn default() -> Self {
        Self { until: Mono::from_nanos(0), lines: 0, others: [0; Outcome::ALL.len()] }
    }
}

impl Controller {
    /// Writes the lines of the tasks that have finished in this event.
    pub(crate) fn write_end_lines(&mut self, now: Now) {
        for task in std::mem::take(&mut self.turn.unlogged) {
            self.write_end_line(now, task);
        }
    }

    fn write_end_line(&mut self, now: Now, task: TaskId) {
        let Some(row) = self.tasks.get(task).and_then(of_record::newest) else { return };
        let RoundOutcome::Ended(outcome) = row.outcome else { return };
        if self.turn.end_lines.until <= now.mono && !self.turn.has_timer(&Timer::EndLines) {
            self.turn.end_lines = EndLines { until: now.mono + WINDOW, ..EndLines::default() };
        }
        if self.turn.end_lines.lines < LINES_MAX {
            self.turn.end_lines.lines += 1;
            let line = line_of(&row, outcome);
            return self.turn.info(line);
        }
        self.turn.end_lines.others[outcome as usize] += 1;
        if !self.turn.has_timer(&Timer::EndLines) {
            self.turn.set_timer(Timer::EndLines, self.turn.end_lines.until);
        }
    }

    /// Ends ten seconds in which there were more ends than lines.
    pub(crate) fn sum_up_ends(&mut self) {
        let EndLines { others, .. } = std::mem::take(&mut self.turn.end_lines);
        let counts = Outcome::ALL.into_iter().zip(others).filter(|(_, count)| *count > 0);
        let counts: Vec<_> = counts.map(|(outcome, count)| format!("{count} {}", words::outcome(outcome))).collect();
        self.turn
            .info(format!("and more tasks in these 10 seconds: {}; `llts list --since` shows them", counts.join(", ")));
    }
}

fn line_of(row: &FinishedRound<'_>, outcome: Outcome) -> String {
    let work = if row.command.is_empty() { &row.tool } else { &row.command };
    let code = row.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
    let agent = if row.agent.is_empty() { String::new() } else { format!(", agent {}", row.agent) };
    let why = if row.line.is_empty() { String::new() } else { format!(": {}", row.line) };
    let (task, round) = (row.task, row.round);
    format!("task {task} is {} ({work}, round {round}{code}{agent}){why}", words::outcome(outcome))
}
