//! GRAPH/SUBMIT, GRAPH/QUERY, GRAPH/DETAILS and GRAPH/KILL: step graphs.
//!
//! GRAPH/DETAILS shows the steps of the graph that it names. Without a name it lists the graphs, newest first.

mod answers;

use std::time::Duration;

use super::{Ask, Code, Kind, Listing, Reader, Refusal, Request, words};
use crate::wire::graph::AcceptedGraph;
use crate::wire::task;
use crate::wire::typed::bad;
use base::{GraphId, Scalar};

pub use answers::{GraphAnswer, GraphSubmitted, StepRow, encode_status, read_status, status_prefix};
pub(in crate::wire) use answers::{write, write_row, write_step, write_submitted};

/// Submits a graph.
pub const GRAPH_SUBMIT: Kind = Kind::order("GRAPH/SUBMIT", |reader| Ok(Request::GraphSubmit(Box::new(read(reader)?))));

/// The state of a graph.
pub const GRAPH_QUERY: Kind =
    Kind::question("GRAPH/QUERY", |reader| Ok(Request::GraphQuery(graph_id(&reader)?, reader.wait()?)));

/// The steps of a graph, or all graphs, in pages.
pub const GRAPH_DETAILS: Kind = Kind::question("GRAPH/DETAILS", |mut reader| {
    let page = reader.page()?;
    let graph = reader.fields.get(words::GRAPH_ID).map(|_| graph_id(&reader)).transpose()?;
    Ok(Request::GraphDetails(graph, page))
});

/// Ends a graph.
pub const GRAPH_KILL: Kind = Kind::order("GRAPH/KILL", |reader| {
    let reason = super::kill::reason(&reader);
    Ok(Request::GraphKill(graph_id(&reader)?, reason))
});

/// A graph to be accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphSubmit {
    /// The graph.
    pub graph: AcceptedGraph,
    /// The submitted fields that GRAPH/SUBMIT does not know.
    pub unknown: Vec<String>,
}

impl GraphSubmit {
    /// `__SUBMIT_KEY__` as text.
    #[must_use]
    pub fn submit_key(&self) -> Option<&str> {
        self.graph.fields.text(words::SUBMIT_KEY)
    }
}

/// The fields beside the document.
const FIELDS: [&str; 4] = [words::GIVEN_ID, words::SUBMIT_KEY, words::ADDRESS, words::ADDRESS_KEY];

fn read(Reader { mut fields, rules, .. }: Reader<'_>) -> Result<GraphSubmit, Refusal> {
    let text = match fields.remove(words::GRAPH) {
        Some(Scalar::Text(text)) => text,
        Some(other) => return Err(bad(words::GRAPH, &other, "a text: the document of the graph, as JSON or TOML")),
        None => {
            let message = format!("{} is missing; set it to the document of the graph, as JSON or TOML", words::GRAPH);
            return Err(Refusal::new(Code::BadField, message));
        }
    };
    let key = fields.get(words::SUBMIT_KEY);
    if let Some(key) = key.filter(|key| key.as_text().is_none_or(str::is_empty)) {
        return Err(bad(words::SUBMIT_KEY, key, "a non-empty text, different for each graph"));
    }
    let mut unknown = Vec::new();
    fields.retain(|name, _| {
        let is_known = FIELDS.contains(&name);
        if !is_known {
            unknown.push(name.to_owned());
        }
        is_known
    });
    Ok(GraphSubmit { graph: AcceptedGraph::read(&text, fields, rules)?, unknown })
}

pub(super) fn graph_id(reader: &Reader<'_>) -> Result<GraphId, Refusal> {
    let Some(value) = reader.fields.get(words::GRAPH_ID) else {
        let message = format!("{} is missing; set it to the id that GRAPH/SUBMIT returned", words::GRAPH_ID);
        return Err(Refusal::new(Code::InvalidTaskId, message));
    };
    let id = value.as_text().and_then(|text| text.parse().ok());
    id.ok_or_else(|| Refusal::no_such_graph(value))
}

/// The refusal of a submit that would join the job of a graph.
#[must_use]
pub fn takes_no_tasks(graph: GraphId) -> Refusal {
    let message = format!("{} {graph} is a graph, whose tasks are those of its steps; choose another name", words::JOB);
    Refusal::new(Code::NotAllowed, message)
}

/// Submits a graph, with its document as JSON or TOML. A client sets other fields with [`Ask::with`].
#[must_use]
pub fn submit(document: &str) -> Ask<GraphSubmitted> {
    GRAPH_SUBMIT.ask().with(words::GRAPH, document)
}

/// As [`submit`], with an id of the submitter's choice, a key that makes a repetition harmless, and the address for changes.
#[must_use]
pub fn submit_as(
    document: &str,
    given_id: Option<&str>,
    key: Option<&str>,
    address: Option<&str>,
) -> Ask<GraphSubmitted> {
    let named = [(words::GIVEN_ID, given_id), (words::SUBMIT_KEY, key), (words::ADDRESS, address)];
    let set = named.into_iter().filter_map(|(name, value)| Some((name, value?)));
    set.fold(submit(document), |ask, (name, value)| ask.with(name, value))
}

/// Requests the state of a graph; with a time, the reply waits until the graph has ended or the time has passed.
#[must_use]
pub fn query(graph: &str, wait: Option<Duration>) -> Ask<GraphAnswer> {
    let ask = GRAPH_QUERY.ask().with(words::GRAPH_ID, graph);
    match wait {
        Some(wait) => ask.with(words::WAIT, super::query::millis(wait)),
        None => ask,
    }
}

/// Requests graphs, newest first. The controller may return fewer than `limit`: request the next page from there.
#[must_use]
pub fn graphs(offset: u64, limit: u64) -> Ask<Listing<GraphAnswer>> {
    GRAPH_DETAILS.ask_for_rows().with(words::OFFSET, offset).with(words::LIMIT, limit)
}

/// Requests steps of a graph, in the order of its document. The controller may return fewer than `limit`: request the next page
/// from there.
#[must_use]
pub fn steps(graph: &str, offset: u64, limit: u64) -> Ask<Listing<StepRow>> {
    let ask = Ask::new(GRAPH_DETAILS.word, answers::decode_steps).with(words::GRAPH_ID, graph);
    ask.with(words::OFFSET, offset).with(words::LIMIT, limit)
}

/// Requests the end of a graph. `reason` names the originator.
#[must_use]
pub fn kill(graph: &str, reason: &str) -> Ask<()> {
    GRAPH_KILL.demand().with(words::GRAPH_ID, graph).with(words::REASON, reason)
}

/// The warning about fields that GRAPH/SUBMIT does not know.
#[must_use]
pub fn unknown_fields(names: &[String]) -> Option<String> {
    let ours = |name: &&String| task::is_ours(name);
    let names: Vec<&str> = names.iter().filter(|name| !ours(name)).map(String::as_str).collect();
    (!names.is_empty()).then(|| format!("GRAPH/SUBMIT has no field {}; ignored", names.join(", ")))
}
