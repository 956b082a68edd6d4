//! The status screen.

use std::cmp::Reverse;
use std::time::Duration;

use anstyle::Style;

use super::super::failures::{Failures, Group};
use super::super::job::Pace;
use super::super::rows::beyond;
use super::super::selection::ids::short;
use api::wire::requests::job::JobAnswer;
use api::wire::requests::rows::RowView;
use api::wire::requests::status::{Problem, QueueView, Status};
use base::{Phase, ShownState, Wall, is_longer};
use term::style::{BAD, FAINT, GOOD, Look, ODD, PLAIN, STRONG, Screen};
use term::table::{Column, Give, Omit, Table, grouped};
use term::{hints, times};

/// Maximum number of rows of each table, if the terminal has room.
const ROWS_MAX: usize = 10;

/// Characters of the bar of a job.
const BAR: u64 = 10;

/// The rows of each part of the screen.
#[derive(Clone, Copy)]
struct Rows {
    jobs: usize,
    running: usize,
    waiting: usize,
    failed: usize,
}

impl Rows {
    /// Takes one row from the longest part, and among equal ones from the least important. Returns false if no row is left to take.
    fn give_way(&mut self) -> bool {
        let parts = [&mut self.failed, &mut self.running, &mut self.waiting, &mut self.jobs];
        let longest = parts.into_iter().max_by_key(|rows| **rows).filter(|rows| **rows > 0);
        longest.map(|rows| *rows -= 1).is_some()
    }
}

/// The screen. On a terminal, it has at most this number of lines.
pub(super) fn of(status: &Status, look: Look, lines: Option<usize>) -> Screen {
    let failures = failures(status);
    let mut rows = Rows {
        jobs: status.jobs.len().min(ROWS_MAX),
        running: status.running.len().min(ROWS_MAX),
        waiting: status.waiting.len().min(ROWS_MAX),
        failed: failures.len().min(ROWS_MAX),
    };
    loop {
        let mut screen = drawn(status, &failures, rows, look);
        let Some(lines) = lines.filter(|lines| screen.height() > *lines) else { return screen };
        if !rows.give_way() {
            // The whole screen goes into a pipe.
            screen.cut(lines, &hints::typed("llts status | cat"));
            return screen;
        }
    }
}

fn drawn(status: &Status, failures: &[Group], rows: Rows, look: Look) -> Screen {
    let mut screen = Screen::new(look);
    head(status, &mut screen);
    if let Some(queue) = &status.queue {
        screen.behind((PLAIN, "", 0), FAINT, &leading(queue, status.now));
    }
    problems(status).iter().for_each(|problem| screen.behind((BAD, "! ", 2), PLAIN, problem));
    let more = left_out(rows.jobs, status.jobs.len(), "jobs");
    section(&mut screen, &jobs(status, rows.jobs), more, "llts jobs");
    let more = left_out(rows.running, status.states.of(ShownState::Running), "running");
    section(&mut screen, &running_table(status, rows.running), more, "llts list --state running");
    waiting(status, rows.waiting, &mut screen);
    last_failed(status, failures, rows.failed, &mut screen);
    screen
}

/// The line about the state of the service.
pub(in super::super) fn head(status: &Status, screen: &mut Screen) {
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
    let taken: usize = parts.iter().map(|(_, text)| text.chars().count()).sum();
    let p50 = status.run_p50.map(|p50| format!("  p50 {}", times::short(p50)));
    let fits = |p50: &String| screen.look().width.is_none_or(|width| taken + p50.len() < width);
    parts.extend(p50.filter(fits).map(|p50| (PLAIN, p50)));
    screen.flow(parts);
}

/// How long this controller has led, which home would lead next, and what a loss would cost.
pub(in super::super) fn leading(queue: &QueueView, now: Wall) -> String {
    let since = times::short(now.since(queue.since));
    let next = match &*queue.standbys {
        [] => "no home stands by".to_owned(),
        [home] => format!("{home} stands by"),
        [home, others @ ..] => format!("{home} stands by, and {} more", others.len()),
    };
    format!("leads {} for {since}; {next}; an accepted task survives {}", queue.place, queue.survives)
}

/// Problems for an operator, each in a sentence with a command.
fn problems(status: &Status) -> Vec<String> {
    status.problems.iter().map(|problem| sentence(problem, status.now)).collect()
}

/// A problem, how long it has lasted, and the command for it.
fn sentence(problem: &Problem, now: Wall) -> String {
    let since = problem.since.map(|at| format!(" ({})", times::ago(now, at))).unwrap_or_default();
    format!("{}{since}; {}", times::readable(&problem.text), hints::typed(&problem.hint))
}

