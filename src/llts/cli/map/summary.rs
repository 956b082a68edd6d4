//! The last lines of `llts map`: the failures, and commands to inspect, repeat and resume.

use serde_json::{Value, json};

use crate::map::Map;
use crate::map::tally::{Example, Tally};
use base::{JobName, counted, middle, printable};
use term::output::note;
use term::style::Look;
use term::table::Table;

/// Columns of the values of a failed task.
const VALUES_WIDTH: usize = 32;

/// Columns of the last line of a failed task's stderr.
const LINE_WIDTH: usize = 60;

/// Groups of failures that are shown.
const ALIKE_MAX: usize = 3;

/// The part of a map's job that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// All of it, under the user's name for it.
    Named,
    /// All of it, under a generated name.
    Unnamed,
    /// Nothing: its service ends with the map.
    Nothing,
}

/// Prints the results of an ended map.
pub(super) fn show(map: &Map, job: &JobName, kept: Kept, is_refused: bool) {
    let left = Left { is_interrupted: map.is_interrupted(), has_input: !map.input_has_ended(), is_refused };
    lines(map.tally(), left, job, kept).iter().for_each(|line| note(line));
}

/// The same for programs: the last object.
pub(super) fn value(map: &Map, job: &JobName) -> Value {
    let Tally { succeeded, before, failed, skipped, left, .. } = map.tally();
    let counts = json!({
        "job": job.as_str(), "succeeded": succeeded, "succeeded_before": before, "failed": failed, "skipped": skipped, "not_run": left
    });
    json!({ "summary": counts })
}

/// The command for the rest of the lines, as a sentence with a blank before it that begins with `run`.
pub(super) fn again(run: &str, job: &JobName, kept: Kept) -> String {
    match kept {
        Kept::Named => format!(" {run} the same command again to continue."),
        Kept::Unnamed => format!(" {run} the same command with --job {job} to continue."),
        Kept::Nothing => String::new(),
    }
}

/// Why a map did not take its whole input.
#[derive(Clone, Copy)]
struct Left {
    is_interrupted: bool,
    has_input: bool,
    /// The service has refused one of its tasks: why was said before.
    is_refused: bool,
}

fn lines(tally: &Tally, left: Left, job: &JobName, kept: Kept) -> Vec<String> {
    let mut lines = examples(tally);
    let unshown = tally.failed_tasks().saturating_sub(tally.examples.len() as u64);
    if unshown > 0 {
        let look = if kept == Kept::Nothing { String::new() } else { format!(": llts list --job {job} --failed") };
        lines.push(format!("… {unshown} more{look}"));
    }
    if tally.before > 0 {
        lines.push(format!("{} had succeeded before and were not run again", counted(tally.before, "task")));
    }
    let not_run = tally.left + tally.skipped;
    let is_stopped = not_run > 0 || left.has_input;
    if tally.failed > 0 {
        let total = tally.finished() + tally.left;
        lines.push(format!("{} of {total} failed ({}).", tally.failed, tally.failures()));
        if unshown > 0 {
            let alike = tally.alike().into_iter().take(ALIKE_MAX);
            lines.extend(alike.map(|(pattern, count)| format!("  {count} alike: {}", printable(pattern))));
        }
        if tally.failed_tasks() > 0 && kept != Kept::Nothing {
            lines.push(format!("Look: llts logs --job {job} --failed   Again: llts retry --job {job} --failed"));
        }
    }
    if is_stopped {
        let mut rest = Vec::new();
        if not_run > 0 {
            // Those that an interrupted map has killed had begun.
            let what = if left.is_interrupted { "not finished" } else { "not run" };
            rest.push(format!("{} {what}", counted(not_run, "task")));
        }
        if left.has_input {
            rest.push("the rest of the input not read".to_owned());
        }
        let why = if left.is_interrupted { "Stopped" } else { "The job was stopped" };
        let run = if left.is_refused { "Once that is mended, run" } else { "Run" };
        lines.push(format!("{why}, {}.{}", rest.join(", "), again(run, job, kept)));
    }
    lines
}

/// A line for some of the failed tasks: its line number, its end, its values and its last line.
fn examples(tally: &Tally) -> Vec<String> {
    let cell = |text: &str, width| middle(&text.replace(['\n', '\t'], " "), width);
    let mut table = Table::pairs();
    for Example { number, end, values, last_line } in &tally.examples {
        let (values, last_line) = (cell(values, VALUES_WIDTH), cell(last_line, LINE_WIDTH));
        table.row([format!("line {number}"), end.to_string(), values, last_line]);
    }
    table.show(Look::plain(None)).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::tally::{EXAMPLES_MAX, End};

    fn text(tally: &Tally, left: Left, kept: Kept) -> String {
        lines(tally, left, &JobName::new("bar").unwrap(), kept).join("\n")
    }

    #[test]
    fn ten_failures_are_shown_with_their_values_and_last_words() {
        let example = |number| Example {
            number,
            end: if number == 37 { End::Exit(3) } else { End::Outcome("TIMED_OUT") },
            values: format!("/data/a long name of a folder/film{number}.mov"),
            last_line: if number == 37 { format!("cannot open {number}\u{1b}[2J") } else { String::new() },
        };
        let mut tally = Tally { succeeded: 900, failed: 27, left: 68, ..Tally::default() };
        tally.ends.extend([(End::Exit(3), 1), (End::Outcome("TIMED_OUT"), 25), (End::NoTask, 1)]);
        tally.examples.extend((37..).map(example).take(EXAMPLES_MAX));
        insta::assert_snapshot!(text(
            &tally,
            Left { is_interrupted: true, has_input: false, is_refused: false },
            Kept::Named
        ));
    }

    #[test]
    fn a_map_that_was_stopped_says_how_to_continue() {
        let tally = Tally { left: 1, before: 2, ..Tally::default() };
        insta::assert_snapshot!(text(&tally, Left { is_interrupted: false, has_input: true, is_refused: false }, Kept::Unnamed), @r"
        2 tasks had succeeded before and were not run again
        The job was stopped, 1 task not run, the rest of the input not read. Run the same command with --job bar to continue.
        ");
        let refused = Left { is_interrupted: false, has_input: false, is_refused: true };
        assert!(
            text(&tally, refused, Kept::Named)
                .ends_with("1 task not run. Once that is mended, run the same command again to continue.")
        );
        assert_eq!(
            text(&Tally::default(), Left { is_interrupted: false, has_input: false, is_refused: false }, Kept::Unnamed),
            ""
        );
    }
}
