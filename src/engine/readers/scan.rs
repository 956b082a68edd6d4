//! Requests that look at many tasks, agents, gates or jobs, or change many tasks, without blocking others: one slice of work per turn.
//!
//! A turn does one slice of searching, however many searches there are, and the connections take turns. A search that fits into the
//! rest of the present turn is answered at once, unless others wait. The searches of one connection run one after the other, so
//! that many of them cost no more memory than their requests.

use std::collections::{BTreeMap, VecDeque};

use super::found_rows::FoundRows;
use crate::Controller;
use crate::relations::Relations;
use crate::relations::orders::Ordered;
use crate::tasks::Tasks;
use crate::turn::effect::{Answer, ConnectionId, Ticket, Timer};
use api::wire::page::{Page, PageOf};
use api::wire::reply::Reply;
use api::wire::task::Filter;
use api::wire::{Code, Refusal};
use base::{GraphId, Mono, Now, TaskId, TaskRecord};

/// Work of one turn, in looks at small tasks; larger ones count as several. This takes some hundred microseconds, which other
/// requests hardly notice (docs/design/hazards.md, W11).
const SLICE: usize = 2_000;

/// Cost of a search that looks at nothing: many of them fit into a turn, but not a flood.
const BEGUN: usize = 4;

/// Cost of a shown task, agent or gate in looks: it is copied and serialised.
const SHOWN: usize = 10;

/// Maximum number of rows in the state of a service: jobs, graphs, gates, running tasks and failed tasks.
pub(crate) const STATUS_ROWS: usize = 190;

/// Cost of explaining why a task waits: the tasks before it are counted.
const EXPLAINED: usize = 500;

/// Cost of a changed task in looks: its record is stored, and its state is pushed.
const CHANGED: usize = 10;

/// Bytes of a task that cost as much as a look at it, wherever they are searched, copied or stored.
const BYTES_OF_A_LOOK: usize = 256;

/// The share of all waiting searches that one connection may have, as a divisor.
const SHARE: usize = 10;

/// A search in progress.
#[derive(Debug)]
pub(crate) struct Scan {
    ticket: Ticket,
    goal: Goal,
    filter: Filter,
    /// Everything from this id on has been seen.
    before: Option<TaskId>,
    matches: usize,
}

/// The object of a search.
#[derive(Debug)]
pub(crate) enum Goal {
    Newest {
        found: Option<TaskId>,
        wait_until: Option<Mono>,
    },
    Page {
        page: Page,
        limit: usize,
        records: Vec<TaskRecord>,
    },
    /// Rows of a table.
    Rows(FoundRows),
    Status,
    Explain {
        found: Option<TaskId>,
    },
    Agents {
        page: Page,
        limit: usize,
    },
    Gates,
    Jobs {
        page: Page,
        limit: usize,
    },
    /// The steps of a graph, or all graphs.
    Graphs {
        graph: Option<GraphId>,
        page: Page,
        limit: usize,
    },
    Order(Ordered),
}

impl Goal {
    /// The bytes of a task that have to be read for it.
    fn searched_bytes(&self, record: &TaskRecord) -> usize {
        if let Self::Rows(found) = self { found.searched_bytes(record) } else { 0 }
    }

    /// Whether it is about a task that matches the filter.
    fn admits(&self, tasks: &Tasks, relations: &Relations, record: &TaskRecord) -> bool {
        if let Self::Rows(found) = self { found.admits(tasks, relations, record) } else { true }
    }
}

/// The searches in progress: a line for each connection, and the order of turns.
#[derive(Debug)]
pub(crate) struct Scans {
    lines: BTreeMap<ConnectionId, VecDeque<Scan>>,
    turns: VecDeque<ConnectionId>,
    len: usize,
    /// The work that is left for this turn.
    left: usize,
}

impl Default for Scans {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), turns: VecDeque::new(), len: 0, left: SLICE }
    }
}

impl Scans {
    /// A turn has ended: the next one does its share of work.
    pub(crate) const fn begin_turn(&mut self) {
        self.left = SLICE;
    }

