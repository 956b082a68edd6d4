//! Scenarios of repeated submits (docs/design/hazards.md, F7).
#![cfg(test)]

use super::*;
use crate::tasks::withdrawal::Abandoned;
use api::wire::requests::heartbeat::{Heartbeat, ToldTools};
use api::wire::task::LIST_KEY;
use base::ToolSet;

fn keyed(key: &str) -> Fields {
    Fields::new().with(words::OPERATION, "t").with(words::SUBMIT_KEY, key).with("a", 1u32).with("b", "x")
}

fn submitted(reply: &Reply) -> (TaskId, bool) {
    match reply {
        Reply::Submitted { task, duplicate, .. } => (*task, *duplicate),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_submit_again_is_the_same_task() {
    let mut world = World::new();
    let first = submitted(&world.submit(&keyed("k")));
    assert!(!first.1);
    assert_eq!(submitted(&world.submit(&keyed("k"))), (first.0, true));
    let told = fields_of(TASK_SUBMIT, &world.submit(&keyed("k")));
    assert_eq!(told.get(words::DUPLICATE).and_then(base::Scalar::as_bool), Some(true));
    let another_order =
        Fields::new().with("b", "x").with(words::SUBMIT_KEY, "k").with("a", 1u32).with(words::OPERATION, "t");
    assert_eq!(submitted(&world.submit(&another_order)), (first.0, true), "the order of fields means nothing");
    assert_ne!(submitted(&world.submit(&keyed("other"))).0, first.0);
    assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic(TaskCounts([2, 0, 0, 0, 0, 0]), None));
}

/// A key is valid as long as the task is known, whatever its state.
#[test]
fn a_key_holds_over_the_end_of_its_task_and_a_restart() {
    let mut world = World::new();
    let (task, _) = submitted(&world.submit(&keyed("k")));
    world.restart();
    assert_eq!(submitted(&world.submit(&keyed("k"))), (task, true));
    world.exits("a", task, 1, 0);
    assert_eq!(submitted(&world.submit(&keyed("k"))), (task, true));
    world.restart();
    assert_eq!(submitted(&world.submit(&keyed("k"))), (task, true));
    assert_eq!(world.apply("a"), None, "no second run");
    world.pass(seconds(3700.0));
    let (next, duplicate) = submitted(&world.submit(&keyed("k")));
    assert!(next != task && !duplicate, "within the retention");
}

/// A submit that would not be accepted any more is no reason to refuse a repetition of an accepted one.
#[test]
fn a_duplicate_is_found_before_anything_is_refused() {
    let mut world = World::with(|settings| settings.waiting_max = 1);
    let fields = keyed("k").with(words::END_BEFORE, world.moment(5.0));
    let (task, _) = submitted(&world.submit(&fields));
    assert_eq!(submitted(&world.submit(&fields)), (task, true), "no room is needed");
    world.pass(seconds(6.0));
    assert_eq!(submitted(&world.submit(&fields)), (task, true), "its deadline has passed, and its state says so");
    world.controller.handle_store(Some("full".to_owned()));
    assert_eq!(submitted(&world.submit(&fields)), (task, true));
}

/// Its agent would have been told after the commit that has failed: no run has begun that must be ended, whatever else has ended it
/// meanwhile.
#[test]
fn a_refused_submit_with_a_key_leaves_nothing_after_its_dispatch() {
    for wait in [0.0, 3.0] {
        let mut world = World::new();
        let ticket = world.park("a");
        let (task, _) = submitted(&world.submit(&keyed("k").with(words::END_BEFORE, world.moment(2.0))));
        let told = world.replies.iter().find_map(|(to, reply)| match reply {
            Reply::Assigned(record, _) if *to == ticket => Some(record.clone()),
            _ => None,
        });
        let told = told.expect("it is handed out");
        world.pass(seconds(wait));
        assert_eq!(world.record(task).kill.is_some(), wait > 2.0);
        let abandoned = world.controller.abandon_unstored(world.now, &[task], false);
        assert_eq!(abandoned, Some(Abandoned::Withdrawn), "after {wait} s");
        world.settle();
        assert!(!world.stored.contains_key(&task) && !world.controller.is_present(&told));
        let (next, duplicate) = submitted(&world.submit(&keyed("k")));
        assert!(next != task && !duplicate);
        assert_eq!(world.apply("a"), Some((next, Round(0))), "the agent is free");
    }
}

#[test]
fn a_child_that_is_submitted_twice_is_one_child() {
    let mut world = World::new();
    let father = world.task();
    world.runs("a", father, Round(0));
    let fields = keyed("k").with(words::FATHER_ID, father.to_string());
    let (child, _) = submitted(&world.submit(&fields));
    assert_eq!(submitted(&world.submit(&fields)), (child, true));
    world.report("a", father, Round(0), Phase::Finished);
    assert_eq!(submitted(&world.submit(&fields)), (child, true), "also when its father has ended meanwhile");
    assert_eq!(refused(&world.submit(&keyed("k"))), Code::BadField, "a task without a father is another one");
    world.submit(&keyed("l"));
    let other = keyed("l").with(words::FATHER_ID, father.to_string());
    assert_eq!(refused(&world.submit(&other)), Code::BadField, "and the other way round");
    assert_eq!(world.outcome(child), Outcome::Killed);
}

/// The first submit could not be stored, so a repetition is a new attempt.
#[test]
fn a_submit_that_was_not_stored_leaves_its_key_free() {
    let mut world = World::new();
    let (task, _) = submitted(&world.submit(&keyed("k")));
    assert!(world.controller.handle_unstored(world.now, task, false));
    world.settle();
    let (next, duplicate) = submitted(&world.submit(&keyed("k")));
    assert!(next != task && !duplicate);
}

#[test]
fn a_key_is_a_text() {
    let mut world = World::new();
    for key in [base::Scalar::from(""), 7u32.into(), true.into(), base::Scalar::Null] {
        assert_eq!(refused(&world.submit(&Fields::new().with(words::SUBMIT_KEY, key))), Code::BadField);
    }
    // Texts that look alike as JSON are different keys.
    let keys = ["k", "K", "k ", "\"k\"", "ключ", "a\\u0062", "ab", "[1]"];
    let tasks: BTreeSet<_> = keys.iter().map(|key| submitted(&world.submit(&keyed(key))).0).collect();
    assert_eq!(tasks.len(), keys.len());
    world.restart();
    for key in keys {
        let (task, duplicate) = submitted(&world.submit(&keyed(key)));
        assert!(duplicate && tasks.contains(&task), "{key}");
    }
}

#[test]
fn the_same_key_for_another_task_is_refused() {
    let mut world = World::new();
    world.submit(&keyed("k"));
    for other in [
        keyed("k").with("a", 2u32),
        keyed("k").with("a", "1"),
        keyed("k").with("a", true),
        keyed("k").with("c", 1u32),
        keyed("k").with(words::OPERATION, "u"),
        keyed("k").with(words::PRIORITY, 1u32),
        Fields::new().with(words::OPERATION, "t").with(words::SUBMIT_KEY, "k").with("a", 1u32),
    ] {
        let reply = world.submit(&other);
        assert_eq!(refused(&reply), Code::BadField, "{other:?}");
        assert!(format!("{reply:?}").contains(words::SUBMIT_KEY), "{reply:?}");
    }
    assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic(TaskCounts([1, 0, 0, 0, 0, 0]), None));
}

