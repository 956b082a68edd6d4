//! All rows, and what the server promises of a commit.

use std::pin::pin;
use std::time::Duration;

use api::wire::graph::GraphRow;
use api::wire::record::Row;
use futures_util::TryStreamExt as _;
use tokio_postgres::{Client, Row as Found};

use crate::connect::Asked;
use crate::{Error, Session, schema};

/// A first row may be as late as this many other answers: the server sorts all rows before it.
const SILENCES: u32 = 6;

/// A row, and the checksum that it was written with.
pub type Checked<T> = (T, u32);

/// Kind, name and value of a setting.
pub type Setting = (String, String, String);

/// The graph, the number and the text of an entry.
pub type Entry = (i64, i64, String);

/// The rows beside those of the tasks.
#[derive(Debug, Default)]
pub struct Rest {
    /// Settings.
    pub settings: Vec<Checked<Setting>>,
    /// Graphs.
    pub graphs: Vec<Checked<GraphRow>>,
    /// Their entries.
    pub entries: Vec<Checked<Entry>>,
}

impl Session {
    /// Reads all rows as they are at one moment: each task, in the order of the ids, until `each` returns false.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn read(&mut self, mut each: impl FnMut(Row, u32) -> bool) -> Result<Rest, Error> {
        self.connect()?;
        let limit = self.patience() * SILENCES;
        let Some(client) = &self.client else { unreachable!("it was just connected") };
        let read = self.runtime.block_on(async {
            let begin = client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
            within(limit, begin).await?;
            let mut rest = Rest::default();
            stream(client, limit, schema::GET_SETTINGS, |row| {
                rest.settings.push(((row.get(0), row.get(1), row.get(2)), checksum(&row, 3)));
                true
            })
            .await?;
            stream(client, limit, schema::GET_GRAPHS, |row| {
                rest.graphs.push((graph(&row), checksum(&row, 6)));
                true
            })
            .await?;
            stream(client, limit, schema::GET_ENTRIES, |row| {
                rest.entries.push(((row.get(0), row.get(1), row.get(2)), checksum(&row, 3)));
                true
            })
            .await?;
            stream(client, limit, schema::GET_TASKS, |row| each(task(&row), checksum(&row, 8))).await?;
            within(limit, client.batch_execute("COMMIT")).await?;
            Ok(rest)
        });
        read.map_err(|asked| {
            self.client = None;
            self.explain(asked)
        })
    }

    /// What an acknowledged task survives, as the server is configured.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn survives(&mut self) -> Result<String, Error> {
        let asked = self.ask(async |client| {
            let mut found = Vec::new();
            for name in ["fsync", "synchronous_commit", "synchronous_standby_names"] {
                found.push(client.query_one(&format!("SHOW {name}"), &[]).await?.get::<_, String>(0));
            }
            Ok(found)
        });
        let found = asked.map_err(|asked| self.explain(asked))?;
        let [fsync, commit, standbys] = &found[..] else { unreachable!("three were asked for") };
        Ok(match (fsync.as_str(), commit.as_str(), standbys.as_str()) {
            ("off", ..) => {
                "the end of the controller, but no power failure of the database's machine (fsync is off)".to_owned()
            }
            (_, "off", _) => {
                "the end of the controller; a crash of the database loses the last moments (synchronous_commit is off)"
                    .to_owned()
            }
            (_, "local", _) | (_, _, "") => {
                "a crash of the database's machine, not the loss of its disk (no synchronous standby)".to_owned()
            }
            (_, _, names) => format!("the loss of the database's machine (synchronous standbys: {names})"),
        })
    }
}

/// One step of a long answer. A server that is frozen sends nothing.
async fn within<T>(limit: Duration, step: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Asked> {
    tokio::time::timeout(limit, step).await.map_err(|_| Asked::Silent(limit))?.map_err(Asked::Failed)
}

async fn stream(client: &Client, limit: Duration, sql: &str, mut each: impl FnMut(Found) -> bool) -> Result<(), Asked> {
    let no_parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 0] = [];
    let mut rows = pin!(within(limit, client.query_raw(sql, no_parameters)).await?);
    while let Some(row) = within(limit, rows.try_next()).await? {
        if !each(row) {
            break;
        }
    }
    Ok(())
}

/// A number that does not fit is one that was not written.
fn checksum(row: &Found, column: usize) -> u32 {
    u32::try_from(row.get::<_, i64>(column)).unwrap_or_default()
}

fn task(row: &Found) -> Row {
    Row {
        micros: row.get(0),
        id: row.get(1),
        status: row.get(2),
        operation: row.get(3),
        round: row.get(4),
        submitted_at: row.get(5),
        submitted: row.get(6),
        state: row.get(7),
    }
}

fn graph(row: &Found) -> GraphRow {
    GraphRow {
        micros: row.get(0),
        id: row.get(1),
        submitted_at: row.get(2),
        submitted: row.get(3),
        terms: row.get(4),
        document: row.get::<_, String>(5).into(),
    }
}
