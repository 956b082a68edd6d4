//! The answers for the screens of people: rows of tasks, and the state of the service.
#![cfg(test)]

use super::*;
use api::wire::client::{Ask, Selector};
use api::wire::requests::history::SortKey;
use api::wire::requests::rows::{Order, Rows, RowsAsk, TASK_ROWS, rows};
use api::wire::requests::status::{Followed, SERVICE_STATUS, Status, StatusAsk, changes, status};
use api::wire::{Narrowing, brief};
use base::{Incident, IncidentKind, ShownState};

fn asked<A>(world: &mut World, kind: Kind, ask: &Ask<A>) -> A {
    let mut fields = ask.fields().clone();
    fields.remove(words::TYPE);
    let reply = world.send(kind, &fields);
    ask.decode(&reply::encode(kind.word, &reply, PageBytes(1 << 20))).unwrap()
}

fn table(world: &mut World, wanted: &RowsAsk) -> Rows {
    asked(world, TASK_ROWS, &rows(&Selector::all(), wanted, 0, 10))
}

fn screen(world: &mut World) -> Status {
    asked(world, SERVICE_STATUS, &status())
}

fn ids(rows: &Rows) -> Vec<String> {
    rows.rows.iter().map(|row| row.id().to_owned()).collect()
}

fn narrowed(narrowing: Narrowing) -> RowsAsk {
    RowsAsk { narrowing, ..RowsAsk::default() }
}

#[test]
fn a_row_says_what_a_task_does_and_why_it_is_as_it_is() {
    let mut world = World::new();
    let failed = world.submitted(&Fields::new().with("in", "film7.mov").with(words::GIVEN_ID, "mine"));
    let said = RunResult { stderr_tail: "reading\ncorrupt header\n".into(), ..result(3) };
    world.runs("a", failed, Round(0));
    world.ends("a", failed, Round(0), said);
    let running = world.task();
    world.runs("a", running, Round(0));
    let waiting = world.task();
    let held = world.task();
    world.do_to(TASK_HOLD, held);
    let found = table(&mut world, &RowsAsk::default());
    let shown: Vec<_> =
        found.rows.iter().map(|row| (row.state().word(), row.what(), row.why(), row.given_id())).collect();
    assert_eq!(
        shown,
        [
            ("held", "t", "held", ""),
            ("waiting", "t", "next; agents are busy", ""),
            ("running", "t", "", ""),
            ("failed", "t in=film7.mov", "corrupt header", "mine")
        ]
    );
    assert_eq!((found.total, found.states.failures(), found.states.of(ShownState::Held)), (4, 1, 1));
    assert_eq!(found.rows[1].id(), waiting.to_string());
}

#[test]
fn rows_are_narrowed_down_and_counted() {
    let mut world = World::new();
    let one = world.submitted(&Fields::new().with("in", "Film7.mov"));
    let other = world.submitted(&Fields::new().with("in", "film8.mov"));
    world.exits("a", one, 0, 1);
    let mut found = |narrowing| ids(&table(&mut world, &narrowed(narrowing)));
    let by_state = |state| Narrowing { states: vec![state], ..Narrowing::default() };
    assert_eq!(found(by_state(ShownState::Finished(Outcome::Failed))), [one.to_string()]);
    assert_eq!(found(by_state(ShownState::Waiting)), [other.to_string()]);
    assert_eq!(found(by_state(ShownState::Running)), [""; 0]);
    let text = Narrowing { text: Some("film7".into()), ..Narrowing::default() };
    assert_eq!(found(text), [one.to_string()]);
    let letters = Narrowing { letters: Some(other.letters()), ..Narrowing::default() };
    assert_eq!(found(letters), [other.to_string()]);
    let old = Narrowing { since: Some(Wall::from_micros(u64::MAX >> 12)), ..Narrowing::default() };
    assert_eq!(found(old), [other.to_string()], "what has not ended is not older");
    let until = |micros: u64| Narrowing { until: Some(Wall::from_micros(micros)), ..Narrowing::default() };
    assert_eq!(found(until(0)), [""; 0]);
    assert_eq!(found(until(u64::MAX >> 12)).len(), 2, "one has ended, and one waits since before that");
    let refused = world.send(TASK_ROWS, &Fields::new().with(words::STATES, "failed,odd"));
    let Reply::Refused(refusal) = refused else { panic!("{refused:?}") };
    assert!(refusal.message.contains("failed,odd") && refusal.message.contains("timed out"), "{}", refusal.message);
}

