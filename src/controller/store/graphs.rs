//! Step graphs: a row for each graph, with its document, and a row for each of its entries.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::{StoreError, hash_texts, schema};
use api::wire::graph;
use api::wire::graph::GraphRow;
use api::wire::rules::Rules;
use base::GraphId;
use engine::Stored;

/// The entries of the graphs by their numbers, each with the time part of the id of its graph.
pub(super) type Entries = BTreeMap<(i64, i64), String>;

pub(super) fn put(connection: &Connection, row: &GraphRow, checksum: u32) -> rusqlite::Result<()> {
    let GraphRow { micros, id, submitted_at, submitted, terms, document } = row;
    let mut put = connection.prepare_cached(schema::PUT_GRAPH)?;
    put.execute(params![micros, id, submitted_at, submitted, terms, &**document, checksum])?;
    Ok(())
}

pub(super) fn put_entry(
    connection: &Connection,
    micros: i64,
    number: i64,
    entry: &str,
    checksum: u32,
) -> rusqlite::Result<()> {
    connection.prepare_cached(schema::PUT_ENTRY)?.execute(params![micros, number, entry, checksum])?;
    Ok(())
}

/// Removes a graph and all its entries.
pub(super) fn remove(connection: &Connection, micros: i64) -> rusqlite::Result<()> {
    for statement in [schema::REMOVE_GRAPH, schema::REMOVE_ENTRIES] {
        connection.prepare_cached(statement)?.execute(params![micros])?;
    }
    Ok(())
}

pub(super) fn micros_of(graph: GraphId) -> i64 {
    i64::try_from(graph.wall().micros()).unwrap_or(i64::MAX)
}

/// The rows of graphs as they were read, and the first defect.
#[derive(Debug, Default)]
pub(super) struct Found {
    rows: Vec<GraphRow>,
    entries: Entries,
    bad: Option<String>,
}

impl Found {
    pub(super) fn take(&mut self, row: GraphRow, is_intact: bool) {
        if is_intact {
            self.rows.push(row);
        } else {
            self.bad = Some(format!("the row of graph {} does not have the checksum that it was written with", row.id));
        }
    }

    pub(super) fn take_entry(&mut self, micros: i64, number: i64, entry: Option<String>) {
        match entry {
            Some(entry) => drop(self.entries.insert((micros, number), entry)),
            None => {
                let what = "of a graph does not have the checksum that it was written with";
                self.bad = Some(format!("entry {number} {what}"));
            }
        }
    }

    /// Puts each graph together.
    ///
    /// # Errors
    /// When a row differs from what was written.
    pub(super) fn finish(self, path: &Path, rules: &Rules, stored: &mut Stored) -> Result<(), StoreError> {
        let damaged = |what: String| StoreError::Damaged { path: path.to_owned(), what };
        if let Some(what) = self.bad {
            return Err(damaged(what));
        }
        for row in self.rows {
            let of_graph = self.entries.range((row.micros, 0)..=(row.micros, i64::MAX));
            let mut list = Vec::new();
            for (((_, number), entry), expected) in of_graph.zip(1..) {
                if *number != expected {
                    return Err(damaged(format!("entry {expected} of graph {} is missing", row.id)));
                }
                list.push(entry.clone());
            }
            let graph = graph::decode(&row, &list, rules);
            stored.graphs.push(graph.map_err(|what| damaged(format!("graph {} has no valid {what}", row.id)))?);
        }
        Ok(())
    }
}

/// Reads all graphs with their entries.
///
/// # Errors
/// When a row differs from what was written.
pub(super) fn read(connection: &Connection, path: &Path, rules: &Rules, stored: &mut Stored) -> Result<(), StoreError> {
    let mut found = Found::default();
    let read = read_rows(connection, |row, is_intact| found.take(row, is_intact));
    let read =
        read.and_then(|()| read_entries(connection, |micros, number, entry| found.take_entry(micros, number, entry)));
    read.map_err(|error| StoreError::of(path, error))?;
    found.finish(path, rules, stored)
}

/// Calls `each` with every row of a graph, and whether it is as it was written.
pub(super) fn read_rows(connection: &Connection, mut each: impl FnMut(GraphRow, bool)) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(schema::GET_GRAPHS)?;
    let mut rows = statement.query([])?;
    while let Some(found) = rows.next()? {
        let row = GraphRow {
            micros: found.get(0)?,
            id: found.get(1)?,
            submitted_at: found.get(2)?,
            submitted: found.get(3)?,
            terms: found.get(4)?,
            document: Arc::from(found.get::<_, String>(5)?),
        };
        let is_intact = found.get::<_, u32>(6)? == checksum(&row);
        each(row, is_intact);
    }
    Ok(())
}

/// Calls `each` with the time part of the id of the graph, the number and the text of every entry; without the text if it is not
/// as it was written.
pub(super) fn read_entries(
    connection: &Connection,
    mut each: impl FnMut(i64, i64, Option<String>),
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(schema::GET_ENTRIES)?;
    let mut rows = statement.query([])?;
    while let Some(found) = rows.next()? {
        let (micros, number, entry) = (found.get(0)?, found.get(1)?, found.get::<_, String>(2)?);
        let is_intact = found.get::<_, u32>(3)? == checksum_of_entry(micros, number, &entry);
        each(micros, number, is_intact.then_some(entry));
    }
    Ok(())
}

pub(super) fn checksum(row: &GraphRow) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in [row.micros, row.submitted_at] {
        hasher.update(&number.to_le_bytes());
    }
    hash_texts(&mut hasher, [&*row.id, &*row.submitted, &*row.terms, &*row.document]);
    hasher.finalize()
}

pub(super) fn checksum_of_entry(micros: i64, number: i64, entry: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in [micros, number] {
        hasher.update(&number.to_le_bytes());
    }
    hash_texts(&mut hasher, [entry]);
    hasher.finalize()
}

#[cfg(test)]
mod tests;
