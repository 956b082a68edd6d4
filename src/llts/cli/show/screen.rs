//! The screen of one task.

use std::time::Duration;

use super::super::rows::{Row, beyond};
use super::super::selection::ids::short;
use super::{Model, Written};
use api::wire::client::TaskView;
use api::wire::requests::history::RoundRow;
use base::{GraphId, Outcome, Phase, Scalar, ShownState, Wall, is_longer, words};
use term::style::{BAD, FAINT, Look, ODD, PLAIN, STRONG, Screen, of_state};
use term::table::{Column, Table};
use term::{hints, times};

/// Columns of the name in front of each line.
const NAME: usize = 9;

/// Number of shown lines of an output.
const TAIL_LINES: usize = 5;

/// Maximum number of shown characters of a value, where no terminal cuts it.
const VALUE_CHARS_MAX: usize = 1000;

/// The screen of a task in the service.
pub(super) fn of_task(model: &Model, reason_first: bool, look: Look) -> Screen {
    let mut screen = Screen::new(look);
    if reason_first {
        screen.behind((STRONG, short(model.row.id()), NAME), PLAIN, &why(model));
        screen.gap();
    }
    head(model, &mut screen);
    named(&mut screen, "what", model.row.what());
    named(&mut screen, "given id", model.row.given_id());
    if !reason_first {
        named(&mut screen, "why", &why(model));
    }
    if let Some((text, style)) = compared(model) {
        part(&mut screen, "run time", style, &text);
    }
    if let Some(agent) = &model.agent {
        let heard = agent.heard_at().map(|at| times::ago(model.now, at)).unwrap_or_default();
        let is_lost = agent.status() == "LOST";
        let state = if is_lost { "lost, heard last" } else { "alive, heard" };
        part(&mut screen, "agent", if is_lost { BAD } else { PLAIN }, &format!("{} is {state} {heard}", agent.id()));
    }
    value(&model.task, &mut screen);
    named(&mut screen, "times", &moments(model));
    outputs(model, &mut screen);
    cost(&model.task, &mut screen);
    rounds(&model.task, &mut screen);
    if let Some(job) = &model.job {
        let (done, total) = (job.in_phase(Phase::Finished), job.total());
        let killed = job.with_outcome(Outcome::Killed);
        let killed = if killed == 0 { String::new() } else { format!(", {killed} killed") };
        let failed = job.failed();
        named(&mut screen, "job", &format!("{}: {done} of {total} finished, {failed} failed{killed}", job.name()));
    }
    named(&mut screen, "id", model.row.id());
    part(&mut screen, "next", FAINT, &hints::typed(&next(model)));
    if reason_first {
        screen.gap();
        times::readable(model.explanation.log()).lines().for_each(|line| screen.plain(line));
    }
    screen
}

fn part(screen: &mut Screen, name: &str, style: anstyle::Style, text: &str) {
    screen.named((name, NAME), style, text);
}

fn named(screen: &mut Screen, name: &str, text: &str) {
    if !text.is_empty() {
        part(screen, name, PLAIN, text);
    }
}

/// The first line: the short id, the state, the times and the place.
fn head(model: &Model, screen: &mut Screen) {
    let row = &model.row;
    let state = row.state();
    let exit = row.exit_code().filter(|code| code.0 != 0).map(|code| format!(", exit {code}")).unwrap_or_default();
    let mut facts = Vec::new();
    match (state.is_open(), row.finished_at().or(row.ended_at())) {
        (false, Some(at)) => facts.push(times::ago(model.now, at)),
        _ if row.run_at().is_none() => {
            facts.extend(row.submitted_at().map(|at| format!("submitted {}", times::ago(model.now, at))));
        }
        _ => {}
    }
    if let Some(ran) = ran(model) {
        let agent = Some(row.agent()).filter(|agent| !agent.is_empty()).map(|agent| format!(" on {agent}"));
        let verb = if state.is_open() { "for" } else { "ran" };
        facts.push(format!("{verb} {}{}", times::duration(ran), agent.unwrap_or_default()));
    }
    if row.round() > 0 {
        facts.push(format!("round {}", row.round()));
    }
    screen.line([
        (STRONG, format!("{:NAME$}", short(row.id())).as_str()),
        (of_state(state), &format!("{}{exit}", state.word())),
        (PLAIN, "   "),
        (PLAIN, &facts.join("   ")),
    ]);
}

