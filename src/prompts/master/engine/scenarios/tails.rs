//! Clients that follow an output, and the budget.
#![cfg(test)]

use super::*;
use crate::wire::{ResultFile, TailPart, TailQuery};
use base::Usd;

fn query(offset: u64, run: Option<&str>) -> FromWorker {
    let run = run.map(str::to_owned);
    let query = Box::new(TailQuery { file: "a".into(), output: ResultFile::Out, offset, run, next: false });
    FromWorker::Tail { query, secret: None }
}

fn part(client: Connection, offset: u64) -> FromWorker {
    let bytes = b"text".to_vec();
    FromWorker::TailPart(Box::new(TailPart { tail: client.0, offset, bytes, ..TailPart::default() }))
}

/// The parts that a client has heard: offset, number of bytes, and whether it is the last.
#[track_caller]
fn parts(world: &mut World, client: Connection) -> Vec<(u64, usize, bool)> {
    let heard = world.heard(client).into_iter();
    let parts = heard.map(|message| match message {
        FromMaster::TailPart(part) => (part.offset, part.bytes.len(), part.ended),
        other => panic!("{other:?}"),
    });
    parts.collect()
}

#[test]
fn a_client_is_answered_by_the_worker_and_asks_again_after_a_while() {
    let mut world = World::new(&["a"]);
    let (worker, _) = world.rejoin(None, None);
    let run = world.takes_as_run(worker);
    world.heard(worker);
    let client = world.connect();
    world.says(client, query(0, None));
    let orders = world.heard(worker);
    let [FromMaster::Tail(order)] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!((order.tail, order.run.as_ref(), order.offset), (client.0, Some(&run), 0));
    // A part that was not asked for is none.
    world.says(worker, part(client, 7));
    assert_eq!(parts(&mut world, client), []);
    world.says(worker, part(client, 0));
    assert_eq!(parts(&mut world, client), [(0, 4, false)]);
    world.says(client, query(4, Some(&run.label())));
    world.wait(5.0);
    assert_eq!(parts(&mut world, client), [(4, 0, false)], "it waits no longer than a JOIN");
    // The connection of its worker breaks, and is made again.
    world.closed(worker);
    world.says(client, query(4, Some(&run.label())));
    let (worker, _) = world.rejoin(Some(&run), None);
    assert!(matches!(&world.heard(worker)[..], [FromMaster::Tail(order)] if order.offset == 4));
    world.done(worker);
    let heard = world.heard(client);
    assert_eq!(heard, [FromMaster::Refused("a is read from 4".into())], "the folders have the rest");
}

#[test]
fn a_client_that_says_nothing_more_is_closed_and_one_of_another_run_is_told_so() {
    let mut world = World::new(&["a"]);
    let (worker, _) = world.rejoin(None, None);
    world.takes_as_run(worker);
    let client = world.connect();
    world.says(client, query(0, Some("former")));
    assert_eq!(parts(&mut world, client), [(0, 0, true)]);
    world.wait(5.0);
    assert!(world.closing.contains(&client));
    let original = world.join();
    world.appears("b", Content::Prompt(Front::default(), "b".into()));
    world.takes(original);
    let client = world.connect();
    let of_b = Box::new(TailQuery { file: "b".into(), output: ResultFile::Out, offset: 0, run: None, next: false });
    world.says(client, FromWorker::Tail { query: of_b, secret: None });
    let heard = world.heard(client);
    assert!(matches!(&heard[..], [FromMaster::Refused(why)] if why.contains("an original worker")), "{heard:?}");
}

#[test]
fn a_cost_counts_once_with_the_report_and_stops_at_the_bound() {
    let usd = |dollars| Usd::from_dollars(dollars).unwrap();
    let mut world = World::with(Settings { cost_max: Some(usd(1.0)), ..settings() }, &["a", "b", "c"]);
    let (worker, _) = world.rejoin(None, None);
    let run = world.takes_as_run(worker);
    for _ in 0..2 {
        world.says(worker, FromWorker::Cost { run: run.clone(), cost: usd(0.6) });
    }
    assert_eq!(world.master.status(world.now).cost, None);
    world.done(worker);
    assert_eq!(world.master.status(world.now).cost, Some(usd(0.6)));
    world.says(worker, FromWorker::Cost { run, cost: usd(0.6) });
    world.inboxes.get_mut(&worker).unwrap().remove(0);
    let run = world.takes_as_run(worker);
    world.says(worker, FromWorker::Cost { run, cost: usd(0.4) });
    world.limited(worker, Some(1));
    world.wait(2.0);
    let status = world.master.status(world.now);
    assert_eq!((status.cost, status.paused.is_some(), status.working), (Some(usd(1.0)), true, 0));
    let client = world.connect();
    world.orders(client, Order::Resume);
    assert!(world.master.status(world.now).paused.is_some());
    world.says(client, FromWorker::Budget { max: usd(2.0), secret: None });
    let status = world.master.status(world.now);
    assert_eq!((status.paused, status.cost_max, status.working), (None, Some(usd(2.0)), 1));
}

