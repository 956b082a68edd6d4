//! Tasks as table rows, both those of the service and those that only its history has.

use std::time::Duration;

use anstyle::Style;

use super::selection::ids::short;
use api::wire::requests::history::{RoundRow, SortKey};
use api::wire::requests::rows::RowView;
use base::{RoundOutcome, ShownState, Wall, is_longer, words};
use term::style::PLAIN;
use term::table::{Column, Give, Omit, Table};
use term::{style, times};

/// One task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) id: String,
    /// Its state, as a word for people.
    pub(super) state: String,
    style: Style,
    /// Its phase, and the wire word for its end.
    status: String,
    outcome: String,
    pub(super) exit: Option<i64>,
    /// When it entered this state.
    when: Option<Wall>,
    submitted_at: Option<Wall>,
    ended_at: Option<Wall>,
    waited: Option<Duration>,
    pub(super) ran: Option<Duration>,
    usual: Option<Duration>,
    pub(super) what: String,
    pub(super) why: String,
    /// The same for programs.
    reason: String,
    job: String,
    given_id: String,
    agent: String,
    host: String,
    round: u64,
}

impl Row {
    /// The row of a task in the service.
    pub(super) fn of_task(task: &RowView, now: Wall) -> Self {
        let state = task.state();
        let end = task.ended_at().or_else(|| task.finished_at().filter(|_| !state.is_open()));
        let ran = task.run_at().map(|start| end.unwrap_or(now).since(start));
        let finished_at = task.finished_at().or(task.ended_at()).filter(|_| !state.is_open());
        let when = match state {
            ShownState::Finished(_) => finished_at,
            ShownState::Held => task.held_at(),
            ShownState::Waiting => task.submitted_at(),
            ShownState::Running | ShownState::Ending | ShownState::Starting => task.run_at().or(task.dispatched_at()),
        };
        let until = task.dispatched_at().or(finished_at).unwrap_or(now);
        Self {
            id: task.id().to_owned(),
            state: state.word().to_owned(),
            style: style::of_state(state),
            status: task.status().to_owned(),
            outcome: task.outcome().unwrap_or_default().to_owned(),
            exit: task.exit_code().map(|code| code.0.into()),
            when,
            submitted_at: task.submitted_at(),
            ended_at: finished_at,
            waited: task.submitted_at().map(|at| until.since(at)),
            ran,
            usual: task.usual(),
            what: task.what().to_owned(),
            why: joined(times::near(task.why(), now), longer(task, ran)),
            reason: reason(task),
            job: task.job().to_owned(),
            given_id: task.given_id().to_owned(),
            agent: task.agent().to_owned(),
            host: task.host().to_owned(),
            round: task.round(),
        }
    }

    /// The row of a forgotten task, from the last round in the history.
    pub(super) fn of_round(round: &RoundRow, now: Wall) -> Self {
        let seconds = |seconds: Option<f64>| seconds.and_then(|time| Duration::try_from_secs_f64(time).ok());
        let outcome = words::round_outcome_of(round.outcome());
        let (state, style) = match outcome {
            Some(RoundOutcome::Ended(outcome)) => {
                let state = ShownState::Finished(outcome);
                (state.word().to_owned(), style::of_state(state))
            }
            _ => (round.outcome().to_lowercase().replace('_', " "), style::ODD),
        };
        Self {
            id: round.task().to_owned(),
            state,
            style,
            status: "FINISHED".to_owned(),
            outcome: round.outcome().to_owned(),
            exit: round.exit_code(),
            when: round.ended_at(),
            submitted_at: round.submitted_at(),
            ended_at: round.ended_at(),
            waited: seconds(round.waited()),
            ran: seconds(round.ran()),
            usual: None,
            what: words::people(round.work()).to_owned(),
            why: times::near(round.reason(), now),
            reason: times::readable(round.reason()),
            job: round.job().to_owned(),
            given_id: round.given_id().to_owned(),
            agent: round.agent().to_owned(),
            host: round.host().to_owned(),
            round: round.round(),
        }
    }