/// A table below an empty line, and the command for the rows that it leaves out.
fn section(screen: &mut Screen, table: &Table, left_out: Option<String>, command: &str) {
    if table.is_empty() && left_out.is_none() {
        return;
    }
    screen.gap();
    if !table.is_empty() {
        table.draw(screen);
    }
    if let Some(left_out) = left_out {
        screen.line([(FAINT, format!("{left_out}: {}", hints::typed(command)).as_str())]);
    }
}

/// The note on the rows that a part leaves out.
fn left_out(shown: usize, all: usize, name: &str) -> Option<String> {
    let text = if shown == 0 { format!("{all} {name}") } else { format!("and {} more", all.saturating_sub(shown)) };
    (shown < all).then_some(text)
}

/// The open jobs.
pub(in super::super) fn jobs(status: &Status, rows_max: usize) -> Table {
    let mut table = Table::of([
        Column::new("JOB").gives(Give::Middle(8)),
        Column::new("PROGRESS"),
        Column::new("DONE").number(),
        Column::new("FAILED").number(),
        Column::new("RATE").number().omitted_if(Omit::Empty),
        Column::new("LEFT").number().omitted_if(Omit::Empty),
    ]);
    for job in status.jobs.iter().take(rows_max) {
        let (done, total, failed) = (job.in_phase(Phase::Finished), job.total(), job.failed());
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

/// The running tasks; those that take longer than usual come first.
pub(in super::super) fn running_table(status: &Status, rows_max: usize) -> Table {
    let mut table = Table::of([
        Column::new("RUNNING"),
        Column::new("WHAT").gives(Give::Middle(20)),
        Column::new("FOR").number(),
        Column::new("USUAL").omitted_if(Omit::Empty),
        Column::new("AGENT").gives(Give::Middle(8)).rank(1),
        Column::new("WHY").gives(Give::End(14)).omitted_if(Omit::Empty),
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
            (PLAIN, times::near(task.why(), status.now)),
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

fn waiting(status: &Status, rows_max: usize, screen: &mut Screen) {
    let count: u64 = status.waiting.iter().map(|(_, count)| count).sum();
    if count == 0 {
        return;
    }
    screen.gap();
    let verb = if count == 1 { "WAITS" } else { "WAIT" };
    let mut line = vec![(STRONG, format!("WHY {count} {verb}"))];
    for (why, count) in status.waiting.iter().take(rows_max) {
        line.push((PLAIN, format!("   {count}: {}", times::near(why, status.now))));
    }
    if let Some(more) = left_out(rows_max, status.waiting.len(), "reasons") {
        line.push((FAINT, format!("   {more}: {}", hints::typed("llts list --state waiting"))));
    }
    screen.flow(line);
}

/// The last failures, grouped by similarity.
pub(in super::super) fn failures(status: &Status) -> Vec<Group> {
    let mut failures = Failures::default();
    status.failed.iter().for_each(|task| failures.add_row(task));
    let mut groups = failures.sorted();
    // The newest failure first: an old series must not hide it.
    groups.sort_by_key(|group| Reverse(failed_at(status, group)));
    groups
}

fn failed_at(status: &Status, group: &Group) -> Option<Wall> {
    status.failed.iter().find(|task| task.id() == group.example).and_then(RowView::finished_at)
}

/// The table of similar failures.
pub(in super::super) fn failures_table(status: &Status, groups: &[Group], rows_max: usize) -> Table {
    let mut table = Table::of([
        Column::new("FAILED"),
        Column::new("WHEN").rank(1),
        Column::new("EXIT").number().omitted_if(Omit::Empty),
        Column::new("ALIKE").number().omitted_if(Omit::Empty),
        Column::new("WHAT").gives(Give::Middle(16)),
        Column::new("WHY").gives(Give::End(16)),
    ]);
    for group in groups.iter().take(rows_max) {
        table.styled_row([
            (BAD, short(&group.example).to_owned()),
            (PLAIN, failed_at(status, group).map(|at| times::ago(status.now, at)).unwrap_or_default()),
            (PLAIN, group.exit.map(|code| code.to_string()).unwrap_or_default()),
            (PLAIN, if group.count > 1 { group.count.to_string() } else { String::new() }),
            (PLAIN, group.what.clone()),
            (PLAIN, times::near(group.shown(), status.now)),
        ]);
    }
    table
}

fn last_failed(status: &Status, groups: &[Group], rows_max: usize, screen: &mut Screen) {
    let table = failures_table(status, groups, rows_max);
    // The service lists failures one by one only up to a limit, and only those are grouped.
    let (known, all) = (status.failed.len(), status.states.failures());
    let counted = (known < all).then(|| match known {
        0 => format!("{} failures", grouped(all)),
        _ => format!("counted in the last {} of {} failures", grouped(known), grouped(all)),
    });
    let more = left_out(rows_max, groups.len(), "kinds of failures");
    let more = more.into_iter().chain(counted).reduce(|more, counted| format!("{more}; {counted}"));
    section(screen, &table, more, "llts list --outcome failed,timed-out,lost,skipped");
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::wire::requests::stats::AgentCounts;
    use base::{Fields, Outcome, StateCounts, words};

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

    fn problem(text: &str, hint: &str, since: Option<Wall>) -> Problem {
        Problem { text: text.to_owned(), hint: hint.to_owned(), since, task: None }
    }

    fn busy() -> Status {
        let mut states = StateCounts::default();
        states.set(ShownState::Running, 2);
        states.set(ShownState::Waiting, 8);
        states.set(ShownState::Held, 1);
        states.set(ShownState::Finished(Outcome::Failed), 3);
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
            problems: vec![
                problem(
                    "the store cannot be written (disk full); submits are refused until it can",
                    "llts doctor",
                    None,
                ),
                problem("agent lost: agent-4", "llts agents", Some(NOW.before(Duration::from_secs(120)))),
            ],
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

    /// More of everything than a terminal of 24 lines shows.
    fn full() -> Status {
        let mut status = busy();
        for (number, letter) in ('a'..'u').enumerate() {
            status.jobs.push(job(&format!("job-{number}"), 10, 1, 0));
            status.running.push(task("RunXx", "sleep 1", "", 1.0).into());
            status.waiting.push((format!("gate number-{} closed", "x".repeat(number)), 1));
            let why = format!("error {}", "x".repeat(number));
            let failed = task(&format!("fail{letter}"), "true", &why, 900.0).with(words::OUTCOME, "FAILED");
            status.failed.push(failed.into());
        }
        status.states.set(ShownState::Running, 22);
        status.states.set(ShownState::Finished(Outcome::Failed), 1_234);
        status
    }

    #[test]
    fn a_full_screen_fits_its_terminal_and_says_what_it_leaves_out() {
        let look = Look { width: Some(80), is_terminal: true, is_coloured: false };
        for lines in [17, 23, 40, 200] {
            let text = of(&full(), look, Some(lines)).text();
            assert!(text.lines().count() <= lines, "{lines}: {text}");
        }
        insta::with_settings!({ filters => vec![(r"starts \d{4}-\d\d-\d\d \d\d:\d\d", "starts [DATE TIME]")] }, {
            insta::assert_snapshot!("status_full_80", of(&full(), look, Some(23)).text());
        });
    }

    #[test]
    fn a_small_terminal_gets_the_first_lines_and_the_way_to_the_others() {
        let text = |(columns, lines)| {
            let look = Look { width: Some(columns), is_terminal: true, is_coloured: false };
            let text = of(&full(), look, Some(lines)).text();
            assert!(
                text.lines().count() <= lines && text.lines().all(|line| line.chars().count() <= columns),
                "{text}"
            );
            text
        };
        for lines in 0..17 {
            text((80, lines));
        }
        insta::assert_snapshot!(text((40, 9)), @r"
        llts  up 3 h  ! 2 problems
          3/4 agents busy  waiting 9
         (oldest 6 min)  2.1/s
        ! the store cannot be written (disk
          full); submits are refused until it
          can; llts doctor
        ! agent lost: agent-4 (2 min ago); llts
          agents
        … 5 more lines: llts status | cat
        ");
        insta::assert_snapshot!(text((20, 4)), @r"
        llts  up 3 h
          ! 2 problems
        … 11 more lines:
         llts status | cat
        ");
    }

    #[test]
    fn counts_of_failures_say_of_which_ones_they_are() {
        let mut status = busy();
        status.states.set(ShownState::Finished(Outcome::Failed), 3);
        status.states.set(ShownState::Finished(Outcome::Killed), 1_000);
        let text = of(&status, Look::default(), None).text();
        assert!(!text.contains("counted in"), "all are known: {text}");
        status.states.set(ShownState::Finished(Outcome::TimedOut), 1_231);
        let text = of(&status, Look::default(), None).text();
        assert!(
            text.ends_with(
                "counted in the last 3 of 1,234 failures: llts list --outcome failed,timed-out,lost,skipped\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_run_says_how_far_it_is() {
        let mut status = busy();
        let told = task("fMrzp", "convert in=slow.mov", "40 %: tile 12 of 30", 360.0).with(words::STATUS, "RUNNING");
        status.running = vec![told.into()];
        let look = Look { width: Some(80), is_terminal: true, is_coloured: false };
        assert!(of(&status, look, None).text().contains("40 %: tile 12 of 30"));
    }
}
