//! Restarts: nothing of a graph is lost, and nothing of it is done twice.

use super::*;
use crate::scenarios::archives::version;
use base::StepPlace;

/// The records that leave with an event, as one commit.
fn is_in_one_turn(world: &mut World, agent: &str, task: TaskId) -> Vec<&'static str> {
    let report = Report {
        task,
        round: Some(Round(0)),
        phase: Phase::Finished,
        times: PhaseTimes::default(),
        ran: None,
        result: Some(result(0)),
        provided: None,
        progress: None,
        let_go: None,
        wait: None,
    };
    let (ticket, sender) = (world.ticket(), Sender::new(AgentId::new(agent).unwrap(), Session(1)));
    let _ = world.controller.handle_agent(world.now, ticket, &sender, FromAgent::Report(Box::new(report)));
    let mut found = Vec::new();
    while let Some(effect) = world.controller.poll_effect() {
        if let Effect::Record(record) = effect {
            found.push(match record {
                Record::Put(record) if record.id == task && record.phase() == Phase::Finished => "end",
                Record::Put(record) if record.id != task => "next task",
                Record::GraphEntry(..) => "entry",
                _ => continue,
            });
        }
    }
    found
}

/// kill -9 at any instant neither loses nor repeats a task, because these records are one commit.
#[test]
fn the_end_of_a_task_its_entry_and_the_next_tasks_are_one_commit() {
    let mut world = World::new();
    world.graph(PARTS);
    let (task, _) = world.takes("a");
    assert_eq!(is_in_one_turn(&mut world, "a", task), ["end", "entry", "next task"]);
}

#[test]
fn a_graph_goes_on_after_a_restart() {
    let mut world = World::new();
    let graph = world.graph(PARTS);
    let (task, _) = world.takes("a");
    assert_eq!(world.announce(task, "out", "/early", Fields::new()), Reply::Done);
    let before = world.view(graph);
    world.restart();
    assert_eq!(world.view(graph), before);
    world.beat("a", Some((task, Round(0))));
    world.provides("a", task, 0, result(0), Some(&["/late"]));
    let seq = world.changes.last().unwrap().seq;
    world.restart();
    let found: BTreeSet<_> = (0..2)
        .map(|_| {
            let (task, context) = world.takes("b");
            let round = world.record(task).round.0;
            world.provides("b", task, round, result(0), None);
            input(&context, "in").concat()
        })
        .collect();
    assert_eq!(found, BTreeSet::from(["/early".to_owned(), "/late".to_owned()]));
    assert_eq!(world.status(graph).0, GraphStatus::Succeeded);
    assert!(world.changes.iter().filter(|change| change.seq > seq).count() > 0);
    let numbers: Vec<_> = world.changes.iter().map(|change| change.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no number twice, and none is left out");
    world.restart();
    let view = world.view(graph);
    assert_eq!((view.status, view.ended_at.is_some()), (GraphStatus::Succeeded, true));
}

/// The controller dies between the commit of an end and those of the tasks that it starts.
#[test]
fn a_restart_starts_the_tasks_that_are_missing() {
    let mut world = World::new();
    let graph = world.graph(PAIR);
    let lost = world.tasks_of(graph, "a")[1];
    world.stored.remove(&lost);
    world.restart();
    let tasks = world.tasks_of(graph, "a");
    assert_eq!((tasks.len(), tasks.contains(&lost)), (2, false));
    world.restart();
    assert_eq!(world.tasks_of(graph, "a"), tasks, "and only those");
}

/// The same between the commit of an event and those of the ends that follow from it.
#[test]
fn a_restart_ends_the_tasks_that_must_not_run() {
    for event in ["kill", "complete"] {
        let mut world = World::new();
        let graph = world.graph(
            r#"{"steps": {"a": {"operation": "t", "tasks": 3}, "b": {"operation": "t", "inputs": {"in": ["a.out"]}}}}"#,
        );
        let (running, _) = world.takes("a");
        let (deferred, _) = world.takes("b");
        world.provides("b", deferred, 0, result(75), None);
        let before = world.stored.clone();
        if event == "kill" {
            world.send(GRAPH_KILL, &graph_field(graph));
        } else {
            world.complete(graph, "a");
        }
        world.stored = before;
        // Of the entries, only that of the event itself was stored: the ends of tasks come with their records.
        world.entries.retain(|(_, number), _| *number == 1);
        world.restart();
        let waiting = world.stored.keys().find(|task| ![running, deferred].contains(task)).copied().unwrap();
        let (expected, directive) =
            if event == "kill" { (Outcome::Killed, Directive::Kill) } else { (Outcome::Skipped, Directive::Finish) };
        assert_eq!((world.outcome(waiting), world.outcome(deferred)), (expected, expected));
        assert_eq!(world.beat("a", Some((running, Round(0)))), Some(directive));
        world.provides("a", running, 0, result(0), None);
        let status = world.status(graph).0;
        assert_eq!(status, if event == "kill" { GraphStatus::Killed } else { GraphStatus::Running });
    }
}

/// A first dispatch of other tasks does not wait for the disk: a controller that died would leave a run that the next one does
/// not know, and would start again.
#[test]
fn a_task_of_a_step_is_handed_out_after_its_commit() {
    let mut world = World::new();
    world.graph(PAIR);
    let claim = |world: &mut World, agent: &str| match world.say(agent, FromAgent::Apply(None)).1 {
        Answer::Now(reply @ Reply::Assigned(..)) => claim_of_reply(&reply),
        other => panic!("{other:?}"),
    };
    assert_eq!(claim(&mut world, "a"), Claim::Promise);
    let newest = world.stored.keys().last().copied();
    world.controller.handle_committed(world.now, newest);
    assert_eq!(claim(&mut world, "b"), Claim::Nothing, "its record is stored");
}

/// Every commit of a run is a place where the controller may die: each slot has one task, and the graph ends.
#[test]
fn every_instant_is_a_good_one_to_die() {
    let document = r#"{"steps": {
        "a": {"operation": "t", "tasks": 2},
        "x": {"inputs": {"in": ["a.out"]}},
        "s": {"operation": "t"},
        "b": {"operation": "t", "inputs": {"in": ["x.out"]}, "sub_inputs": {"sub": ["s.out"]}, "tasks": "in"},
        "c": {"operation": "t", "inputs": {"in": ["b.out", "a.out"]}}}}"#;
    for dies_at in 0..30 {
        let mut world = World::new();
        let graph = world.graph(document);
        let mut places: BTreeMap<(String, String, u32), TaskId> = BTreeMap::new();
        for turn in 0.. {
            assert!(turn < 50, "dies at {dies_at}: it never ends");
            if turn == dies_at {
                world.restart();
            }
            if world.status(graph).0 != GraphStatus::Running {
                break;
            }
            let (task, _) = world.takes("a");
            let StepPlace { step, prepares, partition, .. } = world.record(task).place().unwrap().clone();
            let prepares = prepares.map(|port| port.to_string()).unwrap_or_default();
            let before = places.insert((step.to_string(), prepares, partition), task);
            assert_eq!(before, None, "dies at {dies_at}: the task of a slot ran twice");
            if turn + 1 == dies_at {
                world.restart();
                world.beat("a", Some((task, Round(0))));
            }
            let round = world.record(task).round.0;
            world.provides("a", task, round, result(0), Some(&[&format!("/{turn}")]));
        }
        assert_eq!(world.status(graph).0, GraphStatus::Succeeded);
        assert_eq!(places.len(), 2 + 1 + 1 + 2 + 1, "dies at {dies_at}");
    }
}

