//! The document's rules: JOIN, REQUEST, REQUEST_ACK, DONE, FAILED, and the order of files; and USAGE_LIMITED.
#![cfg(test)]

use super::*;

#[test]
fn a_prompt_goes_to_a_worker_and_its_file_to_done() {
    let mut world = World::new(&["b", "a"]);
    let worker = world.join();
    assert_eq!(world.counts(), [1, 1, 0, 0]);
    assert_eq!(world.state(worker), Some(WorkerState::Requesting));
    let request = world.request(worker);
    assert_eq!((request.prompt.as_str(), request.file.as_deref(), request.timeout), ("do a", Some("a"), None));
    world.says(worker, FromWorker::RequestAck(request.id));
    assert_eq!(world.state(worker), Some(WorkerState::Working));
    world.done(worker);
    assert_eq!(world.takes(worker), "b");
    world.fails(worker);
    assert_eq!(world.counts(), [0, 0, 1, 1]);
    assert_eq!(world.folders.reasons[&"b".into()], None, "the reason is the worker's to tell");
    assert_eq!(world.state(worker), Some(WorkerState::Idle));
    assert!(world.heard(worker).is_empty());
}

#[test]
fn a_file_that_appears_goes_to_the_worker_that_has_waited_longest() {
    let mut world = World::new(&[]);
    let workers = [world.join(), world.join()];
    world.prompt("a", Front::default());
    assert_eq!(world.takes(workers[0]), "a");
    world.done(workers[0]);
    world.prompt("b", Front::default());
    assert_eq!(world.takes(workers[1]), "b");
}

#[test]
fn every_idle_worker_gets_one_file_at_once() {
    let mut world = World::new(&["a", "b", "c", "d"]);
    let workers = [world.join(), world.join(), world.join()];
    assert_eq!(workers.map(|worker| world.takes(worker)), ["a", "b", "c"]);
    assert_eq!(world.counts(), [1, 3, 0, 0]);
}

#[test]
fn a_higher_priority_goes_first_and_equal_ones_by_name() {
    let mut world = World::new(&[]);
    for (name, priority) in [("a", -1), ("b", 0), ("c", 5), ("d", 5)] {
        world.prompt(name, Front { priority, ..Front::default() });
    }
    let worker = world.join();
    let mut order = String::new();
    for _ in 0..4 {
        order += &world.takes(worker);
        world.done(worker);
    }
    assert_eq!(order, "cdba");
}

#[test]
fn a_late_or_doubled_message_moves_no_file() {
    let mut world = World::new(&["a", "b"]);
    let worker = world.join();
    let request = world.request(worker);
    // Before the acknowledgement, DONE can only refer to an earlier prompt.
    world.done(worker);
    world.fails(worker);
    world.limited(worker, Some(1));
    world.says(worker, FromWorker::RequestAck("another".into()));
    world.says(worker, FromWorker::CheckAck(request.id.clone()));
    assert_eq!((world.counts(), world.state(worker)), ([1, 1, 0, 0], Some(WorkerState::Requesting)));
    world.says(worker, FromWorker::RequestAck(request.id.clone()));
    world.says(worker, FromWorker::RequestAck(request.id));
    world.done(worker);
    world.done(worker);
    assert_eq!((world.counts(), world.state(worker)), ([0, 1, 1, 0], Some(WorkerState::Requesting)));
    assert_eq!(world.takes(worker), "b");
    world.done(worker);
    world.done(worker);
    world.fails(worker);
    assert_eq!((world.counts(), world.state(worker)), ([0, 0, 2, 0], Some(WorkerState::Idle)));
    assert_eq!(world.master.ignored(), 9);
}

#[test]
fn a_second_join_on_a_connection_changes_nothing() {
    let mut world = World::new(&["a"]);
    let worker = world.join();
    let request = world.request(worker);
    world.says(
        worker,
        FromWorker::Join { worker: "another".into(), secret: None, splits: true, offer: Offer::default() },
    );
    assert_eq!(world.heard(worker), [FromMaster::JoinAck]);
    world.says(worker, FromWorker::RequestAck(request.id));
    world.done(worker);
    assert_eq!(world.counts(), [0, 0, 1, 0]);
    assert_eq!(world.master.status(world.now).workers[0].id, "1");
}

