//! Workers whose connection breaks, and masters that are restarted: a run goes on, or its prompt waits again.
#![cfg(test)]

use super::*;

#[test]
fn a_worker_without_a_connection_keeps_its_prompt_and_reports_it_on_the_next() {
    let mut world = World::new(&["a", "b"]);
    let (worker, welcome) = world.rejoin(None, None);
    assert_eq!((welcome.lease, welcome.run), (Duration::from_secs(100), None));
    let run = world.takes_as_run(worker);
    world.closed(worker);
    assert_eq!(world.counts(), [1, 1, 0, 0]);
    assert_eq!(world.master.status(world.now).away, [("a".to_owned(), Duration::from_secs(10))]);
    world.wait(9.0);
    let (worker, welcome) = world.rejoin(Some(&run), None);
    assert_eq!(welcome.run.as_ref(), Some(&run));
    assert_eq!(world.state(worker), Some(WorkerState::Working));
    world.wait(50.0);
    world.done(worker);
    assert_eq!(world.counts(), [0, 1, 1, 0]);
    let heard = world.heard(worker);
    assert!(matches!(&heard[..], [FromMaster::ReportAck(id), FromMaster::Request(_)] if *id == run), "{heard:?}");
}

#[test]
fn a_prompt_waits_again_when_its_worker_does_not_come_back() {
    let mut world = World::new(&["a"]);
    let (worker, _) = world.rejoin(None, None);
    let run = world.takes_as_run(worker);
    world.closed(worker);
    world.wait(9.9);
    assert_eq!(world.counts(), [0, 1, 0, 0]);
    world.wait(0.1);
    assert_eq!(world.counts(), [1, 0, 0, 0], "a worker that closes its connection, as when it is killed, has 10 s");
    // Its run is not wanted any more, and it gets no prompt before it has ended it.
    let (worker, welcome) = world.rejoin(Some(&run), None);
    assert_eq!(welcome.run, None);
    assert!(world.closing.contains(&worker));
    assert_eq!(world.counts(), [1, 0, 0, 0]);
}

#[test]
fn a_worker_that_is_silent_has_the_whole_lease() {
    let mut world = World::new(&["a"]);
    let (worker, _) = world.rejoin(None, None);
    let run = world.takes_as_run(worker);
    // The TIMER at 10 s, and the check that is not answered within 3.
    world.wait_while(13.0 + 99.0, |_| false);
    assert!(world.aborted.contains(&worker));
    assert_eq!(world.counts(), [0, 1, 0, 0]);
    let (worker, welcome) = world.rejoin(Some(&run), None);
    assert_eq!(welcome.run, Some(run));
    world.done(worker);
    assert_eq!(world.counts(), [0, 0, 1, 0]);
}

#[test]
fn a_worker_that_comes_back_before_its_connection_is_missed_goes_on() {
    let mut world = World::new(&["a"]);
    let (former, _) = world.rejoin(None, None);
    let run = world.takes_as_run(former);
    let (worker, welcome) = world.rejoin(Some(&run), None);
    assert_eq!(welcome.run, Some(run));
    // Its former connection counts for nothing any more.
    world.says(former, FromWorker::Failed { reason: "late".into(), is_loss: false });
    assert_eq!(world.counts(), [0, 1, 0, 0]);
    world.done(worker);
    assert_eq!(world.counts(), [0, 0, 1, 0]);
}

#[test]
fn a_restarted_master_waits_for_the_workers_of_the_former() {
    for orderly in [false, true] {
        let mut world = World::new(&["a", "b", "c"]);
        let (worker, _) = world.rejoin(None, None);
        let run = world.takes_as_run(worker);
        let other = world.join();
        world.takes(other);
        if orderly {
            world.stop();
        }
        world.restart();
        assert_eq!(world.counts(), [2, 1, 0, 0], "the other worker does not resume");
        let (worker, welcome) = world.rejoin(Some(&run), None);
        assert_eq!(welcome.run, Some(run));
        world.done(worker);
        assert_eq!(world.counts(), [1, 1, 1, 0]);
        world.closed(worker);
        world.restart();
        world.wait(100.0);
        assert_eq!(world.counts(), [2, 0, 1, 0], "the lease ends for a worker that is gone");
    }
}

#[test]
fn a_run_whose_acknowledgement_has_not_arrived_goes_on() {
    for way in ["closed", "stopped", "killed", "missed"] {
        let mut world = World::new(&["a"]);
        let (worker, _) = world.rejoin(None, None);
        let run = world.request(worker).id;
        match way {
            "closed" => world.closed(worker),
            "stopped" => world.stop(),
            _ => {}
        }
        if ["stopped", "killed"].contains(&way) {
            world.restart();
        }
        assert_eq!(world.counts(), [0, 1, 0, 0], "{way}");
        let (worker, welcome) = world.rejoin(Some(&run), None);
        assert_eq!(welcome.run, Some(run), "{way}");
        world.done(worker);
        assert_eq!(world.counts(), [0, 0, 1, 0], "{way}");
    }
}

