//! Strangers and broken workers do not affect others.
#![cfg(test)]

use super::*;

fn refusal(world: &mut World, connection: Connection) -> String {
    match world.heard(connection).pop() {
        Some(FromMaster::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_does_not_join_in_time_is_cut() {
    let mut world = World::new(&["a"]);
    let stranger = world.connect();
    world.wait(4.9);
    assert!(!world.closing.contains(&stranger));
    world.wait(0.1);
    assert!(world.closing.contains(&stranger));
    assert!(refusal(&mut world, stranger).contains("JOIN"));
    assert_eq!(world.counts(), [1, 0, 0, 0]);
}

#[test]
fn who_goes_on_asking_for_the_status_may_stay() {
    let mut world = World::new(&["a"]);
    let asker = world.connect();
    for _ in 0..5 {
        world.wait(4.0);
        world.says(asker, FromWorker::Status { secret: None });
        assert!(matches!(world.heard(asker)[..], [FromMaster::StatusAck(_)]));
    }
    world.wait(5.0);
    assert!(world.closing.contains(&asker));
}

#[test]
fn a_stranger_must_begin_with_join() {
    for message in [FromWorker::Done { text: String::new() }, FromWorker::RequestAck("x".into())] {
        let mut world = World::new(&["a"]);
        let stranger = world.connect();
        world.says(stranger, message);
        assert!(refusal(&mut world, stranger).contains("JOIN"));
        assert!(world.closing.contains(&stranger));
    }
}

#[test]
fn what_cannot_be_read_cuts_only_its_sender() {
    let mut world = World::new(&["a", "b"]);
    let [bad, good] = [world.join(), world.join()];
    world.takes(bad);
    world.takes(good);
    let error = MessageError::Malformed("not JSON".into());
    world.master.handle_bad_message(world.now, bad, &error);
    world.settle();
    assert_eq!(refusal(&mut world, bad), "not JSON");
    assert_eq!((world.state(bad), world.state(good)), (Some(WorkerState::Disconnecting), Some(WorkerState::Working)));
    assert_eq!(world.counts(), [1, 1, 0, 0]);
    world.done(good);
    assert_eq!(world.takes(good), "a");
}

#[test]
fn an_unknown_type_is_passed_over() {
    let mut world = World::new(&["a"]);
    let worker = world.join();
    world.takes(worker);
    let error = MessageError::UnknownType("PROGRESS".into());
    world.master.handle_bad_message(world.now, worker, &error);
    world.settle();
    world.done(worker);
    assert_eq!((world.counts(), world.master.ignored()), ([0, 0, 1, 0], 1));
    let stranger = world.connect();
    world.master.handle_bad_message(world.now, stranger, &error);
    world.settle();
    assert!(world.closing.contains(&stranger));
}

#[test]
fn a_secret_is_asked_for() {
    let mut world = World::with(Settings { secret: Some("open".into()), ..settings() }, &["a"]);
    for secret in [None, Some(""), Some("opem"), Some("ope"), Some("opened")] {
        let secret = secret.map(str::to_owned);
        let joiner = world.connect();
        world.says(
            joiner,
            FromWorker::Join { worker: "w".into(), secret: secret.clone(), splits: true, offer: Offer::default() },
        );
        let asker = world.connect();
        world.says(asker, FromWorker::Status { secret });
        world.wait(1.0);
        assert!(refusal(&mut world, joiner).contains("secret"));
        assert!(refusal(&mut world, asker).contains("secret"));
    }
    let worker = world.connect();
    world.says(
        worker,
        FromWorker::Join { worker: "w".into(), secret: Some("open".into()), splits: true, offer: Offer::default() },
    );
    assert_eq!(world.heard(worker).first(), Some(&FromMaster::JoinAck));
}

fn guesses(world: &mut World, connection: Connection, secret: &str) {
    world.says(
        connection,
        FromWorker::Join { worker: "w".into(), secret: Some(secret.into()), splits: true, offer: Offer::default() },
    );
}

#[test]
fn a_right_secret_is_let_in_at_once_however_many_wrong_ones_its_address_shows() {
    let mut world = World::with(Settings { secret: Some("open".into()), ..settings() }, &["a"]);
    // More connections than places; all of loopback is one address.
    let strangers: Vec<_> = (0..100).map(|number| world.connect_from(&format!("127.0.0.{number}:5000"))).collect();
    for stranger in &strangers {
        guesses(&mut world, *stranger, "guess");
        // Further messages on the same connection are ignored, right or wrong.
        guesses(&mut world, *stranger, "open");
        world.says(*stranger, FromWorker::Status { secret: Some("open".into()) });
    }
    let [worker, asker] = [world.connect_from("127.0.0.1:6000"), world.connect_from("127.0.0.1:6001")];
    guesses(&mut world, worker, "open");
    world.says(asker, FromWorker::Status { secret: Some("open".into()) });
    let heard = world.heard(worker);
    assert!(matches!(&heard[..], [FromMaster::JoinAck, FromMaster::Request(_)]), "{heard:?}");
    assert!(matches!(&world.heard(asker)[..], [FromMaster::StatusAck(_)]));
    assert!(strangers.iter().all(|stranger| world.heard(*stranger).is_empty()), "a guess is answered at once");
}

/// Another user of the machine, where there is no secret.
#[test]
fn a_stranger_is_refused_whatever_it_says() {
    let join = || FromWorker::Join { worker: "w".into(), secret: None, splits: true, offer: Offer::default() };
    let orders = [Order::Pause, Order::Drain, Order::Resume].map(|order| FromWorker::Order { order, secret: None });
    let asks = [join(), FromWorker::Status { secret: None }];
    for message in orders.into_iter().chain(asks) {
        let mut world = World::new(&["a"]);
        let stranger = world.connect_from("127.0.0.1:5000");
        world.master.handle_stranger(stranger, "it belongs to user 7".into());
        world.says(stranger, message);
        let why = refusal(&mut world, stranger);
        assert!(why.contains("user 7") && why.contains("SECRET"), "{why}");
        assert!(world.closing.contains(&stranger) && world.notes.paused.is_none());
        let worker = world.join();
        assert_eq!(world.takes(worker), "a", "nothing has changed");
    }
    let mut world = World::new(&["a"]);
    let keyed = world.connect_from("127.0.0.1:5000");
    world.master.handle_stranger(keyed, "it belongs to user 7".into());
    world.master.handle_authorised(keyed);
    world.says(keyed, join());
    assert_eq!(world.heard(keyed).first(), Some(&FromMaster::JoinAck), "a key counts more");
}

#[test]
fn a_wrong_secret_is_answered_after_the_pause() {
    let mut world = World::with(Settings { secret: Some("open".into()), ..settings() }, &[]);
    let stranger = world.connect();
    guesses(&mut world, stranger, "guess");
    world.wait(0.999);
    assert!(world.heard(stranger).is_empty() && !world.closing.contains(&stranger));
    world.wait(0.001);
    assert!(refusal(&mut world, stranger).contains("secret"));
    assert!(world.closing.contains(&stranger));
    // It is not disconnected for its JOIN before it gets the reason.
    let slow = Settings { secret: Some("open".into()), refusal_pause: Duration::from_secs(60), ..settings() };
    let mut world = World::with(slow, &[]);
    let stranger = world.connect();
    guesses(&mut world, stranger, "guess");
    world.wait(59.0);
    assert!(!world.closing.contains(&stranger));
    world.wait(1.0);
    assert!(refusal(&mut world, stranger).contains("secret"));
}

#[test]
fn a_crowd_from_one_address_gives_way_and_no_other_does() {
    let mut world = World::with(Settings { secret: Some("open".into()), ..settings() }, &[]);
    let other = world.connect_from("192.0.2.7:5000");
    let crowd: Vec<_> = (0..300).map(|number| world.connect_from(&format!("127.0.0.1:{number}"))).collect();
    // Guesses that are answered, but not closed by their peer, count among the crowd as well.
    for stranger in &crowd {
        guesses(&mut world, *stranger, "guess");
    }
    world.wait(1.0);
    assert!(!world.closing.is_empty());
    for number in 0..200 {
        world.connect_from(&format!("127.0.0.1:{number}"));
    }
    guesses(&mut world, other, "open");
    assert_eq!(world.heard(other), [FromMaster::JoinAck]);
    let late = world.connect_from("127.0.0.1:999");
    guesses(&mut world, late, "open");
    assert_eq!(world.heard(late), [FromMaster::JoinAck]);
    assert!(!world.aborted.contains(&other) && world.aborted.contains(&crowd[0]));
}

#[test]
fn there_are_no_more_workers_than_allowed() {
    let mut world = World::new(&[]);
    let workers: Vec<_> = (0..10).map(|_| world.join()).collect();
    let extra = world.connect();
    world.says(extra, FromWorker::Join { worker: "w".into(), secret: None, splits: true, offer: Offer::default() });
    assert!(refusal(&mut world, extra).contains("WORKERS_MAX"));
    world.closed(extra);
    world.closed(workers[0]);
    world.join();
}

#[test]
fn strangers_are_bounded() {
    let mut world = World::new(&[]);
    let all: Vec<_> = (0..200).map(|_| world.connect()).collect();
    assert_eq!(world.aborted.len(), 200 - 10 - STRANGERS_MAX);
    for connection in all {
        world.closed(connection);
    }
    world.join();
}

#[test]
fn strangers_give_way_before_the_system_has_no_descriptor_left() {
    let mut world = World::with(Settings { connections_max: 3, ..settings() }, &[]);
    let [first, second] = [world.join(), world.connect()];
    world.connect();
    let third = world.join();
    assert_eq!(world.aborted, [second].into());
    let fourth = world.join();
    let late = world.connect();
    assert!(world.aborted.contains(&late), "all of them have joined");
    assert_eq!([first, third, fourth].map(|worker| world.state(worker)), [Some(WorkerState::Idle); 3]);
}

#[test]
fn prompts_on_their_way_are_bounded() {
    let mut world = World::with(Settings { sending_bytes_max: 5, ..settings() }, &["a", "b", "c"]);
    let workers = [world.join(), world.join(), world.join()];
    assert_eq!(world.counts(), [1, 2, 0, 0], "after two of 4 bytes none is sent");
    world.takes(workers[0]);
    assert_eq!(world.takes(workers[2]), "c");
}

#[test]
fn a_long_label_is_cut() {
    let mut world = World::new(&[]);
    let worker = world.connect();
    world.says(
        worker,
        FromWorker::Join { worker: "あ".repeat(10_000), secret: None, splits: true, offer: Offer::default() },
    );
    assert_eq!(world.master.status(world.now).workers[0].id, "あ".repeat(128));
}

#[test]
fn the_same_seed_makes_the_same_ids() {
    let ids = || {
        let mut world = World::new(&["a", "b"]);
        let workers = [world.join(), world.join()];
        workers.map(|worker| world.request(worker).id)
    };
    let [first, second] = ids();
    assert_ne!(first, second);
    assert_eq!(ids(), [first, second]);
}
