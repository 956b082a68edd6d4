//! Scenarios of agents with different tools, and of tasks whose tool is here, elsewhere, or nowhere.
#![cfg(test)]

use super::*;
use api::wire::requests::graph::GRAPH_SUBMIT;
use api::wire::requests::heartbeat::ToldTools;
use base::ToolSet;

impl World {
    /// An agent with a free slot reports this list of tools under a number; returns the number that the controller knows
    /// then.
    fn tells(&mut self, agent: &str, generation: u64, tools: Option<&str>) -> Option<u64> {
        let set = tools.map(|text| ToolSet::parse(text).unwrap());
        let told = Some(ToldTools { generation: Some(generation), set });
        let heartbeat = Heartbeat { tools: told, ..Heartbeat::default() };
        match self.say(agent, FromAgent::Heartbeat(heartbeat)).1 {
            Answer::Now(Reply::Heartbeat(Heard { tools, .. })) => tools,
            other => panic!("{other:?}"),
        }
    }

    fn of(&mut self, tool: &str) -> TaskId {
        self.submitted(&Fields::new().with(words::OPERATION, tool))
    }

    fn parks_with(&mut self, agent: &str, tools: &str) -> Ticket {
        self.tells(agent, 1, Some(tools));
        self.park(agent)
    }

    /// The agent has looked for the tool of the task and not found it.
    fn misses(&mut self, agent: &str, task: TaskId, round: u32) {
        let result = RunResult::of(ExitCode::TOOL_MISSING, "there is no /tools/x.tar.gz".to_owned());
        assert_eq!(self.ends(agent, task, Round(round), result), None);
    }

    fn assigned(&mut self) -> Vec<(Ticket, TaskId)> {
        let replies = std::mem::take(&mut self.replies);
        let task =
            |(ticket, reply)| if let Reply::Assigned(record, _) = reply { Some((ticket, record.id)) } else { None };
        replies.into_iter().filter_map(task).collect()
    }

    fn told_phases(&mut self) -> Vec<Phase> {
        std::mem::take(&mut self.pushes).iter().map(TaskRecord::phase).collect()
    }
}

#[test]
fn a_task_waits_for_an_agent_that_has_its_tool() {
    let mut world = World::new();
    let (a, b) = (world.parks_with("a", "x,y"), world.parks_with("b", "y"));
    let first = world.of("x");
    assert_eq!(world.assigned(), [(a, first)]);
    let (second, other) = (world.of("x"), world.of("y"));
    assert_eq!(world.assigned(), [(b, other)], "what comes later and can start is not held up");
    let why = world.why(second);
    assert!(why.contains("all agents that have its tool x and that could run it are busy"), "{why}");
    world.report("a", first, Round(0), Phase::Finished);
    assert_eq!(world.apply("a"), Some((second, Round(0))));
}

/// The next task of an agent is the best one that it can run, whatever its tool and its line.
#[test]
fn an_agent_gets_the_best_task_of_those_that_it_can_run() {
    let mut world = World::new();
    world.tells("a", 1, Some("x,y"));
    world.tells("b", 1, Some("z"));
    let low = world.submitted(&Fields::new().with(words::OPERATION, "x").with(words::PRIORITY, -1));
    let (z, y) = (world.of("z"), world.of("y"));
    let x = world.of("x");
    let gated = world.submitted(&Fields::new().with(words::OPERATION, "y").with(words::GATE, "g"));
    for task in [y, x, gated, low] {
        assert_eq!(world.apply("a"), Some((task, Round(0))));
        world.report("a", task, Round(0), Phase::Finished);
    }
    assert_eq!(world.apply("a"), None);
    assert_eq!(world.apply("b"), Some((z, Round(0))));
}

