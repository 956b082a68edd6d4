//! Scenarios of tools that stay: who gets their tasks, and for how long these are left to a busy agent.
#![cfg(test)]

use super::*;
use api::wire::requests::apply::LIST_TASKS_MAX;
use api::wire::tool_manifest;
use api::wire::version::Version;

const LEFT: Duration = Duration::from_millis(500);

/// The result of a run of a tool that stays.
fn answered(exit_code: i32, warm: bool) -> RunResult {
    RunResult { warm: Some(warm), ..result(exit_code) }
}

impl World {
    /// An agent tells with a heartbeat that these tools stay at it.
    fn has_warm(&mut self, agent: &str, tools: &[&str], tags: &str, run: Option<TaskId>) {
        let heartbeat = Heartbeat {
            busy: run.is_some(),
            run: run.map(|task| (task, Round(0))),
            version: Some(Version::ours()),
            tags: Labels::parse(tags).unwrap(),
            warm: tools.iter().map(|tool| ToolName::new(tool).unwrap()).collect(),
            ..Heartbeat::default()
        };
        let _ = self.say(agent, FromAgent::Heartbeat(heartbeat));
    }

    fn of_tool(&mut self, tool: &str) -> TaskId {
        self.submitted(&Fields::new().with(words::OPERATION, tool))
    }

    /// Agent a has the tool x warm and is busy with a task of it, and agent b waits.
    fn with_a_busy_warm_agent(change: impl FnOnce(&mut Settings)) -> (Self, TaskId) {
        let mut world = Self::with(change);
        let task = world.is_busy_with_x("a");
        world.park("b");
        (world, task)
    }

    fn is_busy_with_x(&mut self, agent: &str) -> TaskId {
        self.has_warm(agent, &["x"], "", None);
        let task = self.of_tool("x");
        self.runs(agent, task, Round(0));
        task
    }