#[test]
fn a_bound_that_a_person_has_set_holds_under_the_next_master_whatever_that_is_started_with() {
    let usd = |dollars| Usd::from_dollars(dollars).unwrap();
    for (started_with, ordered, holds) in [
        (None, None, None),
        (Some(1.0), None, Some(1.0)),
        (None, Some(2.0), Some(2.0)),
        (Some(1.0), Some(2.0), Some(2.0)),
        (Some(3.0), Some(2.0), Some(2.0)),
    ] {
        let mut world = World::with(Settings { cost_max: started_with.map(usd), ..settings() }, &["a"]);
        world.master.restore_costs(Some(usd(2.5)), None, ordered.map(usd));
        let status = world.master.status(world.now);
        assert_eq!(status.cost_max, holds.map(usd), "{started_with:?} {ordered:?}");
        assert_eq!(status.paused.is_some(), holds.is_some(), "{started_with:?} {ordered:?}");
    }
}

#[test]
fn no_prompt_is_handed_out_while_the_running_ones_are_expected_to_reach_the_bound() {
    let usd = |dollars| Usd::from_dollars(dollars).unwrap();
    let mut world = World::with(Settings { cost_max: Some(usd(1.0)), ..settings() }, &["a", "b", "c", "d", "e", "f"]);
    let ends = |world: &mut World, worker: Connection, cost: f64| {
        let run = match world.heard(worker).pop() {
            Some(FromMaster::Request(request)) => request.id,
            other => panic!("{other:?}"),
        };
        world.says(worker, FromWorker::RequestAck(run.clone()));
        world.says(worker, FromWorker::Cost { run, cost: usd(cost) });
        world.done(worker);
    };
    let (one, _) = world.rejoin(None, None);
    ends(&mut world, one, 0.3);
    // 0.3 are spent, and the worker has the next prompt.
    let [(two, _), (three, _)] = [world.rejoin(None, None), world.rejoin(None, None)];
    assert_eq!((world.state(two), world.state(three)), (Some(WorkerState::Requesting), Some(WorkerState::Requesting)));
    let (four, _) = world.rejoin(None, None);
    assert_eq!(world.state(four), Some(WorkerState::Idle), "0.3 and three times 0.3 reach the bound");
    let why = world.master.status(world.now).paused.unwrap();
    assert!(
        why.starts_with("waiting for the cost of 3 running prompts: with about 0.90 USD for them and 0.30 USD already"),
        "{why}"
    );
    // One was cheaper: there is room for another one.
    ends(&mut world, two, 0.0);
    assert_eq!(world.state(four), Some(WorkerState::Requesting));
    ends(&mut world, one, 0.3);
    ends(&mut world, three, 0.3);
    assert_eq!(world.master.status(world.now).cost, Some(usd(0.9)));
    assert!(world.master.status(world.now).working <= 1, "no more than one goes beyond the bound");
}

#[test]
fn a_client_of_a_run_without_a_result_waits_for_the_next_one() {
    let mut world = World::new(&["a"]);
    let (worker, _) = world.rejoin(None, None);
    let run = world.takes_as_run(worker).label();
    let (client, next) = (world.connect(), |run: &str| match query(0, Some(run)) {
        FromWorker::Tail { mut query, secret } => {
            query.next = true;
            FromWorker::Tail { query, secret }
        }
        other => other,
    });
    world.says(client, query(4, Some(&run)));
    world.limited(worker, Some(100));
    // The worker is asked for what it has kept of the run.
    assert!(matches!(world.heard(worker).last(), Some(FromMaster::Tail(order)) if order.run.is_none()));
    let bytes = Vec::new();
    let last = TailPart { tail: client.0, offset: 4, bytes, ended: true, ..TailPart::default() };
    world.says(worker, FromWorker::TailPart(Box::new(last)));
    let heard = world.heard(client);
    assert!(matches!(&heard[..], [FromMaster::TailPart(part)] if part.ended && part.again), "{heard:?}");
    world.says(client, next(&run));
    assert_eq!((world.heard(client), world.heard(worker)), (vec![], vec![]), "the kept output is not asked for again");
    let (other, _) = world.rejoin(None, None);
    let again = world.takes_as_run(other);
    let orders = world.heard(other);
    assert!(matches!(&orders[..], [FromMaster::Tail(order)] if order.run.as_ref() == Some(&again)), "{orders:?}");
    world.says(other, part(client, 0));
    let heard = world.heard(client);
    assert!(matches!(&heard[..], [FromMaster::TailPart(part)] if part.run == again.label() && !part.again));
}
