//! The store must keep, refuse and survive the following.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::*;
use base::{Acknowledgement, Counts, Round, TaskId, TaskState, ToolName, Wall};

pub(super) fn task(number: u64) -> TaskRecord {
    TaskRecord {
        agents_trusted: Wall::default(),
        files: None,
        pin: None,
        id: TaskId::new(Wall::from_micros(1_795_239_916_000_000 + number), [7; 5]),
        tool: ToolName::new("t").unwrap(),
        submitted: "\"a\":\"b\"".into(),
        address: None,
        relations: None,
        unmet: Vec::new(),
        parent: None,
        submitted_at: Wall::from_micros(number),
        round: Round(0),
        policy: Arc::default(),
        counts: Counts::default(),
        held: None,
        acknowledgement: Acknowledgement::None,
        past: Vec::new(),
        pushes: 0,
        kill: None,
        unconfirmed: false,
        state: TaskState::Waiting { not_before: None },
    }
}

fn put(record: &TaskRecord) -> Record {
    Record::Put(Box::new(record.clone()))
}

fn open(dir: &Path) -> FileStore {
    FileStore::open(dir, Durability::Disk).unwrap()
}

fn load(store: &mut FileStore) -> Vec<TaskRecord> {
    store.load(&Rules::of_history()).unwrap().tasks
}

#[test]
fn what_was_committed_is_there_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let (first, second, third) = (task(1), task(2), task(3));
    store.commit(&[put(&third), put(&first), put(&second)]).unwrap();
    let again = TaskRecord { round: Round(4), ..second };
    store.commit(&[put(&again), Record::Remove(third.id)]).unwrap();
    assert_eq!(load(&mut store), [first.clone(), again.clone()]);
    drop(store);
    assert_eq!(load(&mut open(dir.path())), [first, again]);
}

/// A killed controller closes nothing: its commits are in the log.
#[test]
fn what_was_committed_is_there_without_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.commit(&[put(&task(1))]).unwrap();
    let copy = tempfile::tempdir().unwrap();
    for name in [FILE.to_owned(), format!("{FILE}-wal")] {
        fs::copy(dir.path().join(&name), copy.path().join(&name)).unwrap();
    }
    assert_eq!(load(&mut open(copy.path())), [task(1)]);
}

/// `llts store check` and a start judge a store equally, however short its log is truncated.
#[test]
fn a_store_whose_log_is_cut_short_has_its_tables_and_is_judged_alike() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    assert!(fs::metadata(dir.path().join(FILE)).unwrap().len() > 4096, "its tables do not wait for a checkpoint");
    store.commit(&[put(&task(1))]).unwrap();
    let wal = format!("{FILE}-wal");
    for length in [0, 1, 31, 32, 40, 56, 57, 99, 100, 4151] {
        let copy = tempfile::tempdir().unwrap();
        for name in [FILE, &wal] {
            fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
        }
        File::options().write(true).open(copy.path().join(&wal)).unwrap().set_len(length).unwrap();
        assert_eq!(inspect(copy.path(), |_| {}).unwrap(), 0, "{length}");
        assert_eq!(load(&mut open(copy.path())), [], "{length}");
    }
}

/// An interrupted first start has created the file, and no task was accepted.
#[test]
fn a_store_that_was_never_made_is_judged_alike() {
    let dir = tempfile::tempdir().unwrap();
    File::create(dir.path().join(FILE)).unwrap();
    assert_eq!(inspect(dir.path(), |_| {}).unwrap(), 0);
    assert_eq!(load(&mut open(dir.path())), []);
}

/// A log that is truncated at any byte contains whole transactions only (docs/design/hazards.md, D3).
#[test]
fn a_torn_log_holds_whole_turns_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.commit(&[put(&task(1))]).unwrap();
    let wal = format!("{FILE}-wal");
    let kept = fs::metadata(dir.path().join(&wal)).unwrap().len();
    store.commit(&[put(&task(2)), put(&task(3))]).unwrap();
    let log = fs::read(dir.path().join(&wal)).unwrap();
    let file = fs::read(dir.path().join(FILE)).unwrap();
    let cuts = (usize::try_from(kept).unwrap()..log.len()).step_by(97).chain([log.len() - 1]);
    for cut in cuts {
        let copy = tempfile::tempdir().unwrap();
        fs::write(copy.path().join(FILE), &file).unwrap();
        fs::write(copy.path().join(&wal), &log[..cut]).unwrap();
        assert_eq!(load(&mut open(copy.path())), [task(1)], "cut at {cut}");
    }
}

