//! A graph with its terms at acceptance, and its stored form: a row that can be read with `sqlite3`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::Document;
use super::step::{StepDocument, Work};
use super::{EntryCodec, GraphRules};
use crate::wire::rules::{DefaultPolicies, Rules};
use crate::wire::{address, policy, source};
use base::code::Refusal;
use base::json::{FieldLimits, ObjectWriter};
use base::{
    AllowedSources, Fields, GraphEntry, GraphId, GraphLimits, Policy, PushAddress, Scalar, ToolDigest, ToolName, Wall,
    json, words,
};

/// A graph that a client has submitted, or that was read from the store.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedGraph {
    /// Its document.
    pub document: Document,
    /// The text of the document.
    pub text: Arc<str>,
    /// The terms of the tasks of each step; `None` for an exchange.
    pub steps: Vec<Option<StepTerms>>,
    /// The other fields of its submit.
    pub fields: Fields,
    /// The address for its changes.
    pub address: Option<Arc<PushAddress>>,
    /// Maximum number of partitions that may reach its steps.
    pub partitions_max: usize,
    /// The default policies that it was accepted with.
    pub defaults: DefaultPolicies,
    /// The sources that were allowed when it was accepted; none if none of its steps has a source.
    pub sources: AllowedSources,
    /// The versions of its tools when it was accepted, for the tools that the controller held. Graphs of earlier programs have
    /// none: their tasks get the version that is current when they start.
    pub pins: BTreeMap<ToolName, ToolDigest>,
}

/// The terms of the tasks of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTerms {
    /// The tool, or the built-in operation for commands or for fetched programs.
    pub tool: ToolName,
    /// The name for people: for a fetched program, its own name and not the built-in operation.
    pub shown: ToolName,
    /// The fields of a submit, as the members of a JSON object.
    pub members: Arc<str>,
    /// Their policy.
    pub policy: Arc<Policy>,
    /// The address for their pushes.
    pub address: Option<Arc<PushAddress>>,
}

/// One row. Every number fits the signed 64 bits of SQLite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphRow {
    /// The time part of the id, in microseconds: unique, and in the order of submission.
    pub micros: i64,
    /// Id of the graph.
    pub id: String,
    /// The time of acceptance, in unix microseconds.
    pub submitted_at: i64,
    /// The fields beside the document, as a JSON object.
    pub submitted: String,
    /// The limits and the default policies that it was accepted with, as a flat JSON object.
    pub terms: String,
    /// The document as it was submitted.
    pub document: Arc<str>,
}

/// A graph as it was stored.
#[derive(Clone, Debug)]
pub struct StoredGraph {
    /// Its id.
    pub id: GraphId,
    /// Moment of acceptance.
    pub submitted_at: Wall,
    /// The graph.
    pub graph: AcceptedGraph,
    /// Its entries, in their order.
    pub entries: Vec<GraphEntry>,
}

/// The prefixes of the names of policy fields: one for tools, one for commands.
const TOOL: &str = "tool:";
const COMMAND: &str = "command:";

/// The prefix of the name of a tool whose version was pinned.
const PIN: &str = "pin:";

impl AcceptedGraph {
    /// Reads the document of a submit with these other fields.
    ///
    /// # Errors
    /// As [`Document::parse`], and -1007 for an address that cannot be used. The sentence names the step.
    pub fn read(text: &str, fields: Fields, rules: &Rules) -> Result<Self, Refusal> {
        let graph_rules = GraphRules { graph: rules.graphs, fields: rules.limits, defaults: rules.defaults.clone() };
        let document = Document::parse(text, &graph_rules)?;
        let address = address::read(&fields, rules)?.map(Arc::new);
        let of_step = |step: &StepDocument| {
            let terms = |fields: &Fields| {
                StepTerms::read(fields, &rules.defaults, &rules.sources, address::read(fields, rules)?)
            };
            let read = step_fields(step).map(terms).transpose();
            read.map_err(|refusal| Refusal::new(refusal.code, format!("step {}: {}", step.name, refusal.message)))
        };
        let steps = document.steps.iter().map(of_step).collect::<Result<Vec<_>, Refusal>>()?;
        let (partitions_max, defaults) = (rules.graphs.tasks_max, rules.defaults.clone());
        let fetches = steps.iter().flatten().any(|step: &StepTerms| step.tool.is_source());
        let sources = if fetches { rules.sources.clone() } else { AllowedSources::default() };
        let (text, pins) = (text.into(), BTreeMap::new());
        Ok(Self { document, text, steps, fields, address, partitions_max, defaults, sources, pins })
    }

    /// Whether one of its steps has text for a shell: a command, or the input of a fetched program.
    #[must_use]
    pub fn has_command(&self) -> bool {
        let is_for_a_shell = |fields: &Fields| fields.get(words::COMMAND).is_some() || source::has_input(fields);
        self.document.steps.iter().filter_map(step_fields).any(is_for_a_shell)
    }

    /// Whether one of its steps names a source that is not checked.
    #[must_use]
    pub fn has_unchecked_source(&self) -> bool {
        self.document.steps.iter().filter_map(step_fields).any(source::is_unchecked)
    }

