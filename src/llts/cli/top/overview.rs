//! The first view: problems, running work, why tasks wait, and failures.

use std::time::Duration;

use anstyle::Style;

use super::super::status::screen;
use super::listing::{Row, drawn};
use super::target::Target;
use api::wire::requests::status::{PACE_STEP, PaceStep, Status};
use base::beginning;
use term::style::{BAD, FAINT, GOOD, Look, PLAIN, STRONG, Screen};
use term::table::Table;
use term::{hints, times};
use unicode_width::UnicodeWidthStr as _;

/// Rows of each part.
const ROWS_MAX: usize = 10;

/// The rows of the view.
pub(super) fn rows(status: &Status, look: Look) -> Vec<Row> {
    let mut rows = Vec::new();
    for problem in &status.problems {
        let since = problem.since.map(|at| format!(" ({})", times::ago(status.now, at))).unwrap_or_default();
        let text = times::near(&problem.text, status.now);
        let hint = format!("  {}", hints::typed(&problem.hint));
        let about = match &problem.task {
            Some(id) => Target::Task { id: id.clone(), is_held: false },
            None => Target::Text { text: text.clone(), hint: hint.trim().to_owned() },
        };
        let text = format!("{text}{since}");
        let room = look.width.unwrap_or(usize::MAX).saturating_sub(2);
        let fits = text.width() + hint.width() <= room;
        rows.push(Row::new(
            about,
            vec![
                (BAD, "! ".to_owned()),
                (PLAIN, beginning(&text, room)),
                (FAINT, if fits { hint.clone() } else { String::new() }),
            ],
        ));
        if !fits {
            rows.push(Row::new(Target::Nothing, vec![(FAINT, hint)]));
        }
    }
    if status.problems.is_empty() {
        rows.push(Row::new(Target::Nothing, vec![(GOOD, "nothing is wrong".to_owned())]));
    }
    if let Some(queue) = &status.queue {
        let mut screen = Screen::new(look);
        screen.behind((PLAIN, "", 0), FAINT, &screen::leading(queue, status.now));
        rows.extend(screen.into_lines().into_iter().map(|line| Row::new(Target::Nothing, line)));
    }
    rows.extend(pace(&status.pace, look));
    let jobs = status.jobs.iter().map(Target::of_job);
    part(&mut rows, &screen::jobs(status, ROWS_MAX), jobs, look);
    let running = status.running.iter().map(|row| Target::Task { id: row.id().to_owned(), is_held: false });
    part(&mut rows, &screen::running_table(status, ROWS_MAX), running, look);
    waiting(&mut rows, status, look);
    let failures = screen::failures(status);
    let failed = failures.iter().map(|group| Target::Alike(group.ids.clone()));
    part(&mut rows, &screen::failures_table(status, &failures, ROWS_MAX), failed, look);
    if status.states.failures() > status.failed.len() {
        let more = format!("the newest {} of {} failures", status.failed.len(), status.states.failures());
        rows.push(Row::new(Target::Tasks("state=failed,timed-out,lost".to_owned()), vec![(FAINT, more)]));
    }
    rows
}

/// A table below an empty line, with the targets of its rows.
fn part(rows: &mut Vec<Row>, table: &Table, targets: impl Iterator<Item = Target>, look: Look) {
    if table.is_empty() {
        return;
    }
    rows.push(Row::default());
    rows.extend(drawn(table, targets, look));
}

fn waiting(rows: &mut Vec<Row>, status: &Status, look: Look) {
    if status.waiting.is_empty() {
        return;
    }
    let mut table = Table::new(&["WAIT", "WHY"]);
    for (why, count) in status.waiting.iter().take(ROWS_MAX) {
        table.row([count.to_string(), times::near(why, status.now)]);
    }
    let held = |why: &str| if why == "held" { "state=held" } else { "state=waiting" };
    let targets = status.waiting.iter().map(|(why, _)| Target::Tasks(held(why).to_owned()));
    part(rows, &table, targets, look);
}

/// The ends and the run times of the last minutes as bars.
fn pace(steps: &[PaceStep], look: Look) -> Vec<Row> {
    if steps.is_empty() {
        return Vec::new();
    }
    let room = look.width.unwrap_or(80).saturating_sub(28).clamp(6, steps.len());
    let last = &steps[steps.len() - room..];
    let ends: Vec<f64> = last.iter().map(|step| f64::from(step.ends)).collect();
    let p50: Vec<f64> = last.iter().map(|step| step.run_p50.map_or(0.0, |time| time.as_secs_f64())).collect();
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let rate = most(&ends) / PACE_STEP as f64;
    let longest = shown(most(&p50));
    let line = |name: &str, values: &[f64], top: String| {
        Row::new(
            Target::Nothing,
            vec![(STRONG, format!("{name:6}")), (Style::new(), bars(values)), (FAINT, format!("  max {top}"))],
        )
    };
    vec![Row::default(), line("ENDS", &ends, format!("{rate:.1}/s")), line("P50", &p50, longest)]
}

fn shown(seconds: f64) -> String {
    times::short(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// Bars of eight heights; a blank for zero.
fn bars(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 7")]
        let height = (value / top * 7.0).round() as usize;
        if *value > 0.0 { BARS[height.min(7)] } else { ' ' }
    };
    values.iter().map(bar).collect()
}

/// The line at the top of every view, with as many parts as fit.
pub(super) fn head(status: &Status, look: Look) -> Vec<(Style, String)> {
    let mut screen = Screen::new(look);
    screen::head(status, &mut screen);
    screen.into_lines().into_iter().next().unwrap_or_default()
}