    /// Why one more search of this connection cannot wait, as a sentence.
    fn obstacle(&self, connection: ConnectionId, max: usize) -> Option<String> {
        let own = self.lines.get(&connection).map_or(0, VecDeque::len);
        if own >= (max / SHARE).max(1) {
            return Some(format!(
                "{own} searches of this connection wait already, its tenth of SEARCHES_MAX; ask again when they are answered"
            ));
        }
        (self.len >= max).then(|| format!("{max} searches wait already (SEARCHES_MAX); ask again later"))
    }

    fn push(&mut self, scan: Scan) {
        let connection = scan.ticket.connection;
        let line = self.lines.entry(connection).or_default();
        if line.is_empty() {
            self.turns.push_back(connection);
        }
        line.push_back(scan);
        self.len += 1;
    }

    /// The next search. It stays out of its line until [`Self::put_back`] or [`Self::end`].
    fn next(&mut self) -> Option<Scan> {
        let connection = self.turns.pop_front()?;
        self.lines.get_mut(&connection)?.pop_front()
    }

    /// The search continues after a turn of every other connection.
    fn put_back(&mut self, scan: Scan) {
        let connection = scan.ticket.connection;
        self.lines.entry(connection).or_default().push_front(scan);
        self.turns.push_back(connection);
    }

    /// The search is done; the next one of its connection goes to the end of the order.
    fn end(&mut self, connection: ConnectionId) {
        self.len -= 1;
        if self.lines.get(&connection).is_some_and(|line| !line.is_empty()) {
            self.turns.push_back(connection);
        } else {
            self.lines.remove(&connection);
        }
    }

    /// A connection is gone; returns the tickets of its searches. An order is still carried out to its end.
    pub(crate) fn forget(&mut self, connection: ConnectionId) -> Vec<Ticket> {
        let Some(line) = self.lines.remove(&connection) else { return Vec::new() };
        let tickets = line.iter().map(|scan| scan.ticket).collect();
        let before = line.len();
        let orders: VecDeque<_> = line.into_iter().filter(|scan| matches!(scan.goal, Goal::Order(_))).collect();
        self.len -= before - orders.len();
        if orders.is_empty() {
            self.turns.retain(|turn| *turn != connection);
        } else {
            self.lines.insert(connection, orders);
        }
        tickets
    }

    pub(crate) fn sanity_check(&self) {
        assert_eq!(
            self.len,
            self.lines.values().map(VecDeque::len).sum::<usize>(),
            "the count of searches has drifted"
        );
        assert_eq!(self.turns.len(), self.lines.len(), "a connection has a line of searches and no turn");
        for (connection, line) in &self.lines {
            assert!(!line.is_empty() && self.turns.contains(connection), "the searches of {connection:?} never go on");
        }
    }
}

impl Controller {
    /// Begins a search, and answers it if it fits into the rest of the present turn.
    pub(crate) fn search(&mut self, now: Now, ticket: Ticket, filter: Filter, goal: Goal) -> Answer {
        let before = filter.before();
        let mut scan = Scan { ticket, goal, filter, before, matches: 0 };
        if self.readers.scans.len == 0 && self.step(now, &mut scan) {
            return self.found_out(now, scan);
        }
        if let Some(obstacle) = self.readers.scans.obstacle(ticket.connection, self.settings.scans_max) {
            return Reply::Refused(Refusal::new(Code::LimitReached, obstacle)).into();
        }
        self.readers.scans.push(scan);
        self.turn.set_timer(Timer::Scan, now.mono);
        Answer::Later
    }

    /// Does the work that is left for this turn; the connections take turns.
    pub(crate) fn continue_scans(&mut self, now: Now) {
        while self.readers.scans.left > 0
            && let Some(mut scan) = self.readers.scans.next()
        {
            let ticket = scan.ticket;
            if !self.step(now, &mut scan) {
                self.readers.scans.put_back(scan);
                continue;
            }
            self.readers.scans.end(ticket.connection);
            if let Answer::Now(reply) = self.found_out(now, scan) {
                self.turn.reply(ticket, reply);
            }
        }
        if self.readers.scans.len > 0 {
            self.turn.set_timer(Timer::Scan, now.mono);
        }
    }

