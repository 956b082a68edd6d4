//! What the files lack of the rounds in the store, at the start of a controller.

use std::collections::HashMap;
use std::io;

use super::folder::{Folder, Replaced};
use super::frames::{Damage, Frame};
use super::reader::frames_of;
use crate::engine::history::{Day, WriteKind};
use crate::protocol::rounds::block::{Block, Span, read_incidents};
use crate::protocol::rounds::of_record::ended_rounds;
use crate::types::{IncidentKind, Round, TaskId, TaskRecord, Wall};

/// What the files lack.
#[derive(Debug, Default)]
pub(super) struct Missing<'a> {
    /// The rounds of the stored tasks that no file has, in the order of their ends.
    pub(super) rounds: Vec<(&'a TaskRecord, Round)>,
    /// The damaged blocks of which some of these were rows, and which stay in their files.
    pub(super) replaced: Vec<Replaced>,
}

/// Compares the files with the store.
///
/// A row has the moment of its end from the record of its task, so that only the blocks of that time are read.
pub(super) fn missing<'a>(folder: &Folder, stored: &'a [TaskRecord]) -> io::Result<Missing<'a>> {
    let mut open: HashMap<(TaskId, Round), (Wall, &TaskRecord)> = HashMap::new();
    let mut span: Option<Span> = None;
    for record in stored {
        for (round, at) in ended_rounds(record) {
            open.insert((record.id, round), (at, record));
            span = Some(span.map_or(Span::of(at), |span| span.with(at)));
        }
    }
    let Some(Span { first, last }) = span else { return Ok(Missing::default()) };
    let mut damaged = Vec::new();
    let until = Wall::from_micros(last.micros().saturating_add(1));
    for day in folder.days()?.range(Day::of(first)..=Day::of(last)) {
        let Some(file) = folder.open(*day)? else { continue };
        frames_of(&file, WriteKind::Rounds, first, until, |found| {
            let (frame, bytes) = match found {
                Ok(found) => found,
                // Its rows are added again. A torn block is cut off before that: another block begins at its place then, whose
                // header must stay.
                Err(Damage { header, is_torn, .. }) => {
                    damaged.extend(header.filter(|_| !is_torn).map(|block| (*day, block)));
                    return Ok(());
                }
            };
            for row in Block::new(&bytes, frame.format).into_iter().flatten() {
                if let Some(task) = row.task() {
                    open.remove(&(task, row.round));
                }
            }
            Ok(())
        })?;
    }
    let mut missing: Vec<_> = open.into_iter().map(|((task, round), (at, record))| (at, task, round, record)).collect();
    missing.sort_by_key(|(at, task, round, _)| (*at, *task, *round));
    let ends: Vec<_> = missing.iter().map(|(at, ..)| *at).collect();
    let rounds = missing.into_iter().map(|(_, _, round, record)| (record, round)).collect();
    Ok(Missing { rounds, replaced: replaced(damaged, ends) })
}

/// How many rows of each damaged block are among those with these ends.
fn replaced(damaged: Vec<(Day, Frame)>, mut ends: Vec<Wall>) -> Vec<Replaced> {
    let rows_of = |(day, block): (Day, Frame)| {
        let mut rows = 0;
        ends.retain(|at| {
            let is_of_it = rows < block.count && (block.span.first..=block.span.last).contains(at);
            rows += u32::from(is_of_it);
            !is_of_it
        });
        (rows > 0).then_some(Replaced { day, block, rows })
    };
    damaged.into_iter().filter_map(rows_of).collect()
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
