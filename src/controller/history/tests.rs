mod conversion;
mod damage;
mod files;
mod measure;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::history::rules::Day;
use api::wire::page::Page;
use api::wire::requests::history::{GroupKey, HistoryAnswer, HistoryPage, RoundFilter, SortKey, What};
use base::{
    AgentId, Assignment, ExitCode, Mono, Outcome, PastRound, PhaseTimes, Policy, Round, RoundEnd, RoundOutcome,
    RunResult, TaskId, TaskRecord, TaskState, ToolName, Wall,
};
use engine::Record;

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
    /// Those of readers.
    jobs: (Sender<Job>, Receiver<Job>),
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer_in(folder.path());
        Self { folder, writer, sent: 0, jobs: mpsc::channel() }
    }

    fn rounds(&mut self, now: Now, rounds: &[(Round, TaskRecord)]) {
        let rounds: Vec<_> = rounds.iter().map(|(round, record)| (*round, Box::new(record.clone()))).collect();
        self.sent += rounds.len() as u64;
        self.writer.add(now, self.sent, &rounds);
    }

    /// Writes the last rounds of these tasks.
    fn write(&mut self, now: Now, records: &[TaskRecord]) {
        let rounds: Vec<_> = records.iter().map(|record| (record.round, record.clone())).collect();
        self.rounds(now, &rounds);
        self.flush(now);
    }

    fn flush(&mut self, now: Now) {
        self.writer.take(now, Job::Flush);
        self.writer.turn(now);
    }

    /// kill -9, and the next start.
    fn restart(&mut self, now: Now, stored: &[TaskRecord]) {
        self.writer = writer_in(self.folder.path());
        self.writer.begin(now, stored, false);
    }

    fn ask(&self, filter: RoundFilter, what: What) -> HistoryAnswer {
        let folder = Folder::of(self.folder.path());
        Reader::new(&folder, 100_000, &self.jobs.0).answer(&Question { filter, what }).unwrap()
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

const LIMITS: HistoryLimits = HistoryLimits {
    keep_days: KEEP_DAYS,
    keep_bytes_max: u64::MAX,
    syncs: false,
    page_max: 100_000,
    page_bytes: PageBytes(1 << 20),
};

fn writer_in(state_dir: &Path) -> Writer {
    Writer::new(Folder::of(state_dir), LIMITS, Arc::default(), mpsc::channel().0)
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
    assert_eq!(files.keys().next().map(|day| day.begin().micros()), Some(first));
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
    let equal = |is_reversed| {
        let answer = world.ask(all(), What::Rounds { sort: SortKey::Waited, is_reversed, page: newest });
        let HistoryPage::Rounds(rounds) = answer.found else { panic!("other rows") };
        rounds.into_iter().map(|round| round.task).collect::<Vec<_>>()
    };
    assert_eq!((equal(false), equal(true)), (ids(&[9_999, 9_998]), ids(&[0, 1])), "all have waited as long");
    let of_task = RoundFilter { task: Some(records[77].id), ..all() };
    assert_eq!(world.list(of_task, SortKey::Ended, PAGE), (1, ids(&[77])));
    let of_letters = RoundFilter { letters: Some(records[77].id.letters()), ..all() };
    assert_eq!(world.list(of_letters, SortKey::Ended, newest).0, 10_000, "all have the same letters");
    let of_others = RoundFilter { letters: Some(*b"abcde"), ..all() };
    assert_eq!(world.list(of_others, SortKey::Ended, PAGE), (0, vec![]));
    let quoted = RoundFilter { tool: Some("fetch' OR 'a' = 'a".to_owned()), ..all() };
    assert_eq!(world.list(quoted, SortKey::Ended, PAGE), (0, vec![]));
    let unknown = RoundFilter { tool: Some("unknown".to_owned()), ..all() };
    assert_eq!(world.list(unknown, SortKey::Ended, PAGE), (0, vec![]));
}

#[test]
fn a_text_is_found_in_capitals_or_not_and_hidden_commands_cannot_be_guessed() {
    let mut world = World::new();
    let mut rounds = Vec::new();
    let work =
        [("convert", r#""__GIVEN_ID__":"ÜBUNG 7""#), ("Fetch", ""), ("", r#""__SHELL__":"echo Übung > /srv/hunter2""#)];
    for (number, (tool, submitted)) in (1..).zip(work) {
        let mut record = finished(DAY + number * 1_000_000, 1_000, "x", Outcome::Succeeded, number == 1);
        record.tool = if tool.is_empty() { ToolName::command() } else { ToolName::new(tool).unwrap() };
        record.submitted = submitted.into();
        rounds.extend((0..=record.round.0).map(|round| (Round(round), record.clone())));
    }
    world.rounds(at(DAY), &rounds);
    world.flush(at(DAY));
    let found = |text: &str, is_last, sees_commands| {
        let filter = RoundFilter { text: Some(text.to_owned()), is_last, sees_commands, ..all() };
        let (total, ids) = world.list(filter, SortKey::Ended, PAGE);
        assert_eq!(total, ids.len());
        ids.into_iter().map(|id| (id.wall().micros() - START - DAY) / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(found("übung", false, true), [3, 1, 1]);
    assert_eq!(found("übung", true, true), [3, 1], "the first round of the first task had another one behind it");
    assert_eq!((found("übung", true, false), found("hunter", true, false)), (vec![1], vec![]));
    assert_eq!(
        (found("fetch", true, false), found("hunter", true, true), found("x", true, true)),
        (vec![2], vec![3], vec![])
    );
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
