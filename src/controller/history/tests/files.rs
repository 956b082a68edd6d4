//! Which files there are: by age, by size, written, read beside the writer, and lacking.

use super::*;
use proc::sqlite::beside;

fn record(ended: u64) -> TaskRecord {
    finished(ended, 0, "t", Outcome::Failed, false)
}

fn days(world: &World) -> Vec<u64> {
    let days = Folder::of(world.folder.path()).days().unwrap();
    days.into_keys().map(|day| (day.begin().micros() - (START - START % DAY)) / DAY).collect()
}

fn total(world: &World) -> usize {
    world.list(all(), SortKey::Ended, PAGE).0
}

fn connection(world: &World, now: Now) -> rusqlite::Connection {
    rusqlite::Connection::open(Folder::of(world.folder.path()).path_of(Day::of(now.wall))).unwrap()
}

#[test]
fn the_oldest_days_go_when_all_take_too_much_and_the_present_one_stays() {
    let mut world = World::new();
    for day in 1..=5 {
        let records: Vec<_> = (0..1000).map(|number| record(day * DAY + number)).collect();
        world.write(at(day * DAY + 1000), &records);
    }
    assert_eq!(days(&world), [1, 2, 3, 4, 5]);
    let file = |day: u64| Folder::of(world.folder.path()).path_of(Day::of(at(day * DAY).wall));
    world.writer = writer_in(world.folder.path());
    let size = std::fs::metadata(file(3)).unwrap().len();
    for (keep_bytes_max, kept) in [(u64::MAX, vec![1, 2, 3, 4, 5]), (size * 5 / 2, vec![4, 5]), (1, vec![5])] {
        let limits = HistoryLimits { keep_bytes_max, ..LIMITS };
        world.writer = Writer::new(Folder::of(world.folder.path()), limits, Arc::default(), mpsc::channel().0);
        world.writer.turn(at(5 * DAY + 2000));
        assert_eq!(days(&world), kept, "{keep_bytes_max} bytes");
        assert_eq!(total(&world), 1000 * kept.len());
    }
    // A day that is being written is looked at again after some rounds.
    let limits = HistoryLimits { keep_bytes_max: size, ..LIMITS };
    world.writer = Writer::new(Folder::of(world.folder.path()), limits, Arc::default(), mpsc::channel().0);
    world.writer.turn(at(5 * DAY + 3000));
    let records: Vec<_> = (0..50_000).map(|number| record(5 * DAY + 10_000 + number)).collect();
    world.write(at(5 * DAY + HOUR), &[record(4 * DAY)]);
    assert_eq!(days(&world), [4, 5]);
    world.write(at(5 * DAY + HOUR), &records);
    assert_eq!(days(&world), [5]);
}

/// Nothing that belongs to a removed day stays behind.
#[test]
fn a_day_goes_with_all_of_its_files() {
    let mut world = World::new();
    world.write(at(DAY), &[record(DAY)]);
    let folder = world.folder.path().join("history");
    let name = |day: u64| Day::of(at(day * DAY).wall).to_string();
    for end in [".sqlite.aside-1", ".sqlite.aside-1-wal", ".llh", ".llh.aside-1"] {
        std::fs::write(folder.join(format!("{}{end}", name(1))), "x").unwrap();
    }
    for other in ["notes", "2016-11-2", "größer öäü", "2016-13-01.sqlite"] {
        std::fs::write(folder.join(other), "x").unwrap();
    }
    let first = Day(Day::of(at(DAY).wall).0 + 1);
    Folder::of(world.folder.path()).shrink(first, Day(first.0 + 30), u64::MAX).unwrap();
    let mut left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["2016-11-2", "2016-13-01.sqlite", "größer öäü", "notes"]);
}