fn ran(model: &Model) -> Option<Duration> {
    let start = model.row.run_at()?;
    let end = model.row.ended_at().or_else(|| model.row.finished_at().filter(|_| !model.row.state().is_open()));
    Some(end.unwrap_or(model.now).since(start))
}

/// The reason, with the last line of stderr if that adds something.
fn why(model: &Model) -> String {
    let reason = times::readable(model.explanation.why());
    let reason = hints::typed(&reason);
    let last = model.task.stderr().lines().rev().map(str::trim).find(|line| !line.is_empty());
    match last.filter(|_| model.row.state().is_failure()) {
        Some(line) if !reason.contains(line) => format!("{reason}; last line of stderr: {line}"),
        _ => reason.into_owned(),
    }
}

/// How long the task has run, compared to the usual time.
fn compared(model: &Model) -> Option<(String, anstyle::Style)> {
    let (ran, usual) = ran(model).zip(model.row.usual())?;
    let of = if model.row.job().is_empty() { model.row.tool() } else { model.row.job() };
    if model.row.state() == ShownState::Running && is_longer(ran, usual) {
        let text = format!("{}, {}: 9 of 10 runs of {of} take no longer", times::duration(ran), beyond(ran, usual));
        return Some((text, ODD));
    }
    Some((format!("{}; 9 of 10 runs of {of} take at most {}", times::duration(ran), times::short(usual)), PLAIN))
}

/// The beginning of the value that its tool has answered, on one line.
fn value(task: &TaskView, screen: &mut Screen) {
    let Some(value) = task.value() else { return };
    let shown: String = value.chars().take(VALUE_CHARS_MAX).collect();
    let rest = if shown.len() < value.len() { format!("… ({} B)", value.len()) } else { String::new() };
    let text = format!("{}{rest}", shown.replace('\n', " "));
    screen.line([(FAINT, format!("{:NAME$}", "value").as_str()), (PLAIN, &text)]);
}

/// Each change, with the time since the previous one.
fn moments(model: &Model) -> String {
    let row = &model.row;
    let Some(submitted) = row.submitted_at() else { return String::new() };
    let mut text = format!("submitted {}", times::local(submitted));
    let mut before = submitted;
    let steps = [
        (row.dispatched_at(), "to its agent"),
        (row.run_at(), "started"),
        (row.ended_at(), "ended"),
        (row.finished_at().filter(|_| !row.state().is_open()), "finished"),
    ];
    for (at, what) in steps {
        if let Some(at) = at {
            text.push_str(&format!("   +{} {what}", times::duration(at.since(before))));
            before = at;
        }
    }
    if row.dispatched_at().or(row.run_at()).is_none() && row.state().is_open() {
        text.push_str(&format!("   waiting for {}", times::duration(model.now.since(submitted))));
    }
    text
}

/// The bytes of each output, and the last lines of finished outputs.
fn outputs(model: &Model, screen: &mut Screen) {
    if let Some(Written { stdout, stderr, last }) = model.written {
        let last = last.map(|at| format!(", the last {}", times::ago(model.now, at))).unwrap_or_default();
        let text = match (stdout, stderr) {
            (0, 0) => "none up to now".to_owned(),
            _ => format!("stdout {stdout} B   stderr {stderr} B up to now{last}"),
        };
        return named(screen, "output", &text);
    }
    let Some(written) = model.task.output_bytes() else { return };
    let text = format!("stdout {} B   stderr {} B", written.stdout, written.stderr);
    named(screen, "output", &text);
    let tails = [("stdout", model.task.stdout()), ("stderr", model.task.stderr()), ("report", model.task.report())];
    for (name, tail) in tails {
        let lines: Vec<&str> = tail.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(TAIL_LINES)) {
            screen.line([(FAINT, format!("{:NAME$}{name} | ", "").as_str()), (PLAIN, line)]);
        }
    }
}

fn cost(task: &TaskView, screen: &mut Screen) {
    let Some(cpu) = task.fields().get(words::CPU_SECONDS).and_then(Scalar::as_f64) else { return };
    // A program that takes less than its agent counts with the size of the agent, which has started it.
    let memory = task.fields().count(words::MAX_RSS_KB).filter(|memory| *memory > 0);
    let memory = memory.map(|memory| format!("   memory at most {} MB", memory.div_ceil(1024))).unwrap_or_default();
    named(screen, "cost", &format!("cpu {}{memory}", times::seconds(cpu)));
}

