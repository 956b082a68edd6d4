//! COMPLETED, stopping, and the totals; files that cannot be read, moved or found.
#![cfg(test)]

use super::*;

#[test]
fn the_master_ends_with_the_last_result() {
    let mut world = World::ending(&["a", "b"]);
    let worker = world.join();
    world.takes(worker);
    world.done(worker);
    world.takes(worker);
    world.wait(35.0);
    assert!(!world.exited && world.closing.is_empty(), "a file is in working/");
    world.fails(worker);
    assert!(world.closing.contains(&worker) && !world.exited);
    assert_eq!(world.heard(worker).last(), Some(&FromMaster::Completed));
    // Closing a connection does not count as work.
    world.wait(3.0);
    world.closed(worker);
    assert!(world.exited);
    let totals = world.master.totals(world.now);
    let expected =
        Totals { running_for: Duration::from_secs(35), all: 2, succeeded: 1, failed: 1, timed_out: 0, cost: None };
    assert_eq!((totals, totals.left()), (expected, 0));
}

#[test]
fn a_prompt_that_comes_before_the_last_result_is_worked_off() {
    let mut world = World::ending(&["a"]);
    let worker = world.join();
    world.takes(worker);
    // The file has not been announced yet.
    world.folders.pending.insert("b".into(), Content::Prompt(Front::default(), "b".into()));
    world.done(worker);
    assert_eq!(world.takes(worker), "b");
    world.done(worker);
    assert!(world.closing.contains(&worker));
}

#[test]
fn a_master_without_files_ends_with_the_first_timer_unless_it_is_to_stay() {
    let mut world = World::ending(&[]);
    world.wait(9.9);
    assert!(!world.exited);
    world.wait(0.1);
    assert!(world.exited);
    let mut world = World::new(&[]);
    world.wait(1000.0);
    assert!(!world.exited);
}

#[test]
fn a_file_that_only_the_timer_finds_keeps_the_master_from_ending() {
    let mut world = World::ending(&[]);
    let worker = world.join();
    world.folders.pending.insert("a".into(), Content::Prompt(Front::default(), "a".into()));
    world.wait(10.0);
    assert_eq!(world.takes(worker), "a");
    assert!(!world.exited);
}

#[test]
fn a_file_that_is_being_written_keeps_the_master_from_ending() {
    let mut world = World::ending(&[]);
    let worker = world.join();
    world.now.mono = Mono::default() + Duration::from_secs(10);
    world.master.handle_timeout(world.now);
    while let Some(effect) = world.master.poll_effect() {
        if effect == Effect::Scan {
            // The file exists but is incomplete, so it is not found.
            world.master.handle_scanned(world.now, &["a".into()].into());
        }
    }
    assert!(world.closing.is_empty() && !world.exited);
    world.prompt("a", Front::default());
    assert_eq!(world.state(worker), Some(WorkerState::Requesting));
}

#[test]
fn a_file_behind_a_closed_gate_keeps_the_master_from_ending() {
    let mut world = World::ending(&[]);
    world.prompt("a", gated(&["claude"]));
    let worker = world.join();
    world.takes(worker);
    world.limited(worker, Some(3600));
    world.wait(3599.0);
    assert!(!world.exited);
    world.wait(1.0);
    assert_eq!(world.takes(worker), "a");
}

#[test]
fn stopping_gives_all_files_back_and_closes_every_connection() {
    let mut world = World::ending(&["a", "b", "c"]);
    let [working, requesting] = [world.join(), world.join()];
    world.takes(working);
    let stranger = world.connect();
    world.stop();
    assert_eq!(world.counts(), [3, 0, 0, 0]);
    assert_eq!(world.closing, [working, requesting, stranger].into());
    let late = world.connect();
    assert!(world.aborted.contains(&late));
    world.done(working);
    world.stop();
    for connection in [working, requesting] {
        world.closed(connection);
        assert!(!world.exited);
    }
    world.closed(stranger);
    assert!(world.exited);
    assert_eq!(world.master.totals(world.now).left(), 3);
}

#[test]
fn peers_that_never_close_do_not_keep_the_master() {
    let patient = Settings { disconnect_timeout: Duration::from_secs(600), keep_alive: false, ..settings() };
    let mut world = World::with(patient, &[]);
    world.join();
    world.stop();
    world.wait(9.9);
    assert!(!world.exited);
    world.wait(0.1);
    assert!(world.exited);
}

#[test]
fn a_file_that_cannot_be_read_goes_to_failed_and_holds_nobody_up() {
    let mut world = World::ending(&[]);
    world.appears("a", Content::Unfit);
    world.prompt("b", Front::default());
    let worker = world.join();
    assert_eq!(world.takes(worker), "b");
    assert_eq!(world.counts(), [0, 1, 0, 1]);
    assert_eq!(world.folders.reasons[&"a".into()].as_deref(), Some("not UTF-8"));
    assert_eq!(world.master.totals(world.now).failed, 1);
}

#[test]
fn a_file_that_cannot_be_moved_is_left_and_holds_nobody_up() {
    let mut world = World::ending(&[]);
    world.appears("a", Content::Unmovable);
    world.prompt("b", Front::default());
    let worker = world.join();
    assert_eq!(world.takes(worker), "b");
    world.done(worker);
    assert!(world.closing.contains(&worker), "the master ends without it");
    assert_eq!(world.master.totals(world.now).left(), 1);
}

#[test]
fn a_file_that_was_left_is_tried_again_when_it_changes() {
    let mut world = World::ending(&[]);
    world.appears("a", Content::Unmovable);
    let worker = world.join();
    assert!(world.heard(worker).is_empty());
    world.prompt("a", Front::default());
    assert_eq!(world.takes(worker), "a");
}

#[test]
fn a_file_that_vanishes_is_forgotten() {
    let mut world = World::ending(&["a", "b", "c"]);
    world.folders.pending.remove(&"a".into());
    let worker = world.join();
    assert_eq!(world.takes(worker), "b");
    world.folders.pending.clear();
    world.folders.working.clear();
    world.done(worker);
    assert_eq!(world.counts(), [0, 0, 0, 0]);
    world.wait(10.0);
    assert!(world.closing.contains(&worker));
    assert_eq!(world.master.totals(world.now).all, 0);
}

#[test]
fn a_move_that_fails_is_tried_again() {
    let mut world = World::ending(&["a", "b"]);
    let worker = world.join();
    world.takes(worker);
    world.folders.stuck = true;
    world.done(worker);
    assert_eq!(world.takes(worker), "b");
    assert_eq!(world.counts(), [0, 2, 0, 0]);
    world.folders.stuck = false;
    world.done(worker);
    assert_eq!(world.counts(), [0, 1, 1, 0]);
    world.wait(5.0);
    assert!(!world.exited);
    world.wait(5.0);
    assert_eq!(world.counts(), [0, 0, 2, 0]);
}

#[test]
fn a_file_in_done_of_an_earlier_master_is_not_in_the_totals() {
    let master = Master::new(settings(), 1, Now::default(), 5, 6);
    let status = master.status(Now::default());
    assert_eq!((status.done, status.failed, master.totals(Now::default()).all), (5, 6, 0));
}
