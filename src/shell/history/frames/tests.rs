use std::io::Write as _;

use super::*;
use crate::engine::history::Day;
use crate::protocol::rounds::block::incidents;
use crate::types::{Incident, IncidentKind};

/// Blocks with so many incidents each, at the moments of their numbers.
fn blocks(counts: &[u32]) -> Vec<Vec<u8>> {
    let block = |(number, count): (u64, &u32)| {
        let incident = |row: u32| Incident {
            at: Wall::from_micros(number),
            kind: IncidentKind::AgentLost,
            text: format!("agent {row} of {number} is lost"),
        };
        let all: Vec<_> = (0..*count).map(incident).collect();
        let span = Span::of(Wall::from_micros(number));
        encode(&Write { day: Day(0), kind: WriteKind::Incidents, count: *count, span, bytes: incidents(&all) }).unwrap()
    };
    (0..).zip(counts).map(block).collect()
}

/// The numbers of the readable blocks, and the damage.
fn read(bytes: &[u8]) -> (Vec<u64>, Vec<Damage>) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    frames(&file, |frame| {
        match frame.and_then(|frame| Ok((frame, frame.bytes(&file).unwrap().ok_or(frame.damage())?))) {
            Ok((frame, raw)) => {
                let rows = crate::protocol::rounds::block::read_incidents(&raw);
                assert_eq!(rows.len(), frame.count as usize);
                found.push(rows[0].at.micros());
            }
            Err(damage) => damaged.push(damage),
        }
        Ok(())
    })
    .unwrap();
    (found, damaged)
}

#[test]
fn a_file_that_is_cut_anywhere_keeps_its_complete_blocks() {
    let blocks = blocks(&[3, 1, 2]);
    let whole = blocks.concat();
    assert_eq!(read(&whole), (vec![0, 1, 2], vec![]));
    let ends: Vec<usize> = blocks
        .iter()
        .scan(0, |end, block| {
            *end += block.len();
            Some(*end)
        })
        .collect();
    for len in 0..whole.len() {
        let complete = ends.iter().filter(|end| **end <= len).count();
        let (found, damaged) = read(&whole[..len]);
        assert_eq!(found.len(), complete, "{len}");
        let is_between = len == 0 || ends.contains(&len);
        assert_eq!(damaged.len(), usize::from(!is_between), "{len}: {damaged:?}");
        assert!(
            damaged
                .iter()
                .all(|damage| damage.is_torn && damage.at as usize == ends[..complete].last().copied().unwrap_or(0)),
            "{len}: {damaged:?}"
        );
    }
}

#[test]
fn a_wrong_byte_anywhere_costs_one_block() {
    let blocks = blocks(&[3, 1, 2]);
    let whole = blocks.concat();
    let (first, second) = (blocks[0].len(), blocks[0].len() + blocks[1].len());
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let (found, damaged) = read(&bytes);
        let hit = u64::from(at >= first) + u64::from(at >= second);
        let others: Vec<u64> = (0..3).filter(|number| *number != hit).collect();
        assert_eq!(found, others, "byte {at}");
        assert_eq!(damaged.len(), 1, "byte {at}: {damaged:?}");
        assert_eq!(damaged[0].at as usize, [0, first, second][hit as usize], "byte {at}");
    }
}

/// A length that is wrong, with a checksum that is right, must not make a reader reserve or skip more than there is.
#[test]
fn a_magic_inside_of_a_block_is_no_header() {
    let mut bytes = blocks(&[1]).concat();
    bytes.truncate(HEADER_BYTES + 2);
    bytes.extend(MAGIC);
    bytes.extend([0; 200]);
    let end = bytes.len();
    bytes.extend(blocks(&[1, 2])[1].clone());
    let (found, damaged) = read(&bytes);
    assert_eq!(found, [1]);
    assert!(damaged.iter().all(|damage| (damage.at as usize) < end), "{damaged:?}");
}
