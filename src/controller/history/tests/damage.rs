//! Files that were cut or damaged: the readable rows stay.

use super::*;
use proc::sqlite::beside;

fn rounds(world: &World, filter: RoundFilter) -> HistoryAnswer {
    world.ask(filter, What::Rounds { sort: SortKey::Ended, is_reversed: false, page: PAGE })
}

fn path_of(world: &World, micros: u64) -> PathBuf {
    Folder::of(world.folder.path()).path_of(Day::of(at(micros).wall))
}

/// The log of a controller that was killed, as it may be after a power failure. The next start adds the rounds of the store that
/// were behind the cut, and no other.
#[test]
fn a_log_that_is_cut_anywhere_has_every_round_once_after_the_next_start() {
    let mut killed = World::new();
    let mut records = Vec::new();
    for batch in 0..4 {
        let incident = Incident { at: at(DAY + batch).wall, kind: IncidentKind::AgentLost, text: batch.to_string() };
        killed.writer.take(at(DAY), Job::Incident(incident));
        let of_batch: Vec<_> =
            (0..=batch).map(|number| finished(DAY + batch * 10 + number, 0, "t", Outcome::Failed, false)).collect();
        killed.write(at(DAY), &of_batch);
        records.extend(of_batch);
    }
    let expected: Vec<_> = records.iter().rev().map(|record| record.id).collect();
    let files = ["", "-wal"].map(|end| beside(&path_of(&killed, DAY), end));
    let [file, log] = files.map(|path| std::fs::read(path).unwrap());
    assert!(log.len() > 20_000, "the log has everything: {} bytes", log.len());
    for len in (0..log.len()).step_by(509).chain([log.len()]) {
        let mut world = World::new();
        let path = path_of(&world, DAY);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &file).unwrap();
        std::fs::write(beside(&path, "-wal"), &log[..len]).unwrap();
        let kept = world.kinds().len();
        for start in 1..=2 {
            world.restart(at(DAY + 100), &records);
            world.flush(at(DAY + 100));
            let case = format!("{len} bytes, start {start}");
            assert_eq!(world.list(all(), SortKey::Ended, PAGE), (expected.len(), expected.clone()), "{case}");
            assert_eq!(rounds(&world, all()).damaged, None, "{case}");
            assert_eq!(world.kinds().len(), kept + start, "{case}");
        }
    }
}

/// The sentence names the file, and the other days are there. The next start keeps it, and adds the rounds that the store has.
#[test]
fn a_file_that_is_no_database_is_named_and_kept() {
    let mut world = World::new();
    let record = |number: u64| finished(number * DAY, 0, "t", Outcome::Failed, false);
    for day in 1..=3 {
        world.write(at(day * DAY), &[record(day)]);
    }
    world.writer = writer_in(world.folder.path());
    let path = path_of(&world, 2 * DAY);
    std::fs::write(&path, "no database ".repeat(1000)).unwrap();
    let answer = rounds(&world, all());
    let sentence = answer.damaged.unwrap();
    assert!(sentence.starts_with(&format!("{} is damaged: ", path.display())), "{sentence}");
    assert!(sentence.ends_with("; what cannot be read of it is left out"), "{sentence}");
    assert_eq!(answer.page.total, 2);
    let by = vec![GroupKey::Tool];
    let summary = world.ask(all(), What::Summary { by, clock_ahead: 0, page: PAGE });
    let HistoryPage::Summary(groups) = &summary.found else { panic!("other rows") };
    assert_eq!((groups[0].counts.iter().sum::<u64>(), summary.damaged), (2, Some(sentence)));
    assert!(world.ask(all(), What::Incidents { kind: None, page: PAGE }).damaged.is_some());
    let late = RoundFilter { since: at(3 * DAY).wall, ..all() };
    assert_eq!(rounds(&world, late).damaged, None, "of an earlier day");

    for _ in 0..2 {
        world.restart(at(3 * DAY + 1), &[record(2)]);
        world.flush(at(3 * DAY + 1));
        let answer = rounds(&world, all());
        assert_eq!(answer.page.total, 3);
        let aside = beside(&path, ".aside-1");
        assert!(std::fs::read(&aside).unwrap().starts_with(b"no database"));
        assert!(answer.damaged.unwrap().starts_with(&format!("{} was set aside; ", aside.display())));
    }
    std::fs::write(path_of(&world, 3 * DAY), "again").unwrap();
    let answer = rounds(&world, all());
    assert!(answer.damaged.unwrap().ends_with("; what cannot be read of it, and of another file, is left out"));
}