/// As after `llts store repair` of a store whose table of graphs was unreadable.
#[test]
fn the_tasks_of_a_lost_graph_end() {
    let mut world = World::new();
    let lost = world.graph(PAIR);
    let (running, _) = world.takes("a");
    let waiting = world.tasks_of(lost, "a").into_iter().find(|task| *task != running).unwrap();
    let kept = world.graph(PARTS);
    world.graphs.remove(&lost);
    world.restart();
    let TaskState::Finished { outcome, .. } = world.record(waiting).state else { panic!("it waits") };
    assert_eq!(outcome, Outcome::Killed);
    let why = world.why(waiting);
    assert!(why.contains(&format!("graph {lost} is not in the store")), "{why}");
    assert_eq!(world.beat("a", Some((running, Round(0)))), Some(Directive::Kill));
    assert_eq!(world.status(kept).0, GraphStatus::Running);
}

#[test]
fn every_step_runs_the_version_that_was_there_when_its_graph_was_accepted() {
    let mut world = World::with(|settings| settings.tools.keep = Duration::from_secs(10));
    world.fetcher("a", "");
    world.is_pushed(world.held("t", 1));
    let graph = world.graph(PARTS);
    world.is_pushed(world.held("t", 2));
    let first = world.succeeds("a", Some(&["/x"]));
    world.restart();
    world.pass(Duration::from_secs(20));
    assert_eq!(world.orders(), [], "the graph needs it");
    world.fetcher("a", "");
    let second = world.succeeds("a", None);
    assert_eq!([first, second].map(|task| world.pin(task)), [Some(version(1)); 2]);
    assert_eq!(world.status(graph).0, GraphStatus::Succeeded);
    world.pass(Duration::from_secs(20));
    assert_eq!(world.orders(), [ToolOrder::Discard(version(1))]);
}
