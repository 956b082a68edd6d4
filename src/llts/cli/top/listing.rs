//! The views: the request of each, and how answers become rows. Each table is the one that a command prints.

use std::time::Duration;

use anstyle::Style;

use super::super::rows::{Columns, Row as TaskLine};
use super::super::{agents, gate, graph, history, incidents, job, rows as tasks};
use super::filter;
use super::overview;
use super::target::Target;
use crate::beside::Beside;
use api::wire::requests::agents::AgentRow;
use api::wire::requests::gate::{GateRow, gates};
use api::wire::requests::graph::{GraphAnswer, graphs};
use api::wire::requests::history::{GroupKey, GroupRow, IncidentRow, RoundFilter, SortKey, summary};
use api::wire::requests::job::{JobAnswer, jobs};
use api::wire::requests::rows::RowView;
use api::wire::requests::status::Status;
use base::{ShownState, Wall};
use llts_client::{Client, ClientError};
use proc::clock;
use term::connect::READING_MAX;
use term::style::{Look, PLAIN, Screen};
use term::table::Table;
use term::{times, when};

/// Rows per request.
const PAGE: u64 = 500;

/// Maximum number of rows in a view; a filter finds the others.
pub(super) const ROWS_MAX: u64 = 5_000;

/// The hours that the view of the history shows.
const HOURS: Duration = Duration::from_secs(48 * 3_600);

/// A row of a view: its printable parts, and its target.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) target: Target,
    pub(super) parts: Vec<(Style, String)>,
}

impl Row {
    pub(super) const fn new(target: Target, parts: Vec<(Style, String)>) -> Self {
        Self { target, parts }
    }

    fn says(&self, text: &str) -> bool {
        self.parts.iter().any(|(_, part)| part.to_lowercase().contains(text))
    }
}

/// A view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Overview,
    Tasks,
    Jobs,
    Agents,
    Graphs,
    Gates,
    Incidents,
    History,
    Prompts,
    Lists,
    Tdf,
}

/// How a view is kept up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// It comes with the state of the service.
    Part,
    /// It is asked for when that state has changed.
    OnChange,
    /// It is requested at this interval: another program answers, and that reports no changes.
    After(Duration),
}

impl View {
    /// All views, with their keys and names.
    pub(super) const ALL: [(Self, char, &'static str); 11] = [
        (Self::Overview, '1', "Overview"),
        (Self::Tasks, '2', "Tasks"),
        (Self::Jobs, '3', "Jobs"),
        (Self::Agents, '4', "Agents"),
        (Self::Graphs, '5', "Graphs"),
        (Self::Gates, '6', "Gates"),
        (Self::Incidents, '7', "Incidents"),
        (Self::History, '8', "History"),
        (Self::Prompts, '9', "Prompts"),
        (Self::Lists, '0', "Lists"),
        (Self::Tdf, '-', "TDF"),
    ];

    pub(super) const fn freshness(self) -> Freshness {
        match self {
            Self::Overview => Freshness::Part,
            Self::Tasks | Self::Jobs | Self::Agents | Self::Graphs | Self::Gates | Self::Incidents | Self::History => {
                Freshness::OnChange
            }
            Self::Prompts | Self::Lists | Self::Tdf => Freshness::After(Duration::from_secs(2)),
        }
    }

    /// The system whose command a view shows, if the controller does not follow it.
    pub(super) const fn beside(self) -> Option<Beside> {
        match self {
            Self::Prompts => Some(Beside::Prompts),
            Self::Lists => Some(Beside::Lists),
            Self::Tdf => Some(Beside::Tdf),
            _ => None,
        }
    }
}

/// The request of a view.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) view: View,
    pub(super) filter: String,
    pub(super) sort: (SortKey, bool),
    pub(super) rows: u64,
}

/// The answer for a view.
#[derive(Clone, Debug, Default)]
pub(super) enum Data {
    #[default]
    Nothing,
    Tasks(Vec<RowView>),
    Jobs(Vec<JobAnswer>),
    Agents(Vec<AgentRow>),
    Graphs(Vec<GraphAnswer>),
    Gates(Vec<GateRow>),
    Incidents(Vec<IncidentRow>),
    History(Vec<GroupRow>),
    Text(String),
}

/// An answer for a view, with the total number of rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) data: Data,
    pub(super) total: u64,
}

