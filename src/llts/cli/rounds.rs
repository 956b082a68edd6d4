//! The period that a question about the history covers, and the pages of its answer.

use clap::Args;

use api::wire::client::Listing;
use api::wire::requests::history::{Found, SortKey};
use api::wire::requests::stats;
use base::Wall;
use llts_client::{Client, ClientError};
use term::exit::Failure;
use term::output::note;
use term::states::one_of;
use term::when;
use term::when::Past;

/// Rows per request.
const PAGE: u64 = 10_000;

/// A time of the past.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Period {
    /// Only what ended at this time or later, or has not ended
    #[arg(long, value_name = "TIME", value_parser = when::past, help_heading = "Time")]
    since: Option<Past>,
    /// Only what ended before this time, or has been running or waiting since before it
    #[arg(long, value_name = "TIME", value_parser = when::past, help_heading = "Time")]
    until: Option<Past>,
}

impl Period {
    /// The bounds of the period; the second one is exclusive. It ends now at the latest, so that pages do not shift.
    pub(super) fn bounds(&self, now: Wall) -> (Wall, Wall) {
        let at = |past: Option<Past>| past.map(|past| past.wall(now));
        (at(self.since).unwrap_or_default(), at(self.until).unwrap_or(now))
    }

    /// The bounds, where the user gave them.
    pub(super) fn given(&self, now: Wall) -> (Option<Wall>, Option<Wall>) {
        (self.since.map(|past| past.wall(now)), self.until.map(|past| past.wall(now)))
    }

    pub(super) const fn is_given(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }
}

/// What `llts list` takes for the tasks of the service and for the history alike.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct RoundsArgs {
    #[command(flatten)]
    pub(super) period: Period,
    /// The largest of this first
    #[arg(long, value_name = "KEY", value_parser = sort(), help_heading = "Table")]
    pub(super) sort: Option<SortKey>,
    /// The smallest first
    #[arg(long, requires = "sort", help_heading = "Table")]
    pub(super) reverse: bool,
    /// Only those of this tool
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    pub(super) tool: Option<String>,
    /// Only those of this agent
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    pub(super) agent: Option<String>,
}

fn sort() -> impl clap::builder::TypedValueParser<Value = SortKey> {
    one_of(SortKey::ALL.map(SortKey::word), |word| SortKey::ALL.into_iter().find(|key| key.word() == word))
}

impl RoundsArgs {
    /// Whether the user asked for the history.
    pub(super) const fn is_given(&self) -> bool {
        self.period.is_given() || self.sort.is_some() || self.tool.is_some() || self.agent.is_some()
    }
}

/// At most this many rows, page by page. Reports damage to the history.
pub(super) fn pages<T>(
    client: &Client,
    offset: u64,
    limit: u64,
    mut ask: impl FnMut(&Client, u64, u64) -> Result<Found<T>, ClientError>,
) -> Result<Listing<T>, Failure> {
    // An absent controller is noticed as early as in other commands.
    client.ask(&stats::tasks())?;
    let mut all = Listing { total: 0, rows: Vec::new() };
    loop {
        let count = all.rows.len() as u64;
        let Found { listing, damaged } = ask(client, offset.saturating_add(count), (limit - count).min(PAGE))?;
        if let Some(damaged) = damaged.filter(|_| count == 0) {
            note(&format!("the history is incomplete: {damaged}"));
        }
        all.total = listing.total;
        let is_end = listing.rows.is_empty();
        all.rows.extend(listing.rows);
        let count = all.rows.len() as u64;
        if is_end || count >= limit || offset.saturating_add(count) >= all.total {
            return Ok(all);
        }
    }
}
