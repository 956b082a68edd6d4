//! `llts list`: a table of tasks, newest first: those of the service, then those that only its history still has.

mod past;

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use past::Forgotten;

use super::rounds::RoundsArgs;
use super::rows::{self, ColumnName, Columns, Row};
use super::selection::Selection;
use super::waiting;
use api::wire::Narrowing;
use api::wire::client::Listing;
use api::wire::requests::history::SortKey;
use api::wire::requests::rows::{Order, RowsAsk};
use base::{ShownState, StateCounts, Wall, counted, words};
use llts_client::Client;
use proc::clock;
use proc::signals::{STOP, Signals};
use term::exit::Failure;
use term::output::{note, to_value};
use term::session::Session;
use term::style::{FAINT, Look, PLAIN, Screen};
use term::table::grouped;
use term::{hints, states, style, when};

#[derive(Args, Debug)]
#[command(after_help = format!("\
Without tasks or a selection, all tasks are listed: those of the service, then those of the last day that it has forgotten, from the \
history (HISTORY_KEEP_DAYS; --since for older ones). A task is named by the letters in the column ID. \
Columns that are empty or the same in all rows are left out; WHY is the last line of stderr, or what the task waits for.
On a pipe, the columns are TASK, TOOL, STATUS, OUTCOME, EXIT, ROUND, RAN, SUBMITTED, AGENT and REASON, with whole ids and nothing cut; \
with --columns, cells have tabs between them. {}", when::PAST_HELP))]
pub(super) struct ListArgs {
    #[command(flatten)]
    selection: Selection,
    /// Only those in this state: ok, failed, timed-out, killed, lost, expired, skipped, running, starting, ending, waiting, held;
    /// several words with commas between them
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = states::shown, help_heading = "Selection")]
    state: Vec<ShownState>,
    /// Only those with this text in what they do, their given id, or the last line of stderr
    #[arg(long, value_name = "TEXT", help_heading = "Selection")]
    text: Option<String>,
    /// Only those whose run takes, or took, longer than usual: three times as long as most runs of their job or tool. Forgotten
    /// tasks are not among them
    #[arg(long, help_heading = "Selection")]
    longer: bool,
    #[command(flatten)]
    past: RoundsArgs,
    /// These columns, in this order, with commas between them
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = rows::column, help_heading = "Table")]
    columns: Vec<ColumnName>,
    /// All columns, cut by nothing
    #[arg(long, conflicts_with = "columns", help_heading = "Table")]
    wide: bool,
    /// Cut no cell to the width of the terminal
    #[arg(long, help_heading = "Table")]
    no_trunc: bool,
    /// Draw the table again each second, until Ctrl-C
    #[arg(long, help_heading = "Table")]
    watch: bool,
    /// Maximum number of tasks [default: as many as the screen has room for; 50 on a pipe]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Number of tasks to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
}

/// The rows of a page, and the total numbers of matching tasks.
#[derive(Debug)]
struct Page {
    rows: Vec<Row>,
    states: StateCounts,
    /// Number of the tasks that match and that the service knows.
    known: u64,
    /// Number of matching tasks that only the history has, in the part of it that was read.
    forgotten: u64,
    reach: Reach,
    offset: u64,
    now: Wall,
    /// The command that was typed, without an offset.
    typed: String,
}

/// How much of the history was searched for matching tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// All of it, or it cannot have any.
    All,
    /// A part of it.
    Part,
    /// None of it: the service knows enough matching tasks.
    Nothing,
}

pub(super) fn run(session: &mut Session, args: &ListArgs) -> Result<u8, Failure> {
    if args.watch {
        return watch(session, args);
    }
    if session.out.is_json() {
        return in_json(session, args);
    }
    let client = session.client()?;
    let look = session.out.look();
    let page = page(&client, args, args.limit(session.out.rows()))?;
    if look.is_terminal {
        session.out.screen(&screen(&page, args, look));
        return Ok(0);
    }
    if args.columns.is_empty() && !args.wide {
        session.out.table(&rows::plain_table(&page.rows));
        if let Some(next) = page.next() {
            note(&format!("{}; --offset {next} shows the next", page.shown()));
        }
    } else {
        session.out.text(&rows::table(&page.rows, &args.columns(), page.now).show_tabbed());
    }
    Ok(0)
}