/// A substring would tell the text of a command letter by letter.
#[test]
fn a_stranger_finds_no_command_by_its_text() {
    let mut world = World::new();
    let command = Fields::new().with(words::SHELL, "login --password hunter2").with(words::GIVEN_ID, "nightly");
    let Reply::Submitted { task, .. } = world.send(TASK_SUBMIT, &command) else { panic!() };
    let by = |text: &str| narrowed(Narrowing { text: Some(text.into()), ..Narrowing::default() });
    assert_eq!(ids(&table(&mut world, &by("hunter2"))), [task.to_string()]);
    world.is_stranger = true;
    assert_eq!(ids(&table(&mut world, &by("hunter2"))), [""; 0]);
    assert_eq!(ids(&table(&mut world, &by("nightly"))), [task.to_string()], "the given id is for all");
}

#[test]
fn rows_come_in_the_order_that_is_asked_for() {
    let mut world = World::new();
    let tasks = [world.task(), world.task(), world.task()];
    for (task, took) in tasks.iter().zip([2.0, 3.0, 1.0]) {
        world.runs("a", *task, Round(0));
        let begun = world.now.wall;
        world.pass_with(seconds(took), &[("a", Some((*task, Round(0))))]);
        let mut report = report_of(*task, Round(0), Phase::Finished, Some(result(0)));
        (report.times.run, report.times.end) = (Some(begun), Some(world.now.wall));
        let _ = world.say("a", FromAgent::Report(Box::new(report)));
    }
    let order = |by, is_reversed| RowsAsk { order: Order { by, is_reversed }, ..RowsAsk::default() };
    let [first, second, third] = tasks.map(|task| task.to_string());
    let mut found = |by, is_reversed| ids(&table(&mut world, &order(by, is_reversed)));
    assert_eq!(found(SortKey::Submitted, false), [third.clone(), second.clone(), first.clone()]);
    assert_eq!(found(SortKey::Ran, false), [second.clone(), first.clone(), third.clone()]);
    assert_eq!(found(SortKey::Ended, true), [first.clone(), second.clone(), third.clone()]);
    assert_eq!(
        found(SortKey::Waited, false),
        [third.clone(), second.clone(), first.clone()],
        "all have waited as long"
    );
    assert_eq!(found(SortKey::Waited, true), [first, second, third]);
}

/// A client that sorts pages again has what the rows show.
#[test]
fn ended_tasks_come_in_the_order_of_the_ends_that_rows_show() {
    let mut world = World::new();
    let begin = world.now.wall;
    let mut ends = |seconds: u64| {
        let task = world.task();
        world.runs("a", task, Round(0));
        let mut report = report_of(task, Round(0), Phase::Finished, Some(result(0)));
        report.times.finish = Some(Wall::from_micros(begin.micros() + seconds * 1_000_000));
        let _ = world.say("a", FromAgent::Report(Box::new(report)));
        task.to_string()
    };
    let expected = [ends(3), ends(2), ends(1)];
    let ask = RowsAsk { order: Order { by: SortKey::Ended, is_reversed: false }, ..RowsAsk::default() };
    assert_eq!(ids(&table(&mut world, &ask)), expected);
}

/// A run at agent a, after enough quick ones of its tool to tell which time is usual.
fn run_after_quick_ones(world: &mut World) -> TaskId {
    for _ in 0..8 {
        let task = world.task();
        world.exits("a", task, 0, 0);
    }
    let slow = world.task();
    world.runs("a", slow, Round(0));
    slow
}

#[test]
fn a_run_longer_than_those_of_its_tool_stands_out() {
    let mut world = World::new();
    let slow = run_after_quick_ones(&mut world);
    let longer = || narrowed(Narrowing { runs_longer: true, ..Narrowing::default() });
    assert_eq!(table(&mut world, &longer()).total, 0, "it has just begun");
    world.pass_with(seconds(5.0), &[("a", Some((slow, Round(0))))]);
    let found = table(&mut world, &longer());
    assert_eq!((ids(&found), found.rows[0].usual().is_some()), (vec![slow.to_string()], true));
    assert_eq!(screen(&mut world).running[0].id(), slow.to_string());
    assert_eq!(world.ends("a", slow, Round(0), result(0)), None);
    // Nine of ten runs did not exceed the usual time.
    for _ in 0..4 {
        let task = world.task();
        world.exits("a", task, 0, 0);
    }
    assert_eq!(ids(&table(&mut world, &longer())), [slow.to_string()], "it took longer");
}

