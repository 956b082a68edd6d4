//! How often the prompts have failed that may wait again, in a file beside the folders, so that a master that starts anew goes on
//! counting.
//!
//! A line for each change, `["task.txt",2]`, which one write appends: what a kill can tear is the last line, which is passed over.
//! No line waits for the disk: what a power cut takes back lets a prompt run once more. A file whose name is no text is counted
//! in memory only.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::engine::master::FileName;

/// Beside the four folders, and cleared with them.
const NAME: &str = "master.fails";

/// Lines beyond two for each prompt, before the file is written anew.
const SURPLUS_MAX: usize = 1000;

#[derive(Debug)]
pub(super) struct FailLog {
    path: PathBuf,
    file: File,
    lines: usize,
    fails: BTreeMap<FileName, u32>,
}

impl FailLog {
    /// Reads what a master before has noted.
    pub(super) fn open(tasks: &Path) -> io::Result<Self> {
        let path = tasks.join(NAME);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            bytes => bytes?,
        };
        let mut fails = BTreeMap::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            let Ok((file, count)) = serde_json::from_slice::<(String, u32)>(line) else { continue };
            set(&mut fails, &FileName::from(file.as_str()), count);
        }
        let file = write(&path, &fails)?;
        Ok(Self { path, file, lines: fails.len(), fails })
    }

    /// The prompts that have failed, and how often.
    pub(super) const fn fails(&self) -> &BTreeMap<FileName, u32> {
        &self.fails
    }

    /// Notes how often a prompt has failed; 0 forgets it.
    pub(super) fn note(&mut self, file: &FileName, fails: u32) {
        let Some(line) = line(file, fails) else { return };
        set(&mut self.fails, file, fails);
        self.lines += 1;
        let noted = if self.lines > 2 * self.fails.len() + SURPLUS_MAX {
            self.lines = self.fails.len();
            write(&self.path, &self.fails).map(|file| self.file = file)
        } else {
            self.file.write_all(line.as_bytes())
        };
        if let Err(error) = noted {
            log::warn!("cannot note in {} that {file} has failed {fails} times: {error}", self.path.display());
        }
    }
}

fn set(fails: &mut BTreeMap<FileName, u32>, file: &FileName, count: u32) {
    if count == 0 {
        fails.remove(file);
    } else {
        fails.insert(file.clone(), count);
    }
}

fn line(file: &FileName, fails: u32) -> Option<String> {
    Some(format!("{}\n", serde_json::json!([file.as_text()?, fails])))
}

/// Writes the file anew, whole or not at all, and opens it for more.
fn write(path: &Path, fails: &BTreeMap<FileName, u32>) -> io::Result<File> {
    let draft = path.with_extension("fails.tmp");
    let text: String = fails.iter().filter_map(|(file, count)| line(file, *count)).collect();
    fs::write(&draft, text)?;
    fs::rename(&draft, path)?;
    File::options().append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

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
