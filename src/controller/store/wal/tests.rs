//! Logs that SQLite has written, then damaged.

use std::fs;
use std::path::PathBuf;

use rusqlite::Connection;

use super::*;

/// A log of four commits of several pages each, and the end of each, in bytes.
struct Written {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Written {
    /// With `again`, the log starts over within a longer one.
    fn new(again: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (x INTEGER PRIMARY KEY, y TEXT)").unwrap();
        if again {
            for _ in 0..8 {
                insert(&connection);
            }
        }
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        let wal = folder.path().join("db-wal");
        let mut ends = Vec::new();
        let mut log = Vec::new();
        for _ in 0..4 {
            insert(&connection);
            let written = fs::read(&wal).unwrap();
            let differs = written.iter().zip(&log).rposition(|(new, old)| new != old);
            ends.push(if again && !log.is_empty() { differs.unwrap() + 1 } else { written.len() });
            log = written;
        }
        if again {
            // The length does not show the end of the first commit.
            ends[0] = ends[1] - (ends[2] - ends[1]);
        }
        // The connection would write the log back and remove it.
        std::mem::forget(connection);
        Self { folder, bytes: log, ends }
    }

    fn end_with(&self, bytes: &[u8]) -> LogEnd {
        let path: PathBuf = self.folder.path().join("copy-wal");
        fs::write(&path, bytes).unwrap();
        end_of(&path, None).unwrap()
    }

    fn end_with_flip(&self, byte: usize, bit: u8) -> LogEnd {
        let mut bytes = self.bytes.clone();
        bytes[byte] ^= 1 << bit;
        self.end_with(&bytes)
    }
}

fn insert(connection: &Connection) {
    connection.execute("INSERT INTO t (y) VALUES (?1)", ["x".repeat(9000)]).unwrap();
}

#[test]
fn a_log_that_sqlite_has_written_is_whole() {
    let written = Written::new(false);
    assert_eq!(written.end_with(&written.bytes), LogEnd::Whole);
    assert_eq!(end_of(&written.folder.path().join("none"), None).unwrap(), LogEnd::Whole);
    assert_eq!(written.end_with(&[]), LogEnd::Whole);
    assert_eq!(written.end_with(&[0; 5000]), LogEnd::Whole, "never written, after a power cut");
}

/// The remains of the previous log are complete commits with valid checksums of their own.
#[test]
fn a_log_that_was_begun_anew_is_whole() {
    let written = Written::new(true);
    assert!(written.bytes.len() > *written.ends.last().unwrap(), "something is left of the longer one");
    assert_eq!(written.end_with(&written.bytes), LogEnd::Whole);
    for end in &written.ends[..3] {
        assert!(matches!(written.end_with_flip(end - 2000, 3), LogEnd::Damaged(_)), "{end}");
    }
    assert!(matches!(written.end_with_flip(written.ends[3] - 2000, 3), LogEnd::Torn(_)));
}

#[test]
fn a_log_that_is_cut_anywhere_is_torn_or_whole() {
    let written = Written::new(false);
    for cut in (0..written.bytes.len()).step_by(509) {
        let end = written.end_with(&written.bytes[..cut]);
        assert!(!matches!(end, LogEnd::Damaged(_)), "cut at {cut}: {end:?}");
        let is_within = cut > written.ends[0] + 5000 && !written.ends.contains(&cut);
        // A cut within the first frame of a commit leaves no trace of that commit.
        let near = written.ends.iter().any(|end| (*end..end + 4120).contains(&cut));
        assert!(!is_within || near || matches!(end, LogEnd::Torn(_)), "cut at {cut}: {end:?}");
    }
}

/// Every part of a frame and of the log's header, in every commit but the last one.
#[test]
fn a_flipped_bit_before_the_last_commit_is_damage() {
    let written = Written::new(false);
    let last = written.ends[2];
    let frames = (32..last).step_by(4120);
    let places = frames.flat_map(|frame| [0, 1, 3, 8, 12, 16, 20, 23, 24, 2000, 4119].map(|at| frame + at));
    for byte in (0..32).chain(places) {
        for bit in [0, 7] {
            let end = written.end_with_flip(byte, bit);
            assert!(matches!(end, LogEnd::Damaged(_)), "byte {byte}, bit {bit}: {end:?}");
        }
    }
}

#[test]
fn a_flipped_bit_in_the_last_commit_is_a_torn_tail() {
    let written = Written::new(false);
    for byte in (written.ends[2]..written.bytes.len()).step_by(101) {
        let end = written.end_with_flip(byte, 2);
        assert!(!matches!(end, LogEnd::Damaged(_)), "byte {byte}: {end:?}");
    }
}

/// A power failure may lose any pages of the last commit and keep later ones.
#[test]
fn a_hole_in_the_last_commit_is_a_torn_tail() {
    let written = Written::new(false);
    let mut bytes = written.bytes.clone();
    bytes[written.ends[2]..written.ends[2] + 4120].fill(0);
    assert!(!matches!(written.end_with(&bytes), LogEnd::Damaged(_)));
}
