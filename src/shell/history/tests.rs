use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::engine::controller::Record;
use crate::engine::history::Day;
use crate::protocol::page::Page;
use crate::protocol::requests::history::{GroupKey, HistoryAnswer, HistoryPage, RoundFilter, SortKey, What};
use crate::shell::clock;
use crate::types::{
    AgentId, Assignment, ExitCode, Mono, Outcome, PastRound, PhaseTimes, Policy, Round, RoundEnd, RoundOutcome,
    RunResult, TaskId, TaskState, ToolName, Wall,
};

const START: u64 = 1_480_000_000_000_000;
const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;
const KEEP_DAYS: u32 = 30;
const OUTCOMES: [Outcome; 4] = [Outcome::Succeeded, Outcome::Failed, Outcome::TimedOut, Outcome::Lost];

fn at(micros: u64) -> Now {
    Now { mono: Mono::from_nanos(micros * 1000), wall: Wall::from_micros(START + micros) }
}

/// A task that ended at this moment after a run of these microseconds, with a lost round before it if `is_second`.
fn finished(ended: u64, ran: u64, tool: &str, outcome: Outcome, is_second: bool) -> TaskRecord {
    let wall = |micros: u64| Wall::from_micros(START + micros);
    let submitted = wall(ended - ran);
    let id = TaskId::new(Wall::from_micros(START + ended), [7; 5]);
    let times = PhaseTimes { run: Some(submitted), end: Some(wall(ended)), ..PhaseTimes::default() };
    let agent = AgentId::new("agent-1").unwrap();
    let run = Assignment {
        agent,
        dispatched_at: submitted,
        dispatched: None,
        after_commit: false,
        batch_delay: Duration::ZERO,
        times,
        lease: None,
        ahead: None,
        host: None,
        progress: None,
    };
    let result = Arc::new(RunResult::of(ExitCode(i32::from(outcome != Outcome::Succeeded)), String::new()));
    let mut record =
        TaskRecord::accepted(id, ToolName::new(tool).unwrap(), "".into(), Arc::new(Policy::default()), submitted);
    if is_second {
        record.round = Round(1);
        let past = PastRound { round: Round(0), at: submitted, end: RoundEnd::Lost, assignment: None, result: None };
        record.past.push(past);
    }
    record.state = TaskState::Finished { at: wall(ended), outcome, run: Some((Box::new(run), Some(result))) };
    record
}

/// A writer without its thread.
struct World {
    folder: tempfile::TempDir,
    writer: Writer,
    sent: u64,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer_in(folder.path());
        Self { folder, writer, sent: 0 }
    }

    fn rounds(&mut self, now: Now, rounds: &[(Round, TaskRecord)]) {
        let rounds: Vec<_> = rounds.iter().map(|(round, record)| (*round, Box::new(record.clone()))).collect();
        self.sent += rounds.len() as u64;
        self.writer.add(now, self.sent, &rounds);
    }

    fn flush(&mut self, now: Now) {
        self.writer.take(now, Job::Flush);
        self.writer.turn(now);
    }

    /// kill -9, and the next start.
    fn restart(&mut self, now: Now, stored: &[TaskRecord]) {
        self.writer = writer_in(self.folder.path());
        self.writer.begin(now, stored);
    }

    fn ask(&self, filter: RoundFilter, what: What) -> HistoryAnswer {
        let folder = Folder::of(self.folder.path());
        Reader { folder: &folder, page_max: 100_000 }.answer(&Question { filter, what }).unwrap()
    }

    fn list(&self, filter: RoundFilter, sort: SortKey, page: Page) -> (usize, Vec<TaskId>) {
        let answer = self.ask(filter, What::Rounds { sort, is_reversed: false, page });
        let HistoryPage::Rounds(rounds) = answer.found else { panic!("other rows") };
        (answer.page.total, rounds.into_iter().map(|round| round.task).collect())
    }

    fn kinds(&self) -> Vec<IncidentKind> {
        let answer = self.ask(all(), What::Incidents { kind: None, page: PAGE });
        let HistoryPage::Incidents(incidents) = answer.found else { panic!("other rows") };
        incidents.into_iter().map(|incident| incident.kind).collect()
    }
}

