//! Step graphs: from the submit to the end.

mod ends;
mod limits;
mod restarts;

use super::*;
use api::wire::requests::graph::{GRAPH_DETAILS, GRAPH_KILL, GRAPH_QUERY, GRAPH_SUBMIT};
use api::wire::requests::job::{JOB_KILL, JOB_QUERY};
use api::wire::requests::step::{STEP_COMPLETE, STEP_PROVIDING};
use base::{GraphStatus, GraphView, PortActivity, PortName, Provided, StepContext, StepState, StepView};

/// `a` hands its partitions to `b`, which has a task for each.
const PARTS: &str = r#"{"name": "parts", "steps": {
    "a": {"operation": "t", "parameters": {"file": "f"}},
    "b": {"operation": "t", "inputs": {"in": ["a.out"]}, "tasks": "in"}}}"#;

/// Two tasks beside a step that waits for both.
const PAIR: &str = r#"{"steps": {
    "a": {"operation": "t", "tasks": 2},
    "b": {"operation": "t", "inputs": {"in": ["a.out"]}}}}"#;

impl World {
    fn submit_graph(&mut self, document: &str, more: &Fields) -> Reply {
        let fields = more.clone().with(words::GRAPH, document);
        self.send(GRAPH_SUBMIT, &fields)
    }

    fn graph(&mut self, document: &str) -> GraphId {
        match self.submit_graph(document, &Fields::new()) {
            Reply::GraphSubmitted { graph, duplicate: false, .. } => graph,
            other => panic!("{other:?}"),
        }
    }

    fn view(&mut self, graph: GraphId) -> GraphView {
        match self.send(GRAPH_QUERY, &graph_field(graph)) {
            Reply::Graph(view) => *view,
            other => panic!("{other:?}"),
        }
    }

    fn status(&mut self, graph: GraphId) -> (GraphStatus, Option<String>) {
        let view = self.view(graph);
        (view.status, view.reason)
    }

    fn steps(&mut self, graph: GraphId) -> Vec<StepView> {
        match self.send(GRAPH_DETAILS, &graph_field(graph)) {
            Reply::Steps { steps, .. } => steps,
            other => panic!("{other:?}"),
        }
    }

    fn state(&mut self, graph: GraphId, name: &str) -> StepState {
        self.steps(graph).into_iter().find(|step| step.name.as_str() == name).unwrap().state
    }

    /// The tasks of a step, in the order of their numbers.
    fn tasks_of(&mut self, graph: GraphId, name: &str) -> Vec<TaskId> {
        let step = self.steps(graph).into_iter().find(|step| step.name.as_str() == name).unwrap();
        step.tasks.into_iter().map(|(_, task)| task).collect()
    }

    /// The next task for an agent, with its place in its graph.
    fn takes(&mut self, agent: &str) -> (TaskId, Arc<StepContext>) {
        match self.say(agent, FromAgent::Apply(None)).1 {
            Answer::Now(Reply::Assigned(record, Some(context))) => {
                assert_eq!(self.report(agent, record.id, record.round, Phase::Running), None);
                (record.id, context)
            }
            other => panic!("{other:?}"),
        }
    }

    /// A run ends with this result, and provides these locations on `out`.
    fn provides(&mut self, agent: &str, task: TaskId, round: u32, result: RunResult, locations: Option<&[&str]>) {
        let of = |list: &[&str]| {
            let list = list.iter().map(|text| Arc::from(*text)).collect();
            Box::new(Provided::from([(port("out"), list)]))
        };
        let provided = locations.map(of);
        let report = Report { provided, ..report_of(task, Round(round), Phase::Finished, Some(result)) };
        match self.say(agent, FromAgent::Report(Box::new(report))).1 {
            Answer::Now(Reply::Reported { refusal, .. }) => assert_eq!(refusal, None),
            other => panic!("{other:?}"),
        }
    }

