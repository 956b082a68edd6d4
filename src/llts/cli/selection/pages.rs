//! Pages of tasks that have one of several sets of fields: the controller selects by one set at a time.

use api::wire::client::{Listing, Selector, TaskView};
use api::wire::requests::list::{tasks, tasks_before};
use api::wire::requests::query::query;
use base::words;
use llts_client::{Client, ClientError};

/// A page of the tasks that match, newest first.
pub(super) fn merged(
    client: &Client,
    wanted: &[Selector],
    offset: u64,
    limit: u64,
) -> Result<Listing<TaskView>, ClientError> {
    if let [selector] = wanted {
        return pages(client, selector, offset, limit);
    }
    let mut all = Listing { total: 0, rows: Vec::new() };
    for selector in wanted {
        let Listing { total, rows } = pages(client, selector, 0, offset.saturating_add(limit))?;
        all.total += total;
        all.rows.extend(rows);
    }
    all.rows.sort_by(|one, other| other.id().cmp(one.id()));
    let size = |count| usize::try_from(count).unwrap_or(usize::MAX);
    Ok(Listing { total: all.total, rows: all.rows.into_iter().skip(size(offset)).take(size(limit)).collect() })
}

/// The task of this id, if it matches.
pub(super) fn find(client: &Client, wanted: &[Selector], id: &str) -> Result<TaskView, ClientError> {
    let ask = |selector: &Selector| client.ask(&query(&selector.clone().and(words::TASK_ID, id), None));
    let Some((last, others)) = wanted.split_last() else { unreachable!("a selection without fields") };
    let answer = others.iter().map(ask).find(|answer| !matches!(answer, Err(ClientError::Reply(_))));
    answer.unwrap_or_else(|| ask(last))
}

/// At most `limit` tasks, newest first. They are requested page by page, because the controller cuts long answers. Each page begins after
/// the last task of the previous one, so its cost does not grow with the number of earlier ones.
fn pages(client: &Client, selector: &Selector, offset: u64, limit: u64) -> Result<Listing<TaskView>, ClientError> {
    let mut listing = client.ask(&tasks(selector, offset, limit))?;
    loop {
        let count = listing.rows.len() as u64;
        let Some(last) = listing.rows.last().filter(|_| count < limit && offset.saturating_add(count) < listing.total)
        else {
            return Ok(listing);
        };
        let page = client.ask(&tasks_before(selector, last.id(), limit - count))?;
        if page.rows.is_empty() {
            return Ok(listing);
        }
        listing.rows.extend(page.rows);
    }
}