const PAGE: Page = Page { offset: 0, limit: None };

fn all() -> RoundFilter {
    RoundFilter::between(Wall::default(), Wall::from_micros(u64::MAX))
}

fn writer_in(state_dir: &Path) -> Writer {
    let folder = Folder::of(state_dir);
    let appender = Appender::new(folder.clone(), false);
    Writer::new(Keeper::new(KEEP_DAYS), folder, appender, KEEP_DAYS, Arc::default(), mpsc::channel().0)
}

type Counts = BTreeMap<(u64, String, RoundOutcome), u64>;

fn counted(world: &World) -> Counts {
    let by = vec![GroupKey::Hour, GroupKey::Tool, GroupKey::Outcome];
    let answer = world.ask(all(), What::Summary { by, clock_ahead: 0, page: PAGE });
    assert_eq!(answer.damaged, None);
    let HistoryPage::Summary(groups) = answer.found else { panic!("other rows") };
    assert_eq!(answer.page.total, groups.len());
    let mut counts = Counts::new();
    for group in groups {
        let hour = group.key[0].1.parse::<u64>().unwrap() * 1_000_000 / HOUR;
        for (outcome, count) in RoundOutcome::ALL.into_iter().zip(group.counts).filter(|(_, count)| *count > 0) {
            counts.insert((hour, group.key[1].1.clone(), outcome), count);
        }
    }
    counts
}

/// The controller is killed every few hours; its store has the tasks of a day.
#[test]
fn forty_days_are_counted_exactly_and_thirty_are_kept() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut world = World::new();
    let (mut stored, mut expected) = (Vec::new(), Counts::new());
    let mut kills = 0;
    world.restart(at(DAY), &stored);
    for hour in 24..24 * 41 {
        let mut ends: Vec<u64> = (0..random.random_range(0..40)).map(|_| random.random_range(0..HOUR)).collect();
        ends.sort_unstable();
        ends.dedup();
        for end in ends {
            let (ended, ran) = (hour * HOUR + end, random.random_range(0..HOUR));
            let tool = ["convert", "fetch", "report"][random.random_range(0..3)];
            let (outcome, is_second) = (OUTCOMES[random.random_range(0..4)], random.random_ratio(1, 5));
            let record = finished(ended, ran, tool, outcome, is_second);
            let hour_of = |micros: u64| (START + micros) / HOUR;
            let mut rounds = vec![(record.round, record.clone())];
            *expected.entry((hour_of(ended), tool.to_owned(), RoundOutcome::Ended(outcome))).or_default() += 1;
            if is_second {
                rounds.insert(0, (Round(0), record.clone()));
                let lost = RoundOutcome::Ended(Outcome::Lost);
                *expected.entry((hour_of(ended - ran), tool.to_owned(), lost)).or_default() += 1;
            }
            world.rounds(at(ended), &rounds);
            world.writer.turn(at(ended));
            stored.push(record);
            if random.random_ratio(1, 100) {
                kills += 1;
                world.restart(at(ended), &stored);
            }
        }
        let kept = START + (hour + 1) * HOUR - DAY;
        stored.retain(|record| record.id.wall().micros() > kept);
    }
    let now = at(24 * 41 * HOUR);
    world.flush(now);
    let first = Day::first_kept(now.wall, KEEP_DAYS).begin().micros();
    expected.retain(|(hour, ..), _| hour * HOUR >= first);
    assert_eq!(counted(&world), expected);
    assert!(kills > 100 && expected.len() > 5_000, "{kills} kills, {} groups", expected.len());
    let files = Folder::of(world.folder.path()).days().unwrap();
    assert_eq!(files.len(), KEEP_DAYS as usize + 1);
    assert_eq!(files.first().map(|day| day.begin().micros()), Some(first));
}

