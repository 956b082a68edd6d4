//! The epoch of a start: whether the store is the one that the last start left here, or a copy of an earlier one.
//!
//! The store has the epoch of its last start. The file [`FILE`] beside it has the same, with the machine and the number of the file of
//! the store on its disk. Both are written at each start, the store first.
//!
//! | the store and the file | the store is | epoch |
//! |---|---|---|
//! | the store has none | new, or of an earlier version | the moment of the start |
//! | agree, or the file is one start behind | that of the last start | the next number |
//! | the file is ahead, missing, or of another service; another machine; another file of the store | a backup, a copy or moved | the moment of the start |
//!
//! A copy of the whole folder that keeps even the numbers of files, such as the snapshot of a disk, looks like the store itself. Agents
//! that have served a later start of it notice that.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::{FileStore, StoreError, settings};
use base::{Epoch, Wall};
use proc::files::state_file;

/// Name of the file in `STATE_DIR`.
const FILE: &str = "epoch";

/// This many bits of the moment of a start, below the millisecond, are random. So two starts never have the same epoch.
const RANDOM_BITS: u32 = 10;

/// The last start, outside of the store.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Noted {
    service: u64,
    epoch: u64,
    /// The id of the machine; empty where it has none.
    machine: String,
    /// The number of the file of the store on its disk.
    file: u64,
}

impl FileStore {
    /// Begins the epoch of this start. Returns it, and how the store shows that it is from a backup or another machine, if it is.
    /// There is no epoch if it cannot be stored, for example on a full disk: agents then obey without one.
    ///
    /// # Errors
    /// When the store or the file cannot be looked at.
    pub fn begin_epoch(
        &self,
        state_dir: &Path,
        before: Option<Epoch>,
        now: Wall,
        random: u64,
    ) -> Result<(Option<Epoch>, Option<String>), StoreError> {
        let noted_at = state_dir.join(FILE);
        let failed = |source| StoreError::Note { path: noted_at.clone(), source };
        let file = fs::metadata(state_dir.join(super::FILE)).map_err(failed)?.ino();
        let noted = read(&noted_at).map_err(failed)?;
        let machine = machine();
        let raised = before.and_then(|before| difference(before, noted.as_ref(), &machine, file));
        let epoch = next(before, raised.is_some(), now, random);
        if let Err(error) = self.put_epoch(epoch) {
            log::warn!(
                "the epoch of this start cannot be stored, so agents cannot tell it from an older copy: {error}"
            );
            return Ok((None, raised));
        }
        let noted = Noted { service: epoch.service, epoch: epoch.number, machine, file };
        if let Err(error) = state_file::replace(&noted_at, &noted) {
            log::warn!("cannot write {}: {error}", noted_at.display());
        }
        Ok((Some(epoch), raised))
    }
}

impl FileStore {
    /// Makes this the epoch of the last start here, as if it had been one.
    pub(super) fn adopt_epoch(&self, state_dir: &Path, epoch: Epoch) -> Result<(), StoreError> {
        self.put_epoch(epoch).map_err(|error| StoreError::of(&state_dir.join(super::FILE), error))?;
        let noted_at = state_dir.join(FILE);
        let failed = |source| StoreError::Note { path: noted_at.clone(), source };
        let file = fs::metadata(state_dir.join(super::FILE)).map_err(failed)?.ino();
        let noted = Noted { service: epoch.service, epoch: epoch.number, machine: machine(), file };
        state_file::replace(&noted_at, &noted).map_err(failed)
    }

    fn put_epoch(&self, epoch: Epoch) -> rusqlite::Result<()> {
        let value = settings::of_epoch(epoch);
        let checksum = settings::checksum(settings::EPOCH, "", &value);
        settings::put(&self.connection, settings::EPOCH, "", Some((value, checksum)))
    }
}