    /// Continues a search as long as work is left in this turn; true when it is done.
    fn step(&mut self, now: Now, scan: &mut Scan) -> bool {
        if let Goal::Order(ordered) = &mut scan.goal {
            return self.step_order(now, ordered);
        }
        let left = &mut self.readers.scans.left;
        if *left == 0 {
            return false;
        }
        *left = left.saturating_sub(BEGUN);
        match &scan.goal {
            Goal::Order(_) => unreachable!("an order has steps of its own"),
            // A page of agents is one slice.
            Goal::Agents { page, limit } => {
                let passed = page.offset.min(self.fleet.len()) / SHOWN;
                *left = left.saturating_sub(passed + SHOWN * (*limit).min(self.fleet.len()));
                true
            }
            Goal::Jobs { page, limit } => {
                let jobs = self.relations.jobs.len();
                *left = left.saturating_sub(page.offset.min(jobs) / SHOWN + SHOWN * (*limit).min(jobs));
                true
            }
            Goal::Graphs { graph, page, limit } => {
                let graph = graph.and_then(|graph| self.graphs.get(graph));
                let rows = graph.map_or(self.graphs.len(), |graph| graph.accepted.document.steps.len());
                let tasks = graph.map_or(0, |graph| graph.tasks.len());
                *left = left.saturating_sub(page.offset.min(rows) / SHOWN + SHOWN * (*limit).min(rows) + tasks);
                true
            }
            Goal::Gates => {
                *left = left.saturating_sub(SHOWN * self.queue.gates.len());
                true
            }
            Goal::Status => {
                let parts = self.fleet.len() + self.queue.parts() + STATUS_ROWS;
                *left = left.saturating_sub(SHOWN * parts);
                true
            }
            Goal::Newest { .. } | Goal::Page { .. } | Goal::Explain { .. } | Goal::Rows(_) => {
                scan.look((&self.tasks, &self.relations), left)
            }
        }
    }

    /// Continues an order as long as work is left in this turn; true when it is done.
    fn step_order(&mut self, now: Now, ordered: &mut Ordered) -> bool {
        while self.readers.scans.left > 0 {
            let (is_done, changed) = self.order_next(now, ordered);
            if is_done {
                return true;
            }
            let changed = changed.and_then(|task| self.tasks.get(task));
            let cost = changed.map_or(1, |record| CHANGED + looks(record.submitted.len()));
            self.readers.scans.left = self.readers.scans.left.saturating_sub(cost);
        }
        false
    }

    /// The answer of a search that is done.
    fn found_out(&mut self, now: Now, scan: Scan) -> Answer {
        let Scan { ticket, goal, matches, filter, .. } = scan;
        match goal {
            Goal::Page { page: Page { offset, limit: asked }, records, .. } => {
                Reply::Tasks { records, page: PageOf { offset, asked, total: matches } }.into()
            }
            Goal::Newest { found, wait_until } => {
                // The task may have been forgotten since its slice was seen.
                let found = found.filter(|task| self.tasks.get(*task).is_some());
                self.found(ticket, found.map(|task| (task, matches)), wait_until)
            }
            Goal::Explain { found } => self.explain(now, &filter, found).unwrap_or_else(Reply::Refused).into(),
            Goal::Rows(found) => self.page_of_rows(now, &filter, &found, matches).into(),
            Goal::Status => self.status(now).into(),
            Goal::Agents { page: Page { offset, limit: asked }, limit } => {
                let sets = &self.queue.sets;
                let agents = self.fleet.page(offset, limit, |set| sets.get(set).cloned());
                let page = PageOf { offset, asked, total: self.fleet.len() };
                Reply::Agents { agents, page }.into()
            }
            Goal::Gates => self.query_gates(now).into(),
            Goal::Graphs { graph, page, limit } => self.page_of_graphs(graph, page, limit).into(),
            Goal::Jobs { page: Page { offset, limit: asked }, limit } => {
                let names = self.relations.jobs.newest().skip(offset).take(limit);
                let jobs = names.filter_map(|name| self.job_view(name)).collect();
                Reply::Jobs { jobs, page: PageOf { offset, asked, total: self.relations.jobs.len() } }.into()
            }
            Goal::Order(ordered) => self.order_done(now, ordered).into(),
        }
    }
}