    /// The tasks that an agent gets when it asks.
    fn gets_all(&mut self, agent: &str) -> Vec<TaskId> {
        match self.say(agent, FromAgent::Apply(None)).1 {
            Answer::Now(Reply::Assigned(record, _)) => vec![record.id],
            Answer::Now(Reply::AssignedList(records, _)) => records.iter().map(|record| record.id).collect(),
            Answer::Now(Reply::Refused(refusal)) if refusal.code == Code::NoTask => Vec::new(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn of_the_waiting_agents_one_that_has_the_tool_warm_comes_first() {
    let mut world = World::new();
    for (agent, tools, tags) in [("a", &[][..], ""), ("b", &["x", "y"], "gpu,big"), ("c", &["x"], "gpu")] {
        world.has_warm(agent, tools, tags, None);
        world.park(agent);
    }
    // Of those that have it, the one with the fewest tags; of the others, too.
    let [x, other, more, none] = ["x", "z", "x", "x"].map(|tool| world.of_tool(tool));
    let agents = [x, other, more, none].map(|task| world.agent_of(task));
    assert_eq!(agents, [Some("c".to_owned()), Some("a".to_owned()), Some("b".to_owned()), None]);
}

#[test]
fn priority_and_tags_come_before_a_warm_tool() {
    let mut world = World::new();
    world.has_warm("a", &["x"], "", None);
    world.has_warm("b", &[], "gpu", None);
    let low = world.of_tool("x");
    let high = world.submitted(&Fields::new().with(words::OPERATION, "y").with(words::PRIORITY, 1));
    assert_eq!(world.gets_all("a"), [high]);
    world.park("b");
    assert_eq!(world.agent_of(low), None, "it is left to agent a for a moment");
    world.drain("a", true);
    assert_eq!(world.agent_of(low).as_deref(), Some("b"));
    let mut world = World::new();
    world.has_warm("a", &["x"], "", None);
    world.has_warm("b", &[], "gpu", None);
    world.park("a");
    world.park("b");
    let tagged = world.submitted(&Fields::new().with(words::OPERATION, "x").with(words::TAGS, "gpu"));
    assert_eq!(world.agent_of(tagged).as_deref(), Some("b"));
}

#[test]
fn tools_that_come_and_go_at_a_waiting_agent_count_at_once() {
    let mut world = World::new();
    for agent in ["a", "b"] {
        world.has_warm(agent, &[], "", None);
        world.park(agent);
    }
    world.has_warm("b", &["x"], "", None);
    let first = world.of_tool("x");
    assert_eq!(world.agent_of(first).as_deref(), Some("b"));
    assert_eq!(world.ends("b", first, Round(0), answered(0, true)), None);
    world.park("b");
    world.has_warm("b", &[], "", None);
    let second = world.of_tool("x");
    assert_eq!(world.agent_of(second).as_deref(), Some("a"), "it has waited for longer");
}

#[test]
fn the_end_of_a_run_tells_whether_its_tool_stays() {
    for (exit_code, killed, stays) in [(0, false, true), (3, false, true), (-9, false, false), (0, true, false)] {
        let mut world = World::new();
        let task = world.of_tool("x");
        world.runs("a", task, Round(0));
        if killed {
            world.kill(task);
        }
        assert_eq!(world.ends("a", task, Round(0), answered(exit_code, false)), None);
        let Reply::Agents { agents, .. } = world.ask(Request::AgentDetails(Page { offset: 0, limit: None })) else {
            panic!()
        };
        let warm: Vec<_> = agents[0].warm.iter().map(ToolName::as_str).collect();
        assert_eq!(warm == ["x"], stays, "{exit_code} {killed}");
    }
}

#[test]
fn a_task_is_left_to_the_busy_agent_that_has_its_tool_warm() {
    let (mut world, task) = World::with_a_busy_warm_agent(|_| {});
    let next = world.of_tool("x");
    assert_eq!(world.agent_of(next), None);
    world.pass(LEFT / 2);
    let report = Report { wait: Some(INTERVAL), ..report_of(task, Round(0), Phase::Finished, Some(answered(0, true))) };
    let _ = world.say("a", FromAgent::Report(Box::new(report)));
    assert_eq!(world.agent_of(next).as_deref(), Some("a"));
    // The other one takes the next but one, as soon as that has waited for long enough.
    let last = world.of_tool("x");
    world.pass(LEFT - Duration::from_micros(1));
    assert_eq!(world.agent_of(last), None);
    world.pass(Duration::from_micros(1));
    assert_eq!(world.agent_of(last).as_deref(), Some("b"));
}

#[test]
fn no_task_is_left_to_another_agent_for_longer_than_the_bound() {
    let mut world = World::new();
    let _ = ["v", "w", "x", "y", "z"].map(|agent| world.is_busy_with_x(agent));
    let _ = ["b", "c", "d", "e", "f"].map(|agent| world.park(agent));
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let task = world.of_tool("x");
            world.pass(LEFT / 40);
            task
        })
        .collect();
    let given = |world: &mut World| tasks.iter().filter(|task| world.agent_of(**task).is_some()).count();
    world.pass(LEFT - LEFT / 8 - Duration::from_micros(1));
    assert_eq!(given(&mut world), 0);
    world.pass(Duration::from_micros(1));
    assert_eq!(given(&mut world), 3, "the submits of a sixteenth of the time count as one");
    world.pass(LEFT * 3 / 40);
    assert_eq!(given(&mut world), 5);
    let (mut world, _) = World::with_a_busy_warm_agent(|settings| settings.stay_wait_max = Duration::ZERO);
    let task = world.of_tool("x");
    assert_eq!(world.agent_of(task).as_deref(), Some("b"), "0 leaves none");
}

#[test]
fn one_task_is_left_to_each_agent() {
    let (mut world, _) = World::with_a_busy_warm_agent(|_| {});
    world.park("c");
    let tasks = [0; 2].map(|_| world.of_tool("x"));
    assert_eq!(tasks.map(|task| world.agent_of(task)), [Some("b".to_owned()), None]);
}

#[test]
fn an_agent_that_gets_no_more_tasks_holds_none_up() {
    let hour = Duration::from_secs(3600);
    let world = || {
        let (mut world, run) = World::with_a_busy_warm_agent(|settings| settings.stay_wait_max = hour);
        let task = world.of_tool("x");
        assert_eq!(world.agent_of(task), None);
        (world, run, task)
    };
    let (mut drained, _, task) = world();
    drained.drain("a", true);
    assert_eq!(drained.agent_of(task).as_deref(), Some("b"));
    let (mut left, _, task) = world();
    left.park("c");
    let _ = left.say("a", FromAgent::Exit);
    assert_eq!(left.agent_of(task).as_deref(), Some("c"), "agent b has the one that it had");
    let (mut lost, _, task) = world();
    lost.pass(INTERVAL);
    lost.park("b");
    lost.pass(INTERVAL);
    assert_eq!(lost.agent_of(task).as_deref(), Some("b"), "its agent is lost");
    let (mut cold, run, task) = world();
    cold.has_warm("a", &[], "", Some(run));
    assert_eq!(cold.agent_of(task).as_deref(), Some("b"));
    let (mut other, run, _) = world();
    other.has_warm("a", &["x"], "", Some(run));
    let tagged = other.submitted(&Fields::new().with(words::OPERATION, "x").with(words::TAGS, "gpu"));
    other.has_warm("b", &[], "gpu", None);
    assert_eq!(other.agent_of(tagged), None, "the earlier one goes first");
}

#[test]
fn no_later_task_overtakes_one_that_is_left_to_another_agent() {
    let (mut world, _) = World::with_a_busy_warm_agent(|_| {});
    let left = world.of_tool("x");
    assert_eq!(world.agent_of(left), None);
    let later = world.of_tool("y");
    assert_eq!((world.agent_of(left).as_deref(), world.agent_of(later)), (Some("b"), None));
    // The same for an agent that asks.
    let (mut world, _) = World::with_a_busy_warm_agent(|_| {});
    let left = world.submitted(&Fields::new().with(words::OPERATION, "x").with(words::TAGS, "gpu"));
    let later = world.submitted(&Fields::new().with(words::OPERATION, "y").with(words::TAGS, "gpu"));
    world.tagged("c", "gpu");
    assert_eq!(world.gets_all("c"), [left], "agent a cannot take it");
    assert_eq!(world.agent_of(later), None);
}

#[test]
fn a_task_of_a_lower_priority_waits_no_longer_behind_younger_ones_than_the_bound() {
    let mut world = World::new();
    let _ = ["a", "c"].map(|agent| world.is_busy_with_x(agent));
    world.park("b");
    let low = world.of_tool("x");
    world.pass(LEFT / 2);
    let high = world.submitted(&Fields::new().with(words::OPERATION, "x").with(words::PRIORITY, 1));
    assert_eq!((world.agent_of(low), world.agent_of(high)), (None, None));
    world.pass(LEFT / 2);
    assert_eq!((world.agent_of(low), world.agent_of(high).as_deref()), (None, Some("b")));
}

#[test]
fn an_agent_that_does_not_wait_is_told_when_a_task_is_left_to_others_no_more() {
    let mut world = World::new();
    world.has_warm("a", &["x"], "", None);
    let first = world.of_tool("x");
    world.runs("a", first, Round(0));
    let left = world.of_tool("x");
    assert_eq!(world.gets_all("b"), []);
    world.published.clear();
    world.pass(LEFT);
    assert_eq!(world.published, [Published::Inform]);
    assert_eq!(world.gets_all("b"), [left]);
}

#[test]
fn short_warm_tasks_go_to_an_agent_several_at_once() {
    let mut world = World::with(|settings| settings.list_tasks_max = LIST_TASKS_MAX);
    world.has_warm("a", &[], "", None);
    let mut tasks: Vec<_> = (0..12).map(|_| world.of_tool("x")).collect();
    let ends = |world: &mut World, task, warm| {
        let mut report = report_of(task, Round(0), Phase::Finished, Some(answered(0, warm)));
        let run = world.now.wall;
        report.times = PhaseTimes { run: Some(run), end: Some(run + Duration::from_millis(2)), ..report.times };
        let _ = world.say("a", FromAgent::Report(Box::new(report)));
    };
    for warm in [false, true] {
        assert_eq!(world.gets_all("a"), [tasks[0]], "nothing is known");
        let task = tasks.remove(0);
        ends(&mut world, task, warm);
    }
    assert_eq!(world.gets_all("a"), tasks[..4], "half of them");
    for task in tasks.drain(..4) {
        ends(&mut world, task, true);
    }
    // Another tool may have to be started, so it comes in no list with this one.
    let other = world.of_tool("y");
    tasks.extend((0..12).map(|_| world.of_tool("x")));
    assert_eq!(world.gets_all("a"), tasks[..6]);
    for task in tasks.drain(..6) {
        ends(&mut world, task, true);
    }
    assert_eq!(world.gets_all("a"), [other]);
    world.has_warm("b", &[], "", None);
    assert_eq!(world.gets_all("b"), [tasks.remove(0)], "it would have to start the tool");
    ends(&mut world, other, false);
    world.has_warm("a", &["y"], "", None);
    assert_eq!(world.gets_all("a"), [tasks[0]], "the tool is gone, and so is what was known of it");
}

#[test]
fn files_of_a_tool_that_stays_without_folders_are_refused() {
    for (stay, is_accepted) in [("[stay]", false), ("[stay]\nfolder = true", true), ("", true)] {
        let mut world = World::new();
        let manifest = Some(Arc::new(tool_manifest::parse(stay).unwrap()));
        world.is_pushed(HeldTool { manifest, ..world.held("t", 2) });
        let _ = world.of_tool("t");
        match world.submit(&Fields::new().with(words::OUT, r#"["*.mp4"]"#)) {
            Reply::Refused(refusal) if !is_accepted => {
                assert_eq!(refusal.code, Code::BadField);
                let all = ["__OUT__", "tool t has no folder", "set folder = true in [stay] of its tool.toml"];
                assert!(all.iter().all(|part| refusal.message.contains(part)), "{refusal}");
            }
            Reply::Submitted { .. } if is_accepted => {}
            other => panic!("{stay}: {other:?}"),
        }
    }
}

#[test]
fn explain_says_whether_a_task_found_its_tool_running() {
    for (warm, said) in [(true, "which had it running"), (false, "which started it")] {
        let mut world = World::new();
        let task = world.of_tool("x");
        world.runs("agent-2", task, Round(0));
        assert!(!world.why(task).contains("started on"), "nothing is known");
        let answered = RunResult { value: Some("[1]".into()), ..answered(0, warm) };
        assert_eq!(world.ends("agent-2", task, Round(0), answered), None);
        let why = world.why(task);
        assert_eq!(why, format!("it ended as SUCCEEDED: exit code 0; started on agent-2, {said}"));
        let told = world.told(TASK_QUERY, task);
        assert_eq!((text(&told, words::VALUE), text(&told, words::WARM)), ("[1]".to_owned(), warm.to_string()));
    }
}