/// The note of the last start. A note that cannot be understood counts as missing.
fn read(path: &Path) -> io::Result<Option<Noted>> {
    match state_file::read(path) {
        Ok(noted) => Ok(Some(noted)),
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::InvalidData].contains(&error.kind()) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Why the store is not that of the last start here, as the beginning of a sentence.
fn difference(store: Epoch, noted: Option<&Noted>, machine: &str, file: u64) -> Option<String> {
    let Some(noted) = noted else {
        return Some(format!(
            "the store is of epoch {}, and its folder has no file {FILE}: it is from a backup",
            store.number
        ));
    };
    let Noted { service, epoch, .. } = noted;
    if *service != store.service {
        Some(format!("the store is that of service {}, and the last one here was that of {service}", store.service))
    } else if *epoch > store.number {
        Some(format!(
            "the store is of epoch {}, and the last one here was of epoch {epoch}: it is from a backup",
            store.number
        ))
    } else if noted.machine != machine {
        Some("the store was on another machine".to_owned())
    } else if noted.file != file {
        Some("the file of the store is another one than that of the last start: it is a copy".to_owned())
    } else {
        None
    }
}

pub(super) fn next(before: Option<Epoch>, is_raised: bool, now: Wall, random: u64) -> Epoch {
    let mask = (1 << RANDOM_BITS) - 1;
    let moment = ((now.micros() / 1000) << RANDOM_BITS) | (random & mask);
    match before {
        // JSON keeps whole numbers exact up to 2^53; 0 is none.
        None => Epoch { service: (random >> 11).max(1), number: moment },
        Some(Epoch { service, number }) if is_raised => Epoch { service, number: moment.max(number + 1) },
        Some(Epoch { service, number }) => Epoch { service, number: number + 1 },
    }
}

pub(super) fn machine() -> String {
    fs::read_to_string("/etc/machine-id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::config::Durability;
    use api::wire::rules::Rules;

    const NOW: Wall = Wall::from_micros(1_480_000_000_000_000);

    /// A start in this folder.
    fn start(dir: &Path, now: Wall) -> (Epoch, Option<String>) {
        let mut store = FileStore::open(dir, Durability::Disk).unwrap();
        let stored = store.load(&Rules::of_history()).unwrap();
        let (epoch, raised) = store.begin_epoch(dir, stored.epoch, now, 7 << 20).unwrap();
        (epoch.unwrap(), raised)
    }

    fn copy(from: &Path, to: &Path, names: &[&str]) {
        for name in names {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }

    const STORE: [&str; 1] = [super::super::FILE];

    #[test]
    fn each_start_raises_the_epoch_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let (first, raised) = start(dir.path(), NOW);
        assert_eq!((first.service > 0, raised), (true, None));
        let (second, raised) = start(dir.path(), NOW);
        assert_eq!((second, raised), (Epoch { number: first.number + 1, ..first }, None));
        // It was killed between the two writes.
        let note: Noted = state_file::read(&dir.path().join(FILE)).unwrap();
        state_file::replace(&dir.path().join(FILE), &Noted { epoch: first.number, ..note }).unwrap();
        assert_eq!(start(dir.path(), NOW), (Epoch { number: first.number + 2, ..first }, None));
    }

    #[test]
    fn a_store_from_a_backup_or_from_elsewhere_raises_it_above_all_others() {
        let later = Wall::from_micros(NOW.micros() + 1_000_000);
        let [dir, backup] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let (dir, backup) = (dir.path(), backup.path());
        let (first, _) = start(dir, NOW);
        copy(dir, backup, &STORE);
        let (second, _) = start(dir, NOW);
        let raised = |dir: &Path| {
            let (epoch, raised) = start(dir, later);
            assert!(epoch.service == first.service && epoch.number > second.number + 1000, "{epoch:?}");
            raised.unwrap()
        };
        // In place: the same file, with the content of before.
        copy(backup, dir, &STORE);
        let said = raised(dir);
        assert!(said.contains("from a backup"), "{said}");
        // Without the note; as another file; on another machine; beside the note of another service.
        fs::remove_file(dir.join(FILE)).unwrap();
        assert!(raised(dir).contains("has no file epoch"));
        fs::rename(dir.join(STORE[0]), dir.join("moved")).unwrap();
        fs::copy(dir.join("moved"), dir.join(STORE[0])).unwrap();
        assert!(raised(dir).contains("it is a copy"));
        let note = || state_file::read::<Noted>(&dir.join(FILE)).unwrap();
        state_file::replace(&dir.join(FILE), &Noted { machine: "other".to_owned(), ..note() }).unwrap();
        assert!(raised(dir).contains("another machine"));
        state_file::replace(&dir.join(FILE), &Noted { service: 1, ..note() }).unwrap();
        assert!(raised(dir).contains("that of service"));
        fs::write(dir.join(FILE), "{").unwrap();
        assert!(raised(dir).contains("has no file epoch"));
        assert_eq!(start(dir, NOW).1, None, "it is settled");
    }

    /// The clock may be wrong.
    #[test]
    fn an_epoch_never_goes_back() {
        let before = Epoch { service: 5, number: u64::from(u32::MAX) << 20 };
        assert_eq!(next(Some(before), true, Wall::from_micros(0), 0), Epoch { number: before.number + 1, ..before });
        assert!(next(None, false, Wall::from_micros(4_000_000_000_000_000), u64::MAX).number < 1 << 53);
    }
}