impl Scan {
    /// Looks at tasks as long as work is left; true when there are no more.
    fn look(&mut self, (tasks, relations): (&Tasks, &Relations), left: &mut usize) -> bool {
        for record in candidates((tasks, relations), &self.filter, self.before) {
            if *left == 0 {
                return false;
            }
            *left =
                left.saturating_sub(1 + looks(self.filter.searched_bytes(record) + self.goal.searched_bytes(record)));
            self.before = Some(record.id);
            if self.filter.matches(record) && self.goal.admits(tasks, relations, record) {
                *left = left.saturating_sub(take(&mut self.goal, &mut self.matches, record));
            }
            if self.has_enough() {
                // Without a filter every task matches, so those beyond the page need no look.
                let counts_all = self.filter.is_empty() && self.filter.before().is_none();
                self.matches = if counts_all { tasks.len() } else { self.matches };
                return true;
            }
        }
        true
    }

    /// Whether the remaining tasks cannot change the answer.
    fn has_enough(&self) -> bool {
        match &self.goal {
            Goal::Newest { found, .. } => found.is_some() && self.filter.is_empty(),
            Goal::Page { limit, records, .. } => {
                records.len() >= *limit && (self.filter.is_empty() || self.filter.before().is_some())
            }
            Goal::Rows(found) => found.is_full() && self.filter.is_empty(),
            Goal::Explain { found } => found.is_some(),
            Goal::Agents { .. }
            | Goal::Gates
            | Goal::Jobs { .. }
            | Goal::Graphs { .. }
            | Goal::Status
            | Goal::Order(_) => true,
        }
    }
}

/// The cost of this number of bytes, in looks.
const fn looks(bytes: usize) -> usize {
    bytes / BYTES_OF_A_LOOK
}

/// The tasks older than `before` that may match, newest first.
fn candidates<'a>(
    (tasks, relations): (&'a Tasks, &'a Relations),
    filter: &Filter,
    before: Option<TaskId>,
) -> Box<dyn Iterator<Item = &'a TaskRecord> + 'a> {
    let of_job = || filter.job().and_then(|name| relations.job(&name));
    match (filter.task_id(), filter.given_id()) {
        (None, None) if filter.has_job() => {
            Box::new(of_job().into_iter().flat_map(move |job| job.newest_before(before)).filter_map(|id| tasks.get(id)))
        }
        (Some(id), _) => {
            let unseen = id.filter(|id| before.is_none_or(|before| *id < before));
            Box::new(unseen.and_then(|id| tasks.get(id)).into_iter())
        }
        (None, Some(given_id)) => Box::new(tasks.with_given_id(given_id, before)),
        (None, None) => Box::new(tasks.newest_before(before)),
    }
}

/// Adds a matching task; returns the cost besides the look.
fn take(goal: &mut Goal, matches: &mut usize, record: &TaskRecord) -> usize {
    *matches += 1;
    match goal {
        Goal::Newest { found, .. } => {
            found.get_or_insert(record.id);
            0
        }
        Goal::Page { page, limit, records } if *matches > page.offset && records.len() < *limit => {
            records.push(record.clone());
            SHOWN + looks(record.submitted.len())
        }
        Goal::Explain { found } => {
            found.get_or_insert(record.id);
            EXPLAINED
        }
        Goal::Rows(found) => {
            found.take(record);
            0
        }
        Goal::Page { .. }
        | Goal::Status
        | Goal::Agents { .. }
        | Goal::Gates
        | Goal::Jobs { .. }
        | Goal::Graphs { .. }
        | Goal::Order(_) => 0,
    }
}
