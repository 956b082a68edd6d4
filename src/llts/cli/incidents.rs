//! `llts incidents`: what happened to the service.

use clap::Args;
use serde_json::{Value, json};

use super::rounds::{Period, pages};
use api::wire::client::Listing;
use api::wire::requests::history::{IncidentRow, RoundFilter, incidents};
use base::{IncidentKind, words};
use proc::clock;
use term::connect::READING_MAX;
use term::exit::Failure;
use term::output::to_value;
use term::session::Session;
use term::states::one_of;
use term::style::{FAINT, Look, PLAIN, Screen};
use term::table::Table;
use term::{times, when};

#[derive(Args, Debug)]
#[command(after_help = format!("\
Newest first. Of each kind, 20 in a minute are kept, and the number of the others. {}", when::PAST_HELP))]
pub(super) struct IncidentsArgs {
    #[command(flatten)]
    period: Period,
    /// Only those of this kind
    #[arg(long, value_name = "KIND", ignore_case = true, value_parser = kind())]
    kind: Option<IncidentKind>,
    /// Maximum number of incidents
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,
    /// Number of incidents to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
}

fn kind() -> impl clap::builder::TypedValueParser<Value = IncidentKind> {
    one_of(IncidentKind::ALL.map(words::incident), |word| words::incident_of(&word.to_ascii_uppercase()))
}

pub(super) fn run(session: &mut Session, args: &IncidentsArgs) -> Result<u8, Failure> {
    let (since, until) = args.period.bounds(clock::now().wall);
    let filter = RoundFilter::between(since, until);
    let ask = |offset, limit| incidents(&filter, args.kind, offset, limit);
    let Listing { total, rows } = pages(&session.client()?, args.offset, args.limit, |client, offset, limit| {
        client.ask_patiently(&ask(offset, limit), READING_MAX)
    })?;
    if session.out.is_json() {
        let incidents: Vec<Value> = rows.iter().map(|incident| to_value(incident.fields())).collect();
        session.out.value(&json!({ "total": total, "incidents": incidents }));
        return Ok(0);
    }
    let look = session.out.look();
    match look.is_terminal {
        true => session.out.screen(&sentences(&rows, look)),
        false => session.out.table(&table(&rows)),
    }
    session.out.next_page("incidents", args.offset, rows.len(), total);
    Ok(0)
}

/// The incidents with whole sentences, which no column of a table would hold.
fn sentences(incidents: &[IncidentRow], look: Look) -> Screen {
    let mut screen = Screen::new(look);
    let width = incidents.iter().map(|incident| incident.kind().len()).max().unwrap_or_default();
    for incident in incidents {
        let head = format!("{}  {:width$}  ", incident.at().map(times::local).unwrap_or_default(), incident.kind());
        screen.behind((FAINT, &head, head.len()), PLAIN, &times::readable(incident.text()));
    }
    screen
}

/// The table of incidents.
pub(super) fn table(incidents: &[IncidentRow]) -> Table {
    let mut table = Table::new(&["TIME", "KIND", "WHAT"]);
    for incident in incidents {
        let at = incident.at().map(times::local).unwrap_or_default();
        table.row([at.as_str(), incident.kind(), &times::readable(incident.text())]);
    }
    table
}
