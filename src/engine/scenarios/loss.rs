//! Scenarios of agents that come, go, fall silent and come back.
#![cfg(test)]

use super::*;
use api::wire::version::{Version, WIRE, WIRE_OLDEST};
use base::IncidentKind;

/// docs/design/hazards.md, A1.
#[test]
fn a_silent_agent_is_lost_and_its_task_goes_to_the_next_round() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.report("a", task, Round(0), Phase::Running);
    world.pass(INTERVAL * 2 - Duration::from_millis(1));
    assert_eq!(world.counts().lost, 0);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.counts(), AgentCounts { total: 1, free: 0, busy: 0, lost: 1 });
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    let record = world.record(task);
    assert_eq!((record.phase(), record.round, record.counts.losses), (Phase::Dispatched, Round(1), 1));
    assert_eq!(world.pushes.last().map(TaskRecord::phase), Some(Phase::Waiting));
}

/// docs/design/hazards.md, A2.
#[test]
fn what_an_old_round_says_is_refused() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.pass(INTERVAL * 2);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), Some(Code::NotAllowed));
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Drop));
    assert_eq!(world.phase(task), Phase::Dispatched);
    assert_eq!(world.counts(), AgentCounts { total: 2, free: 0, busy: 2, lost: 0 });
    assert_eq!(world.beat("a", None), None);
    assert_eq!(world.counts().free, 1, "once its slot is free, the agent takes tasks again");
}

/// docs/design/hazards.md, A9.
#[test]
fn a_task_that_loses_every_agent_ends_as_lost() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_LOSSES, 1u32));
    for agent in ["a", "b"] {
        assert!(world.apply(agent).is_some());
        world.pass(INTERVAL * 2);
    }
    assert_eq!(world.outcome(task), Outcome::Lost);
    assert_eq!(world.pushes.last().map(TaskRecord::phase), Some(Phase::Finished));
    assert_eq!(world.apply("c"), None);
}

/// A known result is not discarded because its agent dies while it cleans up.
#[test]
fn an_agent_lost_after_the_end_does_not_void_the_result() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.report("a", task, Round(0), Phase::Ended);
    world.pass(INTERVAL * 2);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

#[test]
fn heartbeats_keep_an_agent_and_a_lost_one_comes_back() {
    let mut world = World::new();
    for _ in 0..5 {
        world.beat("a", None);
        world.pass(INTERVAL);
    }
    assert_eq!(world.counts().free, 1);
    world.pass(INTERVAL);
    assert_eq!(world.counts().lost, 1);
    world.beat("a", None);
    assert_eq!(world.counts(), AgentCounts { total: 1, free: 1, busy: 0, lost: 0 });
}

/// A jump of the wall clock makes no agent lost, and ids stay unique and in order (docs/design/hazards.md, D7).
#[test]
fn a_jump_of_the_wall_clock_changes_nothing() {
    let mut world = World::new();
    world.beat("a", None);
    let before = world.task();
    world.now.wall = Wall::from_micros(START - 86_400_000_000);
    let after = world.task();
    assert!(before < after);
    world.now.wall = Wall::from_micros(START + 86_400_000_000);
    world.controller.handle_timeout(world.now);
    world.settle();
    assert_eq!(world.counts().lost, 0);
    assert_eq!(world.phase(before), Phase::Waiting);
}

/// docs/design/hazards.md, A10.
#[test]
fn a_second_agent_of_the_same_name_is_refused_until_the_first_is_gone() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    let (_, answer) = world.say_as("a", 2, FromAgent::Apply(None));
    assert!(matches!(&answer, Answer::Now(reply) if refused(reply) == Code::NotAllowed), "{answer:?}");
    assert_eq!(world.report("a", task, Round(0), Phase::Running), None);
    let replaces = Some(Session(1));
    let heartbeat = Heartbeat { replaces, ..Heartbeat::default() };
    let _ = world.say_as("a", 2, FromAgent::Heartbeat(heartbeat));
    assert_eq!((world.phase(task), world.counts().free), (Phase::Waiting, 1), "its successor has taken over");
    let record = world.record(task);
    assert_eq!((record.round, record.counts.losses), (Round(1), 1), "the first one died with the run");
}

