//! Workers of the document, which take what one `recv` returns for one message.
#![cfg(test)]

use super::*;

/// Joins as a worker of the document, which says nothing of how it reads.
fn joins_plainly(world: &mut World) -> Connection {
    let worker = world.connect();
    world.says(worker, FromWorker::Join { worker: "50123".into(), secret: None, splits: false });
    assert_eq!(world.heard(worker), [FromMaster::JoinAck]);
    worker
}

#[test]
fn a_worker_that_does_not_split_the_stream_hears_nothing_but_join_ack_for_a_while() {
    let quick = Settings { timer_interval: Duration::from_millis(50), ..settings() };
    let mut world = World::with(quick, &["a", "b"]);
    let worker = joins_plainly(&mut world);
    world.says(worker, FromWorker::Join { worker: "again".into(), secret: None, splits: false });
    world.says(worker, FromWorker::Status { secret: None });
    world.prompt("c", Front { priority: 5, ..Front::default() });
    world.wait(0.199);
    assert_eq!(world.heard(worker), []);
    assert_eq!((world.counts(), world.state(worker)), ([3, 0, 0, 0], Some(WorkerState::Idle)));
    // One that splits is not held up by it.
    let quick = world.join();
    assert_eq!(world.takes(quick), "c");
    world.wait(0.001);
    // One after the other, and prompts before checks.
    assert_eq!(world.heard(worker), [FromMaster::JoinAck]);
    world.wait(0.2);
    assert!(matches!(&world.heard(worker)[..], [FromMaster::StatusAck(_)]));
    world.wait(0.2);
    assert_eq!(world.takes(worker), "a");
}

#[test]
fn a_worker_that_does_not_split_the_stream_hears_one_message_at_a_time() {
    // A DONE and a TIMER at the same moment, in both orders.
    for done_first in [true, false] {
        let quick = Settings { timer_interval: Duration::from_millis(500), ..settings() };
        let mut world = World::with(quick, &["a", "b"]);
        let worker = joins_plainly(&mut world);
        world.wait(0.2);
        assert_eq!(world.takes(worker), "a");
        world.wait(0.299);
        world.now.mono = Mono::default() + Duration::from_millis(500);
        if done_first {
            world.done(worker);
        }
        world.master.handle_timeout(world.now);
        world.settle();
        if !done_first {
            world.done(worker);
        }
        let first = world.heard(worker);
        assert_eq!(first.len(), 1, "{first:?}");
        world.wait_while(0.199, |_| false);
        assert_eq!(world.heard(worker), []);
        world.now.mono = Mono::default() + Duration::from_millis(700);
        world.master.handle_timeout(world.now);
        world.settle();
        let second = world.heard(worker);
        // Nothing is left out: the worker is checked, and has the next prompt.
        let both = [&first[..], &second].concat();
        let is_check = |message: &FromMaster| matches!(message, FromMaster::Check(_));
        assert!(both.len() == 2 && is_check(&both[usize::from(done_first)]), "{both:?}");
        assert_eq!(world.state(worker), Some(WorkerState::Requesting));
    }
}

#[test]
fn checks_that_follow_each_other_closely_keep_no_prompt_from_a_worker() {
    let quick = Settings { timer_interval: Duration::from_millis(50), ..settings() };
    let mut world = World::with(quick, &["a", "b", "c", "d"]);
    let workers = [joins_plainly(&mut world), joins_plainly(&mut world)];
    for _ in 0..2 {
        world.wait(0.2);
        for worker in workers {
            world.takes(worker);
            world.done(worker);
        }
    }
    assert_eq!(world.counts(), [0, 0, 4, 0]);
}

#[test]
fn a_prompt_that_comes_with_a_check_is_told_soon_after_it() {
    let mut world = World::new(&[]);
    let worker = joins_plainly(&mut world);
    world.wait(9.999);
    // Found by the look of the TIMER that checks the worker.
    world.pending.insert("a".into(), Content::Prompt(Front::default(), "a".into()));
    world.wait(0.2);
    assert_eq!((world.heard(worker), world.counts()), (vec![], [1, 0, 0, 0]));
    world.wait(0.001);
    assert_eq!(world.takes(worker), "a");
}

#[test]
fn a_settling_worker_that_is_sent_away_hears_no_word_of_it() {
    for way in 0..3 {
        let mut world = World::new(&[]);
        let worker = joins_plainly(&mut world);
        match way {
            0 => world.stop(),
            1 => {
                world.master.handle_bad_message(world.now, worker, &MessageError::Malformed("not JSON".into()));
                world.settle();
            }
            _ => world.says(worker, FromWorker::Leave),
        }
        assert!(world.closing.contains(&worker));
        world.wait(1.0);
        assert_eq!(world.heard(worker), []);
    }
}