#[test]
fn a_prompt_that_a_worker_has_not_acknowledged_is_kept_for_it_for_10_s_at_most() {
    for closes in [false, true] {
        let mut world = World::new(&["a"]);
        let (worker, _) = world.rejoin(None, None);
        world.request(worker);
        if closes {
            world.closed(worker);
        } else {
            world.wait(3.0);
        }
        world.wait(9.9);
        assert_eq!(world.counts(), [0, 1, 0, 0], "{closes}");
        world.wait(0.1);
        assert_eq!(world.counts(), [1, 0, 0, 0], "{closes}");
    }
}

#[test]
fn the_time_limit_of_the_master_holds_for_a_run_of_the_former_one() {
    let timeout = Some(Duration::from_secs(30));
    let mut world = World::with(Settings { timeout, ..settings() }, &["a"]);
    let (worker, _) = world.rejoin(None, None);
    let run = world.takes_as_run(worker);
    world.restart();
    assert_eq!(world.rejoin(Some(&run), None).1.run, Some(run));
    world.wait(34.9);
    assert_eq!(world.counts(), [0, 1, 0, 0]);
    world.wait(0.1);
    assert_eq!(world.counts(), [0, 0, 0, 1]);
}

#[test]
fn a_report_whose_prompt_cannot_be_moved_holds_under_the_next_master() {
    let mut world = World::new(&["a", "b"]);
    let [(one, _), (other, _)] = [world.rejoin(None, None), world.rejoin(None, None)];
    let run = world.takes_as_run(one);
    world.takes_as_run(other);
    world.folders.stuck = true;
    world.done(one);
    world.fails(other);
    assert_eq!((world.counts(), world.heard(one)), ([0, 2, 0, 0], vec![FromMaster::ReportAck(run.clone())]));
    world.restart();
    assert_eq!(world.counts(), [0, 2, 0, 0]);
    assert_eq!(world.rejoin(Some(&run), None).1.run, None, "its report counts already");
    world.folders.stuck = false;
    world.wait(10.0);
    assert_eq!(world.counts(), [0, 0, 1, 1]);
}

#[test]
fn a_worker_that_leaves_or_is_refused_gives_its_prompt_back_at_once() {
    let mut world = World::new(&["a"]);
    let (worker, _) = world.rejoin(None, None);
    world.takes_as_run(worker);
    world.says(worker, FromWorker::Leave);
    assert_eq!(world.counts(), [1, 0, 0, 0]);
    let (worker, _) = world.rejoin(None, None);
    world.takes_as_run(worker);
    world.master.handle_bad_message(world.now, worker, &MessageError::Malformed("x".into()));
    world.settle();
    assert_eq!(world.counts(), [1, 0, 0, 0]);
}

#[test]
fn an_original_worker_gets_only_what_the_document_names() {
    let mut world = World::new(&["a", "b"]);
    let worker = world.join();
    world.takes(worker);
    world.done(worker);
    let heard = world.heard(worker);
    assert!(matches!(&heard[..], [FromMaster::Request(_)]), "{heard:?}");
    assert!(world.notes.runs.is_empty());
    world.closed(worker);
    assert_eq!(world.counts(), [1, 0, 1, 0], "its prompt waits again at once");
    let part = ResultPart { run: "x".into(), file: crate::wire::ResultFile::Out, offset: 0, bytes: vec![1] };
    let worker = world.join();
    world.says(worker, FromWorker::Result(Box::new(part)));
    assert!(world.answers.parts.is_empty());
}

#[test]
fn only_the_results_of_its_own_run_are_taken_from_a_worker() {
    let mut world = World::new(&["a", "b"]);
    let [(one, _), (other, _)] = [world.rejoin(None, None), world.rejoin(None, None)];
    let [run, foreign] = [world.takes_as_run(one), world.takes_as_run(other)];
    let part = |run: &RequestId| {
        let (run, file) = (run.clone(), crate::wire::ResultFile::Out);
        FromWorker::Result(Box::new(ResultPart { run, file, offset: 0, bytes: vec![1] }))
    };
    world.says(one, part(&foreign));
    assert!(world.answers.parts.is_empty());
    world.says(one, part(&run));
    assert_eq!(world.answers.parts.len(), 1);
}

#[test]
fn a_file_that_failed_and_is_tried_again_does_not_count_as_failed() {
    let mut world = World::ending(&["a", "b"]);
    let worker = world.join();
    world.takes(worker);
    world.fails(worker);
    assert_eq!(world.takes(worker), "b");
    world.folders.failed.remove(&"a".into());
    assert!(world.master.has_failed(&"a".into()));
    world.master.handle_retried(&"a".into());
    world.prompt("a", Front::default());
    world.done(worker);
    assert_eq!(world.takes(worker), "a");
    world.done(worker);
    let totals = world.master.totals(world.now);
    assert_eq!((totals.all, totals.succeeded, totals.failed), (2, 2, 0));
}

