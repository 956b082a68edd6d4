//! Limits of services, pauses of workers, and orders of a person.
#![cfg(test)]

use super::*;

fn limited(world: &mut World, worker: Connection, seconds: u64, is_local: bool) {
    let retry_after = Some(Duration::from_secs(seconds));
    world.says(worker, FromWorker::UsageLimited { retry_after, is_local, reason: "5 hours".into() });
}

/// Whether a worker has got a prompt since the last call.
fn got(world: &mut World, worker: Connection) -> bool {
    world.heard(worker).iter().any(|message| matches!(message, FromMaster::Request(_)))
}

#[test]
fn all_workers_of_a_limited_service_rest_and_no_prompt_has_failed() {
    let mut world = World::new(&["a", "b", "c", "d"]);
    let [(one, _), (two, _), (other, _)] =
        [Some("claude"), Some("claude"), Some("codex")].map(|gate| world.rejoin(None, gate));
    world.takes_as_run(one);
    world.takes_as_run(two);
    world.takes_as_run(other);
    limited(&mut world, one, 60, false);
    world.done(two);
    assert!(!got(&mut world, one) && !got(&mut world, two));
    world.done(other);
    // Another service is not limited.
    let heard = world.heard(other);
    let [FromMaster::ReportAck(_), FromMaster::Request(request)] = &heard[..] else { panic!("{heard:?}") };
    world.says(other, FromWorker::RequestAck(request.id.clone()));
    let (late, _) = world.rejoin(None, Some("claude"));
    assert!(!got(&mut world, late), "a worker of the service joins meanwhile");
    assert_eq!(world.master.status(world.now).gates, [("claude".to_owned(), Duration::from_secs(60))]);
    assert_eq!(world.master.status(world.now).workers[0].reason.as_deref(), Some("5 hours"));
    world.wait(59.9);
    assert!(!got(&mut world, one));
    world.wait(0.1);
    assert_eq!([one, two, late].map(|worker| got(&mut world, worker)), [true, false, false], "only one prompt waits");
    assert_eq!((world.counts(), world.notes.gates.len()), ([0, 2, 2, 0], 0));
}

#[test]
fn a_worker_that_pauses_by_itself_holds_up_no_other() {
    let mut world = World::new(&["a"]);
    let [(full, _), (other, _)] = [world.rejoin(None, Some("claude")), world.rejoin(None, Some("claude"))];
    world.takes_as_run(full);
    limited(&mut world, full, 60, true);
    assert!(got(&mut world, other));
    assert!(world.notes.gates.is_empty());
    world.closed(other);
    world.wait(59.0);
    assert!(!got(&mut world, full));
    world.wait(1.0);
    assert!(got(&mut world, full));
}

#[test]
fn a_closed_gate_is_closed_under_the_next_master() {
    let mut world = World::new(&["a"]);
    let (worker, _) = world.rejoin(None, Some("claude"));
    world.takes_as_run(worker);
    limited(&mut world, worker, 3600, false);
    world.wait(600.0);
    world.restart();
    let (worker, _) = world.rejoin(None, Some("claude"));
    world.wait(2999.0);
    assert!(!got(&mut world, worker));
    world.wait(1.0);
    assert!(got(&mut world, worker));
}

#[test]
fn a_paused_master_hands_nothing_out_until_it_is_resumed() {
    let mut world = World::new(&["a", "b"]);
    let worker = world.join();
    world.takes(worker);
    let person = world.connect();
    world.orders(person, Order::Pause);
    assert!(matches!(&world.heard(person)[..], [FromMaster::StatusAck(status)] if status.paused.is_some()));
    world.done(worker);
    assert!(!got(&mut world, worker), "the running prompt ends, and no other begins");
    world.restart();
    let worker = world.join();
    assert!(!got(&mut world, worker), "the next master is paused as well");
    let person = world.connect();
    world.orders(person, Order::Resume);
    assert!(got(&mut world, worker));
    world.restart();
    let worker = world.join();
    assert!(got(&mut world, worker));
}

#[test]
fn a_drained_master_ends_with_the_last_running_prompt() {
    let mut world = World::new(&["a", "b"]);
    let worker = world.join();
    world.takes(worker);
    let person = world.connect();
    world.orders(person, Order::Drain);
    assert!(!world.closing.contains(&worker));
    world.done(worker);
    assert!(world.closing.contains(&worker) && !got(&mut world, worker));
    assert_eq!(world.counts(), [1, 0, 1, 0]);
    let mut idle = World::new(&[]);
    let person = idle.connect();
    idle.orders(person, Order::Drain);
    assert!(idle.closing.contains(&person));
}

#[test]
fn a_stranger_orders_nothing() {
    let mut world = World::with(Settings { secret: Some("open".into()), ..settings() }, &["a"]);
    let stranger = world.connect();
    world.says(stranger, FromWorker::Order { order: Order::Drain, secret: Some("guess".into()) });
    assert_eq!(world.master.status(world.now).paused, None);
}

#[test]
fn the_number_of_starts_is_limited_until_the_master_is_resumed() {
    let mut world = World::with(Settings { starts_max: Some(2), ..settings() }, &["a", "b", "c", "d", "e"]);
    let worker = world.join();
    for _ in 0..2 {
        world.takes(worker);
        world.done(worker);
    }
    assert!(!got(&mut world, worker));
    assert!(world.master.status(world.now).paused.is_some_and(|reason| reason.contains("max-starts")));
    let person = world.connect();
    world.orders(person, Order::Resume);
    for _ in 0..2 {
        world.takes(worker);
        world.done(worker);
    }
    assert!(!got(&mut world, worker));
}

/// Its output may only look like a limit: then the others would wait for it for ever.
#[test]
fn a_prompt_that_has_met_a_limit_waits_behind_the_others() {
    let mut world = World::new(&["a", "b"]);
    let worker = world.join();
    let first = world.takes(worker);
    limited(&mut world, worker, 60, false);
    world.wait(60.0);
    let second = world.takes(worker);
    assert_ne!(first, second);
}