/// The task is accepted, and ends with -129 as soon as an agent has looked into its folder (docs/sources/controller.md, 2.7).
#[test]
fn a_task_of_a_tool_that_no_agent_has_goes_to_the_first_free_one_and_ends() {
    let mut world = World::new();
    let (a, b) = (world.parks_with("a", "y"), world.parks_with("b", "z"));
    let task = world.of("x");
    assert_eq!(world.assigned(), [(a, task)], "no other agent is asked: {b:?}");
    world.misses("a", task, 0);
    assert_eq!(world.outcome(task), Outcome::Failed);
    let result = world.record(task).result().cloned().unwrap();
    assert_eq!((result.exit_code, &result.error[..]), (ExitCode::TOOL_MISSING, "there is no /tools/x.tar.gz"));
    assert_eq!(world.told_phases(), [Phase::Preparing, Phase::Ended, Phase::Finished]);
    let again = world.of("x");
    assert_eq!(world.assigned(), [(b, again)], "each task is looked for");
}

#[test]
fn a_tool_that_was_found_after_all_is_known_from_then_on() {
    let mut world = World::new();
    let (a, b) = (world.parks_with("a", ""), world.parks_with("b", ""));
    let first = world.of("x");
    assert_eq!(world.assigned(), [(a, first)]);
    world.report("a", first, Round(0), Phase::Running);
    let second = world.of("x");
    assert_eq!(world.assigned(), [], "a has it");
    world.tells("b", 2, Some("x"));
    assert_eq!(world.assigned(), [(b, second)], "and b has got it");
}

#[test]
fn a_task_whose_tool_vanished_goes_to_another_agent_without_a_trace_of_failure() {
    let mut world = World::new();
    let a = world.parks_with("a", "x");
    world.tells("b", 1, Some("x"));
    let task = world.of("x");
    assert_eq!(world.assigned(), [(a, task)]);
    world.report("a", task, Round(0), Phase::Preparing);
    world.misses("a", task, 0);
    assert_eq!(world.told_phases(), [Phase::Preparing, Phase::Waiting]);
    let record = world.record(task);
    assert_eq!((record.round, record.counts.fails, record.counts.losses), (Round(1), 0, 0));
    assert!(world.log(task).contains("its agent did not have its tool"), "{}", world.log(task));
    assert_eq!(world.apply("a"), None, "never to the same one");
    assert_eq!(world.tells("a", 1, None), Some(1));
    assert_eq!(world.apply("a"), None, "also after a heartbeat without news");
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    world.report("b", task, Round(1), Phase::Finished);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
    let next = world.of("x");
    world.tells("a", 2, Some("x"));
    assert_eq!(world.apply("a"), Some((next, Round(0))), "it says that it has it again");
}

#[test]
fn a_task_that_every_agent_gives_back_ends_with_the_code_of_a_missing_tool() {
    let mut world = World::new();
    for agent in ["a", "b", "c"] {
        world.tells(agent, 1, Some("x"));
    }
    let task = world.of("x");
    for (round, agent) in (0..).zip(["a", "b", "c"]) {
        assert_eq!(world.apply(agent), Some((task, Round(round))));
        world.misses(agent, task, round);
    }
    assert_eq!(world.outcome(task), Outcome::Failed);
    assert_eq!(world.record(task).result().unwrap().exit_code, ExitCode::TOOL_MISSING);
}

/// Another kind of agent may report its phases one by one.
#[test]
fn a_give_back_may_come_in_two_reports() {
    let mut world = World::new();
    world.beat("a", None);
    world.beat("b", None);
    let task = world.of("x");
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    let result = Some(RunResult::of(ExitCode::TOOL_MISSING, String::new()));
    let (times, wait) = (PhaseTimes::default(), None);
    let ended = Report {
        task,
        round: None,
        phase: Phase::Ended,
        times,
        ran: None,
        result,
        provided: None,
        progress: None,
        let_go: None,
        wait,
    };
    let _ = world.say("a", FromAgent::Report(Box::new(ended)));
    world.misses("a", task, 0);
    assert_eq!(world.told_phases(), [Phase::Waiting]);
    assert_eq!(world.apply("a"), None, "an agent that does not tell has every tool but this one");
    let other = world.of("y");
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    assert_eq!(world.apply("a"), Some((other, Round(0))));
}

#[test]
fn a_task_that_is_to_be_ended_is_not_given_to_another_agent() {
    let mut world = World::new();
    world.tells("a", 1, Some("x"));
    world.tells("b", 1, Some("x"));
    let task = world.of("x");
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    assert_eq!(world.kill(task), Reply::Done);
    world.misses("a", task, 0);
    assert_eq!(world.outcome(task), Outcome::Killed);
}

