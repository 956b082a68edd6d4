//! The folder of the history: one file for each day, named for it.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::frames::{self, Damage, Frame};
use crate::engine::history::{Day, Write};

/// Name of the folder in `STATE_DIR`.
const NAME: &str = "history";

/// End of the name of a file.
const SUFFIX: &str = ".llh";

/// The folder. Reading needs no lock: files only grow, and a header that is not complete is none.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder in `STATE_DIR`.
    pub(super) fn of(state_dir: &Path) -> Self {
        Self { path: state_dir.join(NAME) }
    }

    /// The days with a file.
    pub(super) fn days(&self) -> io::Result<BTreeSet<Day>> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            found => found?,
        };
        let mut days = BTreeSet::new();
        for entry in entries {
            let name = entry?.file_name();
            days.extend(name.to_str().and_then(|name| name.strip_suffix(SUFFIX)?.parse::<Day>().ok()));
        }
        Ok(days)
    }

    pub(super) fn path_of(&self, day: Day) -> PathBuf {
        self.path.join(format!("{day}{SUFFIX}"))
    }

    /// The file of a day, for reading; `None` if there is none.
    pub(super) fn open(&self, day: Day) -> io::Result<Option<File>> {
        let path = self.path_of(day);
        // Otherwise a FIFO without a writer would never be opened.
        match File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(&path) {
            Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
            Ok(_) => {
                let why = format!("{} is no regular file; remove it", path.display());
                Err(io::Error::new(io::ErrorKind::InvalidInput, why))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes rows that were added again off the number in the header of their damaged block.
    pub(super) fn count_fewer(&self, Replaced { day, block, rows }: &Replaced) -> io::Result<()> {
        let file = File::options().write(true).open(self.path_of(*day))?;
        file.write_all_at(&block.header_with(block.count.saturating_sub(*rows)), block.at)
    }

    /// Removes the files of the days before this one.
    pub(super) fn remove_before(&self, first: Day) -> io::Result<()> {
        for day in self.days()?.range(..first) {
            fs::remove_file(self.path_of(*day))?;
        }
        Ok(())
    }
}

/// A damaged block of which rows are added again.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) day: Day,
    pub(super) block: Frame,
    /// Number of these rows.
    pub(super) rows: u32,
}

/// Appends blocks to the files.
#[derive(Debug)]
pub(super) struct Appender {
    folder: Folder,
    /// Whether a block must survive a power failure.
    syncs: bool,
    open: Option<(Day, File)>,
}

impl Appender {
    pub(super) const fn new(folder: Folder, syncs: bool) -> Self {
        Self { folder, syncs, open: None }
    }

    /// Appends a block: all of it, or nothing.
    pub(super) fn append(&mut self, write: &Write) -> io::Result<()> {
        let bytes = frames::encode(write)?;
        let file = match &mut self.open {
            Some((day, file)) if *day == write.day => file,
            open => &mut open.insert((write.day, open_to_append(&self.folder, write.day)?)).1,
        };
        let before = file.metadata()?.len();
        let written = file.write_all(&bytes).and_then(|()| if self.syncs { file.sync_data() } else { Ok(()) });
        if written.is_err() {
            // If this fails as well, readers find the next block by its magic.
            let _ = file.set_len(before);
            self.open = None;
        }
        written
    }
}

/// Opens the file of a day behind its last complete block: a controller may have been killed while it wrote.
fn open_to_append(folder: &Folder, day: Day) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(&folder.path)?;
    let path = folder.path_of(day);
    let file = File::options().read(true).append(true).create(true).mode(0o600).open(&path)?;
    let mut torn = None;
    frames::frames(&file, |found| {
        if let Err(Damage { at, is_torn: true, .. }) = found {
            torn = Some(at);
        }
        Ok(())
    })?;
    if let Some(at) = torn {
        log::info!(
            "the last block of {} was not written completely: it is left out, from byte {at} on",
            path.display()
        );
        file.set_len(at)?;
    }
    Ok(file)
}
