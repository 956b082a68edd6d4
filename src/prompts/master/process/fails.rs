//! Failures of prompts that may wait again, and final failures, in a file beside the folders: a restarted master continues
//! to count, and its summary includes failures under earlier ones.
//!
//! Each change is a line, `["task.txt",2]` or `["task.txt","failed"]`, appended by one write: a kill can only tear the last
//! line, which is then ignored. Final failures are reported by the first master that ends with no prompt left. No line
//! waits for the disk: a change lost in a power failure lets a prompt run once more. A file whose name is not UTF-8 is
//! counted in memory only.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::line_log::{Facts, LineLog};
use crate::master::engine::FileName;

/// Name of the file, which is beside the four folders and cleared with them.
const NAME: &str = "master.fails";

/// Stands in place of a number for a prompt that is given up.
const FAILED: &str = "failed";

#[derive(Debug)]
pub(super) struct FailLog {
    log: LineLog,
    noted: Noted,
    /// Final failures under earlier masters.
    failed_before: BTreeSet<FileName>,
}

#[derive(Debug, Default)]
struct Noted {
    fails: BTreeMap<FileName, u32>,
    failed: BTreeSet<FileName>,
}

impl FailLog {
    /// Reads the failures that an earlier master has noted.
    pub(super) fn open(tasks: &Path) -> io::Result<Self> {
        let path = tasks.join(NAME);
        let mut noted = Noted::default();
        for line in LineLog::read(&path)?.split(|byte| *byte == b'\n') {
            if let Ok((file, count)) = serde_json::from_slice::<(String, u32)>(line) {
                noted.set(&FileName::from(file.as_str()), count);
            } else if let Ok((file, word)) = serde_json::from_slice::<(String, String)>(line)
                && word == FAILED
            {
                noted.failed.insert(FileName::from(file.as_str()));
            }
        }
        Ok(Self { log: LineLog::create(path, &noted)?, failed_before: noted.failed.clone(), noted })
    }

    /// The prompts that have failed and wait again, with their numbers of failures.
    pub(super) const fn fails(&self) -> &BTreeMap<FileName, u32> {
        &self.noted.fails
    }

    /// The final failures under earlier masters that none of them has reported at its end.
    pub(super) const fn failed_before(&self) -> &BTreeSet<FileName> {
        &self.failed_before
    }

    /// Records the number of failures of a prompt; 0 clears it.
    pub(super) fn note(&mut self, file: &FileName, fails: u32) {
        self.noted.set(file, fails);
        if let Err(error) = self.append(line(file, &fails)) {
            log::warn!("cannot note in {} that {file} has failed {fails} times: {error}", self.log.path().display());
        }
    }

    /// Records that a prompt is given up, before its file is moved.
    pub(super) fn note_failed(&mut self, file: &FileName) {
        if self.noted.failed.insert(file.clone())
            && let Err(error) = self.append(line(file, &FAILED))
        {
            log::warn!("cannot note in {} that {file} has failed: {error}", self.log.path().display());
        }
    }

    /// A prompt is in `failed/` by this master, which counts it: one that has failed under an earlier master was tried again.
    pub(super) fn count_here(&mut self, file: &FileName) {
        self.failed_before.remove(file);
    }

    /// Clears the final failures: their number has been reported, and no prompt is left.
    pub(super) fn end_batch(&mut self) {
        self.noted.failed.clear();
        if let Err(error) = self.log.rewrite(&self.noted) {
            log::warn!("cannot write {}: {error}", self.log.path().display());
        }
    }

    fn append(&mut self, line: Option<String>) -> io::Result<()> {
        line.map_or(Ok(()), |line| self.log.append(&line, &self.noted))
    }
}

impl Noted {
    fn set(&mut self, file: &FileName, count: u32) {
        if count == 0 {
            self.fails.remove(file);
        } else {
            self.fails.insert(file.clone(), count);
        }
    }
}

impl Facts for Noted {
    fn len(&self) -> usize {
        self.fails.len() + self.failed.len()
    }

    fn text(&self) -> String {
        let fails = self.fails.iter().filter_map(|(file, count)| line(file, count));
        fails.chain(self.failed.iter().filter_map(|file| line(file, &FAILED))).collect()
    }
}

fn line(file: &FileName, what: &impl serde::Serialize) -> Option<String> {
    Some(format!("{}\n", serde_json::json!([file.as_text()?, what])))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::master::process::line_log::SURPLUS_MAX;

    fn fails(folder: &Path) -> Vec<(String, u32)> {
        let log = FailLog::open(folder).unwrap();
        log.fails().iter().map(|(file, count)| (file.to_string(), *count)).collect()
    }

    #[test]
    fn what_was_noted_last_holds_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = FailLog::open(folder.path()).unwrap();
        for (file, count) in [("a\n\"b", 1), ("c", 1), ("a\n\"b", 2), ("d", 7), ("c", 0)] {
            log.note(&file.into(), count);
        }
        drop(log);
        assert_eq!(fails(folder.path()), [("a\n\"b".to_owned(), 2), ("d".to_owned(), 7)]);
    }

    #[test]
    fn what_has_failed_for_good_is_known_until_it_was_told() {
        let folder = tempfile::tempdir().unwrap();
        let before = |log: &FailLog| log.failed_before().iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut log = FailLog::open(folder.path()).unwrap();
        log.note(&"b".into(), 1);
        log.note_failed(&"a".into());
        assert_eq!(before(&log), Vec::<String>::new(), "the end of this master tells of it");
        let mut log = FailLog::open(folder.path()).unwrap();
        log.note_failed(&"c".into());
        assert_eq!(before(&log), ["a"]);
        let mut log = FailLog::open(folder.path()).unwrap();
        assert_eq!(before(&log), ["a", "c"]);
        log.end_batch();
        assert_eq!(before(&FailLog::open(folder.path()).unwrap()), Vec::<String>::new());
        assert_eq!(fails(folder.path()), [("b".to_owned(), 1)]);
    }

    #[test]
    fn a_torn_line_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(NAME), "[\"a\",1]\nnonsense\n[\"b\",2]\n[\"c").unwrap();
        assert_eq!(fails(folder.path()), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }

    #[test]
    fn the_file_does_not_grow_with_the_failures() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = FailLog::open(folder.path()).unwrap();
        for count in 1..5000 {
            log.note(&"a".into(), count);
        }
        assert!(fs::read_to_string(folder.path().join(NAME)).unwrap().lines().count() <= SURPLUS_MAX + 2);
        drop(log);
        assert_eq!(fails(folder.path()), [("a".to_owned(), 4999)]);
    }
}
