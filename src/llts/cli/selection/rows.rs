//! The selected tasks as rows of a table.

use std::collections::BTreeSet;

use super::{Selection, Which, ids};
use api::wire::client::Selector;
use api::wire::requests::rows::{Order, Rows, RowsAsk, rows};
use base::{ShownState, StateCounts, Wall, words};
use llts_client::{Client, ClientError};
use term::exit;
use term::exit::Failure;

impl Selection {
    /// The first rows of the selected tasks, in the requested order. Rows from several requests are not merged into one
    /// order.
    pub(in crate::cli) fn rows(&self, client: &Client, wanted: &RowsAsk, len_max: u64) -> Result<Rows, Failure> {
        let selectors = self.selectors()?;
        let mut all = Merged::new();
        if self.tasks.is_empty() || self.tasks.contains(&Which::All) {
            for selector in &selectors {
                all.add(pages(client, selector, wanted, len_max)?);
            }
            return Ok(all.rows);
        }
        for which in &self.tasks {
            match which {
                Which::Id(text) => {
                    let id = ids::whole(client, text)?;
                    for selector in &selectors {
                        let of_task = selector.clone().and(words::TASK_ID, id.as_str());
                        all.add(pages(client, &of_task, wanted, 1)?);
                    }
                    if !all.known.contains(&id) {
                        return Err(Failure::new(exit::NO_SUCH_TASK, format!("no task {id} matches")));
                    }
                }
                Which::Newest(count) => all.add(newest(client, &selectors, wanted, *count)?),
                Which::All => {}
            }
        }
        let mut named = all.rows;
        // The counts of a request are those of all tasks that match, and not all of them are named.
        named.states = StateCounts::default();
        named.rows.iter().for_each(|row| named.states.add(row.state()));
        Ok(Rows { total: named.rows.len() as u64, ..named })
    }
}

/// The rows of several requests.
struct Merged {
    rows: Rows,
    /// The ids of their tasks.
    known: BTreeSet<String>,
}

impl Merged {
    fn new() -> Self {
        let rows = Rows { total: 0, states: StateCounts::default(), now: Wall::default(), rows: Vec::new() };
        Self { rows, known: BTreeSet::new() }
    }

    fn add(&mut self, page: Rows) {
        let Self { rows: all, known } = self;
        // A task may be named twice.
        all.rows.extend(page.rows.into_iter().filter(|row| known.insert(row.id().to_owned())));
        (all.total, all.now) = (all.total + page.total, page.now);
        for state in ShownState::ALL {
            all.states.set(state, all.states.of(state) + page.states.of(state));
        }
    }
}

/// This number of the newest tasks that match, whichever row the reader wants first.
fn newest(client: &Client, selectors: &[Selector], wanted: &RowsAsk, count: u64) -> Result<Rows, ClientError> {
    let wanted = RowsAsk { order: Order::default(), ..wanted.clone() };
    let mut all = Merged::new();
    for selector in selectors {
        all.add(pages(client, selector, &wanted, count)?);
    }
    let mut newest = all.rows;
    newest.rows.sort_by(|one, other| other.id().cmp(one.id()));
    newest.rows.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    Ok(newest)
}

/// At most this many rows, page by page, because the controller cuts long answers.
fn pages(client: &Client, selector: &Selector, wanted: &RowsAsk, len_max: u64) -> Result<Rows, ClientError> {
    let mut found = client.ask(&rows(selector, wanted, 0, len_max))?;
    loop {
        let count = found.rows.len() as u64;
        if count >= len_max.min(found.total) {
            return Ok(found);
        }
        let page = client.ask(&rows(selector, wanted, count, len_max - count))?;
        if page.rows.is_empty() {
            return Ok(found);
        }
        found.rows.extend(page.rows);
    }
}
