//! The status screen.

use std::time::Duration;

use anstyle::Style;

use super::super::failures::Failures;
use super::super::job::{Pace, failed};
use super::super::rows::beyond;
use super::super::selection::ids::short;
use super::super::style::{BAD, FAINT, GOOD, Look, ODD, PLAIN, STRONG, Screen};
use super::super::table::{Column, Give, Omit, Table};
use super::super::times;
use crate::protocol::requests::job::JobAnswer;
use crate::protocol::requests::rows::RowView;
use crate::protocol::requests::status::Status;
use crate::types::{Phase, ShownState, is_longer};

/// Rows of each table where the terminal has room for all.
const ROWS_MAX: usize = 10;

/// Characters of the bar of a job.
const BAR: u64 = 10;

/// The screen; on a terminal with this number of lines its tables are shorter.
pub(super) fn of(status: &Status, look: Look, lines: Option<usize>) -> Screen {
    // Three tables share what the heads and the other lines leave.
    let rows_max = lines.map_or(ROWS_MAX, |lines| (lines.saturating_sub(12) / 3).clamp(2, ROWS_MAX));
    let mut screen = Screen::new(look);
    head(status, &mut screen);
    problems(status).iter().for_each(|problem| screen.line([(BAD, "! "), (PLAIN, problem.as_str())]));
    section(&mut screen, &jobs(status, rows_max), status.jobs.len(), rows_max, "llts jobs");
    let running = status.states.of(ShownState::Running);
    section(&mut screen, &running_table(status, rows_max), running, rows_max, "llts list --state running");
    waiting(status, &mut screen);
    last_failed(status, rows_max, &mut screen);
    screen
}

fn head(status: &Status, screen: &mut Screen) {
    let agents = status.agents;
    let waiting = status.states.of(ShownState::Waiting) + status.states.of(ShownState::Held);
    let health = match problems(status).len() {
        0 => (GOOD, "  healthy".to_owned()),
        1 => (BAD, "  ! 1 problem".to_owned()),
        count => (BAD, format!("  ! {count} problems")),
    };
    let mut parts: Vec<(Style, String)> = vec![
        (STRONG, "llts".to_owned()),
        (PLAIN, format!("  up {}", times::short(status.now.since(status.started_at)))),
        health,
        (PLAIN, format!("  {}/{} agents busy", agents.busy, agents.total)),
        (PLAIN, format!("  waiting {waiting}")),
    ];
    if let Some(at) = status.oldest_at {
        parts.push((PLAIN, format!(" (oldest {})", times::short(status.now.since(at)))));
    }
    parts.push((PLAIN, format!("  {:.1}/s", status.rate)));
    if let Some(p50) = status.run_p50 {
        parts.push((PLAIN, format!("  p50 {}", times::short(p50))));
    }
    screen.line(parts.iter().map(|(style, text)| (*style, text.as_str())));
}

/// The time in which agents come back to a controller that was started anew.
const COME_AGAIN: Duration = Duration::from_secs(5);

/// What an operator has to look at, each in a sentence.
fn problems(status: &Status) -> Vec<String> {
    let mut problems: Vec<String> = status.warning.iter().map(|warning| times::readable(warning)).collect();
    if let Some(until) = status.paused_until {
        problems.push(times::paused(until));
    }
    let is_new = status.now.since(status.started_at) < COME_AGAIN;
    if status.agents.total == 0 && !is_new {
        problems.push("no agent; `llts up` starts some".to_owned());
    }
    let lost =
        status.lost.iter().map(|(agent, heard)| format!("{agent} lost, heard {}", times::ago(status.now, *heard)));
    problems.extend(lost.take(3));
    if status.lost.len() > 3 {
        problems.push(format!("{} more agents are lost; llts agents", status.lost.len() - 3));
    }
    problems
}

/// A table below an empty line, and how to see what it leaves out.
fn section(screen: &mut Screen, table: &Table, count: usize, rows_max: usize, command: &str) {
    if table.is_empty() {
        return;
    }
    screen.gap();
    table.draw(screen);
    if count > rows_max {
        let rest = format!("{} more: {command}", count - rows_max);
        screen.line([(FAINT, rest.as_str())]);
    }
}

fn jobs(status: &Status, rows_max: usize) -> Table {
    let mut table = Table::of([
        Column::new("JOB").gives(Give::Middle(8)),
        Column::new("PROGRESS"),
        Column::new("DONE").number(),
        Column::new("FAILED").number(),
        Column::new("RATE").number().omitted_if(Omit::Empty),
        Column::new("LEFT").number().omitted_if(Omit::Empty),
    ]);
    for job in status.jobs.iter().take(rows_max) {
        let (done, total, failed) = (job.in_phase(Phase::Finished), job.total(), failed(job));
        let pace = Pace::of(job, status.now);
        let percent = (done * 100).checked_div(total).unwrap_or_default();
        table.styled_row([
            (PLAIN, job.name().to_owned()),
            (PLAIN, format!("{}  {done}/{total}", bar(job))),
            (PLAIN, format!("{percent} %")),
            (if failed > 0 { BAD } else { PLAIN }, failed.to_string()),
            (PLAIN, pace.rate.map(|rate| format!("{rate:.1}/s")).unwrap_or_default()),
            (PLAIN, pace.left.map(times::short).unwrap_or_default()),
        ]);
    }
    table
}

