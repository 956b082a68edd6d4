//! `llts list`: tasks as a table, the newest first: those of the service, and behind them those that only its history has.

mod past;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::Session;
use super::exit::Failure;
use super::output::to_value;
use super::rounds::{self, RoundsArgs};
use super::rows::{self, ColumnName, Columns, Row};
use super::selection::Selection;
use super::states;
use super::style::{BAD, FAINT, Look, PLAIN, Screen};
use super::watch;
use super::when;
use crate::client::Client;
use crate::protocol::Narrowing;
use crate::protocol::client::Listing;
use crate::protocol::requests::history::SortKey;
use crate::protocol::requests::rows::{Order, RowsAsk};
use crate::shell::clock;
use crate::types::{ShownState, StateCounts, Wall};

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
    /// Only those that run longer than usual: three times as long as most runs of their job or tool
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
    /// Maximum number of tasks
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,
    /// Number of tasks to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
}

/// The rows of a page, with the numbers of all tasks that match.
#[derive(Debug)]
struct Page {
    rows: Vec<Row>,
    states: StateCounts,
    /// Number of all tasks that match, also of those that only the history has.
    total: u64,
    offset: u64,
    now: Wall,
}

pub(super) fn run(session: &mut Session, args: &ListArgs) -> Result<u8, Failure> {
    if session.out.is_json() {
        return in_json(session, args);
    }
    let client = session.client()?;
    if args.watch {
        if !io::stdout().is_terminal() {
            return Err(Failure::usage("--watch needs a terminal on stdout; omit it"));
        }
        let rows_max = session.out.rows().unwrap_or(24).saturating_sub(4) as u64;
        return watch::redraw(session, |session| {
            let page = page(&client, args, args.limit.min(rows_max.max(1)))?;
            Ok(screen(&page, args, session.out.look()))
        });
    }
    let page = page(&client, args, args.limit)?;
    let look = session.out.look();
    if look.is_terminal {
        session.out.screen(&screen(&page, args, look));
        return Ok(0);
    }
    if args.columns.is_empty() && !args.wide {
        session.out.table(&rows::plain_table(&page.rows));
        session.out.next_page("tasks", args.offset, page.rows.len(), page.total);
    } else {
        session.out.text(&rows::table(&page.rows, &args.columns(), page.now).show_tabbed());
    }
    Ok(0)
}

impl ListArgs {
    fn columns(&self) -> Columns {
        match (self.columns.as_slice(), self.wide) {
            ([], false) => Columns::Usual,
            ([], true) => Columns::All,
            (names, _) => Columns::Named(names.to_vec()),
        }
    }

    fn order(&self) -> Order {
        Order { by: self.past.sort.unwrap_or_default(), is_reversed: self.past.reverse }
    }

    /// Whether it narrows tasks down by more than the fields of a selection.
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

/// The page that is asked for.
fn page(client: &Client, args: &ListArgs, limit: u64) -> Result<Page, Failure> {
    let end = args.offset.saturating_add(limit);
    let order = args.order();
    let found = args.selection.rows(client, &args.asked(clock::now().wall), end)?;
    let mut rows: Vec<Row> = found.rows.iter().map(|task| Row::of_task(task, found.now)).collect();
    let mut total = found.total;
    // What the service knows is newer than what only the history has.
    let is_full = rows.len() as u64 >= end && order == Order::default() && !args.past.period.is_given();
    if !is_full {
        let (older, more) = past::rows(client, args, &rows, found.now, end)?;
        total += more.max(older.len() as u64);
        rows.extend(older);
    }
    rows.sort_by(|one, other| {
        let by_key = one.key(order.by).cmp(&other.key(order.by));
        let by_key = if order.is_reversed { by_key } else { by_key.reverse() };
        by_key.then_with(|| other.id.cmp(&one.id))
    });
    let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let rows = rows.into_iter().skip(size(args.offset)).take(size(limit)).collect();
    Ok(Page { rows, states: found.states, total, offset: args.offset, now: found.now })
}

/// The table with its last lines.
fn screen(page: &Page, args: &ListArgs, look: Look) -> Screen {
    let look = if args.no_trunc || args.wide { Look { width: None, ..look } } else { look };
    let mut screen = Screen::new(look);
    if !page.rows.is_empty() {
        rows::table(&page.rows, &args.columns(), page.now).draw(&mut screen);
        screen.gap();
    }
    screen.line(summary(page).iter().map(|(style, text)| (*style, text.as_str())));
    screen
}

/// How many tasks are in which state, and what to type next.
fn summary(page: &Page) -> Vec<(anstyle::Style, String)> {
    let tasks = |count: u64| if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") };
    let shown = page.rows.len() as u64;
    if page.total == 0 {
        return vec![(PLAIN, "no task matches".to_owned())];
    }
    let known = page.states.total() as u64;
    let mut parts = vec![(PLAIN, tasks(page.total))];
    for (number, (state, count)) in page.states.by_state().filter(|(_, count)| *count > 0).enumerate() {
        parts.push((PLAIN, if number == 0 { ": " } else { ", " }.to_owned()));
        parts.push((if state.is_failure() { BAD } else { PLAIN }, format!("{count} {}", state.word())));
    }
    if known < page.total && known > 0 {
        parts.push((PLAIN, format!(", {} forgotten", page.total - known)));
    }
    let next = page.offset + shown;
    if next < page.total {
        parts.push((FAINT, format!("   llts list --offset {next}")));
    } else if let Some(row) = page.rows.first() {
        parts.push((FAINT, format!("   llts show {}", super::selection::ids::short(&row.id))));
    }
    parts
}

/// For programs: tasks as they are on the wire, or the rounds of a time.
fn in_json(session: &mut Session, args: &ListArgs) -> Result<u8, Failure> {
    if args.past.is_given() {
        return rounds::list(session, &args.past, &args.selection, &args.state, args.offset, args.limit);
    }
    let client = session.client()?;
    let (total, tasks): (u64, Vec<Value>) = if args.is_narrowed() {
        let end = args.offset.saturating_add(args.limit);
        let found = args.selection.rows(&client, &args.asked(clock::now().wall), end)?;
        let skipped = usize::try_from(args.offset).unwrap_or(usize::MAX);
        (found.total, found.rows.iter().skip(skipped).map(|task| to_value(task.fields())).collect())
    } else {
        let Listing { total, rows } = args.selection.list(&client, args.offset, args.limit)?;
        (total, rows.iter().map(|task| to_value(task.fields())).collect())
    };
    session.out.value(&json!({ "total": total, "tasks": tasks }));
    Ok(0)
}

/// The time before now from which on the history supplies rows unasked: reading all of it may take seconds.
const UNASKED: Duration = Duration::from_secs(86_400);

impl ListArgs {
    /// The ends that the history is asked for; `None` if it has no such task.
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