/// As `sqlite3` reads them: the tables, as the manual has them, by another connection.
#[test]
fn another_program_reads_the_file_of_the_present_day_and_holds_nothing_up() {
    let mut world = World::new();
    let now = at(DAY);
    world.restart(now, &[]);
    world.write(now, &[record(DAY), record(DAY + 1)]);
    let other = connection(&world, now);
    let count =
        || other.query_row("SELECT count(*) FROM rounds WHERE outcome = 'FAILED'", [], |row| row.get::<_, i64>(0));
    other.execute_batch("BEGIN").unwrap();
    assert_eq!(count(), Ok(2));
    world.write(now, &[record(DAY + 2)]);
    assert!(!world.writer.keeper.is_in_trouble());
    assert_eq!((count(), total(&world)), (Ok(2), 3));
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(count(), Ok(3));
    let kind = other.query_row("SELECT kind FROM incidents", [], |row| row.get::<_, String>(0));
    assert_eq!(kind, Ok("STARTED".to_owned()));
    let mode = std::os::unix::fs::PermissionsExt::mode;
    let path = Folder::of(world.folder.path()).path_of(Day::of(now.wall));
    assert_eq!(mode(&std::fs::metadata(path).unwrap().permissions()) & 0o777, 0o600);
}

#[test]
fn a_full_disk_loses_no_round() {
    let mut world = World::new();
    let now = at(DAY);
    (0..2).for_each(|number| world.write(now, &[record(DAY + number)]));
    world.writer.appender.fill();
    let records: Vec<_> = (2..2000).map(|number| record(DAY + number)).collect();
    world.write(now, &records);
    assert!(world.writer.keeper.is_in_trouble());
    assert_eq!(total(&world), 2, "all rows of a batch or none");
    world.flush(at(DAY + 1_000_000));
    assert!(!world.writer.keeper.is_in_trouble());
    assert_eq!(total(&world), 2000);
    assert_eq!(world.kinds(), [IncidentKind::HistoryLag]);
}

#[test]
fn a_folder_that_is_removed_is_made_again() {
    let mut world = World::new();
    let now = at(DAY);
    (0..2).for_each(|_| world.write(now, &[record(DAY)]));
    std::fs::remove_dir_all(world.folder.path().join("history")).unwrap();
    assert_eq!((total(&world), days(&world)), (0, vec![]));
    world.write(now, &[record(DAY + 1)]);
    assert_eq!(total(&world), 1);
    world.restart(now, &[record(DAY), record(DAY + 1)]);
    world.flush(now);
    assert_eq!(total(&world), 2, "the store has the other one");
}

/// What a newer program has written is named, and stays as it is when a row needs a file of that day.
#[test]
fn a_file_of_a_newer_version_is_not_written() {
    let mut world = World::new();
    let now = at(DAY);
    world.write(now, &[record(DAY)]);
    world.writer = writer_in(world.folder.path());
    connection(&world, now).pragma_update(None, "user_version", 2).unwrap();
    let what = || What::Rounds { sort: SortKey::Ended, is_reversed: false, page: PAGE };
    let said = world.ask(all(), what()).damaged.unwrap();
    assert!(said.contains(" is of a newer program: it has version 2; "), "{said}");
    assert!(world.jobs.1.try_recv().is_err(), "it is not damaged");
    world.write(now, &[record(DAY + 1)]);
    assert_eq!(total(&world), 1);
    let said = world.ask(all(), what()).damaged.unwrap();
    assert!(said.contains(".sqlite.aside-1 was set aside; "), "{said}");
    let aside = beside(&Folder::of(world.folder.path()).path_of(Day::of(now.wall)), ".aside-1");
    let aside = rusqlite::Connection::open(aside).unwrap();
    assert_eq!(aside.query_row("SELECT count(*) FROM rounds", [], |row| row.get::<_, i64>(0)), Ok(1));
}

/// Opening it for reading would wait for a writer for ever.
#[test]
fn a_fifo_in_the_folder_is_named_and_holds_nothing_up() {
    let mut world = World::new();
    let folder = Folder::of(world.folder.path());
    let path = folder.path_of(Day::of(at(DAY).wall));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = super::super::tables::open_to_read(&path).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()) && error.contains("no regular file"), "{error}");
    world.write(at(DAY), &[record(DAY)]);
    assert!(world.writer.keeper.is_in_trouble());
    std::fs::remove_file(&path).unwrap();
    world.flush(at(DAY + 1_000_000));
    assert_eq!(total(&world), 1);
}