/// One line for each earlier round.
fn rounds(task: &TaskView, screen: &mut Screen) {
    let (_, past) = task.rounds();
    for (round, past) in &past {
        let exit = past.exit_code().map(|code| format!(", exit {code}")).unwrap_or_default();
        let ran = past.run_at().zip(past.ended_at()).map(|(start, end)| end.since(start));
        let ran = ran.map(|ran| format!("   ran {}", times::duration(ran))).unwrap_or_default();
        let agent = past.agent().map(|agent| format!(" on {agent}")).unwrap_or_default();
        let reason = past.reason().map(|reason| format!("   {}", times::readable(reason))).unwrap_or_default();
        let end = past.round_end().to_lowercase().replace('_', " ");
        named(screen, "round", &format!("{round}: {end}{exit}{ran}{agent}{reason}"));
    }
}

/// Useful commands to type next.
fn next(model: &Model) -> String {
    let id = short(model.row.id());
    match model.row.state() {
        ShownState::Finished(Outcome::Succeeded) => format!("llts logs {id}"),
        // Its graph has taken its end into account.
        ShownState::Finished(_) if model.row.job().parse::<GraphId>().is_ok() => format!("llts logs {id}"),
        ShownState::Finished(_) => format!("llts logs {id}   llts retry {id}"),
        ShownState::Held => format!("llts resume {id}   llts kill {id}"),
        ShownState::Waiting | ShownState::Starting => format!("llts wait {id}   llts pause {id}   llts kill {id}"),
        ShownState::Running | ShownState::Ending => format!("llts logs {id} -f   llts kill {id}"),
    }
}