/// A page in the middle. A question names the file, and has the writer copy what is before and behind the page. The store has some
/// of the others.
#[test]
fn a_damaged_page_costs_the_rounds_on_it() {
    let mut world = World::new();
    let records: Vec<_> = (0..3000).map(|number| finished(DAY + number, 0, "t", Outcome::Failed, false)).collect();
    world.write(at(DAY + 3000), &records);
    world.writer = writer_in(world.folder.path());
    let path = path_of(&world, DAY);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 4096 / 2 * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let now = at(DAY + 4000);
    world.restart(now, &records[..1]);
    world.flush(now);
    for _ in 0..2 {
        assert!(rounds(&world, all()).damaged.unwrap().contains(".sqlite is damaged: "));
    }
    assert_eq!(
        world.jobs.1.try_iter().map(|job| world.writer.take(now, job)).count(),
        2,
        "the second finds nothing to do"
    );
    let answer = rounds(&world, all());
    assert!((2900..3000).contains(&answer.page.total), "{}", answer.page.total);
    assert!(answer.damaged.unwrap().contains(".sqlite.aside-1 was set aside; "));
    world.restart(now, &records);
    world.flush(now);
    assert_eq!(rounds(&world, all()).page.total, 3000);
}

/// SQLite has no checksums, so only a value that this program never writes shows such a byte.
#[test]
fn a_row_that_is_none_costs_itself() {
    let mut world = World::new();
    let records: Vec<_> = (0..10).map(|number| finished(DAY + number, 0, "t", Outcome::Failed, false)).collect();
    world.write(at(DAY + 10), &records);
    let other = rusqlite::Connection::open(path_of(&world, DAY)).unwrap();
    let spoil = "UPDATE rounds SET outcome = 'FAILEX' WHERE ended_at = ?";
    assert_eq!(other.execute(spoil, [(START + DAY + 4).cast_signed()]), Ok(1));
    let by = vec![GroupKey::Tool];
    assert!(world.ask(all(), What::Summary { by, clock_ahead: 0, page: PAGE }).damaged.is_some());
    world.jobs.1.try_iter().for_each(|job| world.writer.take(at(DAY + 11), job));
    assert_eq!(rounds(&world, all()).page.total, 9);
}

/// A database of another program, or one that is damaged while it is written.
#[test]
fn the_file_that_is_being_written_is_replaced() {
    let mut world = World::new();
    let path = path_of(&world, DAY);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign.execute_batch("CREATE TABLE rounds (x)").unwrap();
    drop(foreign);
    let record = |number| finished(DAY + number, 0, "t", Outcome::Failed, false);
    world.write(at(DAY), &[record(1)]);
    assert_eq!(rounds(&world, all()).page.total, 1);
    let foreign = rusqlite::Connection::open(beside(&path, ".aside-1")).unwrap();
    assert_eq!(foreign.query_row("SELECT count(*) FROM rounds", [], |row| row.get::<_, i64>(0)), Ok(0));
    world.writer = writer_in(world.folder.path());
    std::fs::write(&path, "x".repeat(5000)).unwrap();
    world.write(at(DAY), &[record(2)]);
    assert_eq!(rounds(&world, all()).page.total, 1);
    assert!(beside(&path, ".aside-2").exists());
}
