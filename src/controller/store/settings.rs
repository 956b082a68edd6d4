//! Settings: the gates and drained agents that people have set, the part of each job that its tasks do not show, and the epoch.
//! Their rows are few compared with the tasks.

use std::path::Path;

use rusqlite::{Connection, params};

use super::{StoreError, hash_texts, schema};
use api::wire::requests::job::memo;
use api::wire::requests::{gate, heartbeat};
use base::{AgentId, Epoch, GateSettings, JobMemo, JobName, Label};
use engine::Stored;

pub(super) const GATE: &str = "gate";
pub(super) const DRAINED: &str = "drained";
pub(super) const JOB: &str = "job";
/// The one row of the epoch, without a name.
pub(super) const EPOCH: &str = "epoch";

pub(super) fn of_gate(settings: &GateSettings) -> Option<String> {
    let is_set = *settings != GateSettings::default();
    is_set.then(|| gate::encode_settings(settings))
}

pub(super) fn of_drained(drained: bool) -> Option<String> {
    drained.then(|| "true".to_owned())
}

pub(super) fn of_job(memo: Option<&JobMemo>) -> Option<String> {
    memo.map(memo::encode)
}

pub(super) fn of_epoch(epoch: Epoch) -> String {
    heartbeat::encode_epoch(epoch)
}

/// Puts a setting into the file of SQLite, or removes it.
pub(super) fn put(
    connection: &Connection,
    kind: &str,
    name: &str,
    value: Option<(String, u32)>,
) -> rusqlite::Result<()> {
    match value {
        Some((value, checksum)) => {
            connection.prepare_cached(schema::SET)?.execute(params![kind, name, value, checksum])?;
        }
        None => {
            connection.prepare_cached(schema::UNSET)?.execute(params![kind, name])?;
        }
    }
    Ok(())
}

/// Reads all settings.
///
/// # Errors
/// When a row differs from what was written.
pub(super) fn read(connection: &Connection, path: &Path, stored: &mut Stored) -> Result<(), StoreError> {
    let mut taken = Ok(());
    let read = read_rows(connection, |kind, name, value| {
        if taken.is_ok() {
            taken = take(stored, path, &kind, &name, value.as_deref());
        }
    });
    read.map_err(|error| StoreError::of(path, error))?;
    taken
}

/// Calls `each` with kind, name and value of every row; without the value if it differs from what was written.
pub(super) fn read_rows(
    connection: &Connection,
    mut each: impl FnMut(String, String, Option<String>),
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(schema::GET_SETTINGS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, name, value) = (row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?);
        let is_intact = row.get::<_, u32>(3)? == checksum(&kind, &name, &value);
        each(kind, name, is_intact.then_some(value));
    }
    Ok(())
}

/// Takes a setting; `None` for one that differs from what was written.
///
/// # Errors
/// [`StoreError::Damaged`]
pub(super) fn take(
    stored: &mut Stored,
    path: &Path,
    kind: &str,
    name: &str,
    value: Option<&str>,
) -> Result<(), StoreError> {
    if value.is_some_and(|value| decode(stored, kind, name, value)) {
        return Ok(());
    }
    let what = format!("the setting of {kind} {name:?} differs from what was written");
    Err(StoreError::Damaged { path: path.to_owned(), what })
}

fn decode(stored: &mut Stored, kind: &str, name: &str, value: &str) -> bool {
    match kind {
        GATE => {
            let gate = Label::of_gate(name).ok().zip(gate::decode_settings(value));
            gate.map(|gate| stored.gates.push(gate)).is_some()
        }
        DRAINED => AgentId::new(name).map(|agent| stored.drained.push(agent)).is_ok(),
        JOB => {
            let job = JobName::new(name).ok().zip(memo::decode(value));
            job.map(|job| stored.jobs.push(job)).is_some()
        }
        EPOCH => {
            stored.epoch = heartbeat::decode_epoch(value);
            stored.epoch.is_some()
        }
        _ => false,
    }
}

pub(super) fn checksum(kind: &str, name: &str, value: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hash_texts(&mut hasher, [kind, name, value]);
    hasher.finalize()
}
