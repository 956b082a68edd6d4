//! TIMER, CHECK, TIMEOUT_CHECK and the disconnection of workers (docs/design/hazards.md, T1, T2).
#![cfg(test)]

use super::*;

#[test]
fn a_request_that_is_not_acknowledged_in_time_goes_to_another_worker() {
    let mut world = World::new(&["a"]);
    let worker = world.join();
    let request = world.request(worker);
    world.wait(2.9);
    assert_eq!(world.state(worker), Some(WorkerState::Requesting));
    world.wait(0.1);
    assert_eq!((world.counts(), world.state(worker)), ([1, 0, 0, 0], Some(WorkerState::Disconnecting)));
    let other = world.join();
    assert_eq!(world.takes(other), "a");
    world.says(worker, FromWorker::RequestAck(request.id));
    world.done(worker);
    assert_eq!(world.counts(), [0, 1, 0, 0]);
    world.done(other);
    assert_eq!(world.counts(), [0, 0, 1, 0]);
}

#[test]
fn a_long_prompt_has_the_time_that_it_takes_on_a_slow_line_and_so_has_a_check_behind_it() {
    let mut world = World::new(&[]);
    world.appears("a", Content::Prompt(Front::default(), "x".repeat(16 << 20)));
    let worker = world.join();
    // 16 s at 1 MiB/s, and 3.
    world.wait_while(18.9, |_| false);
    assert_eq!(world.state(worker), Some(WorkerState::Requesting));
    world.wait_while(0.1, |_| false);
    assert_eq!((world.counts(), world.state(worker)), ([1, 0, 0, 0], Some(WorkerState::Disconnecting)));
}

#[test]
fn a_prompt_that_no_worker_acknowledges_is_given_up() {
    let mut world = World::with(Settings { losses_max: Some(2), ..settings() }, &["a"]);
    for (round, resumes) in [false, true, false].into_iter().enumerate() {
        assert_eq!(world.counts(), [1, 0, 0, 0], "{round}");
        if resumes {
            world.rejoin(None, None);
        } else {
            world.join();
        }
        world.wait(13.0);
    }
    assert_eq!(world.counts(), [0, 0, 0, 1]);
    let reason = world.folders.reasons[&FileName::from("a")].clone().unwrap();
    assert!(reason.starts_with("3 runs of this prompt were lost"), "{reason}");
}

#[test]
fn a_worker_that_goes_gives_its_file_back_in_every_state() {
    for leaves in [false, true] {
        let go = |world: &mut World, worker| {
            if leaves {
                world.says(worker, FromWorker::Leave);
                assert!(world.closing.contains(&worker));
                assert_eq!(world.state(worker), Some(WorkerState::Disconnecting));
            }
            world.closed(worker);
            assert_eq!((world.state(worker), world.counts()[1]), (None, 0));
        };
        let mut world = World::new(&[]);
        let idle = world.join();
        go(&mut world, idle);
        world.prompt("a", Front::default());
        let requesting = world.join();
        go(&mut world, requesting);
        let working = world.join();
        world.takes(working);
        go(&mut world, working);
        assert_eq!(world.counts(), [1, 0, 0, 0]);
        let stranger = world.connect();
        go(&mut world, stranger);
        let last = world.join();
        assert_eq!(world.takes(last), "a");
    }
}

#[test]
fn a_check_is_sent_with_each_timer_and_answered() {
    let mut world = World::new(&["a"]);
    let worker = world.join();
    world.takes(worker);
    world.now.mono = Mono::default() + Duration::from_secs(10);
    world.master.handle_timeout(world.now);
    world.settle();
    let [FromMaster::Check(id)] = &world.heard(worker)[..] else { panic!("no check") };
    world.says(worker, FromWorker::CheckAck(id.clone()));
    world.says(worker, FromWorker::CheckAck(id.clone()));
    assert_eq!(world.master.ignored(), 1);
    world.wait(100.0);
    assert_eq!(world.state(worker), Some(WorkerState::Working));
}

#[test]
fn a_worker_that_does_not_answer_a_check_is_cut_and_its_file_waits() {
    let mut world = World::new(&["a"]);
    let [worker, other] = [world.join(), world.join()];
    world.takes(worker);
    world.wait_while(12.9, |connection| connection != worker);
    assert_eq!(world.state(worker), Some(WorkerState::Working));
    world.wait_while(0.1, |connection| connection != worker);
    assert_eq!(world.state(worker), Some(WorkerState::Disconnecting));
    assert_eq!(world.takes(other), "a");
    assert!(world.closing.contains(&worker));
}

#[test]
fn a_worker_that_is_being_cut_is_not_checked_nor_cut_again() {
    let mut world = World::with(Settings { disconnect_timeout: Duration::from_secs(60), ..settings() }, &["a"]);
    let worker = world.join();
    world.takes(worker);
    world.wait(9.0);
    world.says(worker, FromWorker::Leave);
    assert_eq!(world.counts(), [1, 0, 0, 0]);
    let other = world.join();
    world.takes(other);
    world.wait(30.0);
    assert!(world.heard(worker).is_empty());
    world.says(worker, FromWorker::Leave);
    world.closed(worker);
    world.closed(worker);
    assert_eq!((world.state(worker), world.counts()), (None, [0, 1, 0, 0]));
}

#[test]
fn a_connection_that_does_not_close_is_dropped() {
    let mut world = World::new(&["a"]);
    let worker = world.join();
    world.says(worker, FromWorker::Leave);
    world.wait(4.9);
    assert!(world.aborted.is_empty());
    world.wait(0.1);
    assert_eq!((world.aborted.contains(&worker), world.state(worker)), (true, None));
}

#[test]
fn acknowledgements_may_be_outstanding_beside_each_other() {
    let fast = Settings { timer_interval: Duration::from_secs(1), ..settings() };
    let mut world = World::with(fast, &["a"]);
    let worker = world.join();
    let request = world.request(worker);
    world.wait(2.5);
    assert_eq!(world.state(worker), Some(WorkerState::Requesting), "CHECKs do not stand for a REQUEST_ACK");
    world.says(worker, FromWorker::RequestAck(request.id));
    world.wait(5.0);
    assert_eq!(world.state(worker), Some(WorkerState::Working));
}