#[test]
fn what_a_lost_agent_has_does_not_count_until_it_is_back() {
    let mut world = World::new();
    world.tells("a", 1, Some("x"));
    world.tells("b", 1, Some("y"));
    let task = world.of("x");
    assert_eq!(world.apply("b"), None, "a is here");
    world.pass(INTERVAL);
    world.tells("b", 1, None);
    world.pass(INTERVAL);
    assert_eq!(world.apply("b"), Some((task, Round(0))), "no other agent has it now");
    world.tells("a", 1, None);
    world.misses("b", task, 0);
    assert_eq!(world.apply("b"), None);
    assert_eq!(world.apply("a"), Some((task, Round(1))));
}

/// A restored agent may have any tool until its first message.
#[test]
fn no_task_ends_for_its_tool_before_all_agents_were_heard_after_a_restart() {
    let mut world = World::new();
    world.tells("a", 1, Some("x"));
    let (first, second) = (world.of("x"), world.of("x"));
    world.runs("a", first, Round(0));
    world.restart();
    assert_eq!(world.tells("b", 1, Some("y")), Some(1));
    assert_eq!(world.apply("b"), None);
    assert_eq!(world.tells("a", 1, None), None, "the list is asked for");
    assert_eq!(world.tells("a", 1, Some("x")), Some(1));
    assert_eq!(world.apply("b"), None);
    world.report("a", first, Round(0), Phase::Finished);
    assert_eq!(world.apply("a"), Some((second, Round(1))));
}

#[test]
fn explain_says_what_is_known_of_the_tool() {
    let mut world = World::new();
    world.tells("a", 1, Some("y"));
    let first = world.of("y");
    world.runs("a", first, Round(0));
    let task = world.of("x");
    let why = world.why(task);
    assert!(why.contains("no agent has its tool x; the next free agent looks for it again"), "{why}");
    world.tells("b", 1, Some("x"));
    let drain = Fields::new().with(words::AGENT_ID, "b").with(words::DRAIN, true);
    world.send(AGENT_DRAIN, &drain);
    let why = world.why(task);
    assert!(why.contains("the agents that could run it are paused: b"), "{why}");
    world.tagged("c", "gpu");
    let special = world.submitted(&Fields::new().with(words::OPERATION, "x").with(words::TAGS, "arm"));
    assert!(world.why(special).contains("no agent has the tags arm"), "{}", world.why(special));
}

/// An agent that does not report its tools, and does not ask for a task.
#[test]
fn explain_claims_no_tool_of_an_agent_that_does_not_tell() {
    let mut world = World::new();
    world.tells("a", 1, Some("y"));
    world.beat("b", None);
    let task = world.of("x");
    let why = world.why(task);
    let expected = "all agents that have its tool x, or do not report their tools, and that could run it are busy or do not ask for a task";
    assert!(why.contains(expected), "{why}");
}

/// An agent with the tool but not the tags, and one with the tags but not the tool, both wait.
#[test]
fn a_tool_and_tags_have_to_be_in_one_place() {
    let mut world = World::new();
    world.tells("a", 1, Some("x"));
    let gpu = Labels::parse("gpu").unwrap();
    let tools = Some(ToldTools { generation: Some(1), set: Some(ToolSet::parse("y").unwrap()) });
    let heartbeat = Heartbeat { tags: gpu, tools, ..Heartbeat::default() };
    let _ = world.say("b", FromAgent::Heartbeat(heartbeat));
    let task = world.submitted(&Fields::new().with(words::OPERATION, "x").with(words::TAGS, "gpu"));
    assert_eq!([world.apply("a"), world.apply("b")], [None, None]);
    let why = world.why(task);
    assert!(why.contains("both its tool x and the tags gpu"), "{why}");
}

#[test]
fn agents_are_shown_with_their_tools() {
    let mut world = World::new();
    world.tells("a", 1, Some("y,x"));
    world.beat("b", None);
    let reply = world.ask(Request::AgentDetails(Page { offset: 0, limit: None }));
    let Reply::Agents { agents, .. } = &reply else { panic!("{reply:?}") };
    let tools: Vec<_> = agents.iter().map(|agent| agent.tools.as_ref().unwrap().to_string()).collect();
    assert_eq!(tools, ["x,y", "*"]);
}

