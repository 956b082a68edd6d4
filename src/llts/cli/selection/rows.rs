//! The selected tasks as rows of a table.

use std::collections::BTreeSet;

use super::{Selection, Which, ids};
use api::wire::client::Selector;
use api::wire::requests::rows::{Rows, RowsAsk, rows};
use base::{ShownState, StateCounts, Wall, words};
use llts_client::{Client, ClientError};
use term::exit;
use term::exit::Failure;

impl Selection {
    /// The first rows of the selected tasks, in the requested order. Rows from several requests are not merged into one
    /// order.
    pub(in crate::cli) fn rows(&self, client: &Client, wanted: &RowsAsk, len_max: u64) -> Result<Rows, Failure> {
        let selectors = self.selectors()?;
        let mut all = Rows { total: 0, states: StateCounts::default(), now: Wall::default(), rows: Vec::new() };
        let mut known = BTreeSet::new();
        let mut add = |known: &mut BTreeSet<String>, selector: &Selector, len_max: u64| -> Result<(), Failure> {
            let page = pages(client, selector, wanted, len_max)?;
            // A task may be named twice.
            all.rows.extend(page.rows.into_iter().filter(|row| known.insert(row.id().to_owned())));
            (all.total, all.now) = (all.total + page.total, page.now);
            for state in ShownState::ALL {
                all.states.set(state, all.states.of(state) + page.states.of(state));
            }
            Ok(())
        };
        if self.tasks.is_empty() || self.tasks.contains(&Which::All) {
            selectors.iter().try_for_each(|selector| add(&mut known, selector, len_max))?;
            return Ok(all);
        }
        for which in &self.tasks {
            match which {
                Which::Id(text) => {
                    let id = ids::whole(client, text)?;
                    let of_task = |selector: &Selector| selector.clone().and(words::TASK_ID, id.as_str());
                    let before = known.len();
                    selectors.iter().try_for_each(|selector| add(&mut known, &of_task(selector), 1))?;
                    if known.len() == before {
                        return Err(Failure::new(exit::NO_SUCH_TASK, format!("no task {id} matches")));
                    }
                }
                Which::Newest(count) => selectors.iter().try_for_each(|selector| add(&mut known, selector, *count))?,
                Which::All => {}
            }
        }
        let named = all.rows.len() as u64;
        Ok(Rows { total: named, ..all })
    }
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