/// A killed controller leaves its log, and someone cuts it. Nothing of it says that there was more; a torn commit looks alike.
#[test]
fn a_log_that_was_cut_is_refused_wherever_its_commits_end() {
    for laps in [30, 150] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        for number in 0..laps {
            // Some of them are written back by then.
            let rows = (0..40).map(|row| put(&task(number * 40 + row)));
            store.commit(&rows.collect::<Vec<_>>()).unwrap();
            store.keep_log_short();
        }
        let log = log_of(&dir.path().join(FILE));
        // No checkpoint is on its way.
        store.checkpointer =
            Checkpointer::start(connect(&dir.path().join(FILE), OpenFlags::default()).unwrap(), store.promise.clone())
                .unwrap();
        let whole = fs::read(&log).unwrap();
        for length in [0, 1000, 100_000, whole.len() as u64 / 2, whole.len() as u64 - 1] {
            File::options().write(true).open(&log).unwrap().set_len(length).unwrap();
            for judged in
                [inspect(dir.path(), |_| {}).map(drop), FileStore::open(dir.path(), Durability::Disk).map(drop)]
            {
                let error = judged.unwrap_err();
                assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
                assert!(error.to_string().contains(&format!("has {length} bytes and had {}", whole.len())), "{error}");
            }
            fs::write(&log, &whole).unwrap();
        }
        assert_eq!(inspect(dir.path(), |_| {}).unwrap() as u64, laps * 40);
        assert_eq!(load(&mut open(dir.path())).len() as u64, laps * 40);
    }
}

/// Bytes that have become zeros look like the end of a log whose file is longer than its content.
#[test]
fn a_log_whose_end_is_zeros_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    for lap in 0..3 {
        for number in 0..200 {
            store.commit(&[put(&task(lap * 200 + number))]).unwrap();
            store.keep_log_short();
        }
        let log = log_of(&dir.path().join(FILE));
        let whole = fs::read(&log).unwrap();
        let content = whole.iter().rposition(|byte| *byte != 0).unwrap();
        for end in [0, 100, 40_000, content - 9_000, content] {
            let zeros = whole[..end].iter().copied().chain(vec![0; whole.len() - end]);
            fs::write(&log, zeros.collect::<Vec<_>>()).unwrap();
            let error = inspect(dir.path(), |_| {}).unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{lap}, {end} of {content}: {error}");
        }
        fs::write(&log, &whole).unwrap();
        // The log begins anew, with other salts.
        checkpoint::run(&store.connection, &store.promise);
    }
    assert_eq!(inspect(dir.path(), |_| {}).unwrap(), 600);
    drop(store);
    assert_eq!(load(&mut open(dir.path())).len(), 600);
}

/// A commit that a power failure has torn is left out as ever: the file has its length, and other bytes at its end.
#[test]
fn a_torn_commit_in_a_log_of_the_promised_length_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.commit(&[put(&task(1))]).unwrap();
    let log = log_of(&dir.path().join(FILE));
    let end = fs::metadata(&log).unwrap().len();
    store.keep_log_short();
    store.commit(&[put(&task(2))]).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    let torn = usize::try_from(end).unwrap() + 4000;
    bytes[torn..].fill(0);
    let copy = tempfile::tempdir().unwrap();
    for name in [FILE, "tasks.sqlite-length"] {
        fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    fs::write(log_of(&copy.path().join(FILE)), bytes).unwrap();
    assert_eq!(load(&mut open(copy.path())), [task(1)]);
}

/// Another program may write the log back and remove it: nothing is lost.
#[test]
fn a_log_that_another_program_has_written_back_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.commit(&[put(&task(1))]).unwrap();
    store.keep_log_short();
    let copy = tempfile::tempdir().unwrap();
    for name in [FILE, "tasks.sqlite-wal", "tasks.sqlite-length"] {
        let status = std::process::Command::new("cp").arg("-p").arg(dir.path().join(name)).arg(copy.path()).status();
        assert!(status.unwrap().success());
    }
    assert_eq!(promise::cut(&copy.path().join(FILE)).unwrap(), None);
    let other = Connection::open(copy.path().join(FILE)).unwrap();
    other.query_row("SELECT count(*) FROM tasks", [], |_| Ok(())).unwrap();
    other.close().unwrap();
    assert!(!log_of(&copy.path().join(FILE)).exists() && copy.path().join("tasks.sqlite-length").exists());
    assert_eq!(load(&mut open(copy.path())), [task(1)]);
    drop(open(copy.path()));
    assert!(!copy.path().join("tasks.sqlite-length").exists(), "an orderly end needs no promise");
}