fn bar(job: &JobAnswer) -> String {
    let done = (job.in_phase(Phase::Finished) * BAR).checked_div(job.total()).unwrap_or_default();
    let mark = |at| if at < done { '#' } else { '-' };
    format!("[{}]", (0..BAR).map(mark).collect::<String>())
}

fn running_table(status: &Status, rows_max: usize) -> Table {
    let mut table = Table::of([
        Column::new("RUNNING"),
        Column::new("WHAT").gives(Give::Middle(20)),
        Column::new("FOR").number(),
        Column::new("USUAL").omitted_if(Omit::Empty),
        Column::new("AGENT").gives(Give::Middle(8)).rank(1),
    ]);
    for task in status.running.iter().take(rows_max) {
        let ran = task.run_at().map(|at| status.now.since(at)).unwrap_or_default();
        let (style, usual) = usual(task, ran);
        table.styled_row([
            (PLAIN, short(task.id()).to_owned()),
            (PLAIN, task.what().to_owned()),
            (style, times::short(ran)),
            (style, usual),
            (PLAIN, task.agent().to_owned()),
        ]);
    }
    table
}

fn usual(task: &RowView, ran: Duration) -> (Style, String) {
    match task.usual() {
        Some(usual) if is_longer(ran, usual) => (ODD, beyond(ran, usual)),
        Some(usual) => (PLAIN, times::short(usual)),
        None => (PLAIN, String::new()),
    }
}

fn waiting(status: &Status, screen: &mut Screen) {
    let count: u64 = status.waiting.iter().map(|(_, count)| count).sum();
    if count == 0 {
        return;
    }
    screen.gap();
    let verb = if count == 1 { "WAITS" } else { "WAIT" };
    let mut line = vec![(STRONG, format!("WHY {count} {verb}"))];
    for (why, count) in &status.waiting {
        line.push((PLAIN, format!("   {count}: {}", times::near(why, status.now))));
    }
    screen.lines(wrapped(line, screen.look().width));
}

/// Parts in as many lines as they need.
fn wrapped(parts: Vec<(Style, String)>, width: Option<usize>) -> Vec<Vec<(Style, String)>> {
    use unicode_width::UnicodeWidthStr as _;
    let width = width.filter(|width| *width > 0).unwrap_or(usize::MAX);
    let mut lines: Vec<Vec<(Style, String)>> = vec![Vec::new()];
    let mut used = 0;
    for (style, text) in parts {
        if used > 0 && used + text.width() > width {
            lines.push(Vec::new());
            used = 0;
        }
        used += text.width();
        if let Some(line) = lines.last_mut() {
            line.push((style, text));
        }
    }
    lines
}