#[test]
fn two_workers_of_one_id_are_two_workers() {
    let mut world = World::new(&["a", "b"]);
    let workers = [world.connect(), world.connect()];
    for worker in workers {
        world.says(
            worker,
            FromWorker::Join { worker: "same".into(), secret: None, splits: true, offer: Offer::default() },
        );
        world.inboxes.get_mut(&worker).unwrap().remove(0);
    }
    assert_eq!(workers.map(|worker| world.takes(worker)), ["a", "b"]);
    world.closed(workers[0]);
    assert_eq!(world.counts(), [1, 1, 0, 0]);
    world.done(workers[1]);
    assert_eq!(world.takes(workers[1]), "a");
}

#[test]
fn a_file_may_fail_as_often_as_it_says() {
    let mut world = World::new(&[]);
    world.prompt("a", Front { max_fails: 2, ..Front::default() });
    let worker = world.join();
    for left in [[0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]] {
        world.takes(worker);
        world.fails(worker);
        assert_eq!(world.counts(), left);
    }
}

#[test]
fn a_file_that_comes_back_goes_before_less_urgent_ones() {
    let mut world = World::new(&["b"]);
    world.prompt("a", Front { max_fails: 1, priority: 1, ..Front::default() });
    let worker = world.join();
    assert_eq!(world.takes(worker), "a");
    world.fails(worker);
    assert_eq!(world.takes(worker), "a");
}

#[test]
fn a_worker_that_is_cut_costs_its_file_no_failure() {
    let mut world = World::new(&[]);
    world.prompt("a", Front { max_fails: 1, ..Front::default() });
    for _ in 0..3 {
        let worker = world.join();
        world.takes(worker);
        world.closed(worker);
    }
    let worker = world.join();
    world.takes(worker);
    world.fails(worker);
    assert_eq!(world.takes(worker), "a");
}

#[test]
fn a_run_that_takes_too_long_is_a_failure_and_cuts_the_worker() {
    let mut world = World::new(&[]);
    world.prompt("a", Front { max_fails: 1, timeout: Some(Duration::from_secs(30)), ..Front::default() });
    for counts in [[1, 0, 0, 0], [0, 0, 0, 1]] {
        let worker = world.join();
        let request = world.request(worker);
        assert_eq!(request.timeout, Some(Duration::from_secs(30)));
        world.says(worker, FromWorker::RequestAck(request.id));
        // It may still report the prompt itself.
        world.wait(34.9);
        assert_eq!(world.state(worker), Some(WorkerState::Working));
        world.wait(0.1);
        assert_eq!(world.counts(), counts);
        assert!(world.closing.contains(&worker));
        world.done(worker);
        assert_eq!(world.counts(), counts);
    }
    assert!(world.folders.reasons[&"a".into()].as_ref().unwrap().contains("30 s"));
}

#[test]
fn a_worker_that_reports_the_end_of_the_time_itself_stays() {
    let mut world = World::new(&[]);
    world.prompt("a", Front { timeout: Some(Duration::from_secs(30)), ..Front::default() });
    let worker = world.join();
    world.takes(worker);
    world.wait(32.5);
    world.fails(worker);
    assert_eq!(world.counts(), [0, 0, 0, 1]);
    assert_eq!(world.folders.reasons[&"a".into()], None, "the worker has given the reason");
    world.wait(10.0);
    assert!(!world.aborted.contains(&worker) && world.state(worker) != Some(WorkerState::Working));
}

#[test]
fn failures_are_counted_on_after_a_restart() {
    let mut world = World::new(&[]);
    for name in ["a", "b"] {
        world.prompt(name, Front { max_fails: 2, ..Front::default() });
    }
    let worker = world.join();
    for _ in 0..2 {
        assert_eq!(world.takes(worker), "a");
        world.fails(worker);
    }
    assert_eq!(world.notes.fails, BTreeMap::from([("a".into(), 2)]));
    // The same for a prompt that a worker has when the master is killed.
    assert_eq!(world.takes(worker), "a");
    world.restart();
    let worker = world.join();
    assert_eq!(world.takes(worker), "a");
    world.fails(worker);
    assert_eq!(world.counts(), [0, 1, 0, 1]);
    assert_eq!(world.takes(worker), "b");
    world.fails(worker);
    assert_eq!(world.notes.fails, BTreeMap::from([("b".into(), 1)]));
    assert_eq!(world.takes(worker), "b");
    world.done(worker);
    assert!(world.notes.fails.is_empty());
}