#[test]
fn a_prompt_that_ends_its_worker_each_time_is_given_up() {
    let mut world = World::with(Settings { losses_max: Some(2), ..settings() }, &["a"]);
    for round in 0..3 {
        assert_eq!(world.counts(), [1, 0, 0, 0], "{round}");
        let (worker, _) = world.rejoin(None, None);
        world.takes_as_run(worker);
        world.closed(worker);
        world.wait(10.0);
    }
    assert_eq!(world.counts(), [0, 0, 0, 1]);
    let reason = world.folders.reasons[&FileName::from("a")].clone().unwrap();
    assert!(reason.starts_with("3 runs of this prompt were lost"), "{reason}");
}

#[test]
fn a_prompt_of_workers_that_leave_is_not_given_up() {
    let mut world = World::with(Settings { losses_max: Some(0), ..settings() }, &["a"]);
    for _ in 0..3 {
        let worker = world.join();
        world.takes(worker);
        world.says(worker, FromWorker::Leave);
    }
    assert_eq!(world.counts(), [1, 0, 0, 0]);
}

#[test]
fn a_time_limit_holds_for_files_that_name_none() {
    let timeout = Some(Duration::from_secs(30));
    let mut world = World::with(Settings { timeout, ..settings() }, &["a"]);
    let own = Front { timeout: Some(Duration::from_secs(5)), ..Front::default() };
    world.prompt("b", own);
    let [one, other] = [world.join(), world.join()];
    assert_eq!(world.request(one).timeout, timeout);
    assert_eq!(world.request(other).timeout, Some(Duration::from_secs(5)));
}

#[test]
fn a_prompt_whose_commands_are_killed_waits_again_as_often_as_it_may_lose_a_worker() {
    let mut world = World::with(Settings { losses_max: Some(1), ..settings() }, &["a"]);
    let (worker, _) = world.rejoin(None, None);
    let lost = || FromWorker::Failed { reason: "killed".into(), is_loss: true };
    let run = world.takes_as_run(worker);
    world.says(worker, lost());
    assert_eq!(world.counts(), [0, 1, 0, 0], "the same worker has it again");
    let heard = world.heard(worker);
    assert!(matches!(&heard[..], [FromMaster::ReportAck(id), FromMaster::Request(_)] if *id == run), "{heard:?}");
    let FromMaster::Request(again) = &heard[1] else { unreachable!() };
    world.says(worker, FromWorker::RequestAck(again.id.clone()));
    world.says(worker, lost());
    assert_eq!(world.counts(), [0, 0, 0, 1]);
}

#[test]
fn a_master_that_is_killed_again_and_again_keeps_no_prompt_for_a_dead_worker() {
    let mut world = World::new(&["a"]);
    let (worker, _) = world.rejoin(None, None);
    let run = world.takes_as_run(worker);
    for seconds in [0.0, 60.0, 39.0] {
        world.wait(seconds);
        assert_eq!(world.counts(), [0, 1, 0, 0], "{seconds}");
        world.restart();
    }
    // A worker that comes back within its lease goes on, and has a whole one afterwards.
    assert_eq!(world.rejoin(Some(&run), None).1.run.as_ref(), Some(&run));
    world.restart();
    world.wait(60.0);
    world.restart();
    world.wait(39.9);
    assert_eq!(world.counts(), [0, 1, 0, 0]);
    world.wait(0.1);
    assert_eq!(world.counts(), [1, 0, 0, 0]);
}

#[test]
fn a_clock_that_is_set_back_gives_a_dead_worker_no_more_than_another_lease() {
    let mut world = World::new(&["a"]);
    let (worker, _) = world.rejoin(None, None);
    world.takes_as_run(worker);
    world.now.wall = Wall::from_unix_seconds(2e9).unwrap();
    world.restart();
    world.now.wall = Wall::from_unix_seconds(1e9).unwrap();
    world.restart();
    world.wait(100.0);
    assert_eq!(world.counts(), [1, 0, 0, 0]);
}

#[test]
fn a_prompt_that_ends_its_worker_and_the_master_each_time_is_given_up() {
    let mut world = World::with(Settings { losses_max: Some(2), ..settings() }, &["a"]);
    for round in 0..3 {
        assert_eq!(world.counts(), [1, 0, 0, 0], "{round}");
        let (worker, _) = world.rejoin(None, None);
        world.takes_as_run(worker);
        world.restart();
        world.wait(100.0);
    }
    assert_eq!(world.counts(), [0, 0, 0, 1]);
    assert!(world.notes.losses.is_empty(), "a prompt that is tried again begins anew");
}