/// It was never silent for two intervals, and yet its run is void.
#[test]
fn an_agent_that_its_successor_replaces_is_an_incident() {
    let mut world = World::new();
    world.apply("a");
    let follow = |world: &mut World, session| {
        let heartbeat = Heartbeat { replaces: Some(Session(session - 1)), ..Heartbeat::default() };
        let _ = world.say_as("a", session, FromAgent::Heartbeat(heartbeat));
        world.controller.take_incidents()
    };
    let incidents = follow(&mut world, 2);
    let [(IncidentKind::AgentLost, said)] = &incidents[..] else { panic!("{incidents:?}") };
    assert!(said.contains("agent a") && said.contains("ended without leaving"), "{said}");
    world.pass(INTERVAL * 2);
    assert_eq!(world.controller.take_incidents().len(), 1, "it is silent");
    let incidents = follow(&mut world, 3);
    let [(IncidentKind::AgentBack, _)] = &incidents[..] else { panic!("{incidents:?}") };
    let _ = world.say_as("a", 3, FromAgent::Exit);
    assert_eq!(follow(&mut world, 4), [], "it has said good-bye");
}

/// An agent of a later version is told so, and which of the two to replace; without it, the agent would be silent for ever.
#[test]
fn an_agent_that_speaks_another_version_is_refused_with_a_sentence() {
    let mut world = World::new();
    let version = |wire| Some(Version { wire, program: "9.9.9".into() });
    for (wire, remedy) in [(WIRE + 1, "restart the controller"), (WIRE_OLDEST - 1, "restart the agent")] {
        let heartbeat = Heartbeat { version: version(wire), ..Heartbeat::default() };
        let (_, answer) = world.say("a", FromAgent::Heartbeat(heartbeat));
        let Answer::Now(Reply::Refused(refusal)) = answer else { panic!("{answer:?}") };
        let sentence = refusal.to_string();
        assert!(sentence.contains("llts 9.9.9") && sentence.contains(remedy), "{sentence}");
        assert_eq!(world.counts().total, 0);
        // Its further heartbeats say the same.
        let heartbeat = Heartbeat { version: version(wire), ..Heartbeat::default() };
        let _ = world.say("a", FromAgent::Heartbeat(heartbeat));
    }
    let incidents = world.controller.take_incidents();
    let [(IncidentKind::Refused, said)] = &incidents[..] else { panic!("{incidents:?}") };
    assert!(said.starts_with("agent a is refused: ") && said.contains("restart the controller"), "{said}");
    for known in [version(WIRE), None] {
        let heartbeat = Heartbeat { version: known, ..Heartbeat::default() };
        assert!(matches!(world.say("a", FromAgent::Heartbeat(heartbeat)).1, Answer::Now(Reply::Heartbeat(_))));
    }
}

#[test]
fn an_agent_that_leaves_gives_its_task_back_without_a_loss() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    let _ = world.say("a", FromAgent::Exit);
    let record = world.record(task);
    assert_eq!((record.phase(), record.round, record.counts.losses), (Phase::Waiting, Round(1), 0));
    assert_eq!(world.counts().total, 0);
}

/// Its supervisor starts each agent again at once, under the same name (docs/design/hazards.md, A9).
#[test]
fn a_task_that_kills_every_agent_ends_as_lost() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_LOSSES, 2u32));
    for session in 1..=3 {
        let replaces = Some(Session(session - 1));
        let heartbeat = Heartbeat { replaces, ..Heartbeat::default() };
        let _ = world.say_as("a", session, FromAgent::Heartbeat(heartbeat));
        let (_, answer) = world.say_as("a", session, FromAgent::Apply(None));
        assert!(matches!(answer, Answer::Now(Reply::Assigned(_, _))), "{answer:?}");
        if session == 2 {
            world.restart();
        }
    }
    let heartbeat = Heartbeat { replaces: Some(Session(3)), ..Heartbeat::default() };
    let _ = world.say_as("a", 4, FromAgent::Heartbeat(heartbeat));
    assert_eq!((world.outcome(task), world.record(task).counts.losses), (Outcome::Lost, 3));
}

/// The messages of its returning agent still concern a run that has ended.
#[test]
fn a_lost_task_is_not_taken_back_from_its_agent() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_LOSSES, 0u32));
    world.runs("a", task, Round(0));
    world.pass(INTERVAL * 2);
    assert_eq!(world.outcome(task), Outcome::Lost);
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Drop));
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), Some(Code::NotAllowed));
    assert_eq!(world.outcome(task), Outcome::Lost);
}

#[test]
fn a_phase_that_goes_back_is_refused_in_the_words_of_the_wire() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    let report = Report { round: None, ..report_of(task, Round(0), Phase::Preparing, None) };
    let (_, answer) = world.say("a", FromAgent::Report(Box::new(report)));
    let Answer::Now(Reply::Reported { refusal: Some(refusal), .. }) = answer else { panic!("{answer:?}") };
    assert!(refusal.message.contains("RUNNING and does not go back to PREPARING"), "{refusal}");
}