#[test]
fn rounds_are_filtered_sorted_and_shown_in_pages() {
    let mut world = World::new();
    let record = |number: u64| {
        let tool = if number.is_multiple_of(2) { "convert" } else { "fetch" };
        // Run times in another order than the ends.
        finished(DAY + number * 1_000_000, (number * 7919) % 10_007, tool, OUTCOMES[number as usize % 4], false)
    };
    let records: Vec<_> = (0..10_000).map(record).collect();
    for chunk in records.chunks(3_000) {
        let rounds: Vec<_> = chunk.iter().map(|record| (Round(0), record.clone())).collect();
        world.rounds(at(DAY), &rounds);
        world.flush(at(DAY));
    }
    let filter = RoundFilter {
        outcomes: vec![RoundOutcome::Ended(Outcome::Failed), RoundOutcome::Ended(Outcome::Lost)],
        tool: Some("fetch".to_owned()),
        ..RoundFilter::between(at(DAY + 1_000_000_000).wall, at(DAY + 9_000_000_000).wall)
    };
    let matching = |number: &u64| (1_000..9_000).contains(number) && number % 2 == 1;
    let mut expected: Vec<u64> = (0..10_000).filter(matching).collect();
    expected.sort_by_key(|number| std::cmp::Reverse(((number * 7919) % 10_007, *number)));
    let ids = |numbers: &[u64]| -> Vec<TaskId> { numbers.iter().map(|number| records[*number as usize].id).collect() };
    for (offset, limit) in [(0, 10), (10, 100), (3_990, 100)] {
        let page = Page { offset, limit: Some(limit) };
        let end = expected.len().min(offset + limit);
        assert_eq!(world.list(filter.clone(), SortKey::Ran, page), (expected.len(), ids(&expected[offset..end])));
    }
    let newest = Page { offset: 0, limit: Some(2) };
    assert_eq!(world.list(all(), SortKey::Ended, newest), (10_000, ids(&[9_999, 9_998])));
    let of_task = RoundFilter { task: Some(records[77].id), ..all() };
    assert_eq!(world.list(of_task, SortKey::Ended, PAGE), (1, ids(&[77])));
    let unknown = RoundFilter { tool: Some("unknown".to_owned()), ..all() };
    assert_eq!(world.list(unknown, SortKey::Ended, PAGE), (0, vec![]));
}

/// The sentence names the file, and the other rows are there. The next start adds those of tasks that the store still has.
#[test]
fn a_damaged_block_is_named_and_added_again() {
    let mut world = World::new();
    let records: Vec<_> = (0..30).map(|number| finished(DAY + number, 0, "t", Outcome::Failed, false)).collect();
    for chunk in records.chunks(10) {
        let rounds: Vec<_> = chunk.iter().map(|record| (Round(0), record.clone())).collect();
        world.rounds(at(DAY), &rounds);
        world.flush(at(DAY));
    }
    let path = Folder::of(world.folder.path()).path_of(Day::of(at(DAY).wall));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let list = |world: &World| world.ask(all(), What::Rounds { sort: SortKey::Ended, is_reversed: false, page: PAGE });
    let answer = list(&world);
    let sentence = answer.damaged.unwrap();
    assert!(sentence.starts_with(&format!("{} is damaged at byte ", path.display())), "{sentence}");
    assert!(sentence.ends_with("; 10 rows in 1 damaged block(s) are left out"), "{sentence}");
    assert_eq!(answer.page.total, 20);
    // The task of one row is forgotten.
    let mut kept = records;
    kept.remove(15);
    for _ in 0..2 {
        world.restart(at(DAY + 100), &kept);
        world.flush(at(DAY + 100));
        let answer = list(&world);
        assert_eq!(answer.page.total, 29);
        let sentence = answer.damaged.unwrap();
        assert!(sentence.ends_with("; 1 rows in 1 damaged block(s) are left out"), "{sentence}");
    }
}

