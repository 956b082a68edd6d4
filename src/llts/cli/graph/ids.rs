//! The ids of graphs on a command line: whole ids, the letters at their end, or `last`.

use super::super::selection::ids::letters;
use api::wire::client::Listing;
use api::wire::requests::graph::{GraphAnswer, graphs};
use base::GraphId;
use base::code::shown;
use llts_client::Client;
use term::exit;
use term::exit::Failure;

/// The word for the newest graph.
const LAST: &str = "last";

/// Whether a text may name a graph.
pub(super) fn may_name(text: &str) -> bool {
    text == LAST || letters(text).is_some() || text.parse::<GraphId>().is_ok()
}

/// The whole id for this text.
///
/// # Errors
/// When the text names no graph, or several.
pub(super) fn whole(client: &Client, text: &str) -> Result<String, Failure> {
    if text.parse::<GraphId>().is_ok() {
        return Ok(text.to_owned());
    }
    let unknown = |sentence| Failure::new(exit::NO_SUCH_TASK, sentence);
    if text == LAST {
        let Listing { rows, .. } = client.ask(&graphs(0, 1))?;
        let newest = rows.first().map(|graph| graph.id().to_owned());
        return newest.ok_or_else(|| unknown("there is no graph".to_owned()));
    }
    if letters(text).is_none() {
        let sentence = format!(
            "{} names no graph: give an id, which begins with GRAPH_, the letters at its end, or {LAST}; `llts graph list` shows them",
            shown(text)
        );
        return Err(unknown(sentence));
    }
    let all = client.all(graphs)?;
    let found: Vec<_> = all.iter().map(GraphAnswer::id).filter(|id| id.ends_with(&format!("_{text}"))).collect();
    match found.as_slice() {
        [id] => Ok((*id).to_owned()),
        [] => Err(unknown(format!("no graph has the short id {text}"))),
        several => Err(unknown(format!("several graphs have the short id {text}: {}", several.join(", ")))),
    }
}