    /// The number that an order compares; the largest comes first.
    pub(super) fn key(&self, by: SortKey) -> u64 {
        let micros = |time: Option<Duration>| u64::try_from(time.unwrap_or_default().as_micros()).unwrap_or(u64::MAX);
        match by {
            SortKey::Submitted => self.submitted_at.map(Wall::micros).unwrap_or_default(),
            SortKey::Ended => self.ended_at.map_or(u64::MAX, Wall::micros),
            SortKey::Ran => micros(self.ran),
            SortKey::Waited => micros(self.waited),
        }
    }

    /// The given id, or else its command or tool.
    fn name(&self) -> &str {
        if self.given_id.is_empty() { &self.what } else { &self.given_id }
    }
}

/// The reason of its end or its wait, complete and with dates.
fn reason(task: &RowView) -> String {
    match (task.reason(), task.held_at(), task.not_before()) {
        ("", Some(at), _) => format!("held since {}", times::local(at)),
        ("", None, Some(at)) => format!("not before {}", times::local(at)),
        ("", None, None) => times::readable(task.why()),
        (reason, _, _) => times::readable(reason),
    }
}

/// Adds to the reason that the run is longer than usual.
fn joined(why: String, longer: Option<String>) -> String {
    match longer {
        Some(longer) if why.is_empty() => longer,
        Some(longer) => format!("{longer}; {why}"),
        None => why,
    }
}

/// A note on a task whose run takes, or took, longer than usual.
fn longer(task: &RowView, ran: Option<Duration>) -> Option<String> {
    let (ran, usual) = ran.zip(task.usual())?;
    is_longer(ran, usual).then(|| beyond(ran, usual))
}

/// How far a run exceeds the usual time: `60x its usual 0.1 s`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number for people, which saturates")]
pub(super) fn beyond(ran: Duration, usual: Duration) -> String {
    let times = (ran.as_secs_f64() / usual.as_secs_f64().max(0.001)).round() as u64;
    format!("{times}x its usual {}", times::short(usual))
}

/// A column of the table: its name on the command line, how it is shown, and its cell.
struct Shown {
    name: &'static str,
    column: Column,
    /// Whether it is shown by default.
    is_usual: bool,
    cell: fn(&Row, Wall) -> String,
}

const SHOWN: [Shown; 17] = [
    Shown::usual("id", Column::new("ID"), |row, _| short(&row.id).to_owned()),
    Shown::usual("state", Column::new("STATE"), |row, _| row.state.clone()),
    Shown::usual("exit", Column::new("EXIT").number().omitted_if(Omit::Empty), |row, _| {
        row.exit.filter(|code| *code != 0).map(|code| code.to_string()).unwrap_or_default()
    }),
    Shown::usual("when", Column::new("WHEN").rank(1), |row, now| {
        row.when.map(|at| times::ago(now, at)).unwrap_or_default()
    }),
    Shown::usual("ran", Column::new("RAN").number().omitted_if(Omit::Empty).rank(2), |row, _| {
        row.ran.map(times::short).unwrap_or_default()
    }),
    Shown::usual("job", Column::new("JOB").gives(Give::Middle(8)).omitted_if(Omit::Alike).rank(4), |row, _| {
        row.job.clone()
    }),
    Shown::usual("agent", Column::new("AGENT").gives(Give::Middle(8)).omitted_if(Omit::Alike).rank(5), |row, _| {
        row.agent.clone()
    }),
    Shown::usual("what", Column::new("WHAT").gives(Give::Middle(20)), |row, _| row.name().to_owned()),
    Shown::usual("why", Column::new("WHY").gives(Give::End(14)).omitted_if(Omit::Empty), |row, _| row.why.clone()),
    Shown::wide("round", Column::new("ROUND").number().omitted_if(Omit::Alike), |row, _| row.round.to_string()),
    Shown::wide("waited", Column::new("WAITED").number(), |row, _| row.waited.map(times::short).unwrap_or_default()),
    Shown::wide("usual", Column::new("USUAL").number().omitted_if(Omit::Empty), |row, _| {
        row.usual.map(times::short).unwrap_or_default()
    }),
    Shown::wide("submitted", Column::new("SUBMITTED"), |row, _| row.submitted_at.map(times::local).unwrap_or_default()),
    Shown::wide("ended", Column::new("ENDED").omitted_if(Omit::Empty), |row, _| {
        row.ended_at.map(times::local).unwrap_or_default()
    }),
    Shown::wide("host", Column::new("HOST").omitted_if(Omit::Empty), |row, _| row.host.clone()),
    Shown::wide("given", Column::new("GIVEN ID").omitted_if(Omit::Empty), |row, _| row.given_id.clone()),
    Shown::wide("task", Column::new("TASK"), |row, _| row.id.clone()),
];