/// A gate holds up the lanes of all tools behind it, and opens for the best of them.
#[test]
fn tools_behind_a_gate_take_turns() {
    let mut world = World::new();
    world.set_gate("g", Fields::new().with(words::MAX_RUNNING, 1u32));
    world.tells("a", 1, Some("x"));
    world.tells("b", 1, Some("y"));
    let gated = |tool: &str| Fields::new().with(words::OPERATION, tool).with(words::GATE, "g");
    let (x, y) = (world.submitted(&gated("x")), world.submitted(&gated("y")));
    assert_eq!(world.apply("a"), Some((x, Round(0))));
    assert_eq!(world.apply("b"), None);
    world.report("a", x, Round(0), Phase::Finished);
    assert_eq!(world.apply("b"), Some((y, Round(0))));
}

/// Many agents with many tools that come, go, and change: the invariants are checked after each step.
#[test]
fn sets_that_come_and_go_leave_every_task_where_it_can_be_run() {
    let mut world = World::new();
    let tools = ["x", "y", "z"];
    let tasks: Vec<_> = (0..12).map(|number| world.of(tools[number % 3])).collect();
    for (generation, list) in (1..).zip(["x", "", "x,y", "*", "z", "*,-z", "y"]) {
        for agent in ["a", "b"] {
            world.tells(agent, generation, Some(list));
        }
        world.tells("c", 1, Some("x,y,z"));
        world.pass(INTERVAL * 2);
    }
    world.tells("a", 9, Some("x,y,z"));
    for task in tasks {
        assert_eq!(world.apply("a"), Some((task, Round(0))));
        world.report("a", task, Round(0), Phase::Finished);
    }
}

/// Two agents that report a tool which they do not find would hand a task back and forth forever.
#[test]
fn a_task_does_not_go_to_and_fro_without_end() {
    let mut world = World::new();
    let task = world.of("x");
    for round in 0..=u32::try_from(TaskRecord::PAST_ROUNDS_MAX).unwrap() {
        for agent in ["a", "b"] {
            world.tells(agent, u64::from(round) + 1, Some("x"));
        }
        if world.record(task).phase() == Phase::Waiting {
            assert_eq!(world.apply("a"), Some((task, Round(round))));
        }
        let with = world.record(task).assignment().unwrap().agent.clone();
        world.misses(with.as_str(), task, round);
    }
    assert_eq!(world.outcome(task), Outcome::Failed);
}

/// The sentence names the tool that was probably meant, and no task is left.
#[test]
fn a_submit_that_requires_its_tool_is_refused_if_the_tool_is_certain_to_be_nowhere() {
    let mut world = World::new();
    let wanted = |tool: &str| Fields::new().with(words::OPERATION, tool).with(words::REQUIRE_TOOL, true);
    assert!(matches!(world.submit(&wanted("x")), Reply::Submitted { .. }), "no agent: nothing is known");
    world.beat("mute", None);
    assert!(matches!(world.submit(&wanted("x")), Reply::Submitted { .. }), "nor of an agent that reports no tools");
    let _ = world.say("mute", FromAgent::Exit);
    world.tells("a", 1, Some("rep,helloworld"));
    let tasks = world.stored.len();
    for (tool, hint) in [
        ("hello", "did you mean helloworld? If not, send it with `llts tool push FOLDER`, and submit the task again"),
        ("helloword", "did you mean helloworld? If not, send it"),
        ("convert", "send it with `llts tool push FOLDER`, and submit the task again"),
    ] {
        let Reply::Refused(refusal) = world.submit(&wanted(tool)) else { panic!("{tool} is accepted") };
        let expected = format!("no agent has the tool {tool}; {hint}");
        assert!(refusal.code == Code::BadOperation && refusal.message.starts_with(&expected), "{}", refusal.message);
    }
    assert_eq!(world.stored.len(), tasks, "a refused submit has left a task");
    let task = world.submitted(&wanted("rep"));
    assert!(world.record(task).submitted.contains("rep") && !world.record(task).submitted.contains("REQUIRE"));
    let command = Fields::new().with(words::SHELL, "true").with(words::REQUIRE_TOOL, true);
    assert!(matches!(world.send(TASK_SUBMIT, &command), Reply::Submitted { .. }), "a command needs no tool");
    let keyed = wanted("rep").with(words::SUBMIT_KEY, "1");
    let before = world.submitted(&keyed);
    world.tells("a", 2, Some("helloworld"));
    let again = world.submit(&keyed);
    assert_eq!(again, Reply::Submitted { task: before, warning: None, duplicate: true }, "it was accepted before");
    assert_eq!(refused(&world.submit(&wanted("x").with(words::REQUIRE_TOOL, "yes"))), Code::BadField);
}

