//! Answers that are stored before their prompt is done, and a master whose disk is full.
#![cfg(test)]

use super::*;

#[test]
fn a_prompt_is_done_when_its_answer_is_stored_and_no_prompt_is_handed_out_while_there_is_no_room() {
    let mut world = World::new(&["a", "b", "c"]);
    let (worker, _) = world.rejoin(None, None);
    let run = world.takes_as_run(worker);
    let plain = world.join();
    world.takes(plain);
    world.answers.is_full = true;
    world.done(worker);
    assert_eq!(world.heard(worker), [], "it keeps its report");
    world.done(worker);
    assert_eq!(world.counts(), [1, 2, 0, 0]);
    assert_eq!(world.master.status(world.now).paused.as_deref(), Some("the disk is full"));
    world.done(plain);
    assert_eq!(world.counts(), [1, 1, 1, 0], "an original keeps its answers itself");
    world.wait(500.0);
    assert_eq!((world.counts(), world.heard(plain)), ([1, 1, 1, 0], vec![]));
    world.answers.is_full = false;
    world.wait(10.0);
    assert!(world.closing.contains(&worker), "it sends its answer again");
    world.closed(worker);
    assert_eq!(world.heard(plain), [], "this answer comes first");
    let (worker, welcome) = world.rejoin(Some(&run), None);
    assert_eq!(welcome.run.as_ref(), Some(&run));
    world.done(worker);
    assert_eq!(world.heard(worker), [FromMaster::ReportAck(run.clone())]);
    assert!(world.answers.stored.contains(&run));
    world.wait(10.0);
    assert_eq!(world.takes(plain), "c");
    assert_eq!(world.master.status(world.now).paused, None);
}

#[test]
fn a_run_that_has_ended_in_time_is_not_too_long_while_its_answer_waits() {
    let mut world = World::new(&[]);
    world.prompt("a", Front { timeout: Some(Duration::from_secs(20)), ..Front::default() });
    let (worker, _) = world.rejoin(None, None);
    world.takes_as_run(worker);
    world.answers.is_full = true;
    world.done(worker);
    world.wait(100.0);
    assert_eq!(world.counts(), [0, 1, 0, 0]);
}

#[test]
fn a_prompt_whose_answer_has_not_arrived_as_a_whole_is_not_done() {
    let mut world = World::with(Settings { losses_max: Some(1), ..settings() }, &["a"]);
    let (worker, _) = world.rejoin(None, None);
    world.answers.is_torn = true;
    for counts in [[0, 1, 0, 0], [0, 0, 0, 1]] {
        let heard = world.heard(worker);
        let Some(FromMaster::Request(request)) = heard.last() else { panic!("{heard:?}") };
        world.says(worker, FromWorker::RequestAck(request.id.clone()));
        world.done(worker);
        assert_eq!(world.counts(), counts);
    }
    let reason = world.folders.reasons[&FileName::from("a")].clone().unwrap();
    assert!(reason.starts_with("2 runs of this prompt were lost"), "{reason}");
    assert!(matches!(world.heard(worker)[..], [FromMaster::ReportAck(_)]), "its worker drops the report");
}
