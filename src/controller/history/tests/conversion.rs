//! Files of earlier versions.

use super::*;

/// Of 2016-11-24: three blocks of five rounds each, and three of two incidents.
const OLD: &[u8] = include_bytes!("../old/2016-11-24.llh");

const ROUNDS: u64 = 15;

fn with_old(bytes: &[u8]) -> World {
    let world = World::new();
    let path = old_path(&world);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
    world
}

fn old_path(world: &World) -> PathBuf {
    world.folder.path().join("history/2016-11-24.llh")
}

fn answer(world: &World) -> (Vec<base::FinishedRound<'static>>, Option<String>) {
    let answer = world.ask(all(), What::Rounds { sort: SortKey::Ended, is_reversed: true, page: PAGE });
    let HistoryPage::Rounds(rounds) = answer.found else { panic!("other rows") };
    (rounds, answer.damaged)
}

#[test]
fn the_rows_of_an_old_file_are_in_the_new_one() {
    let mut world = with_old(OLD);
    for start in 0..2 {
        world.restart(at(DAY + start), &[]);
        world.flush(at(DAY + start));
        assert!(!old_path(&world).exists());
        let (rounds, damaged) = answer(&world);
        assert_eq!((rounds.len() as u64, damaged), (ROUNDS, None));
        for (number, round) in (0..).zip(rounds) {
            assert_eq!(round.ended_at.micros(), START + number * 90_000 + 70_000);
            assert_eq!(round.task.wall().micros(), START + number * 90_000);
            assert_eq!(u64::from(round.round.0), number % 3);
            assert_eq!(round.is_last, number % 3 == 1);
            assert_eq!(round.outcome, RoundOutcome::ALL[number as usize % 12]);
            assert_eq!(round.exit_code, [None, Some(0), Some(-9), Some(3)][number as usize % 4]);
            let is_tool = number % 2 == 0;
            let (tool, command) = if is_tool { ("convert", "") } else { (":command", "echo x") };
            assert_eq!((&*round.tool, &*round.command), (tool, command));
            assert_eq!(&*round.job, if number % 3 == 0 { "" } else { "nightly" });
            assert_eq!(&*round.given_id, if number % 5 == 0 { "given" } else { "" });
            assert_eq!(round.agent, format!("agent-{}", number % 2));
            assert_eq!(&*round.host, if number % 4 == 0 { "10.0.0.7" } else { "" });
            assert_eq!(round.waited, Duration::from_micros(1300 + number));
            let has_run = number % 7 > 0;
            assert_eq!(round.started_at.map(Wall::micros), has_run.then_some(START + number * 90_000 + 2_000));
            assert_eq!(round.ran, has_run.then(|| Duration::from_micros(61_000 + number)));
            assert_eq!(round.submitted_at.micros(), START + number * 90_000);
            assert_eq!(&*round.line, if number % 12 == 1 { "x größer" } else { "" });
        }
        // As if the controller had been killed before it removed the file.
        std::fs::write(old_path(&world), OLD).unwrap();
    }
    let answer = world.ask(all(), What::Incidents { kind: Some(IncidentKind::AgentLost), page: PAGE });
    let HistoryPage::Incidents(incidents) = answer.found else { panic!("other rows") };
    assert_eq!(incidents.len(), 1);
    assert_eq!((incidents[0].at.micros(), &*incidents[0].text), (START + 1001, "incident 1 1 größer"));
    // Six of the old file, and the two starts.
    assert_eq!(world.kinds().len(), 8);
}

/// The controller before was an earlier version: the old file has its end, and the rounds of its tasks.
#[test]
fn a_start_compares_itself_with_the_old_files() {
    let mut world = with_old(OLD);
    let mut record = finished(70_000, 0, "convert", Outcome::Succeeded, false);
    record.id = TaskId::new(Wall::from_micros(START), [0, 2, 3, 4, 5]);
    world.writer.begin(at(DAY), &[record], false);
    let (day, batch) = world.writer.keeper.poll_write(at(DAY)).unwrap();
    assert_eq!((day, batch.rounds.len()), (Day::of(at(DAY).wall), 0), "its round is there");
    // Its last incident about its life is that it was killed.
    world.flush(at(DAY));
    assert_eq!(world.kinds()[0], IncidentKind::Crashed);
}

/// An answer would lack the rows that are not converted yet. A commit that forgets a task does not wait for them.
#[test]
fn questions_wait_for_the_conversion_and_the_store_does_not() {
    let mut world = with_old(OLD);
    std::fs::write(world.folder.path().join("history/2016-11-23.llh"), OLD).unwrap();
    let (asks, asked) = mpsc::channel();
    world.writer = Writer::new(Folder::of(world.folder.path()), LIMITS, Arc::default(), asks);
    world.writer.begin(at(DAY), &[], false);
    let what = What::Incidents { kind: None, page: PAGE };
    let question = Box::new(Question { filter: all(), what });
    world.writer.take(at(DAY), Job::Ask(Asked { to: Address::of_no_door(), kind: "HISTORY/INCIDENTS", question }));
    world.rounds(at(DAY), &[(Round(0), finished(DAY, 0, "t", Outcome::Failed, false))]);
    world.flush(at(DAY));
    assert_eq!(answer(&world).0.len() as u64, ROUNDS + 1, "the round that has just ended is written");
    assert!(asked.try_recv().is_err(), "one of two files is converted");
    world.flush(at(DAY));
    assert!(asked.try_recv().is_ok());
}

/// Whatever stands in an old file, the controller starts, the readable blocks are read, and a damaged file is kept.
#[test]
fn a_file_that_is_cut_or_wrong_anywhere_stops_nothing() {
    let start = |bytes: &[u8]| {
        let mut world = with_old(bytes);
        world.restart(at(DAY), &[]);
        world.flush(at(DAY));
        assert!(!old_path(&world).exists());
        let (rounds, damaged) = answer(&world);
        let aside = world.folder.path().join("history/2016-11-24.llh.aside-1");
        assert_eq!(aside.exists(), damaged.is_some());
        assert!(damaged.is_none() || std::fs::read(aside).unwrap() == bytes);
        (rounds.len() as u64, damaged.is_some())
    };
    for at in (0..OLD.len()).step_by(23) {
        let (rounds, is_damaged) = start(&OLD[..at]);
        assert!(rounds <= ROUNDS && !is_damaged, "a controller that is killed leaves such a file: {at}");
        let mut bytes = OLD.to_vec();
        bytes[at] ^= 0x10;
        let (rounds, is_damaged) = start(&bytes);
        assert!(is_damaged && (ROUNDS - 5..=ROUNDS).contains(&rounds), "a wrong byte costs one block: {at}");
    }
    for bytes in [&b""[..], b"x", b"\x89LLH"] {
        assert_eq!(start(bytes), (0, false));
    }
    assert_eq!(start(&[0x89; 500]), (0, true));
    assert_eq!(start(&[b"noise".repeat(100).as_slice(), OLD].concat()), (ROUNDS, true));
    let world = World::new();
    std::fs::create_dir_all(old_path(&world)).unwrap();
    let mut world = world;
    world.restart(at(DAY), &[]);
    world.flush(at(DAY));
    assert_eq!(world.kinds(), [IncidentKind::Started]);
}
