//! The rounds in the store that the files lack, at the start of a controller.

use std::collections::HashMap;

use super::folder::{Appender, Folder};
use super::tables::{self, FileError};
use super::{old, reader};
use crate::history::rules::Day;
use api::wire::rounds::of_record::ended_rounds;
use base::{IncidentKind, Round, TaskId, TaskRecord, Wall, words};

/// The rounds of the stored tasks that no file has, in the order of their ends. A damaged file is set aside, so that its unreadable
/// rounds count as missing.
///
/// A row has the moment of its end from the record of its task, so that only the files and rows of that time are read.
pub(super) fn missing<'a>(
    folder: &Folder,
    appender: &mut Appender,
    stored: &'a [TaskRecord],
) -> Result<Vec<(&'a TaskRecord, Round)>, FileError> {
    let mut open: HashMap<(TaskId, Round), (Wall, &TaskRecord)> = HashMap::new();
    for record in stored {
        open.extend(ended_rounds(record).map(|(round, at)| ((record.id, round), (at, record))));
    }
    let ends = || open.values().map(|(at, _)| *at);
    let (Some(first), Some(last)) = (ends().min(), ends().max()) else { return Ok(Vec::new()) };
    for day in folder.days()?.into_keys().filter(|day| (Day::of(first)..=Day::of(last)).contains(day)) {
        let found = match written(folder, day, first, last) {
            Err(error) if error.is_lasting() => {
                appender.replace(day, &error)?;
                written(folder, day, first, last)
            }
            found => found,
        };
        let mut found = found?;
        old::read(&folder.old_path_of(day), |batch| {
            found.extend(batch.rounds.iter().map(|round| (round.task, round.round)));
            Ok(())
        })?;
        for row in &found {
            open.remove(row);
        }
    }
    let mut missing: Vec<_> = open.into_iter().map(|((task, round), (at, record))| (at, task, round, record)).collect();
    missing.sort_by_key(|(at, task, round, _)| (*at, *task, *round));
    Ok(missing.into_iter().map(|(_, _, round, record)| (record, round)).collect())
}

/// The rounds in the file of a day that ended within a time.
fn written(folder: &Folder, day: Day, first: Wall, last: Wall) -> Result<Vec<(TaskId, Round)>, FileError> {
    let Some(connection) = tables::open_to_read(&folder.path_of(day))? else { return Ok(Vec::new()) };
    let mut statement =
        connection.prepare("SELECT task, round FROM rounds WHERE ended_at BETWEEN ?1 AND ?2 ORDER BY ended_at")?;
    let found = statement
        .query_map([first, last].map(tables::micros), |row| Ok((tables::task(row, 0)?, Round(row.get(1)?))))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The last incident about the life of a controller.
pub(super) fn last_of_life(folder: &Folder) -> Option<IncidentKind> {
    let of_life = [IncidentKind::Started, IncidentKind::Stopped, IncidentKind::Crashed];
    folder.days().ok()?.into_keys().rev().find_map(|day| {
        let newest = || {
            let connection = tables::open_to_read(&folder.path_of(day)).ok()??;
            let selection = format!("WHERE kind IN ({}) ORDER BY at DESC, rowid DESC LIMIT 1", reader::places(3));
            tables::incidents(&connection, &selection, of_life.map(words::incident)).ok()?.pop()
        };
        let newest_of_old = || {
            let mut incidents = Vec::new();
            old::read(&folder.old_path_of(day), |batch| {
                incidents.extend(batch.incidents);
                Ok(())
            })
            .ok()?;
            incidents.into_iter().rfind(|incident| of_life.contains(&incident.kind))
        };
        newest().or_else(newest_of_old).map(|incident| incident.kind)
    })
}