fn watch(session: &mut Session, args: &ListArgs) -> Result<u8, Failure> {
    if session.out.is_json() || !session.out.look().is_terminal {
        return Err(Failure::usage("--watch draws on a terminal; `llts events` prints the changes of tasks elsewhere"));
    }
    // Before a thread or a signal can come.
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    let client = session.client()?;
    loop {
        let page = page(&client, args, args.limit(session.out.rows()))?;
        session.out.redraw_screen(&screen(&page, args, session.out.look()));
        if !session.out.redraws(&mut signals) {
            return Ok(0);
        }
    }
}

impl ListArgs {
    fn columns(&self) -> Columns {
        match (self.columns.as_slice(), self.wide) {
            ([], false) => Columns::Usual(self.past.sort),
            ([], true) => Columns::All,
            (names, _) => Columns::Named(names.to_vec()),
        }
    }

    /// `screen`: the lines of the terminal. The head, the lines below the table and the next prompt take six.
    fn limit(&self, screen: Option<usize>) -> u64 {
        let fits = |lines: usize| (lines.saturating_sub(6) as u64).clamp(10, LIMIT);
        self.limit.unwrap_or_else(|| screen.map_or(LIMIT, fits))
    }

    fn order(&self) -> Order {
        Order { by: self.past.sort.unwrap_or_default(), is_reversed: self.past.reverse }
    }

    /// Whether it has filters besides the fields of a selection.
    fn is_narrowed(&self) -> bool {
        !self.state.is_empty() || self.text.is_some() || self.longer
    }

    fn asked(&self, now: Wall) -> RowsAsk {
        let (since, until) = self.past.period.given(now);
        let narrowing = Narrowing {
            states: self.state.clone(),
            text: self.text.as_deref().map(str::to_lowercase),
            since,
            until,
            letters: None,
            runs_longer: self.longer,
            sees_commands: false,
        };
        RowsAsk { narrowing, order: self.order(), tool: self.past.tool.clone(), agent: self.past.agent.clone() }
    }
}

/// The requested page.
fn page(client: &Client, args: &ListArgs, limit: u64) -> Result<Page, Failure> {
    let end = args.offset.saturating_add(limit);
    let order = args.order();
    let found = args.selection.rows(client, &args.asked(clock::now().wall), end)?;
    let mut rows: Vec<Row> = found.rows.iter().map(|task| Row::of_task(task, found.now)).collect();
    let live = rows.iter().map(|row| row.id.clone()).collect();
    // Tasks of the service are newer than those that only the history has.
    let is_full = found.total > end && order == Order::default() && !args.past.period.is_given();
    let past = if is_full { Forgotten::default() } else { past::rounds(client, args, &live, found.now, end)? };
    let Forgotten { rounds, count: forgotten, is_cut } = past;
    rows.extend(rounds.iter().map(|round| Row::of_round(round, found.now)));
    let reach = match (is_full, is_cut) {
        (true, _) if args.past_states().is_some() => Reach::Nothing,
        (false, true) => Reach::Part,
        _ => Reach::All,
    };
    sort(&mut rows, order);
    let rows = rows.into_iter().skip(size(args.offset)).take(size(limit)).collect();
    let (states, known, now) = (found.states, found.total, found.now);
    Ok(Page {
        rows,
        states,
        known,
        forgotten,
        reach,
        offset: args.offset,
        now,
        typed: waiting::typed_without("--offset"),
    })
}

/// Sorts rows in this order, and equal ones by id.
fn sort(rows: &mut [Row], order: Order) {
    rows.sort_by(|one, other| {
        let natural = one.key(order.by).cmp(&other.key(order.by)).then_with(|| one.id.cmp(&other.id));
        if order.is_reversed { natural } else { natural.reverse() }
    });
}