/// Fields that the service sets itself and an unknown father are dropped, both times.
#[test]
fn what_was_dropped_from_the_first_submit_does_not_count() {
    let mut world = World::new();
    let fields = keyed("k").with(words::FATHER_ID, "TASK_1480000000.120000_AZazA").with(words::STATUS, "mine");
    let (task, _) = submitted(&world.submit(&fields));
    assert_eq!(submitted(&world.submit(&fields)), (task, true));
    world.restart();
    assert_eq!(submitted(&world.submit(&fields)), (task, true));
}

/// An accepted task is kept, even if the store fails just when the submit is repeated (README.md, promise 1).
#[test]
fn a_duplicate_that_could_not_be_answered_takes_nothing_away() {
    let mut world = World::new();
    let (task, _) = submitted(&world.submit(&keyed("k")));
    assert_eq!(submitted(&world.submit(&keyed("k"))), (task, true));
    assert!(!world.controller.handle_unstored(world.now, task, true), "its answer waits for the store");
    world.settle();
    assert_eq!(world.phase(task), Phase::Waiting);
    assert!(world.controller.handle_unstored(world.now, task, false), "the first one was not promised to any client");
    assert!(world.controller.handle_unstored(world.now, task, true), "and then neither is the second one");
}

/// A controller that dies in between must not leave a run of an unknown task: the same submit would make another one.
#[test]
fn a_submit_with_a_key_is_handed_out_after_its_commit() {
    let mut world = World::new();
    let claim = |world: &mut World, fields: &Fields| {
        world.park("a");
        world.order.clear();
        let (task, _) = submitted(&world.submit(fields));
        let Some((_, reply @ Reply::Assigned(_, _))) = world.replies.pop() else { panic!("{:?}", world.replies) };
        world.ends("a", task, Round(0), result(0));
        claim_of_reply(&reply)
    };
    assert_eq!(claim(&mut world, &keyed("k")), Claim::Promise);
    assert_eq!(claim(&mut world, &Fields::new()), Claim::Nothing, "others are handed out at once");
    assert_eq!(claim(&mut world, &keyed("e").with("__EAGER__", true)), Claim::Nothing, "and so are eager ones");
    let (waiting, _) = submitted(&world.submit(&keyed("l")));
    world.controller.handle_committed(world.now, Some(waiting));
    let (_, answer) = world.say("a", FromAgent::Apply(None));
    let Answer::Now(reply @ Reply::Assigned(_, _)) = answer else { panic!("{answer:?}") };
    assert_eq!(claim_of_reply(&reply), Claim::Nothing, "its submit is stored already");
}

