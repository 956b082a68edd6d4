//! Scenarios of a store that is older than what agents know, and of clocks that differ.
#![cfg(test)]

use super::*;
use base::{IncidentKind, KnownEpoch, Skew};

const OWN: Epoch = Epoch { service: 7, number: 100 };
const LOSS: Duration = Duration::from_secs(6);

impl World {
    /// The controller starts from a backup that has what is stored at present.
    fn start_from_backup(&mut self) {
        (self.epoch, self.raised) = (Some(OWN), Some("the store is from a backup".to_owned()));
        self.restart();
    }

    fn knows(&mut self, agent: &str, epoch: Epoch, controller: u64) -> Heard {
        let known = Some(KnownEpoch { epoch, controller });
        match self.say(agent, FromAgent::Heartbeat(Heartbeat { epoch: known, ..Heartbeat::default() })).1 {
            Answer::Now(Reply::Heartbeat(heard)) => heard,
            other => panic!("{other:?}"),
        }
    }

    fn incidents_of(&mut self, kind: IncidentKind) -> Vec<String> {
        let all = self.controller.take_incidents();
        all.into_iter().filter(|(other, _)| *other == kind).map(|(_, said)| said).collect()
    }
}

#[test]
fn a_backup_is_told_and_its_waiting_tasks_are_held_for_two_loss_times() {
    let mut world = World::new();
    let task = world.task();
    world.start_from_backup();
    let [said] = &world.incidents_of(IncidentKind::StoreFromElsewhere)[..] else { panic!() };
    assert!(said.starts_with("the store is from a backup (epoch 100); "), "{said}");
    let why = world.why(task);
    assert!(why.contains("an agent may have the task already"), "{why}");
    assert_eq!(world.apply("b"), None);
    let new = world.task();
    assert_eq!(world.apply("c"), Some((new, Round(0))), "what is new starts at once");
    world.pass_with(LOSS * 2, &[("b", None)]);
    assert_eq!(world.apply("b"), Some((task, Round(1))), "the next number fences off what may be out");
    // An ordinary start holds nothing.
    let task = world.task();
    world.restart();
    assert_eq!(world.apply("d"), Some((task, Round(1))));
}

/// The backup has it waiting in its first round; since then it has had four, and the last one runs.
#[test]
fn a_waiting_task_whose_run_an_agent_has_is_adopted_in_its_round() {
    for is_result in [false, true] {
        let mut world = World::new();
        let task = world.task();
        world.start_from_backup();
        if !is_result {
            assert_eq!(world.beat("a", Some((task, Round(4)))), Some(Directive::Run));
            assert_eq!((world.phase(task), world.record(task).round), (Phase::Dispatched, Round(4)));
        }
        assert_eq!(world.report("a", task, Round(4), Phase::Finished), None);
        let record = world.record(task);
        assert_eq!((world.outcome(task), record.round), (Outcome::Succeeded, Round(4)));
        assert!(record.pushes > 1000, "no number of a push is used twice");
    }
}

/// The backup has it with an agent that has lost it since.
#[test]
fn a_later_round_at_another_agent_is_believed() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    world.start_from_backup();
    assert_eq!(world.beat("b", Some((task, Round(1)))), Some(Directive::Run));
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Drop));
    assert_eq!(world.report("b", task, Round(1), Phase::Finished), None);
    assert_eq!((world.outcome(task), world.counts().busy), (Outcome::Succeeded, 1));
}

#[test]
fn a_controller_with_an_older_epoch_than_its_agents_gives_out_nothing() {
    let newer = Epoch { number: 101, ..OWN };
    for (known, controller, is_outdated) in [
        (newer, 5, true),
        (OWN, 5, true), // Another start from a copy of the same store.
        (Epoch { number: 99, ..OWN }, 5, false),
        (Epoch { service: 8, ..newer }, 5, false),
    ] {
        let mut world = World::new();
        let task = world.task();
        world.epoch = Some(OWN);
        world.restart();
        world.beat("mine", None);
        let heard = world.knows("a", known, controller);
        assert_eq!(heard.epoch, Some(OWN), "the agent learns of it, too");
        let said = world.incidents_of(IncidentKind::Outdated);
        assert_eq!((said.len(), world.counts().total), if is_outdated { (1, 1) } else { (0, 2) }, "{known:?}");
        if !is_outdated {
            assert_eq!(world.apply("mine"), Some((task, Round(1))));
            continue;
        }
        assert!(said[0].starts_with("another controller has the agents of this service"), "{said:?}");
        assert_eq!(world.apply("mine"), None, "its other agents get nothing, either");
        let Reply::Refused(refusal) = world.submit(&Fields::new()) else { panic!() };
        assert_eq!((refusal.code, refusal.message), (Code::Stopping, said[0].clone()));
        assert_eq!(world.why(task), said[0]);
        let _ = world.knows("a", known, controller);
        assert_eq!(world.incidents_of(IncidentKind::Outdated), [""; 0], "it is told once");
    }
}

/// An agent knows this very start.
#[test]
fn an_agent_of_this_start_is_welcome() {
    let mut world = World::new();
    world.epoch = Some(OWN);
    world.restart();
    let Heard { controller, .. } = world.knows("a", Epoch { number: 1, ..OWN }, 1);
    let heard = world.knows("a", OWN, controller);
    assert_eq!((heard.controller, world.counts().total), (controller, 1));
    assert_eq!(world.incidents_of(IncidentKind::Outdated), [""; 0]);
}

#[test]
fn a_difference_of_clocks_is_told_once_for_each_process() {
    let mut world = World::new();
    let beat = |world: &mut World, session: u64, seconds: i64| {
        let skew = Some(Skew(seconds * 1_000_000));
        let replaces = Some(Session(session - 1));
        let _ = world.say_as("a", session, FromAgent::Heartbeat(Heartbeat { skew, replaces, ..Heartbeat::default() }));
        world.incidents_of(IncidentKind::ClockSkew)
    };
    let said = beat(&mut world, 1, 3600);
    assert!(said.len() == 1 && said[0].starts_with("the clock of agent a is 3600.0 s ahead of that"), "{said:?}");
    assert_eq!(beat(&mut world, 1, 3600), [""; 0]);
    let said = beat(&mut world, 2, -5);
    assert!(said.len() == 1 && said[0].contains("5.0 s behind that of"), "{said:?}");
}