#[test]
fn the_failures_of_a_file_that_is_gone_are_forgotten() {
    for restarts in [false, true] {
        let mut world = World::new(&[]);
        world.prompt("a", Front { max_fails: 2, ..Front::default() });
        let worker = world.join();
        world.takes(worker);
        world.fails(worker);
        assert_eq!(world.notes.fails, BTreeMap::from([("a".into(), 1)]));
        world.takes(worker);
        world.folders.working.clear();
        if restarts {
            world.restart();
        } else {
            world.done(worker);
        }
        assert!(world.notes.fails.is_empty(), "{:?}", world.notes.fails);
    }
}

#[test]
fn the_time_of_one_run_does_not_end_the_next() {
    let mut world = World::new(&[]);
    world.prompt("a", Front { timeout: Some(Duration::from_secs(30)), ..Front::default() });
    world.prompt("b", Front::default());
    let worker = world.join();
    world.takes(worker);
    world.done(worker);
    world.takes(worker);
    world.wait(100.0);
    assert_eq!(world.state(worker), Some(WorkerState::Working));
}

#[test]
fn a_used_up_service_closes_the_gates_of_the_file() {
    let mut world = World::new(&[]);
    world.prompt("a", gated(&["claude", "web"]));
    world.prompt("b", gated(&["web"]));
    world.prompt("c", gated(&["other"]));
    world.prompt("d", Front::default());
    let worker = world.join();
    assert_eq!(world.takes(worker), "a");
    world.limited(worker, Some(60));
    assert_eq!(world.takes(worker), "c");
    world.done(worker);
    assert_eq!(world.takes(worker), "d");
    world.done(worker);
    assert_eq!(world.counts(), [2, 0, 2, 0]);
    world.wait(59.9);
    assert_eq!(world.counts(), [2, 0, 2, 0]);
    world.wait(0.1);
    assert_eq!(world.takes(worker), "b", "what has met a limit waits behind the others");
    world.done(worker);
    assert_eq!(world.takes(worker), "a");
}

#[test]
fn a_used_up_service_without_a_gate_lets_only_its_worker_rest() {
    let mut world = World::new(&["a"]);
    let worker = world.join();
    world.takes(worker);
    world.limited(worker, Some(60));
    assert_eq!((world.counts(), world.state(worker)), ([1, 0, 0, 0], Some(WorkerState::Idle)));
    let other = world.join();
    assert_eq!(world.takes(other), "a");
    world.prompt("b", Front::default());
    world.wait(59.0);
    assert!(world.heard(worker).is_empty());
    world.wait(1.0);
    assert_eq!(world.takes(worker), "b");
}

#[test]
fn a_worker_that_does_not_know_how_long_is_cut() {
    let mut world = World::new(&[]);
    world.prompt("a", gated(&["claude"]));
    let worker = world.join();
    world.takes(worker);
    world.limited(worker, None);
    assert!(world.closing.contains(&worker));
    let other = world.join();
    world.wait(59.0);
    assert!(world.heard(other).is_empty(), "its gate is closed all the same");
    world.wait(1.0);
    assert_eq!(world.takes(other), "a");
}

#[test]
fn a_file_that_names_a_closed_gate_only_when_it_is_read_waits_again() {
    let mut world = World::new(&[]);
    world.prompt("a", gated(&["claude"]));
    let worker = world.join();
    world.takes(worker);
    world.limited(worker, Some(60));
    // The scan of `b` has not shown its gate.
    world.folders.pending.insert("b".into(), Content::Prompt(gated(&["claude"]), "b".into()));
    world.master.handle_found(world.now, "b".into(), &Front::default());
    world.settle();
    assert_eq!((world.counts(), world.heard(worker).len()), ([2, 0, 0, 0], 0));
    world.wait(60.0);
    assert_eq!(world.takes(worker), "b");
}

#[test]
fn the_status_tells_everything() {
    let mut world = World::new(&["a", "b", "c"]);
    let [worker, other] = [world.join(), world.join()];
    world.takes(worker);
    world.done(worker);
    world.takes(worker);
    world.wait(2.0);
    let asker = world.connect();
    world.says(asker, FromWorker::Status { secret: None });
    let [FromMaster::StatusAck(status)] = &world.heard(asker)[..] else { panic!("no status") };
    assert_eq!((status.pending, status.working, status.done, status.failed), (0, 2, 1, 0));
    assert_eq!(status.running_for, Duration::from_secs(2));
    let workers: Vec<_> = status.workers.iter().map(|one| (one.id.as_str(), one.state, one.file.as_deref())).collect();
    let expected = [("1", WorkerState::Working, Some("c")), ("2", WorkerState::Requesting, Some("b"))];
    assert_eq!(workers, expected, "{worker:?} {other:?}");
    assert_eq!(status.workers[0].age, Duration::from_secs(2));
}