/// The agent does not hear of a run before its submit is stored, so nothing of it is lost with the agent.
#[test]
fn a_run_whose_submit_is_not_stored_is_no_loss_of_its_agent() {
    for is_stored in [false, true] {
        let mut world = World::new();
        world.park("a");
        let (task, _) = submitted(&world.submit(&keyed("k").with(words::MAX_LOSSES, 0u32)));
        if is_stored {
            world.controller.handle_committed(world.now, Some(task));
        }
        let heartbeat = Heartbeat { replaces: Some(Session(1)), ..Heartbeat::default() };
        let _ = world.say_as("a", 2, FromAgent::Heartbeat(heartbeat));
        world.settle();
        assert_eq!(world.phase(task) == Phase::Waiting, !is_stored);
    }
}

/// Otherwise it would stay behind as one that has run, when its submit is refused.
#[test]
fn a_task_that_ends_before_its_agent_has_heard_of_it_has_no_run() {
    let mut world = World::new();
    world.park("a");
    let (task, _) = submitted(&world.submit(&keyed("k")));
    assert_eq!(world.phase(task), Phase::Dispatched);
    world.kill(task);
    let heartbeat = Heartbeat { replaces: Some(Session(1)), ..Heartbeat::default() };
    let _ = world.say_as("a", 2, FromAgent::Heartbeat(heartbeat));
    world.settle();
    assert_eq!(world.outcome(task), Outcome::Killed);
    assert_eq!(world.record(task).last_run(), None);
}

fn knows_built_ins(world: &mut World, agent: &str) {
    let tools = ToldTools { generation: Some(1), set: Some(ToolSet::every().and_built_ins()) };
    let _ = world.say(agent, FromAgent::Heartbeat(Heartbeat { tools: Some(tools), ..Heartbeat::default() }));
}

/// Its dispatch is not stored first, so the next controller gives its agent the time to name it.
#[test]
fn a_fetched_program_with_a_key_waits_after_a_restart_for_an_agent_that_may_have_it() {
    let mut world = World::new();
    let source = |fields: Fields| fields.with(words::SOURCE, "http://x/run.sh").with(words::SOURCE_UNCHECKED, true);
    knows_built_ins(&mut world, "a");
    let handed_out = world.submitted(&source(keyed("k")));
    world.controller.handle_committed(world.now, Some(handed_out));
    let before = world.stored.clone();
    let (_, answer) = world.say("a", FromAgent::Apply(None));
    let Answer::Now(reply @ Reply::Assigned(_, _)) = answer else { panic!("{answer:?}") };
    assert_eq!(claim_of_reply(&reply), Claim::Nothing);
    let (keyed, other) = (world.submitted(&source(keyed("l"))), world.submitted(&source(Fields::new())));
    // The controller dies before it has stored the dispatch.
    world.stored.extend(before);
    world.restart();
    knows_built_ins(&mut world, "b");
    assert_eq!(world.apply("b"), Some((other, Round(1))), "one that may run twice");
    assert_eq!(world.ends("b", other, Round(1), result(0)), None);
    assert_eq!(world.apply("b"), None, "the others may be out");
    assert_eq!(world.beat("a", Some((handed_out, Round(0)))), Some(Directive::Run));
    world.pass_with(INTERVAL * 2, &[("a", Some((handed_out, Round(0)))), ("b", None)]);
    knows_built_ins(&mut world, "b");
    assert_eq!(world.apply("b"), Some((keyed, Round(1))), "no agent has named it");
    assert_eq!(world.ends("a", handed_out, Round(0), result(0)), None);
    assert_eq!(world.outcome(handed_out), Outcome::Succeeded);
}

/// The command of a task list runs once, whichever agent asks first after the controller was killed.
#[test]
fn a_task_of_a_list_waits_after_a_restart_for_an_agent_that_may_have_it() {
    let mut world = World::new();
    let key = format!("{LIST_KEY}1_controller_2 7_2");
    let command = Fields::new().with(words::SHELL, "echo").with(words::SUBMIT_KEY, key).with(words::CWD, "/home");
    let (of_a_list, _) = submitted(&world.send(TASK_SUBMIT, &command));
    let keyed = world.submitted(&keyed("k"));
    // The controller was killed before it had stored that agent a has it.
    world.restart();
    knows_built_ins(&mut world, "b");
    assert_eq!(world.apply("b"), Some((keyed, Round(1))), "one that may run twice");
    assert_eq!(world.ends("b", keyed, Round(1), result(0)), None);
    assert_eq!(world.apply("b"), None, "agent a may have the other one");
    assert_eq!(world.beat("a", Some((of_a_list, Round(0)))), Some(Directive::Run));
    assert_eq!(world.ends("a", of_a_list, Round(0), result(0)), None);
    assert_eq!(world.outcome(of_a_list), Outcome::Succeeded);
}
