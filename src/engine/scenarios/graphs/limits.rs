//! Refused submits, keys, rooms and retention.

use super::*;

#[test]
fn a_document_is_refused_with_its_code() {
    let mut world = World::with(|settings| settings.waiting_max = 5);
    let with_policy = |name: &str, value: &str| format!(r#"{{"operation": "t", "policy": {{"{name}": {value}}}}}"#);
    let one = |step: &str| format!(r#"{{"steps": {{"a": {step}}}}}"#);
    for (document, code, said) in [
        ("{", Code::BadField, "not valid JSON"),
        (r#"{"steps": {}}"#, Code::BadField, "no steps"),
        (&one(r#"{"operation": "t", "inputs": {"in": ["a.out"]}}"#), Code::BadField, "a -> a"),
        (&one(r#"{"operation": "t", "inputs": {"in": ["b.out"]}}"#), Code::BadField, "step a"),
        (&one(r#"{"operation": "../t"}"#), Code::BadOperation, "step a"),
        (&one(&with_policy(words::ADDRESS, "\"nowhere\"")), Code::BadField, "step a"),
        (&one(&with_policy(words::END_BEFORE, "5")), Code::BadField, "step a"),
        (&one(r#"{"operation": "t", "tasks": 6}"#), Code::LimitReached, "WAITING_TASKS_MAX"),
        (&one(r#"{"operation": "t", "tasks": 100001}"#), Code::LimitReached, "GRAPH_TASKS_MAX"),
    ] {
        match world.submit_graph(document, &Fields::new()) {
            Reply::Refused(refusal) => {
                assert_eq!(refusal.code, code, "{document}: {refusal}");
                assert!(refusal.message.contains(said), "{document}: {refusal}");
            }
            other => panic!("{document}: {other:?}"),
        }
    }
    assert_eq!(refused(&world.send(GRAPH_SUBMIT, &Fields::new())), Code::BadField);
    let unknown = Fields::new().with(words::GRAPH_ID, "GRAPH_1.000000_AAAAA");
    for kind in [GRAPH_QUERY, GRAPH_DETAILS, GRAPH_KILL] {
        assert_eq!(refused(&world.send(kind, &unknown)), Code::InvalidTaskId);
    }
    assert_eq!(refused(&world.send(GRAPH_QUERY, &Fields::new().with(words::GRAPH_ID, 7u32))), Code::InvalidTaskId);
    assert!(world.graphs.is_empty() && world.stored.is_empty(), "nothing of them is stored");
}

#[test]
fn the_same_key_is_the_same_graph() {
    let mut world = World::new();
    let key = Fields::new().with(words::SUBMIT_KEY, "k").with(words::GIVEN_ID, "mine");
    let Reply::GraphSubmitted { graph, duplicate: false, .. } = world.submit_graph(PARTS, &key) else { panic!() };
    let again = Reply::GraphSubmitted { graph, warning: None, duplicate: true };
    assert_eq!(world.submit_graph(PARTS, &key), again);
    assert_eq!(refused(&world.submit_graph(PAIR, &key)), Code::BadField);
    world.restart();
    assert_eq!(world.submit_graph(PARTS, &key), again, "also after a restart");
    assert_eq!(world.view(graph).given_id, Some("mine".into()));
    assert_eq!(world.tasks_of(graph, "a").len(), 1);
}

#[test]
fn a_graph_is_forgotten_with_its_tasks() {
    let mut world = World::with(|settings| settings.keep = seconds(100.0));
    let graph = world.graph(PARTS);
    world.succeeds("a", Some(&["/x"]));
    world.pass(seconds(200.0));
    assert_eq!(world.stored.len(), 2, "as long as it runs, nothing of it is forgotten");
    world.succeeds("a", None);
    world.pass(seconds(50.0));
    assert_eq!(world.status(graph).0, GraphStatus::Succeeded);
    world.restart();
    world.pass(seconds(120.0));
    assert_eq!(refused(&world.send(GRAPH_QUERY, &graph_field(graph))), Code::InvalidTaskId);
    assert!(world.graphs.is_empty() && world.entries.is_empty() && world.stored.is_empty(), "also in the store");
}

/// A receiver that does not read, while the graph changes more often than its queue has room for.
#[test]
fn every_change_is_pushed_in_order_however_little_room_there_is() {
    let mut world = World::new();
    world.room = 0;
    let steps: Vec<String> = (0..40).map(|step| format!(r#""s{step}": {{"operation": "t", "tasks": 0}}"#)).collect();
    let document = format!(r#"{{"steps": {{{}}}}}"#, steps.join(","));
    let to = Fields::new().with(words::ADDRESS, "tcp://127.0.0.1:1");
    let Reply::GraphSubmitted { graph, .. } = world.submit_graph(&document, &to) else { panic!() };
    assert_eq!((world.status(graph).0, world.changes.len()), (GraphStatus::Succeeded, 0));
    assert!(world.controller.has_push_room(|_| 1) && !world.controller.has_push_room(|_| 0));
    world.room = 3;
    let mut turns = 0;
    while world.controller.has_push_room(|_| 3) {
        world.pass(Duration::ZERO);
        world.settle();
        turns += 1;
    }
    assert_eq!(turns, (40 * 4 + 1_usize).div_ceil(3));
    let numbers: Vec<_> = world.changes.iter().map(|change| change.seq).collect();
    assert_eq!(numbers, (1..=40 * 4 + 1).collect::<Vec<_>>());
}

/// A burst of starts leaves room for other requests, and a restart in the middle of it loses none.
#[test]
fn many_tasks_start_in_slices() {
    let mut world = World::with(|settings| settings.waiting_max = 5_000);
    let graph = world.graph(
        r#"{"steps": {"a": {"operation": "t"}, "b": {"operation": "t", "inputs": {"in": ["a.out"]}, "tasks": 2000}}}"#,
    );
    world.succeeds("a", Some(&["/x"]));
    let started = world.stored.len();
    assert!((100..1000).contains(&started), "{started} in one turn");
    world.restart();
    world.pass(Duration::ZERO);
    while world.stored.len() < 2001 {
        world.pass(Duration::from_millis(1));
        world.settle();
    }
    let places: BTreeSet<_> = world.stored.values().map(|record| record.place().unwrap().partition).collect();
    assert_eq!(places.len(), 2000, "each task once");
    let context = world.takes("z").1;
    assert_eq!(input(&context, "in"), ["/x"]);
    world.send(GRAPH_KILL, &graph_field(graph));
    while world.stored.values().any(|record| record.phase() == Phase::Waiting) {
        world.pass(Duration::from_millis(1));
        world.settle();
    }
}
