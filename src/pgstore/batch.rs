//! The rows of one commit, column by column: one statement for each table, whatever their number.

use std::collections::BTreeMap;

use api::wire::graph::GraphRow;
use api::wire::record::Row;
use tokio_postgres::types::ToSql;

use crate::schema;

/// The changes of one commit. Only the last change of a row counts.
#[derive(Debug, Default)]
pub struct Batch {
    tasks: BTreeMap<i64, Option<(Row, u32)>>,
    settings: BTreeMap<(String, String), Option<(String, u32)>>,
    graphs: BTreeMap<i64, Option<(GraphRow, u32)>>,
    entries: BTreeMap<(i64, i64), (String, u32)>,
}

impl Batch {
    /// A task as it is.
    pub fn put_task(&mut self, row: Row, checksum: u32) {
        self.tasks.insert(row.micros, Some((row, checksum)));
    }

    /// A task is forgotten.
    pub fn remove_task(&mut self, micros: i64) {
        self.tasks.insert(micros, None);
    }

    /// A setting, or none any more.
    pub fn set(&mut self, kind: &str, name: &str, value: Option<(String, u32)>) {
        self.settings.insert((kind.to_owned(), name.to_owned()), value);
    }

    /// A graph, without its entries.
    pub fn put_graph(&mut self, row: GraphRow, checksum: u32) {
        self.graphs.insert(row.micros, Some((row, checksum)));
    }

    /// An entry of a graph.
    pub fn put_entry(&mut self, graph: i64, number: i64, entry: &str, checksum: u32) {
        self.entries.insert((graph, number), (entry.to_owned(), checksum));
    }

    /// A graph is forgotten, with its entries.
    pub fn remove_graph(&mut self, micros: i64) {
        self.graphs.insert(micros, None);
    }

    /// The statements in order, each with its columns.
    pub(crate) fn statements(&self) -> Vec<(&'static str, Columns<'_>)> {
        let put: Vec<_> = self.tasks.values().flatten().collect();
        let forgotten = gone(&self.tasks);
        let set: Vec<_> = self.settings.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))).collect();
        let unset: Vec<_> = self.settings.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key).collect();
        let put_graphs: Vec<_> = self.graphs.values().flatten().collect();
        let entries: Vec<_> = self.entries.iter().collect();
        let forgotten_graphs = gone(&self.graphs);
        let all: [(_, _, Columns<'_>); 7] = [
            (schema::PUT_TASKS, put.len(), tasks(&put)),
            (schema::REMOVE_TASKS, forgotten.len(), vec![Box::new(forgotten)]),
            (
                schema::SET,
                set.len(),
                vec![
                    column(&set, |((kind, _), _)| kind.as_str()),
                    column(&set, |((_, name), _)| name.as_str()),
                    column(&set, |(_, (value, _))| value.as_str()),
                    column(&set, |(_, (_, checksum))| i64::from(*checksum)),
                ],
            ),
            (
                schema::UNSET,
                unset.len(),
                vec![column(&unset, |(kind, _)| kind.as_str()), column(&unset, |(_, name)| name.as_str())],
            ),
            (schema::PUT_GRAPHS, put_graphs.len(), graphs(&put_graphs)),
            (
                schema::PUT_ENTRIES,
                entries.len(),
                vec![
                    column(&entries, |((graph, _), _)| *graph),
                    column(&entries, |((_, number), _)| *number),
                    column(&entries, |(_, (entry, _))| entry.as_str()),
                    column(&entries, |(_, (_, checksum))| i64::from(*checksum)),
                ],
            ),
            // Last: an entry of this commit may be one of a graph that it forgets.
            (schema::REMOVE_GRAPHS, forgotten_graphs.len(), vec![Box::new(forgotten_graphs)]),
        ];
        all.into_iter().filter(|(_, rows, _)| *rows > 0).map(|(sql, _, columns)| (sql, columns)).collect()
    }
}

/// One parameter for each column.
pub(crate) type Columns<'a> = Vec<Box<dyn ToSql + Sync + Send + 'a>>;

fn column<'a, T, C: ToSql + Sync + Send + 'a>(
    rows: &[T],
    value: impl Fn(&T) -> C,
) -> Box<dyn ToSql + Sync + Send + 'a> {
    Box::new(rows.iter().map(value).collect::<Vec<C>>())
}

fn gone<T>(rows: &BTreeMap<i64, Option<T>>) -> Vec<i64> {
    rows.iter().filter(|(_, row)| row.is_none()).map(|(micros, _)| *micros).collect()
}

fn tasks<'a>(rows: &[&'a (Row, u32)]) -> Columns<'a> {
    vec![
        column(rows, |(row, _)| row.micros),
        column(rows, |(row, _)| row.id.as_str()),
        column(rows, |(row, _)| row.status.as_str()),
        column(rows, |(row, _)| row.operation.as_str()),
        column(rows, |(row, _)| row.round),
        column(rows, |(row, _)| row.submitted_at),
        column(rows, |(row, _)| row.submitted.as_str()),
        column(rows, |(row, _)| row.state.as_str()),
        column(rows, |(_, checksum)| i64::from(*checksum)),
    ]
}

fn graphs<'a>(rows: &[&'a (GraphRow, u32)]) -> Columns<'a> {
    vec![
        column(rows, |(row, _)| row.micros),
        column(rows, |(row, _)| row.id.as_str()),
        column(rows, |(row, _)| row.submitted_at),
        column(rows, |(row, _)| row.submitted.as_str()),
        column(rows, |(row, _)| row.terms.as_str()),
        column(rows, |(row, _)| &*row.document),
        column(rows, |(_, checksum)| i64::from(*checksum)),
    ]
}