/// A flipped byte is never accepted as written data (docs/design/hazards.md, D3).
#[test]
fn a_flipped_byte_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.commit(&[put(&task(1))]).unwrap();
    drop(store);
    let path = dir.path().join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let value = bytes.windows(7).position(|window| window == b"\"a\":\"b\"").unwrap();
    bytes[value + 5] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = open(dir.path()).load(&Rules::of_history()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
}

#[test]
fn what_is_no_store_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    fs::write(&path, "my diary".repeat(200)).unwrap();
    let error = FileStore::open(dir.path(), Durability::Disk).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(fs::read_to_string(&path).unwrap().starts_with("my diary"));
}

#[test]
fn a_database_of_another_program_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let other = Connection::open(dir.path().join(FILE)).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    let error = FileStore::open(dir.path(), Durability::Disk).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
}

/// docs/design/hazards.md, D8.
#[test]
fn a_newer_version_is_refused_with_both_versions() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let newer = Connection::open(dir.path().join(FILE)).unwrap();
    newer.pragma_update(None, "user_version", 7).unwrap();
    let error = FileStore::open(dir.path(), Durability::Disk).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 7, known: 5, .. }), "{error}");
}

/// Under a load without a pause, the log would grow forever.
#[test]
fn the_log_begins_anew_when_it_is_written_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = FileStore::open(dir.path(), Durability::Process).unwrap();
    let reader = Connection::open(dir.path().join(FILE)).unwrap();
    let log = dir.path().join(format!("{FILE}-wal"));
    let length = || fs::metadata(&log).unwrap().len();
    let turn = |round| (0..100).map(move |number| put(&TaskRecord { round: Round(round), ..task(number) }));
    let mut once = None;
    for lap in 0..10 {
        for commit in 0..20 {
            store.commit(&turn(lap * 100 + commit).collect::<Vec<_>>()).unwrap();
        }
        let once = *once.get_or_insert_with(length);
        // Later commits than this reader's are left by the thread, like those that arrive while it works.
        reader.execute_batch("BEGIN; SELECT count(*) FROM tasks").unwrap();
        store.commit(&turn(lap * 100 + 20).collect::<Vec<_>>()).unwrap();
        store.keep_log_short();
        while !store.checkpointer.has_ended.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        reader.execute_batch("END").unwrap();
        store.keep_log_short();
        // Its file is a little longer than its content.
        assert!(length() <= 2 * once + (4 << 20), "{} bytes, and {once} at first", length());
    }
}

/// A full disk loses no stored data, and the turn can be stored later (docs/design/hazards.md, D5).
#[test]
fn a_full_disk_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.commit(&[put(&task(1))]).unwrap();
    store.connection.pragma_update(None, "max_page_count", 3).unwrap();
    let turn: Vec<_> = (2..500).map(|number| put(&task(number))).collect();
    let error = store.commit(&turn).unwrap_err();
    assert!(matches!(error, CommitError::Later(_)), "{error}");
    assert_eq!(load(&mut store), [task(1)]);
    store.connection.pragma_update(None, "max_page_count", 1_000_000).unwrap();
    store.commit(&turn).unwrap();
    assert_eq!(load(&mut store).len(), 499);
}

#[test]
fn a_store_can_be_inspected_while_it_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    assert!(inspect(dir.path(), |_| {}).is_err(), "there is none yet");
    let mut store = open(dir.path());
    store.commit(&[put(&task(1)), put(&task(2))]).unwrap();
    let mut seen = Vec::new();
    assert_eq!(inspect(dir.path(), |record| seen.push(record)).unwrap(), 2);
    assert_eq!(seen, [task(1), task(2)]);
}

#[test]
fn the_store_is_for_its_user_only_also_one_of_an_earlier_version() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |name: &str| std::fs::metadata(folder.path().join(name)).map(|found| found.mode() & 0o777).ok();
    let files = ["tasks.sqlite", "tasks.sqlite-wal", "tasks.sqlite-shm"];
    let store = FileStore::open(folder.path(), Durability::Process).unwrap();
    assert_eq!(files.map(mode), [Some(0o600); 3]);
    for name in files {
        std::fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o644)).unwrap();
    }
    let second = FileStore::open(folder.path(), Durability::Process).unwrap();
    assert_eq!(files.map(mode), [Some(0o600); 3]);
    drop((store, second));
}
