//! How far a home has seen its queue: a line in STATE_DIR that each commit overwrites. It is not synced: it survives the controller, and
//! what a power failure of this machine takes from it only makes the home less strict.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use base::Epoch;
use pgstore::Seen;

/// Name of the file.
const FILE: &str = "postgresql.seen";

#[derive(Debug)]
pub(super) struct SeenFile(File);

impl SeenFile {
    /// Opens the file of a folder, and reads what it says.
    pub(super) fn open(state_dir: &Path) -> io::Result<(Self, Option<Seen>)> {
        let path = state_dir.join(FILE);
        fs::create_dir_all(state_dir)?;
        let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        Ok((Self(file), parse(&fs::read_to_string(&path)?)))
    }

    /// Each line has the same length, so that one write replaces the last one.
    pub(super) fn write(&self, Seen { epoch: Epoch { service, number }, commits }: Seen) {
        let line = format!("{service:020} {number:020} {commits:020}\n");
        if let Err(error) = self.0.write_all_at(line.as_bytes(), 0) {
            log::warn!("cannot write {FILE} in STATE_DIR: {error}");
        }
    }
}

fn parse(line: &str) -> Option<Seen> {
    let mut numbers = line.split_whitespace();
    let epoch = Epoch { service: numbers.next()?.parse().ok()?, number: numbers.next()?.parse().ok()? };
    Some(Seen { epoch, commits: numbers.next()?.parse().ok()? })
}