/// All tasks of a request are accepted, or none.
#[test]
fn of_many_tasks_the_first_without_its_required_tool_is_named() {
    let mut world = World::new();
    world.tells("a", 1, Some("x"));
    let tasks = world.stored.len();
    let many = |required: bool| {
        let text = format!(
            r#"{{"__TYPE__":"TASK/SUBMIT_MANY","__REQUIRE_TOOL__":{required},"__TASKS__":[{{"__OPERATION__":"x"}},{{"__OPERATION__":"z"}}]}}"#
        );
        let Ok((_, Message::Client(request))) = requests::parse(text.as_bytes(), &rules()) else { panic!("{text}") };
        request
    };
    let Reply::Refused(refusal) = world.ask(many(true)) else { panic!("it is accepted") };
    assert_eq!((refusal.code, refusal.index, world.stored.len()), (Code::BadOperation, Some(1), tasks));
    assert!(matches!(world.ask(many(false)), Reply::SubmittedMany { .. }));
}

/// A graph is a request of this service alone, so that its tools are always required.
#[test]
fn a_graph_with_a_step_whose_tool_is_nowhere_is_refused() {
    let mut world = World::new();
    let graph = |tools: &[&str]| {
        let step = |(number, tool)| format!(r#""s{number}": {{"operation": "{tool}"}}"#);
        let steps: Vec<_> = tools.iter().enumerate().map(step).collect();
        let document = format!(r#"{{"steps": {{{}}}}}"#, steps.join(","));
        let fields = Fields::new().with(words::TYPE, GRAPH_SUBMIT.word).with(words::GRAPH, document);
        let Ok((_, Message::Client(request))) = requests::parse(&json::to_vec(&fields), &rules()) else { panic!() };
        request
    };
    assert!(matches!(world.ask(graph(&["x"])), Reply::GraphSubmitted { .. }), "no agent: nothing is known");
    world.tells("a", 1, Some("count,y"));
    let Reply::Refused(refusal) = world.ask(graph(&["y", "coutn"])) else { panic!("it is accepted") };
    let expected = "step s1: no agent has the tool coutn; did you mean count? If not, send it";
    assert!(refusal.code == Code::BadOperation && refusal.message.starts_with(expected), "{}", refusal.message);
    assert!(matches!(world.ask(graph(&["y"])), Reply::GraphSubmitted { .. }));
}

/// Each process of an agent counts its lists from 1; the controller may know the process before by its task alone.
#[test]
fn the_list_of_an_agent_that_was_started_again_counts_after_a_restart_of_the_controller() {
    let mut world = World::new();
    world.of("t");
    let first = world.apply("a").expect("the task");
    world.report("a", first.0, Round(0), Phase::Running);
    world.restart();
    assert_eq!(world.tells("a", 1, Some("other")), Some(1));
    let told = ToldTools { generation: Some(1), set: Some(ToolSet::parse("t").unwrap()) };
    let heartbeat = Heartbeat { tools: Some(told), replaces: Some(Session(1)), ..Heartbeat::default() };
    let _ = world.say_as("a", 2, FromAgent::Heartbeat(heartbeat));
    let given = |answer| match answer {
        Answer::Now(Reply::Assigned(record, _)) => record.id,
        other => panic!("{other:?}"),
    };
    assert_eq!(given(world.say_as("a", 2, FromAgent::Apply(None)).1), first.0);
}