    /// An agent takes the next task, which succeeds.
    fn succeeds(&mut self, agent: &str, locations: Option<&[&str]>) -> TaskId {
        let (task, _) = self.takes(agent);
        let round = self.record(task).round.0;
        self.provides(agent, task, round, result(0), locations);
        task
    }

    fn announce(&mut self, task: TaskId, port: &str, location: &str, more: Fields) -> Reply {
        let fields = more.with(words::TASK_ID, task.to_string()).with(words::PORT, port);
        self.send(STEP_PROVIDING, &fields.with(words::LOCATION, location))
    }

    fn complete(&mut self, graph: GraphId, step: &str) -> Reply {
        self.send(STEP_COMPLETE, &graph_field(graph).with(words::STEP, step))
    }

    /// The changes of all graphs, each as its step and state.
    fn told_changes(&self) -> String {
        let shown = |change: &GraphChange| match &change.step {
            Some((step, state)) => format!("{step} {}", api::wire::graph::state(*state)),
            None => api::wire::graph::status(change.status).to_owned(),
        };
        self.changes.iter().map(shown).collect::<Vec<_>>().join(", ")
    }
}

fn graph_field(graph: GraphId) -> Fields {
    Fields::new().with(words::GRAPH_ID, graph.to_string())
}

fn port(name: &str) -> PortName {
    PortName::new(name).unwrap()
}

/// The locations of a port, as they are handed to a task.
fn input(context: &StepContext, name: &str) -> Vec<String> {
    context.inputs[&port(name)].iter().map(ToString::to_string).collect()
}

#[test]
fn a_graph_goes_through_its_steps_to_its_end() {
    let mut world = World::new();
    let graph = world.graph(PARTS);
    let (first, context) = world.takes("a");
    assert_eq!((context.step.as_str(), context.partition, context.inputs.len()), ("a", 0, 0));
    let fields = world.told(TASK_QUERY, first);
    let shown = [words::OPERATION, "file", words::JOB, words::GRAPH_ID, words::STEP, words::ROLE, words::PARTITION];
    let id = graph.to_string();
    assert_eq!(shown.map(|name| text(&fields, name)), ["t", "f", &id, &id, "a", "MAIN", "0"]);
    assert!(world.apply("b").is_none(), "b has no partition yet");
    world.provides("a", first, 0, result(0), Some(&["/x", "/y"]));
    let found: Vec<_> = ["a", "b"].map(|agent| world.takes(agent)).into_iter().collect();
    assert_eq!(input(&found[0].1, "in"), ["/x"], "each task finds its own partition");
    assert_eq!(input(&found[1].1, "in"), ["/y"]);
    for (agent, (task, _)) in ["a", "b"].into_iter().zip(found) {
        world.provides(agent, task, 0, result(0), None);
    }
    let view = world.view(graph);
    assert_eq!(
        (view.status, view.ended_at, view.name.as_deref()),
        (GraphStatus::Succeeded, Some(world.now.wall), Some("parts"))
    );
    assert_eq!(view.steps[StepState::Deactivated as usize], 2);
    assert_eq!(
        world.told_changes(),
        "a PREPARED, b PREPARED, a RUNNING, b RUNNING, a COMPLETED, b COMPLETED, a DEACTIVATED, b DEACTIVATED, SUCCEEDED"
    );
    let numbers: Vec<_> = world.changes.iter().map(|change| change.seq).collect();
    assert_eq!(numbers, (1..=9).collect::<Vec<_>>());
    assert!(world.changes[..8].iter().all(|change| change.status == GraphStatus::Running));
}