    /// Bytes of memory that it costs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let members: usize = self.steps.iter().flatten().map(|step| step.members.len()).sum();
        self.text.len() + members
    }

    /// Makes its row.
    #[must_use]
    pub fn encode(&self, id: GraphId, submitted_at: Wall) -> GraphRow {
        let number = |micros: u64| i64::try_from(micros).unwrap_or(i64::MAX);
        let mut terms = Vec::with_capacity(128);
        let mut writer = ObjectWriter::new(&mut terms);
        writer.literal(words::TOTAL, self.partitions_max);
        if !self.sources.is_off() {
            writer.text(words::ALLOWED_SOURCES, &self.sources.to_string());
        }
        if !self.pins.is_empty() {
            writer.prefixed(PIN.to_owned(), |writer| {
                self.pins.iter().for_each(|(tool, digest)| writer.text(tool.as_str(), &digest.to_string()));
            });
        }
        writer.prefixed(TOOL.to_owned(), |writer| policy::write(&self.defaults.tool, writer));
        writer.prefixed(COMMAND.to_owned(), |writer| policy::write(&self.defaults.command, writer));
        writer.end();
        GraphRow {
            micros: number(id.wall().micros()),
            id: id.to_string(),
            submitted_at: number(submitted_at.micros()),
            submitted: format!("{{{}}}", json::members(&self.fields)),
            // Only texts and numbers were written.
            terms: String::from_utf8(terms).unwrap_or_default(),
            document: Arc::clone(&self.text),
        }
    }
}

impl StepTerms {
    fn read(
        fields: &Fields,
        defaults: &DefaultPolicies,
        sources: &AllowedSources,
        address: Option<PushAddress>,
    ) -> Result<Self, Refusal> {
        // The reader of the document has checked the name.
        let shown = fields.text(words::OPERATION).and_then(|name| ToolName::new(name).ok());
        let shown = shown.unwrap_or_else(ToolName::command);
        let mut fields = fields.clone();
        let tool = if source::submitted(&mut fields, sources)? { ToolName::source() } else { shown.clone() };
        let policy = policy::read(&fields, defaults.of(&tool))?;
        Ok(Self { tool, shown, members: json::members(&fields).into(), policy, address: address.map(Arc::new) })
    }
}

fn step_fields(step: &StepDocument) -> Option<&Fields> {
    match &step.work {
        Work::Exchange => None,
        Work::Tasks(fields) => Some(fields),
    }
}

/// Reads a row and its entries. The addresses are checked again, because the present configuration decides which are permitted.
/// Everything else stays as it was accepted.
///
/// # Errors
/// Names the first part that [`AcceptedGraph::encode`] or [`EntryCodec::encode`] cannot have written.
pub fn decode(row: &GraphRow, entries: &[String], rules: &Rules) -> Result<StoredGraph, &'static str> {
    let object = |text: &str, what| json::parse(text.as_bytes(), &FieldLimits::TRUSTED).map_err(|_| what);
    let fields = object(&row.submitted, "submitted object")?;
    let terms = object(&row.terms, "terms")?;
    let defaults = DefaultPolicies { tool: agreed(&terms, TOOL)?, command: agreed(&terms, COMMAND)? };
    let sources =
        terms.text(words::ALLOWED_SOURCES).map(|text| AllowedSources::parse(text).ok_or("terms")).transpose()?;
    // The rows of a graph that fetches nothing have none.
    let sources = sources.unwrap_or_default();
    let partitions_max = terms.count(words::TOTAL).and_then(|count| usize::try_from(count).ok()).ok_or("terms")?;
    let pin = |(name, value): (&str, &Scalar)| {
        let tool = name.strip_prefix(PIN)?;
        Some(ToolName::new(tool).ok().zip(value.as_text().and_then(|digest| digest.parse().ok())).ok_or("terms"))
    };
    let pins = terms.iter().filter_map(pin).collect::<Result<_, _>>()?;
    let unlimited = GraphLimits {
        bytes_max: usize::MAX,
        steps_max: usize::MAX,
        connections_max: usize::MAX,
        tasks_max: usize::MAX,
    };
    let graph_rules = GraphRules { graph: unlimited, fields: FieldLimits::TRUSTED, defaults: defaults.clone() };
    let document = Document::parse(&row.document, &graph_rules).map_err(|_| "document")?;
    let permitted = |fields: &Fields| {
        address::read(fields, rules).unwrap_or_else(|refusal| {
            log::warn!("graph {} is not pushed: {refusal}", row.id);
            None
        })
    };
    let of_step = |step: &StepDocument| {
        step_fields(step).map(|fields| StepTerms::read(fields, &defaults, &sources, permitted(fields))).transpose()
    };
    let steps = document.steps.iter().map(of_step).collect::<Result<_, Refusal>>().map_err(|_| "step")?;
    let codec = EntryCodec::of(&document);
    let entries = entries.iter().map(|text| codec.decode(text)).collect::<Option<_>>().ok_or("entry")?;
    let address = permitted(&fields).map(Arc::new);
    let text = Arc::clone(&row.document);
    Ok(StoredGraph {
        id: row.id.parse().map_err(|_| "id")?,
        submitted_at: Wall::from_micros(row.submitted_at.try_into().map_err(|_| "time of submission")?),
        graph: AcceptedGraph { document, text, steps, fields, address, partitions_max, defaults, sources, pins },
        entries,
    })
}

fn agreed(terms: &Fields, prefix: &str) -> Result<Arc<Policy>, &'static str> {
    policy::restore(terms, prefix).map(Arc::new).ok_or("policy")
}
