//! Stories of a controller that starts again.
#![cfg(test)]

use super::*;

#[test]
fn waiting_tasks_keep_their_order_and_ids_go_on() {
    let mut world = World::new();
    let tasks = [world.task(), world.task(), world.task()];
    // The clock may stand anywhere when the controller is back.
    world.now.wall = Wall::from_micros(START - 1);
    world.restart();
    let later = world.task();
    assert!(tasks.iter().all(|task| *task < later));
    // Those from before the restart may have been handed out by a controller that died before it could store that.
    let rounds = tasks.into_iter().map(|task| (task, Round(1))).chain([(later, Round(0))]);
    for (task, round) in rounds {
        let agent = format!("agent-{task}");
        assert_eq!(world.apply(&agent), Some((task, round)));
    }
}

/// HAZARDS row A6; promise 2.
#[test]
fn a_running_task_is_adopted_when_its_agent_comes_back() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.report("a", task, Round(0), Phase::Running);
    world.restart();
    assert_eq!(world.phase(task), Phase::Dispatched, "RUNNING is not stored; its agent says it again");
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Wanted::Run));
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

/// What an agent reports first may be the result that it has kept meanwhile.
#[test]
fn a_result_from_before_the_restart_is_taken() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.restart();
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

#[test]
fn an_agent_that_does_not_come_back_is_lost() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.restart();
    world.pass(INTERVAL * 2);
    let record = world.record(task);
    assert_eq!((record.phase(), record.round, record.counts.losses), (Phase::Waiting, Round(1), 1));
}

/// The answer to its APPLY may have died with the controller: that is no loss.
#[test]
fn an_agent_that_comes_back_without_its_task_frees_it() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.restart();
    assert_eq!(world.beat("a", None), None);
    assert_eq!(world.phase(task), Phase::Dispatched, "its result may be on its way");
    world.pass(INTERVAL);
    assert_eq!(world.beat("a", None), None);
    let record = world.record(task);
    assert_eq!((record.phase(), record.round, record.counts.losses), (Phase::Waiting, Round(1), 0));
}

/// An agent that asks for a task has said what it had to say of the one before.
#[test]
fn an_agent_that_comes_back_and_asks_for_a_task_has_none() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.restart();
    assert_eq!(world.apply("a"), Some((task, Round(1))));
}

/// The heartbeat of an agent whose run has ended meanwhile comes before its result.
#[test]
fn a_result_that_comes_after_a_heartbeat_is_taken() {
    let mut world = World::new();
    let (done, task) = (world.task(), world.task());
    world.apply("a");
    world.report("a", done, Round(0), Phase::Finished);
    world.apply("a");
    world.restart();
    world.beat("a", None);
    assert_eq!(world.report("a", done, Round(0), Phase::Finished), None, "said again, of an earlier run");
    world.beat("a", None);
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    assert_eq!((world.outcome(task), world.record(task).round), (Outcome::Succeeded, Round(0)));
}

#[test]
fn families_labels_kills_and_retention_survive() {
    let mut world = World::new();
    let father = world.submitted(&Fields::new().with(words::GIVEN_ID, "g"));
    world.apply("a");
    let child = world.child(father);
    let done = world.task();
    world.kill(done);
    world.restart();
    let found = world.ask(Request::Query(filter(words::GIVEN_ID, "g"), None));
    assert!(matches!(found, Reply::Task { record, .. } if record.id == father));
    world.report("a", father, Round(0), Phase::Finished);
    assert_eq!(world.outcome(child), Outcome::Killed);
    world.pass(Duration::from_secs(3700));
    assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic([0; 6]));
    assert!(world.stored.is_empty(), "what is forgotten is forgotten on disk too");
}

/// The dispatch left before its record was committed, and the controller died between the two.
#[test]
fn a_run_whose_dispatch_was_not_stored_goes_on() {
    let mut world = World::new();
    let (first, second) = (world.task(), world.task());
    world.restart();
    assert_eq!(world.beat("a", Some((first, Round(0)))), Some(Wanted::Run));
    assert_eq!(world.report("b", second, Round(0), Phase::Finished), None, "its report says the same");
    assert_eq!(world.apply("c"), None, "both are taken");
    assert_eq!(world.report("a", first, Round(0), Phase::Finished), None);
    assert_eq!((world.outcome(first), world.outcome(second)), (Outcome::Succeeded, Outcome::Succeeded));
}
