//! How far a home has seen its queue: a line in STATE_DIR that each commit overwrites. The line is not synced. It survives the
//! controller, and its loss in a power failure of this machine only makes the home less strict.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base::Epoch;
use pgstore::Seen;

/// Name of the file.
const FILE: &str = "postgresql.seen";

#[derive(Debug)]
pub(super) struct SeenFile {
    path: PathBuf,
    /// Made with the first line, so that a mere look at a queue leaves nothing behind.
    file: Option<File>,
}

impl SeenFile {
    /// The file of a folder, and its content.
    pub(super) fn of(state_dir: &Path) -> (Self, Option<Seen>) {
        let path = state_dir.join(FILE);
        let seen = fs::read_to_string(&path).ok().as_deref().and_then(parse);
        (Self { path, file: None }, seen)
    }

    /// Each line has the same length, so that one write replaces the last one.
    pub(super) fn write(&mut self, Seen { epoch: Epoch { service, number }, commits }: Seen) {
        let line = format!("{service:020} {number:020} {commits:020}\n");
        let mut write = || {
            if self.file.is_none() {
                let mut options = File::options();
                self.file = Some(options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)?);
            }
            self.file.as_ref().map_or(Ok(()), |file| file.write_all_at(line.as_bytes(), 0))
        };
        if let Err(error) = write() {
            log::warn!("cannot write {}: {error}", self.path.display());
        }
    }
}

fn parse(line: &str) -> Option<Seen> {
    let mut numbers = line.split_whitespace();
    let epoch = Epoch { service: numbers.next()?.parse().ok()?, number: numbers.next()?.parse().ok()? };
    Some(Seen { epoch, commits: numbers.next()?.parse().ok()? })
}