/// The screen of a task that is left only in the history.
pub(super) fn of_rounds(id: &str, rounds: &[RoundRow], now: Wall, look: Look) -> Screen {
    let mut screen = Screen::new(look);
    let Some(last) = rounds.last() else { return screen };
    let row = Row::of_round(last, now);
    let name = format!("{:NAME$}", short(id));
    screen.line([(STRONG, name.as_str()), (PLAIN, &row.state), (FAINT, "   forgotten by the service")]);
    named(&mut screen, "what", &row.what);
    named(&mut screen, "why", &row.why);
    named(&mut screen, "given id", last.given_id());
    named(&mut screen, "job", last.job());
    named(&mut screen, "id", id);
    screen.gap();
    let mut table = Table::of(["ROUND", "END", "EXIT", "WAITED", "RAN", "ENDED", "AGENT"].map(Column::new));
    for round in rounds {
        let row = Row::of_round(round, now);
        table.row([
            round.round().to_string(),
            row.state.clone(),
            row.exit.map(|code| code.to_string()).unwrap_or_default(),
            round.waited().map(times::seconds).unwrap_or_default(),
            round.ran().map(times::seconds).unwrap_or_default(),
            round.ended_at().map(times::local).unwrap_or_default(),
            round.agent().to_owned(),
        ]);
    }
    table.draw(&mut screen);
    screen
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Fields;

    const ID: &str = "TASK_1480000000.000000_cloFv";
    const NOW: Wall = Wall::from_micros(1_480_000_180_000_000);

    fn model(task: Fields, why: &str) -> Model {
        let explanation =
            Fields::new().with(words::WHY, why).with(words::LOG, "1480000000.000000 WAITING: submitted\n");
        Model {
            row: task.clone().into(),
            task: task.into(),
            explanation: explanation.into(),
            now: NOW,
            job: None,
            agent: None,
            written: None,
        }
    }

    fn fields(status: &str) -> Fields {
        let fields = Fields::new().with(words::TASK_ID, ID).with(words::STATUS, status);
        let fields = fields.with(words::SUBMIT_TIME, 1_480_000_000.0).with(words::OPERATION, "convert");
        fields.with(words::WHAT, "convert in=/data/film7.mov")
    }

    fn failed() -> Model {
        let fields = fields("FINISHED").with(words::OUTCOME, "FAILED").with(words::EXIT_CODE, 3).with(words::ROUND, 1);
        let fields = fields.with(words::DISPATCH_TIME, 1_480_000_000.08).with(words::RUN_TIME, 1_480_000_000.081);
        let fields = fields.with(words::END_TIME, 1_480_000_000.083).with(words::FINISH_TIME, 1_480_000_000.084);
        let fields = fields.with(words::AGENT_ID, "agent-4").with(words::STDOUT, "").with(words::STDOUT_BYTES, 0);
        let fields =
            fields.with(words::STDERR, "reading\ncorrupt header\u{1b}]0;HACKED\u{7}\n").with(words::STDERR_BYTES, 36);
        let fields = fields.with(words::REPORT_LOG, "").with(words::REPORT_BYTES, 0).with(words::CPU_SECONDS, 0.003);
        let fields = fields.with(words::MAX_RSS_KB, 13_000).with(words::GIVEN_ID, "film7").with(words::JOB, "nightly");
        let fields = fields.with("0:__ROUND_END__", "LOST").with("0:__AGENT_ID__", "agent-2");
        let mut model = model(fields, "it ended as FAILED: exit code 3");
        let job =
            Fields::new().with(words::JOB, "nightly").with(words::TOTAL, 500).with("FINISHED", 412).with("FAILED", 5);
        model.job = Some(job.into());
        model
    }

    fn running() -> Model {
        let fields = fields("RUNNING").with(words::AGENT_ID, "agent-3").with(words::RUN_TIME, 1_480_000_001.0);
        let mut model = model(fields.with(words::USUAL, 0.1), "agent agent-3 runs it");
        let agent = Fields::new().with(words::AGENT_ID, "agent-3").with(words::AGENT_STATUS, "BUSY");
        model.agent = Some(agent.with(words::HEARD_TIME, 1_480_000_179.9).into());
        let last = Some(NOW.before(Duration::from_secs(90)));
        model.written = Some(Written { stdout: 0, stderr: 36, last });
        model
    }

    fn waiting() -> Model {
        model(fields("WAITING"), "it waits until 1480000600.000000")
    }

    #[test]
    fn a_task_is_shown_on_one_screen() {
        for (name, model) in [("failed", failed()), ("running", running()), ("waiting", waiting())] {
            for (width, is_coloured) in [(80, false), (120, false), (80, true)] {
                let look = Look { width: Some(width), is_terminal: true, is_coloured };
                let name = format!("show_{name}_{width}{}", if is_coloured { "_coloured" } else { "" });
                insta::with_settings!({ filters => vec![(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[DATE TIME]")] }, {
                    insta::assert_snapshot!(name, of_task(&model, false, look).text().replace('\u{1b}', "ESC"));
                });
            }
        }
    }

    #[test]
    fn an_explanation_begins_with_the_reason() {
        let text = of_task(&waiting(), true, Look::default()).text();
        assert!(
            text.starts_with("cloFv    it waits until ") && text.trim_end().ends_with("WAITING: submitted"),
            "{text}"
        );
    }

    #[test]
    fn bytes_of_a_task_do_not_drive_the_terminal() {
        let text = of_task(&failed(), false, Look::default()).text();
        assert!(text.contains("corrupt header\u{fffd}]0;HACKED") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_value_is_shown_on_one_line() {
        let shown = |value: &str, width| {
            let fields = fields("FINISHED").with(words::OUTCOME, "SUCCEEDED").with(words::VALUE, value);
            let why = "it ended as SUCCEEDED: exit code 0; started on agent-2, which had it running";
            let text = of_task(&model(fields, why), false, Look { width, ..Look::default() }).text();
            assert!(text.contains("started on agent-2, which"), "{text}");
            text.lines().find(|line| line.starts_with("value")).unwrap_or_default().to_owned()
        };
        assert_eq!(shown("[1,\n2]", Some(80)), "value    [1, 2]");
        let long = format!("\"{}\u{1b}]0;x\"", "a".repeat(2000));
        assert!(shown(&long, Some(80)).chars().count() <= 80);
        assert!(shown(&long, None).ends_with(&format!("a… ({} B)", long.len())));
        assert!(!shown("\"\u{1b}]0;x\"", Some(80)).contains('\u{1b}'));
    }

    #[test]
    fn a_forgotten_task_is_shown_as_its_history_has_it() {
        let round = |number: u32, outcome: &str| {
            let fields =
                Fields::new().with(words::TASK_ID, ID).with(words::ROUND, number).with(words::OUTCOME, outcome);
            fields.with(words::OPERATION, ":command").with(words::REASON, "no space").into()
        };
        let text = of_rounds(ID, &[round(0, "DISK_FULL"), round(1, "FAILED")], NOW, Look::default()).text();
        insta::assert_snapshot!("show_forgotten", text);
    }
}