/// The next start adds the rounds of the store that were behind the cut, and no other. Nothing is damaged after it.
#[test]
fn a_file_that_is_cut_anywhere_has_every_round_once_after_the_next_start() {
    let mut world = World::new();
    let days = [DAY, 2 * DAY];
    let mut records = Vec::new();
    for begin in days {
        for block in 0..3 {
            let incident = Incident { at: at(begin).wall, kind: IncidentKind::AgentLost, text: block.to_string() };
            world.writer.take(at(begin), Job::Incident(incident));
            // Blocks of different lengths, so that an old header does not fit a new block.
            for number in 0..=block {
                let record = finished(begin + block * 10 + number, 0, "t", Outcome::Failed, false);
                world.rounds(at(begin), &[(Round(0), record.clone())]);
                records.push(record);
            }
            world.flush(at(begin));
        }
    }
    let mut expected: Vec<_> = records.iter().map(|record| record.id).collect();
    expected.reverse();
    let folder = Folder::of(world.folder.path());
    let now = at(2 * DAY + 100);
    let files = days.map(|begin| folder.path_of(Day::of(at(begin).wall)));
    let whole = files.clone().map(|path| std::fs::read(path).unwrap());
    for (cut, bytes) in files.iter().zip(&whole) {
        for len in 0..bytes.len() {
            for (path, bytes) in files.iter().zip(&whole) {
                std::fs::write(path, bytes).unwrap();
            }
            std::fs::write(cut, &bytes[..len]).unwrap();
            let kept = world.kinds().len();
            for start in 1..=2 {
                world.restart(now, &records);
                world.flush(now);
                let case = format!("{} of {len} bytes, start {start}", cut.display());
                assert_eq!(world.list(all(), SortKey::Ended, PAGE), (expected.len(), expected.clone()), "{case}");
                let answer = world.ask(all(), What::Rounds { sort: SortKey::Ended, is_reversed: false, page: PAGE });
                assert_eq!(answer.damaged, None, "{case}");
                assert_eq!(world.kinds().len(), kept + start, "{case}");
            }
        }
    }
}

#[test]
fn damage_that_cost_no_row_is_not_told_any_more() {
    let mut world = World::new();
    let records = [finished(DAY, 0, "t", Outcome::Failed, false), finished(DAY + 1, 0, "t", Outcome::Failed, false)];
    for record in &records {
        world.rounds(at(DAY), &[(Round(0), record.clone())]);
        world.flush(at(DAY));
    }
    let path = Folder::of(world.folder.path()).path_of(Day::of(at(DAY).wall));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[50] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let ask = |world: &World| world.ask(all(), What::Rounds { sort: SortKey::Ended, is_reversed: false, page: PAGE });
    assert!(ask(&world).damaged.is_some());
    world.restart(at(DAY + 100), &records);
    world.flush(at(DAY + 100));
    let answer = ask(&world);
    assert_eq!((answer.page.total, answer.damaged), (2, None));
}

/// Damage elsewhere in the file is not that of the answer.
#[test]
fn damage_is_counted_if_its_rows_could_be_in_the_answer() {
    let mut world = World::new();
    world.restart(at(DAY), &[]);
    for number in 0..3 {
        let record = finished(DAY + number * 1000, 0, "t", Outcome::Failed, false);
        world.rounds(at(DAY), &[(Round(0), record)]);
        world.flush(at(DAY));
    }
    let path = Folder::of(world.folder.path()).path_of(Day::of(at(DAY).wall));
    let mut found = Vec::new();
    super::frames::frames(&std::fs::File::open(&path).unwrap(), |frame| {
        found.push(frame.unwrap());
        Ok(())
    })
    .unwrap();
    let spoil = |place: u64| {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[usize::try_from(place).unwrap()] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    };
    let rounds = || What::Rounds { sort: SortKey::Ended, is_reversed: false, page: PAGE };
    let of_kind = |kind| found.iter().filter(move |frame| frame.kind == kind);
    let is_incident = |kind| kind == crate::engine::history::WriteKind::Incidents;
    found.iter().filter(|frame| is_incident(frame.kind)).for_each(|frame| spoil(frame.end() - 1));
    assert_eq!(world.ask(all(), rounds()).damaged, None, "only incidents are damaged");
    let blocks: Vec<_> = of_kind(crate::engine::history::WriteKind::Rounds).collect();
    spoil(blocks[1].end() - 1);
    let said = world.ask(all(), rounds()).damaged.unwrap();
    assert!(said.ends_with("; 1 rows in 1 damaged block(s) are left out"), "{said}");
    let early = RoundFilter { until: at(DAY + 1).wall, ..all() };
    assert_eq!(world.ask(early, rounds()).damaged, None, "of a later time");
    spoil(blocks[2].at);
    let said = world.ask(all(), rounds()).damaged.unwrap();
    let counts = "; 1 rows in 1 damaged block(s), and the rows in 1 place(s) without a readable header, are left out";
    assert!(said.ends_with(counts), "{said}");
}

