//! Workers of the document, which parse the result of one `recv` as one message.
#![cfg(test)]

use super::*;

/// Joins as a worker of the document, without declaring how it reads.
fn joins_plainly(world: &mut World) -> Connection {
    let worker = world.connect();
    world.says(
        worker,
        FromWorker::Join { worker: "50123".into(), secret: None, splits: false, offer: Offer::default() },
    );
    assert_eq!(world.heard(worker), [FromMaster::JoinAck]);
    worker
}

#[test]
fn a_worker_that_does_not_split_the_stream_hears_nothing_but_join_ack_for_a_while() {
    let quick = Settings { timer_interval: Duration::from_millis(50), ..settings() };
    let mut world = World::with(quick, &["a", "b"]);
    let worker = joins_plainly(&mut world);
    world.says(
        worker,
        FromWorker::Join { worker: "again".into(), secret: None, splits: false, offer: Offer::default() },
    );
    world.says(worker, FromWorker::Status { secret: None });
    world.prompt("c", Front { priority: 5, ..Front::default() });
    world.wait(0.199);
    assert_eq!(world.heard(worker), []);
    assert_eq!((world.counts(), world.state(worker)), ([3, 0, 0, 0], Some(WorkerState::Idle)));
    // A worker that splits the stream is not delayed by it.
    let quick = world.join();
    assert_eq!(world.takes(quick), "c");
    world.wait(0.001);
    // One message at a time, including the check of the TIMERs meanwhile.
    assert_eq!(world.heard(worker), [FromMaster::JoinAck]);
    world.wait(0.2);
    assert!(matches!(&world.heard(worker)[..], [FromMaster::StatusAck(_)]));
    world.wait(0.2);
    assert_eq!((world.heard(worker), world.counts()), (vec![], [2, 1, 0, 0]));
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
        // No message is left out: the worker is checked, and has the next prompt.
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
        world.wait(0.4);
        for worker in workers {
            world.takes(worker);
            world.done(worker);
        }
    }
    assert_eq!(world.counts(), [0, 0, 4, 0]);
}

/// The messages in so many milliseconds to a worker that finishes each prompt at once: `R` for a REQUEST, `C` for a CHECK.
/// There are more prompts than it can process.
fn hears_in(millis: u64, timer_millis: u64, workers: usize) -> Vec<String> {
    let settings = Settings { timer_interval: Duration::from_millis(timer_millis), ..settings() };
    let names: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
    let mut world = World::with(settings, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let workers: Vec<Connection> = (0..workers).map(|_| joins_plainly(&mut world)).collect();
    let mut heard = vec![String::new(); workers.len()];
    let end = Mono::default() + Duration::from_millis(millis);
    while let Some(at) = world.master.poll_timeout().map(|(at, _)| at).filter(|at| *at <= end) {
        world.now.mono = at.max(world.now.mono);
        world.master.handle_timeout(world.now);
        world.settle();
        for (worker, heard) in workers.iter().zip(&mut heard) {
            for message in world.heard(*worker) {
                match message {
                    FromMaster::Request(request) => {
                        heard.push('R');
                        world.says(*worker, FromWorker::RequestAck(request.id));
                        world.done(*worker);
                    }
                    FromMaster::Check(id) => {
                        heard.push('C');
                        world.says(*worker, FromWorker::CheckAck(id));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    heard
}

#[test]
fn a_worker_that_always_has_a_next_prompt_hears_a_check_with_each_timer() {
    for workers in 1..=3 {
        for heard in hears_in(9200, 500, workers) {
            let count = |letter| heard.chars().filter(|one| *one == letter).count();
            // One message each 200 ms, 18 of them for the 18 TIMERs.
            assert_eq!((count('C'), heard.len()), (18, 46), "{heard}");
        }
    }
}

#[test]
fn checks_and_prompts_take_turns_when_there_is_time_for_nothing_else() {
    for timer_millis in [10, 50, 199, 200, 201] {
        for heard in hears_in(8000, timer_millis, 2) {
            assert!(!heard.contains("CC") && !heard.contains("RR"), "TIMER_INTERVAL {timer_millis}: {heard}");
            assert!(heard.len() >= 38, "TIMER_INTERVAL {timer_millis}: {heard}");
        }
    }
    // More of them are due than there are turns.
    for heard in hears_in(8000, 300, 1) {
        assert!(heard.matches('C').count() >= 18, "{heard}");
    }
}

#[test]
fn a_prompt_that_comes_with_a_check_is_told_soon_after_it() {
    let mut world = World::new(&[]);
    let worker = joins_plainly(&mut world);
    world.wait(9.999);
    // Found by the scan of the TIMER that checks the worker.
    world.folders.pending.insert("a".into(), Content::Prompt(Front::default(), "a".into()));
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