/// Asks for the rows of a view.
pub(super) fn load(client: &Client, wanted: &Wanted) -> Result<Answer, ClientError> {
    let answer = |data, total| Ok(Answer { data, total });
    match wanted.view {
        View::Tasks => {
            let now = clock::now().wall;
            // An invalid filter is not sent: its line reports it.
            let Ok(filter) = filter::parse(&wanted.filter, wanted.sort, now) else { return Ok(Answer::default()) };
            let (mut rows, mut total) = (Vec::new(), 0);
            while (rows.len() as u64) < wanted.rows {
                let left = (wanted.rows - rows.len() as u64).min(PAGE);
                let ask = api::wire::requests::rows::rows(&filter.selector, &filter.wanted, rows.len() as u64, left);
                let found = client.ask(&ask)?;
                total = found.total;
                if found.rows.is_empty() {
                    break;
                }
                rows.extend(found.rows);
            }
            answer(Data::Tasks(rows), total)
        }
        View::Jobs => {
            let list = client.ask(&jobs(0, wanted.rows))?;
            answer(Data::Jobs(list.rows), list.total)
        }
        View::Agents => {
            let agents = client.agents()?;
            let total = agents.len() as u64;
            answer(Data::Agents(agents), total)
        }
        View::Graphs => {
            let list = client.ask(&graphs(0, wanted.rows))?;
            answer(Data::Graphs(list.rows), list.total)
        }
        View::Gates => {
            let list = client.ask(&gates())?;
            answer(Data::Gates(list.rows), list.total)
        }
        View::Incidents => {
            let all = RoundFilter::between(Wall::default(), clock::now().wall + HOURS);
            let ask = api::wire::requests::history::incidents(&all, None, 0, wanted.rows);
            let list = client.ask_patiently(&ask, READING_MAX)?.listing;
            answer(Data::Incidents(list.rows), list.total)
        }
        View::History => {
            let now = clock::now().wall;
            let filter = RoundFilter::between(now.before(HOURS), now + HOURS);
            let ask = summary(&filter, &[GroupKey::Hour], when::clock_ahead(now), 0, wanted.rows);
            let list = client.ask_patiently(&ask, READING_MAX)?.listing;
            answer(Data::History(list.rows), list.total)
        }
        View::Overview | View::Prompts | View::Lists | View::Tdf => answer(Data::Nothing, 0),
    }
}

/// The rows of a view that contain the text of the filter. The first row of a table is its head.
pub(super) fn rows(view: View, data: &Data, status: &Status, filter: &str, look: Look) -> Vec<Row> {
    let now = status.now;
    let (table, targets): (Table, Vec<Target>) = match data {
        Data::Nothing if view == View::Overview => return matching(overview::rows(status, look), filter, 0),
        Data::Nothing => return Vec::new(),
        Data::Text(text) => {
            let mut screen = Screen::new(look);
            text.lines().for_each(|line| screen.named(("", 0), PLAIN, line));
            let lines = screen.into_lines().into_iter();
            return matching(lines.map(|parts| Row::new(Target::Nothing, parts)).collect(), filter, 0);
        }
        Data::Tasks(found) => {
            let lines: Vec<_> = found.iter().map(|task| TaskLine::of_task(task, now)).collect();
            let target =
                |row: &RowView| Target::Task { id: row.id().to_owned(), is_held: row.state() == ShownState::Held };
            // The controller has already filtered these.
            let table = tasks::table(&lines, &Columns::Usual(None), now);
            return drawn(&table, found.iter().map(target), look);
        }
        Data::Jobs(jobs) => {
            let found: Vec<_> = jobs.iter().collect();
            (job::table_of(&found, now, true), jobs.iter().map(Target::of_job).collect())
        }
        Data::Agents(found) => {
            let target =
                |agent: &AgentRow| Target::Agent { name: agent.id().to_owned(), is_drained: agent.is_drained() };
            (agents::table(found, now, true, Some(&|id| doing(status, id))), found.iter().map(target).collect())
        }
        Data::Graphs(graphs) => {
            let targets = graphs.iter().map(|graph| Target::Graph(graph.id().to_owned()));
            (graph::list::table(graphs), targets.collect())
        }
        Data::Gates(gates) => {
            let target = |gate: &GateRow| Target::Gate { name: gate.name().to_owned(), is_closed: gate.is_closed() };
            (gate::table(gates), gates.iter().map(target).collect())
        }
        Data::Incidents(found) => {
            let text = |incident: &IncidentRow| {
                let at = incident.at().map(times::local).unwrap_or_default();
                format!("{at}  {}", times::readable(incident.text()))
            };
            let target = |incident| Target::Text { text: text(incident), hint: String::new() };
            (incidents::table(found), found.iter().map(target).collect())
        }
        Data::History(groups) => {
            let target = |group: &GroupRow| {
                let hour: u64 = group.key(GroupKey::Hour).parse().unwrap_or_default();
                Target::Tasks(format!("since={hour} until={}", hour + 3_600))
            };
            (history::table(&[GroupKey::Hour], groups), groups.iter().map(target).collect())
        }
    };
    matching(drawn(&table, targets.into_iter(), look), filter, 1)
}

/// The run time and work of a task, if the state of the service shows it.
fn doing(status: &Status, id: &str) -> String {
    let Some(row) = status.running.iter().find(|row| row.id() == id) else { return String::new() };
    let ran = row.run_at().map(|at| times::short(status.now.since(at))).unwrap_or_default();
    format!("{ran}  {}", row.what())
}

/// A table with the targets of its rows.
pub(super) fn drawn(table: &Table, targets: impl Iterator<Item = Target>, look: Look) -> Vec<Row> {
    let mut screen = Screen::new(look);
    table.draw(&mut screen);
    let targets = std::iter::once(Target::Nothing).chain(targets);
    screen.into_lines().into_iter().zip(targets).map(|(parts, target)| Row::new(target, parts)).collect()
}

/// The first `kept` rows, and the others that contain the text.
fn matching(rows: Vec<Row>, filter: &str, kept: usize) -> Vec<Row> {
    let text = filter.to_lowercase();
    let is_shown = |(place, row): &(usize, Row)| *place < kept || text.is_empty() || row.says(&text);
    rows.into_iter().enumerate().filter(is_shown).map(|(_, row)| row).collect()
}