#[test]
fn a_start_tells_whether_the_one_before_was_stopped() {
    let mut world = World::new();
    for second in 0..2 {
        world.restart(at(DAY + second * 1_000_000), &[]);
        world.flush(at(DAY + second * 1_000_000));
    }
    let stopped = Incident { at: at(DAY + 2_000_000).wall, kind: IncidentKind::Stopped, text: "x".to_owned() };
    world.writer.take(at(DAY + 2_000_000), Job::Incident(stopped));
    world.flush(at(DAY + 2_000_000));
    world.restart(at(DAY + 3_000_000), &[]);
    world.flush(at(DAY + 3_000_000));
    assert_eq!(
        world.kinds(),
        [IncidentKind::Started, IncidentKind::Stopped, IncidentKind::Crashed, IncidentKind::Started]
    );
}

/// A wake-up for each end of a task would take a core from those that report it.
#[test]
fn ended_rounds_wake_the_thread_once_until_it_fetches_them() {
    let (jobs, incoming) = mpsc::channel();
    let progress = Arc::new(Progress::default());
    let mut feed = Feed::new(jobs, Arc::clone(&progress));
    let end = |ended| Record::Round(Round(0), Box::new(finished(ended, 1000, "convert", Outcome::Succeeded, false)));
    for _ in 0..2 {
        (1..4).for_each(|second| feed.after_commit(&mut vec![end(second * 1_000_000)]));
        assert!(matches!(incoming.try_recv(), Ok(Job::Rounds)));
        assert!(incoming.try_recv().is_err(), "one wake-up for all of them");
        assert_eq!(std::mem::take(&mut progress.ended().rounds).len(), 3);
    }
    assert_eq!(progress.ended().last, 6);
}

/// Not a test: writes a day of a million rounds into the folder that `HISTORY_OUT` names, to measure questions about it.
#[test]
#[ignore = "makes files for a measurement"]
fn a_day_of_a_million_rounds() {
    let Some(out) = std::env::var_os("HISTORY_OUT") else { return };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut writer = writer_in(Path::new(&out));
    let begin = Day(Day::of(clock::now().wall).0 - 1).begin().micros() - START;
    for number in 0..1_000_000 {
        let ended = begin + number * (DAY / 1_000_000);
        let tool = ["convert", "fetch", "report", "thumbnail"][random.random_range(0..4)];
        let outcome = if random.random_ratio(1, 50) { Outcome::Failed } else { Outcome::Succeeded };
        let record = finished(ended, random.random_range(0..3_000_000), tool, outcome, false);
        writer.add(at(ended), number, &[(Round(0), Box::new(record))]);
        writer.turn(at(ended));
    }
    writer.take(at(begin + DAY), Job::Flush);
    writer.turn(at(begin + DAY));
}

/// Opening it for reading would wait for a writer for ever.
#[test]
fn a_fifo_in_the_folder_is_named_and_holds_nothing_up() {
    let ground = tempfile::tempdir().unwrap();
    let folder = super::folder::Folder::of(ground.path());
    let path = folder.path_of("2026-01-31".parse::<Day>().unwrap());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let day = folder.days().unwrap().into_iter().next().unwrap();
    let error = folder.open(day).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()) && error.contains("no regular file"), "{error}");
    std::fs::remove_file(&path).unwrap();
    assert!(folder.open(day).unwrap().is_none());
}