/// The table, and the lines below it.
fn screen(page: &Page, args: &ListArgs, look: Look) -> Screen {
    let look = if args.no_trunc || args.wide { Look { width: None, ..look } } else { look };
    let mut screen = Screen::new(look);
    if !page.rows.is_empty() {
        rows::table(&page.rows, &args.columns(), page.now).draw(&mut screen);
        screen.gap();
    }
    screen.flow(summary(page));
    screen
}

impl Page {
    /// How many tasks are shown of how many.
    fn shown(&self) -> String {
        let (shown, total) = (self.rows.len() as u64, self.known + self.forgotten);
        let known = if self.reach == Reach::Nothing { "known " } else { "" };
        let all = format!("{}{}", self.at_least(), counted(grouped(total), &format!("{known}task")));
        match self.offset {
            0 if shown == total && self.reach == Reach::All => all,
            offset if offset > 0 && shown > 0 => {
                format!("{} to {} of {all}", grouped(offset + 1), grouped(offset + shown))
            }
            _ => format!("{} of {all}", grouped(shown)),
        }
    }

    fn at_least(&self) -> &'static str {
        if self.reach == Reach::Part { "at least " } else { "" }
    }

    /// The offset of the next page, if there is one.
    fn next(&self) -> Option<u64> {
        let next = self.offset + self.rows.len() as u64;
        let has_more = next < self.known + self.forgotten || self.reach != Reach::All;
        (has_more && !self.rows.is_empty()).then_some(next)
    }
}

/// The number of tasks in each state, and commands to type next.
fn summary(page: &Page) -> Vec<(anstyle::Style, String)> {
    if page.known + page.forgotten == 0 && page.reach == Reach::All {
        return vec![(PLAIN, "no task matches".to_owned())];
    }
    let states = page.states.by_state().filter(|(_, count)| *count > 0);
    let mut counts: Vec<_> = states
        .map(|(state, count)| {
            let style = if state.is_open() { PLAIN } else { style::of_state(state) };
            (style, format!("{} {}", grouped(count), state.word()))
        })
        .collect();
    if page.forgotten > 0 {
        counts.push((PLAIN, format!("{}{} forgotten", page.at_least(), grouped(page.forgotten))));
    }
    let mut parts = vec![(PLAIN, page.shown())];
    for (number, count) in counts.into_iter().enumerate() {
        parts.push((PLAIN, if number == 0 { ": " } else { ", " }.to_owned()));
        parts.push(count);
    }
    if let Some(next) = page.next() {
        parts.push((FAINT, format!("   {} --offset {next}", page.typed)));
    } else if let Some(row) = page.rows.first() {
        let show = format!("llts show {}", super::selection::ids::short(&row.id));
        parts.push((FAINT, format!("   {}", hints::typed(&show))));
    }
    parts
}

/// For programs: the tasks of the service, followed by forgotten ones; or the rounds of a period.
fn in_json(session: &mut Session, args: &ListArgs) -> Result<u8, Failure> {
    // The history does not know which time is usual.
    if args.past.is_given() && !args.longer {
        return past::print(session, args);
    }
    let client = session.client()?;
    let (now, limit) = (clock::now().wall, args.limit(None));
    let end = args.offset.saturating_add(limit);
    let (known, mut tasks): (u64, Vec<Value>) = if args.is_narrowed() {
        let found = args.selection.rows(&client, &args.asked(now), end)?;
        (found.total, found.rows.iter().skip(size(args.offset)).map(|task| to_value(task.fields())).collect())
    } else {
        let Listing { total, rows } = args.selection.list(&client, args.offset, limit)?;
        (total, rows.iter().map(|task| to_value(task.fields())).collect())
    };
    let mut total = known;
    // The wire form has only the controller's answer to a list, without the history.
    if session.out.is_of_schema() && known <= end {
        let live = tasks.iter().filter_map(|task| Some(task[words::TASK_ID].as_str()?.to_owned())).collect();
        // One more than the page needs shows whether others follow.
        let past = past::rounds(&client, args, &live, now, (end - known).saturating_add(1))?;
        total += past.count;
        let skipped = size(args.offset.saturating_sub(known));
        let left = size(limit).saturating_sub(tasks.len());
        tasks.extend(past.rounds.iter().skip(skipped).take(left).map(past::value));
    }
    session.out.value(&json!({ "total": total, "tasks": tasks }));
    Ok(0)
}

fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Maximum number of tasks that are shown unasked.
const LIMIT: u64 = 50;

/// Older rows of the history are read only on request: reading all of it may take seconds.
const UNASKED: Duration = Duration::from_secs(86_400);

impl ListArgs {
    /// The ends to search for in the history; `None` if it cannot have a matching task.
    fn past_states(&self) -> Option<Vec<ShownState>> {
        let is_past = |state: &ShownState| !state.is_open();
        if self.longer || (!self.state.is_empty() && !self.state.iter().any(is_past)) {
            return None;
        }
        Some(self.state.iter().copied().filter(is_past).collect())
    }

    fn sort(&self) -> SortKey {
        self.order().by
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Fields, Outcome};

    fn page(rows: usize, offset: u64, (known, forgotten): (usize, u64), reach: Reach) -> Page {
        let row = |number| Fields::new().with(words::TASK_ID, format!("TASK_1480000000.000000_x{number:04}")).into();
        let rows = (0..rows).map(|number| Row::of_task(&row(number), Wall::default())).collect();
        let mut states = StateCounts::default();
        let (failed, killed) = (known / 5, known / 10);
        states.set(ShownState::Finished(Outcome::Failed), failed);
        states.set(ShownState::Finished(Outcome::Killed), killed);
        states.set(ShownState::Finished(Outcome::Succeeded), known - failed - killed);
        Page {
            rows,
            states,
            known: known as u64,
            forgotten,
            reach,
            offset,
            now: Wall::default(),
            typed: "llts list".to_owned(),
        }
    }

    fn footer(page: &Page, width: usize) -> String {
        let mut screen = Screen::new(Look::plain(Some(width)));
        screen.flow(summary(page));
        screen.text()
    }

    #[test]
    fn equal_rows_are_ordered_by_their_ids_in_either_direction() {
        let mut rows = page(3, 0, (3, 0), Reach::All).rows;
        let mut ids = |is_reversed| {
            sort(&mut rows, Order { by: SortKey::Ran, is_reversed });
            rows.iter().map(|row| row.id.rsplit('x').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(ids(false), ["0002", "0001", "0000"]);
        assert_eq!(ids(true), ["0000", "0001", "0002"]);
    }

    #[test]
    fn the_footer_counts_what_is_shown_and_what_is_there() {
        let found = [
            footer(&page(3, 0, (3, 0), Reach::All), 120),
            footer(&page(20, 0, (1_234, 0), Reach::Nothing), 120),
            footer(&page(20, 20, (1_234, 0), Reach::Nothing), 120),
            footer(&page(20, 0, (10, 15), Reach::All), 120),
            footer(&page(20, 0, (10, 15), Reach::Part), 120),
            footer(&page(5, 20, (10, 15), Reach::All), 120),
            footer(&page(0, 50, (10, 15), Reach::All), 120),
            footer(&page(0, 0, (0, 0), Reach::All), 120),
            footer(&page(20, 0, (1_234, 1_500), Reach::Part), 80),
        ];
        insta::assert_snapshot!(found.concat(), @r"
        3 tasks: 3 ok   llts show TASK_1480000000.000000_x0000
        20 of 1,234 known tasks: 865 ok, 246 failed, 123 killed   llts list --offset 20
        21 to 40 of 1,234 known tasks: 865 ok, 246 failed, 123 killed   llts list --offset 40
        20 of 25 tasks: 7 ok, 2 failed, 1 killed, 15 forgotten   llts list --offset 20
        20 of at least 25 tasks: 7 ok, 2 failed, 1 killed, at least 15 forgotten   llts list --offset 20
        21 to 25 of 25 tasks: 7 ok, 2 failed, 1 killed, 15 forgotten   llts show TASK_1480000000.000000_x0000
        0 of 25 tasks: 7 ok, 2 failed, 1 killed, 15 forgotten
        no task matches
        20 of at least 2,734 tasks: 865 ok, 246 failed, 123 killed,
        at least 1,500 forgotten   llts list --offset 20
        ");
    }
}