/// The last failures, those that are alike as one.
fn last_failed(status: &Status, rows_max: usize, screen: &mut Screen) {
    let mut failures = Failures::default();
    status.failed.iter().for_each(|task| failures.add_row(task));
    let at = |id: &str| status.failed.iter().find(|task| task.id() == id).and_then(RowView::finished_at);
    let mut groups = failures.sorted();
    // The newest failure first: an old series must not hide it.
    groups.sort_by_key(|group| std::cmp::Reverse(at(&group.example)));
    let mut table = Table::of([
        Column::new("FAILED"),
        Column::new("WHEN").rank(1),
        Column::new("EXIT").number().omitted_if(Omit::Empty),
        Column::new("ALIKE").number().omitted_if(Omit::Empty),
        Column::new("WHAT").gives(Give::Middle(16)),
        Column::new("WHY").gives(Give::End(16)),
    ]);
    let count = groups.len();
    for group in groups.iter().take(rows_max) {
        table.styled_row([
            (BAD, short(&group.example).to_owned()),
            (PLAIN, at(&group.example).map(|at| times::ago(status.now, at)).unwrap_or_default()),
            (PLAIN, group.exit.map(|code| code.to_string()).unwrap_or_default()),
            (PLAIN, if group.count > 1 { group.count.to_string() } else { String::new() }),
            (PLAIN, group.what.clone()),
            (PLAIN, times::near(group.shown(), status.now)),
        ]);
    }
    section(screen, &table, count, rows_max, "llts list --failed");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::requests::stats::AgentCounts;
    use crate::protocol::words;
    use crate::types::{Fields, Outcome, StateCounts, Wall};

    const NOW: Wall = Wall::from_micros(1_480_010_800_000_000);

    fn task(letters: &str, what: &str, why: &str, seconds_ago: f64) -> Fields {
        let id = format!("TASK_1480000000.000000_{letters}");
        let at = NOW.unix_seconds() - seconds_ago;
        let fields = Fields::new().with(words::TASK_ID, id).with(words::WHAT, what).with(words::WHY, why);
        fields.with(words::RUN_TIME, at).with(words::FINISH_TIME, at).with(words::AGENT_ID, "agent-3")
    }

    fn failed_task(letters: &str, film: u32, ago: f64) -> RowView {
        let what = format!("convert in=/data/archive/2016/film{film}.mov out=/srv/film{film}.mp4");
        let fields = task(letters, &what, &format!("corrupt header in /data/film{film}.mov\u{1b}[2J"), ago);
        fields.with(words::STATUS, "FINISHED").with(words::OUTCOME, "FAILED").with(words::EXIT_CODE, 3).into()
    }

    fn job(name: &str, total: u32, done: u32, failed: u32) -> JobAnswer {
        let fields = Fields::new().with(words::JOB, name).with(words::TOTAL, total).with("FINISHED", done);
        fields.with("FAILED", failed).with(words::SUBMIT_TIME, NOW.unix_seconds() - 10.0).into()
    }

    fn busy() -> Status {
        let mut states = StateCounts::default();
        states.set(ShownState::Running, 2);
        states.set(ShownState::Waiting, 8);
        states.set(ShownState::Held, 1);
        states.set(ShownState::Finished(Outcome::Failed), 5);
        let slow =
            task("fMrzp", "convert in=slow.mov", "", 360.0).with(words::STATUS, "RUNNING").with(words::USUAL, 0.1);
        let plain = task("fsVsz", "sleep 900", "", 26.0).with(words::STATUS, "RUNNING");
        let waits = [("agents are busy", 4), ("gate api closed", 1), ("no agent has tag gpu", 1), ("held", 1)];
        let waits = waits.into_iter().chain([("starts 1480600000.000000", 1), ("after iQQtX", 1)]);
        let broken =
            task("oddXX", "true", "no space left", 600.0).with(words::OUTCOME, "FAILED").with(words::EXIT_CODE, 1);
        Status {
            now: NOW,
            started_at: Wall::from_micros(1_480_000_000_000_000),
            states,
            agents: AgentCounts { total: 4, free: 1, busy: 3, lost: 1 },
            oldest_at: Some(NOW.before(Duration::from_secs(360))),
            rate: 2.1,
            run_p50: Some(Duration::from_millis(100)),
            warning: Some("the store cannot be written".to_owned()),
            lost: vec![("agent-4".to_owned(), NOW.before(Duration::from_secs(120)))],
            jobs: vec![job("nightly", 500, 412, 5), job("backlog", 6, 0, 0)],
            running: vec![slow.into(), plain.into()],
            waiting: waits.map(|(why, count)| (why.to_owned(), count)).collect(),
            failed: vec![failed_task("cloFv", 7, 180.0), failed_task("aaaFv", 17, 190.0), broken.into()],
            ..Status::default()
        }
    }

    fn idle() -> Status {
        let agents = AgentCounts { total: 2, free: 2, busy: 0, lost: 0 };
        Status { now: NOW, started_at: NOW.before(Duration::from_secs(5)), agents, ..Status::default() }
    }

    #[test]
    fn a_service_is_shown_on_one_screen() {
        for (name, status) in [("busy", busy()), ("idle", idle())] {
            for (width, is_coloured) in [(80, false), (120, false), (80, true)] {
                let look = Look { width: Some(width), is_terminal: true, is_coloured };
                let name = format!("status_{name}_{width}{}", if is_coloured { "_coloured" } else { "" });
                insta::with_settings!({ filters => vec![(r"starts \d{4}-\d\d-\d\d \d\d:\d\d", "starts [DATE TIME]")] }, {
                    insta::assert_snapshot!(name, of(&status, look, Some(24)).text().replace('\u{1b}', "ESC"));
                });
            }
        }
    }

    #[test]
    fn a_full_screen_fits_its_terminal() {
        let mut status = busy();
        for number in 0..20 {
            status.jobs.push(job(&format!("job-{number}"), 10, 1, 0));
            status.failed.push(failed_task(&format!("x{number}"), number, 900.0));
            status.running.push(task("RunXx", "sleep 1", "", 1.0).into());
        }
        status.states.set(ShownState::Running, 22);
        let look = Look { width: Some(80), is_terminal: true, is_coloured: false };
        let text = of(&status, look, Some(24)).text();
        assert!(text.lines().count() < 30, "{text}");
        assert!(text.contains("more: llts jobs") && text.contains("more: llts list --state running"), "{text}");
    }
}
