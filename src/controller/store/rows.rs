//! The rows as which records are stored, in a file or in a server.

use super::{checksum, graphs, settings};
use api::wire::graph::GraphRow;
use api::wire::record::{Encoder, Row};
use engine::Record;

/// Tables that rows are put into.
pub(super) trait Rows {
    /// Why a row cannot be put.
    type Error;

    /// A task as it is.
    fn put_task(&mut self, row: Row, checksum: u32) -> Result<(), Self::Error>;

    /// A task is forgotten.
    fn remove_task(&mut self, micros: i64) -> Result<(), Self::Error>;

    /// A setting with its checksum; `None` removes it.
    fn set(&mut self, kind: &'static str, name: &str, value: Option<(String, u32)>) -> Result<(), Self::Error>;

    /// A graph, without its entries.
    fn put_graph(&mut self, row: &GraphRow, checksum: u32) -> Result<(), Self::Error>;

    /// An entry of a graph.
    fn put_entry(&mut self, graph: i64, number: i64, entry: &str, checksum: u32) -> Result<(), Self::Error>;

    /// A graph is forgotten, with its entries.
    fn remove_graph(&mut self, micros: i64) -> Result<(), Self::Error>;
}

/// Puts a record into its tables.
pub(super) fn write<R: Rows>(rows: &mut R, encoder: &mut Encoder, record: &Record) -> Result<(), R::Error> {
    match record {
        Record::Put(record) => {
            let row = encoder.row(record);
            let checksum = checksum(&row);
            rows.put_task(row, checksum)
        }
        // The history has it, after this commit.
        Record::Round(..) => Ok(()),
        Record::Remove(task) => rows.remove_task(i64::try_from(task.wall().micros()).unwrap_or(i64::MAX)),
        Record::Gate(name, gate) => set(rows, settings::GATE, name.as_str(), settings::of_gate(gate)),
        Record::Drained(agent, drained) => set(rows, settings::DRAINED, agent.as_str(), settings::of_drained(*drained)),
        Record::Job(name, memo) => set(rows, settings::JOB, name.as_str(), settings::of_job(memo.as_ref())),
        Record::Graph(_, Some(row)) => rows.put_graph(row, graphs::checksum(row)),
        Record::Graph(graph, None) => rows.remove_graph(graphs::micros_of(*graph)),
        Record::GraphEntry(graph, number, entry) => {
            let (micros, number) = (graphs::micros_of(*graph), i64::from(*number));
            rows.put_entry(micros, number, entry, graphs::checksum_of_entry(micros, number, entry))
        }
    }
}

/// Puts a setting, or removes it.
pub(super) fn set<R: Rows>(
    rows: &mut R,
    kind: &'static str,
    name: &str,
    value: Option<String>,
) -> Result<(), R::Error> {
    let value = value.map(|value| {
        let checksum = settings::checksum(kind, name, &value);
        (value, checksum)
    });
    rows.set(kind, name, value)
}
