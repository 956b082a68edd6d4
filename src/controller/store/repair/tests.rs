//! Damaged stores, and what can be recovered.

use super::*;
use crate::store;
use crate::store::{FileStore, inspect};
use api::config::Durability;
use api::wire::rules::Rules;
use base::{GateSettings, Label, TaskRecord};
use engine::Record;

const TASKS: u64 = 300;

fn task(number: u64) -> TaskRecord {
    TaskRecord { submitted: format!("\"number\":\"{number}\"").into(), ..store::tests::task(number) }
}

/// A store as a killed controller leaves it: in a file and a log.
struct Killed {
    folder: tempfile::TempDir,
    /// Offsets of the log at the end of each commit.
    ends: Vec<usize>,
}

impl Killed {
    fn new() -> Self {
        let live = tempfile::tempdir().unwrap();
        let mut store = FileStore::open(live.path(), Durability::Disk).unwrap();
        let gate = GateSettings { running_max: Some(3), ..GateSettings::default() };
        store.commit(&[Record::Gate(Label::new("api").unwrap(), gate)]).unwrap();
        let wal = log_of(&live.path().join(FILE));
        let ends = (1..=TASKS).map(|number| {
            store.commit(&[Record::Put(Box::new(task(number)))]).unwrap();
            usize::try_from(fs::metadata(&wal).unwrap().len()).unwrap()
        });
        let ends = ends.collect();
        let folder = tempfile::tempdir().unwrap();
        for name in [FILE.to_owned(), format!("{FILE}-wal")] {
            fs::copy(live.path().join(&name), folder.path().join(&name)).unwrap();
        }
        Self { folder, ends }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn flip(&self, name: &str, byte: usize) {
        let path = self.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[byte] ^= 4;
        fs::write(path, bytes).unwrap();
    }

    fn open(&self) -> Result<usize, StoreError> {
        let mut store = FileStore::open(self.path(), Durability::Disk)?;
        Ok(store.load(&Rules::of_history())?.tasks.len())
    }

    fn flip_log(&self, byte: usize) {
        self.flip(&format!("{FILE}-wal"), byte);
    }
}

/// SQLite by itself reads 150 tasks here and says nothing (docs/design/hazards.md, D3).
#[test]
fn a_flipped_bit_in_the_log_is_refused_by_everything_and_repaired() {
    let killed = Killed::new();
    killed.flip_log(killed.ends[149] + 3000);
    let files = || [FILE.to_owned(), format!("{FILE}-wal")].map(|name| fs::read(killed.path().join(name)).unwrap());
    let before = files();
    for error in [killed.open().unwrap_err(), inspect(killed.path(), |_| {}).unwrap_err()] {
        let said = error.to_string();
        let wal = log_of(&killed.path().join(FILE));
        assert!(matches!(error, StoreError::Damaged { .. }), "{said}");
        assert!(said.contains(wal.to_str().unwrap()) && said.contains("llts store repair"), "{said}");
    }
    let salvage = Salvage::read(killed.path()).unwrap();
    assert!(files() == before, "looking changes nothing");
    // The flipped page has several rows; at most one of them is lost.
    assert!(salvage.tasks() as u64 >= TASKS - 1, "{salvage:?}");
    assert_eq!(salvage.tasks() as u64 == TASKS, salvage.unreadable.is_empty(), "{:?}", salvage.unreadable);
    let kept = salvage.put_in_place(killed.path()).unwrap();
    assert_eq!(killed.open().unwrap(), salvage.tasks());
    let kept_files = [FILE.to_owned(), format!("{FILE}-wal")].map(|name| fs::read(kept.join(name)).unwrap());
    assert!(kept_files == before, "the damaged store is kept as it was");
}

/// Wherever the bit is, the start is refused or everything that was accepted is there; then a repair keeps all but a page.
#[test]
fn no_flipped_bit_loses_a_task_silently() {
    let killed = Killed::new();
    let log = fs::read(log_of(&killed.path().join(FILE))).unwrap();
    let last = killed.ends[TASKS as usize - 2];
    for byte in (0..last).step_by(log.len() / 23) {
        killed.flip_log(byte);
        let opened = inspect(killed.path(), |_| {});
        assert!(opened.is_err(), "byte {byte} of the log is flipped: {opened:?}");
        let salvage = Salvage::read(killed.path()).unwrap();
        let lost = TASKS - salvage.tasks() as u64;
        assert!(lost <= 1, "byte {byte}: {lost} tasks are lost: {:?}", salvage.unreadable);
        assert!(lost == 0 || !salvage.unreadable.is_empty(), "byte {byte}");
        killed.flip_log(byte);
    }
    killed.flip_log(last + 2000);
    assert_eq!(killed.open().unwrap() as u64, TASKS - 1, "the last commit passes for torn");
}

#[test]
fn a_flipped_bit_in_the_file_is_repaired_too() {
    let killed = Killed::new();
    killed.open().unwrap();
    let bytes = fs::read(killed.path().join(FILE)).unwrap();
    let number = bytes.windows(12).position(|window| window == b"\"number\":\"77").unwrap();
    killed.flip(FILE, number + 10);
    assert!(killed.open().is_err());
    let salvage = Salvage::read(killed.path()).unwrap();
    assert_eq!(salvage.tasks() as u64, TASKS - 1);
    assert!(salvage.unreadable[0].contains("TASK_"), "{:?}", salvage.unreadable);
    salvage.put_in_place(killed.path()).unwrap();
    let mut store = FileStore::open(killed.path(), Durability::Disk).unwrap();
    let stored = store.load(&Rules::of_history()).unwrap();
    assert_eq!((stored.tasks.len() as u64, stored.gates.len()), (TASKS - 1, 1));
}

/// SQLite returns such a row unchanged.
#[test]
fn a_text_that_is_none_any_more_is_damage_that_can_be_repaired() {
    let killed = Killed::new();
    killed.open().unwrap();
    let bytes = fs::read(killed.path().join(FILE)).unwrap();
    let number = bytes.windows(12).position(|window| window == b"\"number\":\"77").unwrap();
    let mut bytes = bytes;
    bytes[number + 3] ^= 0x80;
    fs::write(killed.path().join(FILE), bytes).unwrap();
    let errors = [killed.open().unwrap_err(), inspect(killed.path(), |_| {}).unwrap_err()];
    for error in errors {
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    }
    let salvage = Salvage::read(killed.path()).unwrap();
    assert_eq!((salvage.tasks() as u64, salvage.unreadable.len()), (TASKS - 1, 1), "{:?}", salvage.unreadable);
}

/// A whole page of the tree is overwritten: the rows before and after it are recovered.
#[test]
fn an_unreadable_page_costs_its_own_rows_only() {
    let killed = Killed::new();
    killed.open().unwrap();
    let path = killed.path().join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let row = bytes.windows(13).position(|window| window == b"\"number\":\"150").unwrap();
    let page = row - row % 4096;
    bytes[page..page + 4096].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let salvage = Salvage::read(killed.path()).unwrap();
    assert!((TASKS - 60..TASKS).contains(&(salvage.tasks() as u64)), "{}", salvage.tasks());
    assert!(!salvage.unreadable.is_empty());
}

/// Between any two steps of putting the new store in its place, the next start has all tasks.
#[test]
fn a_repair_that_is_cut_short_is_finished_by_the_next_start() {
    for moved in 0..=2 {
        let killed = Killed::new();
        let whole = tempfile::tempdir().unwrap();
        for name in [FILE.to_owned(), format!("{FILE}-wal")] {
            fs::copy(killed.path().join(&name), whole.path().join(&name)).unwrap();
        }
        drop(FileStore::open(whole.path(), Durability::Disk).unwrap());
        fs::copy(whole.path().join(FILE), killed.path().join(REPAIRED)).unwrap();
        fs::create_dir(killed.path().join("damaged-1")).unwrap();
        for name in [FILE.to_owned(), format!("{FILE}-wal")].iter().take(moved) {
            fs::rename(killed.path().join(name), killed.path().join("damaged-1").join(name)).unwrap();
        }
        assert!(inspect(killed.path(), |_| {}).unwrap_err().to_string().contains("cut short"), "{moved} moved");
        assert_eq!(killed.open().unwrap() as u64, TASKS, "{moved} moved");
        assert!(!is_unfinished(killed.path()));
    }
}

/// SQLite would remove the log and create an empty store.
#[test]
fn a_log_without_its_file_is_refused() {
    let killed = Killed::new();
    fs::remove_file(killed.path().join(FILE)).unwrap();
    let said = killed.open().unwrap_err().to_string();
    assert!(said.contains("the file is not there"), "{said}");
    assert_eq!(Salvage::read(killed.path()).unwrap().tasks() as u64, TASKS);
}

/// With `DURABILITY = "process"` a power failure may lose any page of the log: the tail after it was never promised.
#[test]
fn damage_by_a_power_cut_is_none_where_nobody_waited_for_the_disk() {
    let killed = Killed::new();
    killed.flip_log(killed.ends[149] + 3000);
    let note = killed.path().join(format!("{FILE}-boot"));
    fs::write(&note, proc::process::boot_id()).unwrap();
    assert!(killed.open().is_err(), "the machine has not been started anew");
    fs::write(&note, "another boot").unwrap();
    assert_eq!(
        FileStore::open(killed.path(), Durability::Process).unwrap().load(&Rules::of_history()).unwrap().tasks.len(),
        150
    );
    drop(FileStore::open(killed.path(), Durability::Disk).unwrap());
    assert!(!note.exists(), "from now on every commit waits");
}
