//! Settings: gates and drained agents, made by people, of each job the part that its tasks do not show, and the epoch. They are few rows
//! compared with the tasks.

use std::path::Path;

use rusqlite::{Connection, params};

use super::{StoreError, hash_texts, schema};
use crate::engine::Stored;
use api::wire::requests::job::memo;
use api::wire::requests::{gate, heartbeat};
use base::{AgentId, Epoch, GateSettings, JobMemo, JobName, Label};

const GATE: &str = "gate";
const DRAINED: &str = "drained";
const JOB: &str = "job";
/// The one row of the epoch, without a name.
const EPOCH: &str = "epoch";

pub(super) fn put_gate(connection: &Connection, name: &Label, settings: &GateSettings) -> rusqlite::Result<()> {
    let is_set = *settings != GateSettings::default();
    put(connection, GATE, name.as_str(), is_set.then(|| gate::encode_settings(settings)))
}

pub(super) fn put_drained(connection: &Connection, agent: &AgentId, drained: bool) -> rusqlite::Result<()> {
    put(connection, DRAINED, agent.as_str(), drained.then(|| "true".to_owned()))
}

pub(super) fn put_job(connection: &Connection, name: &JobName, memo: Option<&JobMemo>) -> rusqlite::Result<()> {
    put(connection, JOB, name.as_str(), memo.map(memo::encode))
}

pub(super) fn put_epoch(connection: &Connection, epoch: Epoch) -> rusqlite::Result<()> {
    put(connection, EPOCH, "", Some(heartbeat::encode_epoch(epoch)))
}

pub(super) fn put(connection: &Connection, kind: &str, name: &str, value: Option<String>) -> rusqlite::Result<()> {
    match value {
        Some(value) => {
            let checksum = checksum(kind, name, &value);
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
    let mut bad = None;
    let read = read_rows(connection, |kind, name, value| {
        if !value.is_some_and(|value| take(stored, &kind, &name, &value)) {
            bad.get_or_insert(format!("the setting of {kind} {name:?} differs from what was written"));
        }
    });
    read.map_err(|error| StoreError::of(path, error))?;
    bad.map_or(Ok(()), |what| Err(StoreError::Damaged { path: path.to_owned(), what }))
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

fn take(stored: &mut Stored, kind: &str, name: &str, value: &str) -> bool {
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

fn checksum(kind: &str, name: &str, value: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hash_texts(&mut hasher, [kind, name, value]);
    hasher.finalize()
}