#[test]
fn a_task_that_prepares_finds_its_port_alone() {
    let mut world = World::new();
    world.graph(
        r#"{"steps": {"s": {"operation": "t"}, "m": {"operation": "t"},
            "j": {"operation": "t", "inputs": {"main": ["m.out"]}, "sub_inputs": {"sub": ["s.out"]}, "prepare": {"sub": 1}}}}"#,
    );
    let mut runs: Vec<_> = ["a", "b"].map(|agent| (agent, world.takes(agent))).into_iter().collect();
    runs.sort_by_key(|(_, (_, context))| context.step.clone());
    let [(of_main, (main, _)), (of_sub, (sub, _))] = &runs[..] else { panic!("{runs:?}") };
    world.provides(of_sub, *sub, 0, result(0), Some(&["/small"]));
    let (task, context) = world.takes("c");
    assert_eq!(context.role, base::StepRole::Prepare(port("sub")));
    assert_eq!((context.inputs.len(), context.outputs.len()), (1, 0));
    assert_eq!(input(&context, "sub"), ["/small"]);
    let refused = world.announce(task, "out", "/z", Fields::new());
    assert!(matches!(refused, Reply::Refused(refusal) if refusal.message.contains("only main tasks provide")));
    world.provides(of_main, *main, 0, result(0), Some(&["/big"]));
    world.provides("c", task, 0, result(0), None);
    let (_, context) = world.takes("d");
    assert_eq!((input(&context, "main"), input(&context, "sub")), (vec!["/big".to_owned()], vec!["/small".to_owned()]));
}

#[test]
fn downstream_starts_while_upstream_runs() {
    let mut world = World::new();
    let graph = world.graph(PARTS);
    let (task, _) = world.takes("a");
    assert_eq!(world.announce(task, "out", "/early", Fields::new().with(words::ROUND, 0u32)), Reply::Done);
    let (early, context) = world.takes("b");
    assert_eq!(input(&context, "in"), ["/early"]);
    assert_eq!(world.phase(task), Phase::Running);
    assert_eq!((world.state(graph, "a"), world.state(graph, "b")), (StepState::Running, StepState::Running));
    world.provides("b", early, 0, result(0), None);
    assert_eq!(world.status(graph).0, GraphStatus::Running, "more may come");
    world.provides("a", task, 0, result(0), Some(&["/late"]));
    world.succeeds("b", None);
    assert_eq!(world.status(graph).0, GraphStatus::Succeeded);

    assert_eq!(refused(&world.announce(task, "out", "/x", Fields::new())), Code::NotAllowed, "it has ended");
    let plain = world.task();
    assert_eq!(refused(&world.announce(plain, "out", "/x", Fields::new())), Code::NotAllowed);
    world.graph(PARTS);
    world.runs("p", plain, Round(0));
    let (task, _) = world.takes("a");
    assert_eq!(refused(&world.announce(task, "ouu", "/x", Fields::new())), Code::BadField);
    let later = Fields::new().with(words::ROUND, 1u32);
    assert_eq!(refused(&world.announce(task, "out", "/x", later)), Code::NotAllowed, "of another round");
    assert_eq!(refused(&world.announce(task, "out", "a\nb", Fields::new())), Code::BadField);
}

#[test]
fn the_same_location_of_a_later_round_is_the_same_partition() {
    let mut world = World::new();
    let policy = format!(r#"{{"{}": 1}}"#, words::MAX_FAILS);
    world.graph(&format!(
        r#"{{"policy": {policy}, "steps": {{"a": {{"operation": "t"}},
            "b": {{"operation": "t", "inputs": {{"in": ["a.out"]}}}}}}}}"#
    ));
    let (task, _) = world.takes("a");
    assert_eq!(world.announce(task, "out", "/x", Fields::new()), Reply::Done);
    world.provides("a", task, 0, result(1), Some(&["/of the failed round"]));
    let (_, _) = world.takes("a");
    assert_eq!(world.announce(task, "out", "/x", Fields::new()), Reply::Done);
    world.provides("a", task, 1, result(0), Some(&["/y"]));
    let (_, context) = world.takes("a");
    assert_eq!(input(&context, "in"), ["/x", "/y"]);
}

