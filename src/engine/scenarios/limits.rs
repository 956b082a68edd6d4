//! Scenarios of limits: floods, retention, the end of the service.
#![cfg(test)]

use super::*;

/// docs/design/hazards.md, F9.
#[test]
fn a_flood_of_submits_meets_a_limit() {
    let mut world = World::with(|settings| settings.waiting_max = 2);
    world.task();
    world.task();
    assert_eq!(refused(&world.submit(&Fields::new())), Code::LimitReached);
    world.apply("a");
    world.task();
}

/// TASK_KEEP_HOURS applies to whole families only (docs/sources/controller.md, 5.5).
#[test]
fn finished_families_are_forgotten_in_their_time() {
    let mut world = World::new();
    let (alone, father) = (world.task(), world.task());
    world.apply("a");
    world.report("a", alone, Round(0), Phase::Finished);
    world.apply("a");
    let child = world.child(father);
    world.kill(child);
    let left = |world: &mut World| {
        world.beat("a", Some((father, Round(0))));
        match world.ask(Request::TaskDetails(Filter::default(), Page { offset: 0, limit: None })) {
            Reply::Tasks { page, .. } => page.total,
            other => panic!("{other:?}"),
        }
    };
    for _ in 0..1_250 {
        left(&mut world);
        world.pass(INTERVAL);
    }
    assert_eq!(left(&mut world), 2, "the family of a running father stays");
    world.report("a", father, Round(0), Phase::Finished);
    world.pass(Duration::from_secs(3700));
    assert_eq!(left(&mut world), 0);
}

#[test]
fn results_are_kept_within_a_bound() {
    let submitted = format!("\"{}\":\"t\"", words::OPERATION).len();
    let one = size_of::<TaskRecord>() + submitted + result(0).bytes();
    let mut world = World::with(|settings| settings.keep_bytes_max = 3 * one);
    for _ in 0..5 {
        let task = world.task();
        world.apply("a");
        world.report("a", task, Round(0), Phase::Finished);
        world.pass(Duration::from_millis(1));
    }
    assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic(TaskCounts([0, 0, 0, 0, 0, 3]), None));
}

#[test]
fn a_stopping_controller_answers_everyone() {
    let mut world = World::new();
    let task = world.task();
    world.apply("b");
    let parked = world.park("a");
    let (waiting, _) = world.ask_later(Request::Query(filter(words::TASK_ID, &task.to_string()), Some(INTERVAL)));
    world.controller.handle_stop();
    world.settle();
    let tickets: Vec<_> = world.replies.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(tickets, [parked, waiting]);
    assert_eq!(refused(&world.submit(&Fields::new())), Code::Stopping);
}

/// While the store fails, submits are refused and everything else continues (docs/design/hazards.md, D5).
#[test]
fn a_store_in_trouble_stops_submits_only() {
    let mut world = World::new();
    let task = world.task();
    world.controller.handle_store(Some("disk full".to_owned()));
    let Reply::Refused(refusal) = world.submit(&Fields::new()) else { panic!() };
    assert!(refusal.code == Code::LimitReached && refusal.message.contains("disk full"), "{refusal}");
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    world.controller.handle_store(None);
    world.task();
}

/// A submit that could not be stored, and was not confirmed, is withdrawn, unless an agent has the task already.
#[test]
fn a_submit_that_could_not_be_stored_is_taken_back() {
    let mut world = World::new();
    let waiting = world.task();
    assert!(world.controller.handle_unstored(world.now, waiting, false));
    world.settle();
    assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic(TaskCounts([0; 6]), None));
    world.park("a");
    let dispatched = world.task();
    assert!(!world.controller.handle_unstored(world.now, dispatched, false));
    let father = world.task();
    world.child(father);
    assert!(!world.controller.handle_unstored(world.now, father, false));
    world.settle();
}

/// The fields of a submit are kept as long as the task is, and cost as much as a result.
#[test]
fn the_parameters_of_finished_tasks_count_too() {
    let mut world = World::with(|settings| settings.keep_bytes_max = 250_000);
    for _ in 0..5 {
        let task = world.submitted(&Fields::new().with("large", "x".repeat(100_000)));
        world.kill(task);
        world.pass(Duration::from_millis(1));
    }
    assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic(TaskCounts([0, 0, 0, 0, 0, 2]), None));
}

#[test]
fn the_bytes_of_tasks_that_wait_have_a_limit() {
    let mut world = World::with(|settings| settings.waiting_bytes_max = 250_000);
    let large = Fields::new().with("large", "x".repeat(100_000));
    let first = world.submitted(&large);
    world.submitted(&large);
    let Reply::Refused(refusal) = world.submit(&large) else { panic!() };
    assert_eq!(refusal.code, Code::LimitReached);
    for part in ["WAITING_BYTES_MAX is 250000", "try again later"] {
        assert!(refusal.message.contains(part), "{refusal}");
    }
    world.task();
    world.restart();
    assert_eq!(refused(&world.submit(&large)), Code::LimitReached, "they are counted after a restart, too");
    assert_eq!(world.apply("a"), Some((first, Round(1))));
    let third = world.submitted(&large);
    world.ends("a", first, Round(1), result(0));
    assert_eq!(refused(&world.do_to(TASK_RETRY, first)), Code::LimitReached, "a retry waits, too");
    world.kill(third);
    assert_eq!(world.do_to(TASK_RETRY, first), Reply::Done);
}

/// TASK_KEEP_HOURS = 0.
#[test]
fn what_is_not_to_be_kept_is_forgotten_within_a_second() {
    let mut world = World::with(|settings| settings.keep = Duration::ZERO);
    for _ in 0..2 {
        let task = world.task();
        world.kill(task);
        assert_eq!(world.phase(task), Phase::Finished, "it can still be seen");
        world.pass(seconds(1.0));
        assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic(TaskCounts([0; 6]), None));
    }
}

/// Names cost nothing: a client with many names must not keep other agents out.
#[test]
fn a_lost_agent_makes_room_for_a_new_one() {
    let mut world = World::with(|settings| settings.agents_max = 3);
    let task = world.task();
    for agent in ["a", "b", "c"] {
        world.apply(agent);
    }
    world.pass(INTERVAL);
    world.beat("a", Some((task, Round(0))));
    world.beat("c", None);
    world.pass(INTERVAL);
    world.beat("a", Some((task, Round(0))));
    assert_eq!(world.counts(), AgentCounts { total: 3, free: 1, busy: 1, lost: 1 });
    world.beat("d", None);
    assert_eq!(world.counts(), AgentCounts { total: 3, free: 2, busy: 1, lost: 0 }, "b is forgotten");
    // An agent that has never had a task.
    world.beat("e", None);
    world.park("e");
    world.beat("f", None);
    world.park("f");
    assert_eq!(world.counts(), AgentCounts { total: 3, free: 2, busy: 1, lost: 0 }, "c and d have never done anything");
    let refusal = match world.say("g", FromAgent::Apply(None)).1 {
        Answer::Now(Reply::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert!(refusal.code == Code::LimitReached && refusal.message.contains("AGENTS_MAX"), "{refusal}");
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    world.pass(INTERVAL * 2);
    world.beat("g", None);
    assert_eq!(world.counts().lost, 2, "the one that was lost first is forgotten first");
    assert_eq!(world.beat("f", Some((task, Round(0)))), Some(Directive::Drop), "who comes back is known again");
}
