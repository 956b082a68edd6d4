//! The answers for the screens of people: rows of tasks, and the state of the service.
#![cfg(test)]

use super::*;
use api::wire::client::{Ask, Selector};
use api::wire::requests::history::SortKey;
use api::wire::requests::rows::{Order, Rows, RowsAsk, TASK_ROWS, rows};
use api::wire::requests::status::{SERVICE_STATUS, Status, status};
use api::wire::{Narrowing, brief};
use base::ShownState;

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

#[test]
fn a_run_longer_than_those_of_its_tool_stands_out() {
    let mut world = World::new();
    for _ in 0..8 {
        let task = world.task();
        world.exits("a", task, 0, 0);
    }
    let slow = world.task();
    world.runs("a", slow, Round(0));
    let longer = || narrowed(Narrowing { runs_longer: true, ..Narrowing::default() });
    assert_eq!(table(&mut world, &longer()).total, 0, "it has just begun");
    world.pass_with(seconds(5.0), &[("a", Some((slow, Round(0))))]);
    let found = table(&mut world, &longer());
    assert_eq!((ids(&found), found.rows[0].usual().is_some()), (vec![slow.to_string()], true));
    assert_eq!(screen(&mut world).running[0].id(), slow.to_string());
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