#[test]
fn details_show_each_step_with_its_tasks() {
    let mut world = World::new();
    let graph = world.graph(PARTS);
    let (task, _) = world.takes("a");
    let reply = world.send(GRAPH_DETAILS, &graph_field(graph));
    let bytes = reply::encode(GRAPH_DETAILS.word, &reply, PageBytes(1 << 20));
    let shown: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(shown[words::TOTAL], 2);
    assert_eq!(shown["a"][words::STATE], "RUNNING");
    assert_eq!(shown["a"][words::TASKS], serde_json::json!({"RUNNING": [task.to_string()]}));
    assert_eq!(shown["a"][words::OUTPUTS], serde_json::json!({"out": "active"}));
    assert_eq!(shown["b"][words::INPUTS], serde_json::json!({"in": "active"}));
    assert_eq!(shown["b"][words::SOURCES], serde_json::json!({"in": ["a.out"]}));
    assert!(shown["a"][words::TIMES]["RUNNING"].is_number() && shown["b"][words::TIMES]["RUNNING"].is_null());
    let other = world.graph(PAIR);
    let Reply::Graphs { graphs, page } = world.send(GRAPH_DETAILS, &Fields::new()) else { panic!() };
    assert_eq!((graphs.iter().map(|view| view.id).collect::<Vec<_>>(), page.total), (vec![other, graph], 2));
    let page = graph_field(graph).with(words::OFFSET, 1u32);
    let Reply::Steps { steps, .. } = world.send(GRAPH_DETAILS, &page) else { panic!() };
    assert_eq!((steps.len(), steps[0].name.as_str(), steps[0].inputs[0].activity), (1, "b", PortActivity::Active));
}

#[test]
fn a_query_waits_for_the_end_of_the_graph() {
    let mut world = World::new();
    let graph = world.graph(PARTS);
    let (ticket, answer) = world.ask_later(Request::GraphQuery(graph, Some(seconds(60.0))));
    assert_eq!(answer, Answer::Later);
    let job = JobName::new(&graph.to_string()).unwrap();
    let (of_job, answer) = world.ask_by(1, Request::JobQuery(job, Some(seconds(60.0))));
    assert_eq!(answer, Answer::Later);
    world.succeeds("a", Some(&["/x"]));
    assert!(world.replies.is_empty(), "all tasks of that moment have ended, but not the graph");
    assert_eq!(world.job_of(graph).ended_at, None);
    world.succeeds("a", None);
    let answered: BTreeSet<_> = world.replies.drain(..).map(|(ticket, _)| ticket).collect();
    assert_eq!(answered, BTreeSet::from([ticket, of_job]));
    assert_eq!(world.job_of(graph).ended_at, Some(world.now.wall));
}

impl World {
    fn job_of(&mut self, graph: GraphId) -> base::JobView {
        match self.send(JOB_QUERY, &Fields::new().with(words::JOB, graph.to_string())) {
            Reply::Job(view) => *view,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_task_that_waits_for_a_graph_waits_for_its_end() {
    let mut world = World::new();
    let graph = world.graph(PARTS);
    let after = |graph: GraphId, kind: &str| Fields::new().with(words::AFTER, format!("{kind}job:{graph}"));
    let next = world.submitted(&after(graph, ""));
    let never = world.submitted(&after(graph, "failed:"));
    world.succeeds("a", Some(&["/x"]));
    world.succeeds("a", None);
    assert_eq!(world.apply("a"), Some((next, Round(0))), "only after the last step");
    assert_eq!(world.outcome(never), Outcome::Skipped);
    let failing = world.graph(PAIR);
    let (skipped, any) = (world.submitted(&after(failing, "")), world.submitted(&after(failing, "any:")));
    world.send(GRAPH_KILL, &graph_field(failing));
    assert_eq!(world.outcome(skipped), Outcome::Skipped);
    assert!(world.log(skipped).contains(&format!("graph {failing} ended as KILLED")), "{}", world.log(skipped));
    assert_eq!(world.apply("b"), Some((any, Round(0))));
    let joins = Fields::new().with(words::JOB, graph.to_string());
    assert_eq!(refused(&world.submit(&joins)), Code::NotAllowed, "the job of a graph takes no other tasks");
}
