//! A file of lines, each of them a change, that is read at a start. When it has many more lines than there are valid facts, it is
//! rewritten with the valid ones. A kill can only tear the last line. No line waits for the disk.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use proc::files::draft::{SHARED, replace};

/// Lines beyond two for each fact after which the file is rewritten.
pub(super) const SURPLUS_MAX: usize = 1000;

/// The valid facts, as the lines of a new file.
pub(super) trait Facts {
    fn len(&self) -> usize;

    /// The lines, each with its end.
    fn text(&self) -> String;
}

#[derive(Debug)]
pub(super) struct LineLog {
    path: PathBuf,
    file: File,
    lines: usize,
}

impl LineLog {
    /// The content of a file; empty if there is none.
    pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            bytes => bytes,
        }
    }

    /// Writes the file with these facts, and opens it for appending.
    pub(super) fn create(path: PathBuf, facts: &impl Facts) -> io::Result<Self> {
        Ok(Self { file: write(&path, facts)?, path, lines: facts.len() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line, with its end, about a change that `facts` already contain.
    pub(super) fn append(&mut self, line: &str, facts: &impl Facts) -> io::Result<()> {
        self.lines += 1;
        if self.lines > 2 * facts.len() + SURPLUS_MAX {
            return self.rewrite(facts);
        }
        self.file.write_all(line.as_bytes())
    }

    pub(super) fn rewrite(&mut self, facts: &impl Facts) -> io::Result<()> {
        self.lines = facts.len();
        self.file = write(&self.path, facts)?;
        Ok(())
    }
}

/// Rewrites the file atomically, and opens it for appending.
fn write(path: &Path, facts: &impl Facts) -> io::Result<File> {
    replace(path, SHARED, |file| file.write_all(facts.text().as_bytes()))?;
    File::options().append(true).open(path)
}
