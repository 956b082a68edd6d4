//! What the files lack of the rounds in the store, at the start of a controller.

use std::collections::HashMap;
use std::io;

use super::folder::Folder;
use super::reader::frames_of;
use crate::engine::history::{Day, WriteKind};
use crate::protocol::rounds::block::{Block, Span, read_incidents};
use crate::protocol::rounds::of_record::ended_rounds;
use crate::types::{IncidentKind, Round, TaskId, TaskRecord, Wall};

/// The rounds of the stored tasks that no file has, in the order of their ends.
///
/// A row has the moment of its end from the record of its task, so that only the blocks of that time are read.
pub(super) fn missing<'a>(folder: &Folder, stored: &'a [TaskRecord]) -> io::Result<Vec<(&'a TaskRecord, Round)>> {
    let mut open: HashMap<(TaskId, Round), (Wall, &TaskRecord)> = HashMap::new();
    let mut span: Option<Span> = None;
    for record in stored {
        for (round, at) in ended_rounds(record) {
            open.insert((record.id, round), (at, record));
            span = Some(span.map_or(Span::of(at), |span| span.with(at)));
        }
    }
    let Some(Span { first, last }) = span else { return Ok(Vec::new()) };
    let until = Wall::from_micros(last.micros().saturating_add(1));
    for day in folder.days()?.range(Day::of(first)..=Day::of(last)) {
        let Some(file) = folder.open(*day)? else { continue };
        frames_of(&file, WriteKind::Rounds, first, until, |found| {
            // The rows of a damaged block are added again.
            let Ok((_, bytes)) = found else { return Ok(()) };
            for row in Block::new(&bytes).into_iter().flatten() {
                if let Some(task) = row.task() {
                    open.remove(&(task, row.round));
                }
            }
            Ok(())
        })?;
    }
    let mut missing: Vec<_> = open.into_iter().map(|((task, round), (at, record))| (at, task, round, record)).collect();
    missing.sort_by_key(|(at, task, round, _)| (*at, *task, *round));
    Ok(missing.into_iter().map(|(_, _, round, record)| (record, round)).collect())
}

/// The last incident about the life of a controller.
pub(super) fn last_of_life(folder: &Folder) -> Option<IncidentKind> {
    let of_life = [IncidentKind::Started, IncidentKind::Stopped, IncidentKind::Crashed];
    folder.days().ok()?.into_iter().rev().find_map(|day| {
        let file = folder.open(day).ok()??;
        let mut last = None;
        let read = frames_of(&file, WriteKind::Incidents, Wall::default(), Wall::from_micros(u64::MAX), |found| {
            if let Ok((_, bytes)) = found {
                let kinds = read_incidents(&bytes).into_iter().map(|incident| incident.kind);
                last = kinds.rev().find(|kind| of_life.contains(kind)).or(last);
            }
            Ok(())
        });
        read.ok().and(last)
    })
}
