//! Durable submits, 64 in flight: each answer is sent after its task is on disk. The rivals are an echo of the same sizes,
//! and SQLite alone, which inserts the rows that the service has written, 64 per transaction.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use crate::echo::{self, Echo};
use crate::load::Load;
use crate::place::NOTHING;
use crate::row::{Measured, Unit};
use crate::samples::{Spread, rate};
use crate::service::Service;
use crate::stock::parameters;
use crate::{Bench, BenchError, floor};
use api::wire::requests::submit::Submission;
use proc::clock;

const IN_FLIGHT: usize = 64;

/// Sufficient, even where the disk would permit more.
const PER_SECOND: f64 = 20_000.0;

/// Otherwise this fraction of the rate of SQLite alone.
const SHARE_OF_SQLITE: f64 = 0.7;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let submits = bench.pick(10_000, 100);
    let submission = Submission { parameters: parameters(), ..Submission::new(NOTHING.0) };
    let request = submission.request().encode();
    let service = bench.host(0)?;
    let mut load = service.load(bench.signals)?;
    let answer_bytes = load.ask(&request, bench.signals)?.1.len();
    let (_part, echo_endpoint) = echo::start(Echo::Zmq, answer_bytes, bench.signals)?;
    let mut echo = Load::connect(&echo_endpoint, bench.signals)?;
    let (mut rates, mut echoes, mut inserts) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..bench.plan.rounds {
        floor::settle_disk(bench.place.folder());
        rates.push(rate(submits, load.pipeline_checked(&request, (submits, IN_FLIGHT), bench.signals)?));
        echoes.push(rate(submits, echo.pipeline(&request, (submits, IN_FLIGHT), bench.signals)?));
        let table = Table::read(&service, submits)?;
        floor::settle_disk(bench.place.folder());
        let time = table.insert(&bench.place.folder().join(format!("inserts-{round}.sqlite")))?;
        inserts.push(rate(table.rows.len(), time));
    }
    let least = PER_SECOND.min(SHARE_OF_SQLITE * Spread::of(&inserts).median);
    drop(load);
    service.end(bench.signals);
    let row = || Measured::new("durable submits", Unit::PerSecond, &rates);
    let text = format!("at least {}: 20000/s, or 0.7 of it", Unit::PerSecond.show(least));
    Ok(vec![
        row().against("SQLite, 64 rows a commit", &inserts).goal(text, |row| row.spread.median >= least),
        row().against("libzmq echo, 64 in flight", &echoes),
    ])
}

/// The table of tasks and its latest rows.
struct Table {
    definition: String,
    columns: usize,
    rows: Vec<Vec<Value>>,
}

impl Table {
    fn read(service: &Service, count: usize) -> Result<Self, BenchError> {
        let path = service.state_dir().join("tasks.sqlite");
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let definition =
            connection.query_row("SELECT sql FROM sqlite_master WHERE name = 'tasks'", [], |row| row.get(0))?;
        let mut statement = connection.prepare("SELECT * FROM tasks ORDER BY micros DESC LIMIT ?1")?;
        let columns = statement.column_count();
        let read = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
        let found = statement.query_map([i64::try_from(count).unwrap_or(i64::MAX)], read)?;
        let mut rows = found.collect::<rusqlite::Result<Vec<Vec<Value>>>>()?;
        // In the order in which they were written.
        rows.reverse();
        Ok(Self { definition, columns, rows })
    }

    fn insert(&self, path: &Path) -> Result<Duration, BenchError> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute_batch(&self.definition)?;
        let places = vec!["?"; self.columns].join(", ");
        let statement = format!("INSERT INTO tasks VALUES ({places})");
        let before = clock::now().mono;
        for batch in self.rows.chunks(IN_FLIGHT) {
            let transaction = connection.unchecked_transaction()?;
            let mut insert = transaction.prepare_cached(&statement)?;
            for row in batch {
                insert.execute(params_from_iter(row))?;
            }
            drop(insert);
            transaction.commit()?;
        }
        Ok(clock::now().mono.since(before))
    }
}