#[test]
fn the_screen_counts_what_tasks_wait_for() {
    let mut world = World::new();
    world.set_gate("shut", Fields::new().with(words::MAX_RUNNING, 0u32));
    let running = world.task();
    world.runs("a", running, Round(0));
    world.task();
    world.task();
    world.submitted(&Fields::new().with(words::GATE, "shut"));
    world.submitted(&Fields::new().with(words::TAGS, "gpu"));
    world.submitted(&Fields::new().with(words::START_AFTER, world.moment(100.0)));
    world.submitted(&Fields::new().with(words::AFTER, running.to_string()));
    let held = world.task();
    world.do_to(TASK_HOLD, held);
    let screen = screen(&mut world);
    let count = |reason: &str| screen.waiting.iter().find(|(why, _)| why.contains(reason)).map(|(_, count)| *count);
    assert_eq!(count("agents are busy"), Some(2), "{:?}", screen.waiting);
    let after = format!("after {}", brief::short(running));
    for reason in ["gate shut full", "no agent has tag gpu", "starts ", &after, "held"] {
        assert_eq!(count(reason), Some(1), "{reason}: {:?}", screen.waiting);
    }
    assert_eq!(screen.waiting.iter().map(|(_, count)| count).sum::<u64>(), 7);
    assert_eq!((screen.agents.busy, screen.running.len(), screen.oldest_at.is_some()), (1, 1, true));
}

#[test]
fn the_screen_has_the_last_failures_and_the_rate() {
    let mut world = World::new();
    let failed = world.task();
    world.exits("a", failed, 0, 3);
    let fine = world.task();
    world.exits("a", fine, 0, 0);
    let killed = world.task();
    world.kill(killed);
    let shown = screen(&mut world);
    assert_eq!(shown.failed.iter().map(|row| row.id().to_owned()).collect::<Vec<_>>(), [failed.to_string()]);
    assert!(shown.rate > 0.0, "{}", shown.rate);
    world.do_to(TASK_RETRY, failed);
    assert!(screen(&mut world).failed.is_empty(), "it waits again");
    world.restart();
    assert_eq!(screen(&mut world).states.of(ShownState::Waiting), 1);
}

/// A reader that follows the state of the service.
struct Follower {
    known: Followed,
    waits: Option<Ticket>,
}

impl Follower {
    fn new(world: &mut World) -> Self {
        let mut follower = Self { known: Followed::default(), waits: None };
        follower.ask(world);
        assert!(follower.waits.is_none(), "the first answer comes at once");
        follower
    }

    fn ask(&mut self, world: &mut World) {
        let asked = changes(&self.known, seconds(30.0));
        let fields = asked.fields();
        let cursor = fields.text(words::CURSOR).map(|cursor| cursor.parse().unwrap());
        let ask = StatusAsk { cursor, wait: cursor.map(|_| seconds(30.0)) };
        match world.ask_later(Request::Status(ask)) {
            (_, Answer::Now(reply)) => self.learn(&reply),
            (ticket, _) => self.waits = Some(ticket),
        }
    }

    fn learn(&mut self, reply: &Reply) {
        let frame = reply::encode(SERVICE_STATUS.word, reply, PageBytes(1 << 20));
        self.known.apply(changes(&self.known, seconds(0.0)).decode(&frame).unwrap());
    }

    /// Takes the late answer, if it is there yet, and returns its size.
    fn hear(&mut self, world: &mut World) -> Option<usize> {
        let ticket = self.waits?;
        let place = world.replies.iter().position(|(to, _)| *to == ticket)?;
        let (_, reply) = world.replies.remove(place);
        self.waits = None;
        self.learn(&reply);
        Some(reply::encode(SERVICE_STATUS.word, &reply, PageBytes(1 << 20)).len())
    }
}

#[test]
fn a_reader_follows_the_service_by_its_changes() {
    let mut world = World::new();
    let first = world.task();
    world.runs("a", first, Round(0));
    (0..20).for_each(|_| {
        let failed = world.task();
        world.exits("b", failed, 0, 3);
    });
    let mut follower = Follower::new(&mut world);
    let whole = reply::encode(SERVICE_STATUS.word, &world.controller.status(world.now), PageBytes(1 << 20)).len();
    follower.ask(&mut world);
    assert!(follower.waits.is_some(), "nothing has changed");
    world.pass(seconds(0.6));
    assert_eq!(follower.hear(&mut world), None, "nothing happens");
    let task = world.task();
    assert_eq!(follower.hear(&mut world), None, "several changes share an answer");
    world.do_to(TASK_HOLD, task);
    world.pass(seconds(0.6));
    let part = follower.hear(&mut world).expect("an answer about the change");
    assert!(part * 4 < whole, "{part} of {whole} bytes");
    let status = follower.known.status();
    assert_eq!((status.states.of(ShownState::Held), status.waiting.len()), (1, 1));
    follower.ask(&mut world);
    assert_eq!(world.ends("a", first, Round(0), result(0)), None);
    world.pass(seconds(0.6));
    follower.hear(&mut world).expect("an answer about the end");
    let (known, whole) = (follower.known.status(), screen(&mut world));
    assert!(known.running.is_empty(), "what is gone is gone");
    let by_time = |status: Status| Status { now: Wall::default(), rate: 0.0, ..status };
    assert!(by_time(known.clone()) == by_time(whole.clone()), "{known:?}\n{whole:?}");
}