impl Shown {
    const fn usual(name: &'static str, column: Column, cell: fn(&Row, Wall) -> String) -> Self {
        Self { name, column, is_usual: true, cell }
    }

    const fn wide(name: &'static str, column: Column, cell: fn(&Row, Wall) -> String) -> Self {
        Self { name, column, is_usual: false, cell }
    }
}

/// The name of a column, as the user gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColumnName(&'static str);

pub(super) fn column_names() -> impl Iterator<Item = String> {
    SHOWN.iter().map(|shown| shown.name.to_owned())
}

/// Reads the name of a column.
pub(super) fn column(text: &str) -> Result<ColumnName, String> {
    let wanted = text.trim().to_ascii_lowercase();
    SHOWN.iter().find(|shown| shown.name == wanted).map(|shown| ColumnName(shown.name)).ok_or_else(|| {
        let known: Vec<_> = column_names().collect();
        format!("it is none of the columns {}", known.join(", "))
    })
}

/// The columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    /// The usual ones, and the one of the order that was asked for.
    Usual(Option<SortKey>),
    All,
    Named(Vec<ColumnName>),
}

/// The table of rows for people.
pub(super) fn table(rows: &[Row], columns: &Columns, now: Wall) -> Table {
    let shown: Vec<(&Shown, Column)> = match columns {
        Columns::Usual(order) => {
            let is_of_order = |shown: &Shown| order.is_some_and(|key| shown.name == key.word());
            let column = |shown: &Shown| if is_of_order(shown) { shown.column.wanted() } else { shown.column };
            let usual = SHOWN.iter().filter(|shown| shown.is_usual || is_of_order(shown));
            usual.map(|shown| (shown, column(shown))).collect()
        }
        Columns::All => SHOWN.iter().map(|shown| (shown, shown.column.wanted())).collect(),
        Columns::Named(names) => {
            let named = names.iter().filter_map(|name| SHOWN.iter().find(|shown| shown.name == name.0));
            named.map(|shown| (shown, shown.column.wanted())).collect()
        }
    };
    let mut table = Table::of(shown.iter().map(|(_, column)| *column));
    for row in rows {
        let style = |name: &str| if name == "state" { row.style } else { PLAIN };
        table.styled_row(shown.iter().map(|(shown, _)| (style(shown.name), (shown.cell)(row, now))));
    }
    table
}

