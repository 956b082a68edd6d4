//! How graphs and steps end: by failures, by kills, and early.

use super::*;

#[test]
fn a_failed_task_fails_its_graph_and_ends_the_rest() {
    let mut world = World::new();
    let graph = world.graph(
        r#"{"steps": {"a": {"operation": "t", "tasks": 3}, "b": {"operation": "t", "inputs": {"in": ["a.out"]}}}}"#,
    );
    let (first, _) = world.takes("a");
    let (second, _) = world.takes("b");
    let waiting = world.tasks_of(graph, "a")[2];
    world.provides("a", first, 0, result(3), None);
    assert_eq!(world.outcome(waiting), Outcome::Killed, "it never starts");
    assert!(world.published.contains(&Published::Kill(second, Round(0))));
    let (status, reason) = world.status(graph);
    assert_eq!(status, GraphStatus::Running, "a task of it is left");
    assert_eq!(reason.unwrap(), format!("step a: task {first} ended as FAILED: exit code 3"));
    assert!(world.log(waiting).contains("ended with its graph"), "{}", world.log(waiting));
    world.provides("b", second, 0, result(-15), None);
    let (status, reason) = world.status(graph);
    assert_eq!((status, reason.is_some()), (GraphStatus::Failed, true));
    assert_eq!(
        (world.state(graph, "a"), world.state(graph, "b")),
        (StepState::Running, StepState::Prepared),
        "as they were"
    );
    let last = world.changes.last().unwrap();
    assert_eq!((last.step.is_none(), last.status), (true, GraphStatus::Failed));
    assert_eq!(refused(&world.do_to(TASK_RETRY, first)), Code::NotAllowed, "the graph has ended by it");
}

#[test]
fn a_task_fails_its_graph_only_after_its_last_round() {
    let mut world = World::new();
    let policy = format!(r#"{{"{}": 1}}"#, words::MAX_FAILS);
    let graph = world.graph(&format!(r#"{{"policy": {policy}, "steps": {{"a": {{"operation": "t"}}}}}}"#));
    let (task, _) = world.takes("a");
    world.provides("a", task, 0, result(1), None);
    assert_eq!(world.status(graph), (GraphStatus::Running, None));
    assert_eq!(world.succeeds("a", None), task);
    assert_eq!(world.status(graph).0, GraphStatus::Succeeded);
}

#[test]
fn a_kill_of_a_task_fails_its_graph() {
    let mut world = World::new();
    let graph = world.graph(PAIR);
    let tasks = world.tasks_of(graph, "a");
    world.kill(tasks[0]);
    assert_eq!(world.status(graph).0, GraphStatus::Failed);
    assert_eq!(world.outcome(tasks[1]), Outcome::Killed);
}

#[test]
fn a_killed_graph_ends_with_the_last_of_its_tasks() {
    let mut world = World::new();
    for kind in [GRAPH_KILL, JOB_KILL] {
        let graph = world.graph(PAIR);
        let (task, _) = world.takes("a");
        let fields = graph_field(graph).with(words::JOB, graph.to_string()).with(words::REASON, "enough");
        let reply = world.send(kind, &fields);
        let expected = Reply::Concerned { count: 2, warning: None };
        assert_eq!(reply, if kind.word == GRAPH_KILL.word { Reply::Done } else { expected });
        assert_eq!(world.status(graph), (GraphStatus::Running, Some("killed by a client: enough".to_owned())));
        assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Kill));
        world.provides("a", task, 0, result(-15), None);
        assert_eq!(world.status(graph).0, GraphStatus::Killed);
        assert_eq!(world.send(GRAPH_KILL, &graph_field(graph)), Reply::Done, "once more does no harm");
    }
}

#[test]
fn a_step_that_ends_early_tells_its_runs_and_drops_the_rest() {
    let mut world = World::new();
    let graph = world.graph(
        r#"{"steps": {"a": {"operation": "t", "tasks": 3}, "b": {"operation": "t", "inputs": {"in": ["a.out"]}}}}"#,
    );
    let (running, _) = world.takes("a");
    let (deferred, _) = world.takes("b");
    world.provides("b", deferred, 0, result(75), None);
    let waiting = world.tasks_of(graph, "a")[2];
    assert_eq!(world.complete(graph, "a"), Reply::Done);
    assert!(world.published.contains(&Published::Finish(running, Round(0))));
    assert_eq!(
        world.beat("a", Some((running, Round(0)))),
        Some(Directive::Finish),
        "repeated, for a broadcast may be lost"
    );
    assert_eq!(world.outcome(waiting), Outcome::Skipped);
    assert_eq!(world.outcome(deferred), Outcome::Skipped, "without another round");
    assert_eq!(world.state(graph, "a"), StepState::Completing);
    assert_eq!(world.complete(graph, "a"), Reply::Done, "once more does no harm");
    let told = RunResult { told_to_finish: true, ..result(143) };
    world.provides("a", running, 0, told, Some(&["/part"]));
    assert_eq!(world.outcome(running), Outcome::Succeeded, "its end is no failure");
    let (_, context) = world.takes("a");
    assert_eq!(input(&context, "in"), ["/part"], "and what it provides counts");
    assert_eq!(world.complete(graph, "a"), Reply::Done, "and also after its end");
}

#[test]
fn a_step_without_runs_ends_at_once() {
    let mut world = World::new();
    let graph = world.graph(PAIR);
    assert_eq!(world.complete(graph, "b"), Reply::Done);
    assert_eq!(
        world.status(graph).0,
        GraphStatus::Succeeded,
        "and so does the step before it, which it no longer needs"
    );
    assert!(!world.told_changes().contains("COMPLETING"), "{}", world.told_changes());
    assert_eq!(refused(&world.complete(graph, "c")), Code::InvalidTaskId);
}

#[test]
fn a_told_run_whose_agent_is_lost_gets_no_other_round() {
    let mut world = World::new();
    let graph = world.graph(PAIR);
    let (task, _) = world.takes("a");
    world.complete(graph, "a");
    world.pass(INTERVAL * 3);
    assert_eq!(world.outcome(task), Outcome::Skipped);
    assert_eq!(world.state(graph, "a"), StepState::Deactivated.min(world.state(graph, "a")));
    assert!(world.state(graph, "a") >= StepState::Completed);
}

/// Its success is as good as lost: its last report would have had the locations.
#[test]
fn a_run_whose_agent_is_lost_before_its_last_report_is_repeated() {
    let mut world = World::new();
    let graph = world.graph(PARTS);
    let (task, _) = world.takes("a");
    assert_eq!(world.report("a", task, Round(0), Phase::Ended), None);
    world.pass(INTERVAL * 3);
    assert_eq!((world.phase(task), world.record(task).counts.losses), (Phase::Waiting, 0));
    world.succeeds("b", Some(&["/x"]));
    assert_eq!(world.record(task).counts.losses, 1);
    world.succeeds("b", None);
    assert_eq!(world.status(graph).0, GraphStatus::Succeeded);
}

#[test]
fn a_graph_without_tasks_ends_at_once() {
    let mut world = World::new();
    let graph = world.graph(r#"{"steps": {"a": {"operation": "t", "tasks": 0}, "x": {"inputs": {"in": ["a.out"]}}}}"#);
    assert_eq!(world.status(graph).0, GraphStatus::Succeeded);
    assert_eq!(world.told_changes().matches("COMPLETED").count(), 2);
}