#[test]
fn a_reader_of_another_start_begins_anew() {
    let mut world = World::new();
    world.task();
    let mut follower = Follower::new(&mut world);
    world.restart();
    follower.ask(&mut world);
    assert!(follower.waits.is_none(), "its cursor is not known");
    assert_eq!(follower.known.status().states.of(ShownState::Waiting), 1);
}

/// The change may have been made by time alone.
#[test]
fn a_run_that_is_stuck_becomes_a_problem() {
    let mut world = World::new();
    let slow = run_after_quick_ones(&mut world);
    let mut follower = Follower::new(&mut world);
    assert!(follower.known.status().problems.is_empty(), "{:?}", follower.known.status().problems);
    follower.ask(&mut world);
    for _ in 0..20 {
        world.pass_with(seconds(1.0), &[("a", Some((slow, Round(0))))]);
        if follower.hear(&mut world).is_some() {
            follower.ask(&mut world);
        }
    }
    let problems = follower.known.status().problems;
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert!(problem.text.contains(&brief::short(slow)) && problem.hint.starts_with("llts show"), "{problem:?}");
}

#[test]
fn what_keeps_tasks_waiting_forever_is_a_problem() {
    let mut world = World::new();
    world.beat("a", None);
    world.submitted(&Fields::new().with(words::TAGS, "gpu"));
    world.set_gate("shut", Fields::new().with(words::CLOSED_UNTIL, base::UNTIL_OPENED.unix_seconds()));
    world.submitted(&Fields::new().with(words::GATE, "shut"));
    world.task();
    let text = "a connection was refused: wrong key".to_owned();
    let refused = Incident { at: world.now.wall, kind: IncidentKind::Refused, text };
    world.controller.handle_incident(world.now, refused);
    let problems = |world: &mut World| {
        screen(world).problems.into_iter().map(|problem| problem.text).collect::<Vec<_>>().join("; ")
    };
    let told = problems(&mut world);
    for part in ["1 task waits: no agent has tag gpu", "gate shut closed", "wrong key"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    world.pass(seconds(3_600.0));
    assert!(!problems(&mut world).contains("wrong key"), "it was long ago");
}

#[test]
fn a_full_queue_and_a_dead_supervisor_are_problems() {
    let mut world = World::with(|settings| settings.waiting_max = 2);
    world.beat("a", None);
    let problems = |world: &mut World| {
        screen(world).problems.into_iter().map(|problem| problem.text).collect::<Vec<_>>().join("; ")
    };
    for _ in 0..2 {
        assert_eq!(problems(&mut world), "");
        let task = world.submitted(&Fields::new());
        world.do_to(TASK_HOLD, task);
    }
    assert!(problems(&mut world).contains("the queue is full: 2 tasks wait (WAITING_TASKS_MAX)"));
    world.controller.handle_orphaned(world.now);
    assert!(problems(&mut world).starts_with("the supervisor was killed"));
}

/// Whatever happens in whatever order, the changes add up to the whole.
#[test]
fn the_changes_add_up_to_the_whole() {
    for seed in 0..30_u32 {
        let mut world = World::new();
        let mut follower = Follower::new(&mut world);
        let mut random = seed;
        let mut tasks = Vec::new();
        for _ in 0..60 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let dice = random >> 24;
            match dice % 8 {
                0 | 1 => tasks.push(world.submitted(&Fields::new().with(words::JOB, format!("j{}", dice % 3)))),
                2 => tasks.push(world.submitted(&Fields::new().with(words::TAGS, "gpu"))),
                3 => {
                    if let Some((task, round)) = world.apply(&format!("agent-{}", dice % 4)) {
                        let _ =
                            world.ends(&format!("agent-{}", dice % 4), task, round, result(i32::from(dice % 3 == 0)));
                    }
                }
                4 => tasks.last().into_iter().for_each(|task| {
                    let _ = world.send(TASK_HOLD, &Fields::new().with(words::TASK_ID, task.to_string()));
                }),
                5 => tasks.first().into_iter().for_each(|task| {
                    world.kill(*task);
                }),
                6 => world.pass(seconds(f64::from(dice % 5) / 4.0)),
                _ => follower.hear(&mut world).into_iter().for_each(drop),
            }
            if follower.waits.is_none() {
                follower.ask(&mut world);
            }
        }
        // The last change is told, and nothing after it.
        for _ in 0..4 {
            world.pass(seconds(6.0));
            follower.hear(&mut world);
            if follower.waits.is_none() {
                follower.ask(&mut world);
            }
        }
        let by_time =
            |status: Status| Status { now: Wall::default(), rate: 0.0, run_p50: None, pace: Vec::new(), ..status };
        let (known, whole) = (by_time(follower.known.status()), by_time(screen(&mut world)));
        assert!(known == whole, "seed {seed}: {known:?}\n{whole:?}");
    }
}