/// The table of rows for programs: whole ids, the words of the wire, and always the same columns.
pub(super) fn plain_table(rows: &[Row]) -> Table {
    let head = ["TASK", "TOOL", "STATUS", "OUTCOME", "EXIT", "ROUND", "RAN", "SUBMITTED", "AGENT", "REASON"];
    let mut table = Table::new(&head);
    for row in rows {
        let exit = row.exit.map(|code| code.to_string()).unwrap_or_default();
        let ran = row.ran.map(times::duration).unwrap_or_default();
        let submitted = row.submitted_at.map(times::local).unwrap_or_default();
        let round = row.round.to_string();
        table.row([
            &row.id,
            &row.what,
            &row.status,
            &row.outcome,
            &exit,
            &round,
            &ran,
            &submitted,
            &row.agent,
            &row.reason,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Fields;
    use term::style::Look;

    fn at(seconds: f64) -> f64 {
        1_480_000_000.0 + seconds
    }

    const NOW: Wall = Wall::from_micros(1_480_001_000_000_000);

    fn task(number: u32, letters: &str, status: &str, what: &str) -> Fields {
        let id = format!("TASK_148000{number:04}.000000_{letters}");
        let fields = Fields::new().with(words::TASK_ID, id).with(words::STATUS, status).with(words::WHAT, what);
        fields.with(words::SUBMIT_TIME, at(600.0)).with(words::JOB, "nightly")
    }

    fn ended(fields: Fields, outcome: &str, exit: i32, why: &str, end: f64) -> Fields {
        let fields = fields.with(words::OUTCOME, outcome).with(words::EXIT_CODE, exit).with(words::WHY, why);
        let fields = fields.with(words::RUN_TIME, at(end - 0.005)).with(words::END_TIME, at(end));
        fields.with(words::FINISH_TIME, at(end)).with(words::AGENT_ID, "agent-4")
    }

    fn rows() -> Vec<Row> {
        let film = "convert in=/data/archive/2016/film37.mov out=/srv/converted/film37.mp4";
        let fields = [
            ended(
                task(1, "urWsb", "FINISHED", film),
                "FAILED",
                3,
                "corrupt header in /data/film37.mov\u{1b}[2J",
                820.0,
            ),
            ended(task(2, "kEXgj", "FINISHED", "sleep 100"), "TIMED_OUT", -15, "the run took longer than 2 s", 760.0),
            task(3, "fMrzp", "RUNNING", "convert in=/data/slow.mov")
                .with(words::RUN_TIME, at(640.0))
                .with(words::USUAL, 0.1)
                .with(words::AGENT_ID, "agent-1"),
            task(4, "iQQtX", "WAITING", "true").with(words::WHY, "starts 1480600000.000000"),
            task(5, "VnojQ", "WAITING", "true").with(words::WHY, "no agent has tag gpu").with(words::GIVEN_ID, "mine"),
            task(6, "HeldX", "WAITING", "true").with(words::WHY, "held").with(words::HELD_TIME, at(900.0)),
            ended(task(7, "SuccX", "FINISHED", "echo 東京"), "SUCCEEDED", 0, "", 999.7),
        ];
        fields.into_iter().map(|fields| Row::of_task(&fields.into(), NOW)).collect()
    }

    #[test]
    fn the_table_shows_what_differs() {
        for (width, is_coloured) in [(80, false), (120, false), (80, true)] {
            let look = Look { width: Some(width), is_terminal: true, is_coloured };
            let name = format!("rows_{width}{}", if is_coloured { "_coloured" } else { "" });
            insta::with_settings!({ filters => vec![(r"\d{4}-\d\d-\d\d \d\d:\d\d", "[DATE TIME]")] }, {
                insta::assert_snapshot!(name, table(&rows(), &Columns::Usual(None), NOW).show(look).replace('\u{1b}', "ESC"));
            });
        }
    }

    #[test]
    fn a_program_finds_the_same_columns_whatever_is_in_them() {
        let table = plain_table(&rows()[..1]).show(Look::default());
        let mut lines = table.lines();
        let head: Vec<_> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!(head[..4], ["TASK", "TOOL", "STATUS", "OUTCOME"]);
        let row = lines.next().unwrap();
        assert!(row.starts_with("TASK_1480000001.000000_urWsb  conv") && row.contains("FINISHED  FAILED   3"), "{row}");
    }

    #[test]
    fn named_columns_are_shown_in_their_order() {
        let names = ["what", "STATE", "id"].map(|name| column(name).unwrap());
        let shown = table(&rows()[3..4], &Columns::Named(names.to_vec()), NOW).show_tabbed();
        assert_eq!(shown, "WHAT\tSTATE\tID\ntrue\twaiting\tiQQtX\n");
        assert!(column("x").unwrap_err().contains("id, state, exit"));
    }

    #[test]
    fn a_run_says_how_far_it_is() {
        let fields =
            task(3, "fMrzp", "RUNNING", "convert").with(words::RUN_TIME, at(900.0)).with(words::WHY, "40 %: tile 12");
        let why = |fields: Fields| Row::of_task(&fields.into(), NOW).why;
        assert_eq!(why(fields.clone()), "40 %: tile 12");
        assert_eq!(why(fields.with(words::USUAL, 0.1)), "1000x its usual 100 ms; 40 %: tile 12");
    }

    #[test]
    fn a_run_is_compared_with_what_is_usual() {
        assert_eq!(rows()[2].why, "3600x its usual 100 ms");
        assert_eq!(beyond(Duration::from_secs(6), Duration::from_millis(100)), "60x its usual 100 ms");
    }
}
