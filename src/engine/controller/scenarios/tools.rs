//! Scenarios of agents with different tools, and of tasks whose tool is here, elsewhere, or nowhere.
#![cfg(test)]

use super::*;
use crate::protocol::requests::graph::GRAPH_SUBMIT;
use crate::protocol::requests::heartbeat::ToldTools;
use crate::types::ToolSet;

impl World {
    /// An agent with a free slot reports this list of tools under a number; returns the number that the controller knows
    /// then.
    fn tells(&mut self, agent: &str, generation: u64, tools: Option<&str>) -> Option<u64> {
        let set = tools.map(|text| ToolSet::parse(text).unwrap());
        let told = Some(ToldTools { generation: Some(generation), set, looked: None });
        let heartbeat = Heartbeat { tools: told, ..Heartbeat::default() };
        match self.say(agent, FromAgent::Heartbeat(heartbeat)).1 {
            Answer::Now(Reply::Heartbeat(Heard { tools, .. })) => tools,
            other => panic!("{other:?}"),
        }
    }

    fn of(&mut self, tool: &str) -> TaskId {
        self.submitted(&Fields::new().with(words::OPERATION, tool))
    }

    /// A task of a tool that vanishes after its submit: the only agent with it leaves.
    fn of_vanished(&mut self, tool: &str) -> TaskId {
        self.tells("ghost", 1, Some(tool));
        let task = self.of(tool);
        let _ = self.say("ghost", FromAgent::Exit);
        task
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

    /// An agent that can be asked reports its last look and its tools; returns the look that the answer asks for.
    fn has_looked(&mut self, agent: &str, looked: u64, tools: &str) -> Option<u64> {
        let set = Some(ToolSet::parse(tools).unwrap());
        let tools = Some(ToldTools { generation: None, set, looked: Some(looked) });
        match self.say(agent, FromAgent::Heartbeat(Heartbeat { tools, ..Heartbeat::default() })).1 {
            Answer::Now(Reply::Heartbeat(Heard { look, .. })) => look,
            other => panic!("{other:?}"),
        }
    }

    /// Agents that look when they are asked, and have no tools.
    fn with_lookers<const N: usize>(agents: [&str; N]) -> (Self, [Ticket; N]) {
        let mut world = Self::new();
        let tickets = agents.map(|agent| {
            world.has_looked(agent, 0, "");
            world.park(agent)
        });
        (world, tickets)
    }

    /// The looks that were requested since the last call.
    fn looks(&mut self) -> Vec<u64> {
        let published = std::mem::take(&mut self.published);
        let number = |message| if let Published::Look(number) = message { Some(number) } else { None };
        published.into_iter().filter_map(number).collect()
    }

    fn look(&mut self) -> u64 {
        let looks = self.looks();
        assert_eq!(looks.len(), 1, "{looks:?}");
        looks[0]
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

/// Document, section 2.7: -129, as soon as an agent has looked.
#[test]
fn a_tool_that_no_agent_has_is_looked_for_once_more_and_then_missing() {
    let mut world = World::new();
    let a = world.parks_with("a", "y");
    let task = world.of("x");
    assert_eq!(world.assigned(), [(a, task)], "it looks anew");
    world.misses("a", task, 0);
    assert_eq!(world.outcome(task), Outcome::Failed);
    let result = world.record(task).result().cloned().unwrap();
    assert_eq!((result.exit_code, &result.error[..]), (ExitCode::TOOL_MISSING, "there is no /tools/x.tar.gz"));
    assert_eq!(world.told_phases(), [Phase::Preparing, Phase::Ended, Phase::Finished]);
    let again = world.of("x");
    assert_eq!(world.apply("a"), Some((again, Round(0))), "each task is looked for");
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
    let ended =
        Report { task, round: None, phase: Phase::Ended, times, ran: None, result, provided: None, let_go: None, wait };
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
    assert!(why.contains("the agents that have its tool x get no tasks"), "{why}");
    world.tagged("c", "gpu");
    let special = world.submitted(&Fields::new().with(words::OPERATION, "x").with(words::TAGS, "arm"));
    assert!(world.why(special).contains("no agent has the tags arm"), "{}", world.why(special));
}

#[test]
fn explain_says_whose_look_is_awaited() {
    let (mut world, _) = World::with_lookers(["a", "b"]);
    let task = world.of_vanished("x");
    let number = world.look();
    world.has_looked("a", number, "");
    let why = world.why(task);
    assert!(why.contains("no other agent has its tool x; agent b was asked for it"), "{why}");
    world.has_looked("b", number, "");
    assert!(world.why(task).contains("agent"), "{}", world.why(task));
    assert!(!world.why(task).contains("is asked"), "{}", world.why(task));
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
    let tools = Some(ToldTools { generation: Some(1), set: Some(ToolSet::parse("y").unwrap()), looked: None });
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

/// A tool may arrive in a folder together with its task: no other agent knows, and its own has not reported it yet.
#[test]
fn every_agent_looks_before_a_task_ends_for_its_tool() {
    let (mut world, [a, b]) = World::with_lookers(["a", "b"]);
    let task = world.of_vanished("x");
    assert_eq!(world.assigned(), []);
    let look = world.look();
    assert_eq!(world.has_looked("a", look, ""), None);
    assert_eq!(world.assigned(), [], "b may have it");
    assert_eq!(world.has_looked("b", look, "x"), None);
    assert_eq!(world.assigned(), [(b, task)]);
    let missing = world.of_vanished("y");
    let look = world.look();
    world.has_looked("a", look, "");
    world.has_looked("b", look, "x");
    assert_eq!(world.assigned(), [(a, missing)]);
    world.misses("a", missing, 0);
    assert_eq!(world.told_phases(), [Phase::Preparing, Phase::Ended, Phase::Finished], "in its first round");
}

#[test]
fn a_busy_agent_looks_too_and_does_not_hold_up_the_end() {
    let (mut world, [_, b]) = World::with_lookers(["a", "b"]);
    world.tells("a", 1, Some("z"));
    world.has_looked("a", 0, "z");
    let long = world.of("z");
    assert_eq!(world.report("a", long, Round(0), Phase::Running), None);
    world.assigned();
    let task = world.of_vanished("x");
    let look = world.look();
    world.has_looked("b", look, "");
    assert_eq!(world.assigned(), []);
    world.has_looked("a", look, "z");
    assert_eq!(world.assigned(), [(b, task)]);
    world.misses("b", task, 0);
    assert_eq!(world.outcome(task), Outcome::Failed);
}

/// Such an agent learns of the task when it is submitted, and asks in vain as long as the look continues.
#[test]
fn agents_that_do_not_park_hear_of_the_end_of_a_look() {
    let mut world = World::new();
    world.tells("simple", 1, Some(""));
    world.has_looked("a", 0, "z");
    let long = world.of("z");
    world.runs("a", long, Round(0));
    let task = world.of("x");
    assert_eq!(world.apply("simple"), None);
    let look = world.look();
    let tools = Some(ToldTools { generation: None, set: Some(ToolSet::parse("z").unwrap()), looked: Some(look) });
    let heartbeat = Heartbeat { busy: true, run: Some((long, Round(0))), tools, ..Heartbeat::default() };
    let _ = world.say("a", FromAgent::Heartbeat(heartbeat));
    assert_eq!(world.published, [Published::Inform]);
    assert_eq!(world.apply("simple"), Some((task, Round(0))));
}

#[test]
fn tasks_that_come_during_a_look_wait_for_the_next_one() {
    let (mut world, [a, b]) = World::with_lookers(["a", "b"]);
    let first = world.of_vanished("x");
    let look = world.look();
    world.has_looked("a", look, "");
    let second = world.of_vanished("y");
    let third = world.of_vanished("z");
    assert!(world.looks().is_empty(), "one at a time");
    world.has_looked("b", look, "");
    assert_eq!(world.assigned(), [(a, first)]);
    let next = world.look();
    assert_ne!(next, look);
    world.has_looked("a", next, "y");
    world.has_looked("b", next, "");
    assert_eq!(world.assigned(), [(b, third)]);
    world.misses("b", third, 0);
    world.misses("a", first, 0);
    assert_eq!(world.apply("b"), None, "a has what the second one needs");
    assert_eq!(world.apply("a"), Some((second, Round(0))));
}

/// Agents of earlier versions cannot be asked, lost ones do not answer, and a single agent looks when it gets the task.
#[test]
fn only_agents_that_are_here_and_can_be_asked_are_waited_for() {
    let (mut world, [a]) = World::with_lookers(["a"]);
    let task = world.of_vanished("x");
    assert_eq!((world.assigned(), world.looks()), (vec![(a, task)], vec![]), "one agent");
    world.misses("a", task, 0);
    assert_eq!(world.outcome(task), Outcome::Failed);

    let mut world = World::new();
    let old = world.parks_with("old", "");
    let other = world.parks_with("older", "");
    let task = world.of_vanished("x");
    assert_eq!((world.assigned(), world.looks()), (vec![(old, task)], vec![]), "{other:?} cannot be asked, either");
    world.misses("old", task, 0);
    assert_eq!(world.outcome(task), Outcome::Failed);

    let (mut world, _) = World::with_lookers(["a", "b"]);
    world.pass(INTERVAL);
    let task = world.of_vanished("x");
    let look = world.look();
    world.has_looked("b", look, "");
    assert_eq!(world.apply("b"), None);
    world.pass(INTERVAL);
    assert_eq!(world.apply("b"), Some((task, Round(0))), "a is lost");

    let (mut world, [_, b]) = World::with_lookers(["a", "b"]);
    let task = world.of_vanished("x");
    let look = world.look();
    world.has_looked("b", look, "");
    let _ = world.say("a", FromAgent::Exit);
    assert_eq!(world.assigned(), [(b, task)], "a has left");
}

/// A broadcast may be lost, and an agent in contact that never looks delays the task only for a limited time.
#[test]
fn a_look_is_asked_for_again_and_given_up_in_time() {
    let (mut world, _) = World::with_lookers(["a", "b"]);
    let task = world.of_vanished("x");
    let look = world.look();
    assert_eq!(world.has_looked("a", 0, ""), Some(look), "with the answer to a heartbeat");
    assert_eq!(world.has_looked("a", look, ""), None);
    world.pass(INTERVAL);
    assert_eq!([world.has_looked("a", look, ""), world.has_looked("b", 0, "")], [None, Some(look)]);
    world.pass(INTERVAL - Duration::from_millis(1));
    assert_eq!(world.apply("a"), None);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.apply("a"), Some((task, Round(0))));
}

/// The last agent that had the tool has lost it. The others may have got it meanwhile.
#[test]
fn the_others_look_when_a_tool_vanishes_from_the_last_agent() {
    let (mut world, [_, b]) = World::with_lookers(["a", "b"]);
    world.has_looked("a", 0, "x");
    let task = world.of("x");
    assert!(world.looks().is_empty());
    world.assigned();
    world.misses("a", task, 0);
    assert_eq!(world.phase(task), Phase::Waiting);
    let look = world.look();
    world.has_looked("a", look, "");
    world.has_looked("b", look, "x");
    assert_eq!(world.assigned(), [(b, task)]);
    world.report("b", task, Round(1), Phase::Finished);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

/// Two agents that report a tool which they do not find would hand a task back and forth forever.
#[test]
fn a_task_does_not_go_to_and_fro_without_end() {
    let (mut world, _) = World::with_lookers(["a", "b"]);
    let task = world.of_vanished("x");
    for round in 0..=u32::try_from(TaskRecord::PAST_ROUNDS_MAX).unwrap() {
        world.has_looked("a", 0, "x");
        world.has_looked("b", 0, "x");
        if world.record(task).phase() == Phase::Waiting {
            assert_eq!(world.apply("a"), Some((task, Round(round))));
        }
        let with = world.record(task).assignment().unwrap().agent.clone();
        world.misses(with.as_str(), task, round);
    }
    assert_eq!(world.outcome(task), Outcome::Failed);
}

/// The next life of the controller uses new numbers: an answer to the previous one does not count.
#[test]
fn a_look_for_another_controller_does_not_count() {
    let (mut world, _) = World::with_lookers(["a", "b"]);
    world.of_vanished("x");
    let before = world.look();
    world.restart();
    world.has_looked("a", before, "");
    world.has_looked("b", before, "");
    assert!(world.apply("a").is_some());
    world.of_vanished("y");
    let look = world.look();
    assert_ne!(look, before);
    assert_eq!(world.has_looked("b", before, ""), Some(look));
}

/// A task whose tool is looked for holds up those behind it, which have been looked for before.
#[test]
fn a_task_behind_a_refused_submit_goes_on_at_once() {
    let (mut world, [a, _]) = World::with_lookers(["a", "b"]);
    world.tells("ghost", 1, Some("x"));
    let first = world.of("x");
    let urgent = Fields::new().with(words::OPERATION, "x").with(words::PRIORITY, 1);
    let refused = world.submitted(&urgent.with(words::START_AFTER, world.moment(0.1)));
    let _ = world.say("ghost", FromAgent::Exit);
    let look = world.look();
    world.pass(seconds(0.2));
    for agent in ["a", "b"] {
        world.has_looked(agent, look, "");
    }
    assert!(world.assigned().is_empty(), "the second look is under way");
    assert!(world.controller.handle_unstored(world.now, refused, false));
    world.controller.handle_withdrawn(world.now);
    world.settle();
    assert_eq!(world.assigned(), [(a, first)]);
}

impl World {
    /// The submit of a graph with steps of these tools; `None` if it is not answered at once.
    fn graph_of(&mut self, tools: &[&str]) -> (Ticket, Option<Reply>) {
        let step = |(number, tool)| format!(r#""s{number}": {{"operation": "{tool}"}}"#);
        let steps: Vec<_> = tools.iter().enumerate().map(step).collect();
        let document = format!(r#"{{"steps": {{{}}}}}"#, steps.join(","));
        let fields = Fields::new().with(words::TYPE, GRAPH_SUBMIT.word).with(words::GRAPH, document);
        let Ok((_, Message::Client(request))) = requests::parse(&json::to_vec(&fields), &rules()) else { panic!() };
        // Each on a connection of its own: one may only have a tenth of the waiting requests.
        self.ask_or_wait(self.tickets + 1, request)
    }

    /// A request of this connection; `None` if it is not answered at once.
    fn ask_or_wait(&mut self, connection: u64, request: Request) -> (Ticket, Option<Reply>) {
        match self.ask_by(connection, request) {
            (ticket, Answer::Now(reply)) => (ticket, Some(reply)),
            (ticket, Answer::Later) => (ticket, None),
            other => panic!("{other:?}"),
        }
    }

    /// A submit on this connection that is not answered at once.
    fn seeks(&mut self, connection: u64, body: &str) -> Ticket {
        let Ok((_, Message::Client(request))) = requests::parse(body.as_bytes(), &rules()) else { panic!("{body}") };
        let (ticket, reply) = self.ask_or_wait(connection, request);
        assert_eq!(reply, None, "{body}");
        ticket
    }

    /// The reply to a submit that was not answered at once.
    fn later(&self, of: Ticket) -> Option<&Reply> {
        self.replies.iter().find(|(ticket, _)| *ticket == of).map(|(_, reply)| reply)
    }

    fn refused_later(&self, of: Ticket) -> (Code, Option<usize>, String) {
        match self.later(of) {
            Some(Reply::Refused(refusal)) => (refusal.code, refusal.index, refusal.message.clone()),
            other => panic!("{other:?}"),
        }
    }

    /// The replies to waiting submits since the last call: the graphs accepted, and the refusals.
    fn graph_replies(&mut self, of: Ticket) -> Option<Result<GraphId, (Code, String)>> {
        Some(match self.later(of)? {
            Reply::GraphSubmitted { graph, .. } => Ok(*graph),
            Reply::Refused(refusal) => Err((refusal.code, refusal.message.clone())),
            other => panic!("{other:?}"),
        })
    }
}

/// A graph is refused for lack of a tool only after all agents have looked, the only one included.
#[test]
fn a_graph_waits_until_all_agents_have_looked_for_its_tools() {
    let mut world = World::new();
    assert!(matches!(world.graph_of(&["x"]), (_, Some(Reply::GraphSubmitted { .. }))), "no agent: nothing is known");
    let _ = world.say("mute", FromAgent::Heartbeat(Heartbeat::default()));
    assert!(
        matches!(world.graph_of(&["x"]), (_, Some(Reply::GraphSubmitted { .. }))),
        "nor of an agent that tells nothing"
    );
    let _ = world.say("mute", FromAgent::Exit);
    world.has_looked("a", 0, "count,y");
    assert!(matches!(world.graph_of(&["y"]), (_, Some(Reply::GraphSubmitted { .. }))), "an agent has it");
    world.looks();

    let (missing, None) = world.graph_of(&["y", "coutn"]) else { panic!("not asked") };
    let (added, None) = world.graph_of(&["z"]) else { panic!("not asked") };
    let first = world.look();
    assert_eq!((world.graph_replies(missing), world.graph_replies(added)), (None, None));
    world.has_looked("a", first, "count,y");
    let Some(Err((code, said))) = world.graph_replies(missing) else { panic!("no refusal") };
    assert_eq!(code, Code::BadOperation);
    assert!(
        said.starts_with("step s1: no agent has the tool coutn; did you mean count? If not, put coutn.tar.gz"),
        "{said}"
    );
    let second = world.look();
    assert_eq!(world.graph_replies(added), None, "it came while a look was under way");
    world.has_looked("a", second, "count,y,z");
    assert!(matches!(world.graph_replies(added), Some(Ok(_))), "the tool was added just before");
}

#[test]
fn the_submit_of_a_graph_that_waits_for_a_look_is_answered_whatever_happens() {
    let mut world = World::new();
    world.has_looked("a", 0, "y");
    let (silent, None) = world.graph_of(&["x"]) else { panic!("not asked") };
    world.pass(seconds(1.0));
    let Some(Err((code, said))) = world.graph_replies(silent) else { panic!("its client does not wait for ever") };
    assert_eq!(code, Code::BadOperation);
    assert!(said.contains("; agent a has not told its tools in time; did you mean y? If not, put x.tar.gz"), "{said}");

    world.has_looked("b", 0, "y");
    let (found, None) = world.graph_of(&["z"]) else { panic!("not asked") };
    world.has_looked("b", 0, "y,z");
    assert!(matches!(world.graph_replies(found), Some(Ok(_))), "although a is silent");
    world.has_looked("a", 0, "y");
    let (gone, None) = world.graph_of(&["x"]) else { panic!("not asked") };
    assert_eq!(world.controller.handle_disconnected(gone.connection), [gone]);
    let (stopped, None) = world.graph_of(&["x"]) else { panic!("not asked") };
    world.controller.handle_stop();
    world.settle();
    let Some(Err((code, _))) = world.graph_replies(stopped) else { panic!("no refusal") };
    assert_eq!((code, world.graph_replies(gone)), (Code::Stopping, None));
}

fn submit_of(tool: &str) -> String {
    format!(r#"{{"__TYPE__":"TASK/SUBMIT","__OPERATION__":"{tool}"}}"#)
}

fn submit_of_many(tasks: &[&str]) -> String {
    format!(r#"{{"__TYPE__":"TASK/SUBMIT_MANY","__TASKS__":[{}]}}"#, tasks.join(","))
}

/// The only agent looks, too: otherwise its user would get an id and -129 for a mistyped name.
#[test]
fn a_tool_that_no_agent_has_is_refused_after_all_have_looked() {
    let mut world = World::new();
    world.has_looked("a", 0, "helloworld,y");
    let missing = world.seeks(1, &submit_of("helloword"));
    assert_eq!(world.later(missing), None);
    let look = world.look();
    world.has_looked("a", look, "helloworld,y");
    let (code, index, said) = world.refused_later(missing);
    assert_eq!((code, index), (Code::BadOperation, None));
    let expected =
        "no agent has the tool helloword; did you mean helloworld? If not, put helloword.tar.gz into the tools folder";
    assert!(said.starts_with(expected), "{said}");
    assert!(world.stored.is_empty(), "it has left a task");

    world.has_looked("a", 0, "");
    let only = world.seeks(1, &submit_of("x"));
    let look = world.look();
    world.has_looked("a", look, "");
    let (_, _, said) = world.refused_later(only);
    assert!(said.starts_with("no agent has the tool x; put x.tar.gz into the tools folder of an agent"), "{said}");
}

#[test]
fn a_tool_that_came_just_before_its_submit_is_accepted() {
    let (mut world, [_, b]) = World::with_lookers(["a", "b"]);
    let added = world.seeks(1, &submit_of("x"));
    let look = world.look();
    world.has_looked("a", look, "");
    assert_eq!(world.later(added), None, "b may have it");
    world.has_looked("b", look, "x");
    let Some(Reply::Submitted { task, .. }) = world.later(added) else { panic!("{:?}", world.replies) };
    let task = *task;
    assert_eq!(world.assigned(), [(b, task)]);

    let told = world.seeks(1, &submit_of("y"));
    world.has_looked("a", 0, "y");
    assert!(matches!(world.later(told), Some(Reply::Submitted { .. })), "although b has not looked yet");
}

#[test]
fn a_submit_is_answered_at_once_unless_it_is_certain_that_its_tool_is_nowhere() {
    let mut world = World::new();
    world.of("x");
    world.has_looked("a", 0, "y");
    world.of("y");
    let shell = Fields::new().with(words::SHELL, "true");
    assert!(matches!(world.send(TASK_SUBMIT, &shell), Reply::Submitted { .. }));
    world.tells("simple", 1, Some("z"));
    world.of("x");
    assert_eq!(world.looks().len(), 1, "for the tasks of x: an agent that cannot be asked may have got the tool");
}

#[test]
fn of_many_tasks_the_first_without_a_tool_is_named_and_none_is_accepted() {
    let mut world = World::new();
    world.has_looked("a", 0, "x");
    let first = r#"{"__OPERATION__":"x","__SUBMIT_KEY__":"1"}"#;
    world.send(TASK_SUBMIT, &Fields::new().with(words::OPERATION, "x").with(words::SUBMIT_KEY, "1"));
    let tasks = world.stored.len();
    let [y, z] = ["y", "z"].map(|tool| format!(r#"{{"__OPERATION__":"{tool}"}}"#));
    let many = world.seeks(1, &submit_of_many(&[first, r#"{"__OPERATION__":"x"}"#, &z, &y, &z]));
    let look = world.look();
    world.has_looked("a", look, "x,y");
    let (code, index, said) = world.refused_later(many);
    assert_eq!((code, index, world.stored.len()), (Code::BadOperation, Some(2), tasks), "{said}");

    let many = world.seeks(1, &submit_of_many(&[&z, first]));
    let look = world.look();
    world.has_looked("a", look, "x,z");
    let Some(Reply::SubmittedMany { tasks, duplicates, .. }) = world.later(many) else { panic!("{:?}", world.replies) };
    assert_eq!((tasks.len(), &duplicates[..]), (2, &[1][..]));
}

/// A key that was accepted is answered, whatever has become of its tool; a field that is refused is refused at once.
#[test]
fn only_a_submit_that_would_be_accepted_is_looked_for() {
    let mut world = World::new();
    world.has_looked("a", 0, "x");
    let keyed = Fields::new().with(words::OPERATION, "x").with(words::SUBMIT_KEY, "1");
    let before = world.submitted(&keyed);
    world.has_looked("a", 0, "");
    let again = world.submit(&keyed);
    assert_eq!(again, Reply::Submitted { task: before, warning: None, duplicate: true });
    let ended = Fields::new().with(words::OPERATION, "y").with(words::END_BEFORE, world.moment(-1.0));
    assert_eq!(refused(&world.submit(&ended)), Code::BadField);
}

#[test]
fn submits_of_a_connection_keep_their_order_behind_one_that_is_looked_for() {
    let mut world = World::new();
    world.has_looked("a", 0, "x");
    let unknown = world.seeks(1, &submit_of("y"));
    let known = world.seeks(1, &submit_of("x"));
    let other = world.seeks(1, &submit_of("z"));
    let Ok((_, Message::Client(request))) = requests::parse(submit_of("x").as_bytes(), &rules()) else { panic!() };
    assert!(matches!(world.ask_or_wait(2, request), (_, Some(Reply::Submitted { .. }))), "another connection");
    let look = world.look();
    world.has_looked("a", look, "x,y");
    let id = |world: &World, of| match world.later(of) {
        Some(Reply::Submitted { task, .. }) => Some(*task),
        _ => None,
    };
    let (first, second) = (id(&world, unknown), id(&world, known));
    assert!(first.is_some() && first < second, "{first:?} {second:?}");
    let look = world.look();
    world.has_looked("a", look, "x,y");
    assert_eq!(world.refused_later(other).0, Code::BadOperation);
}

#[test]
fn a_submit_that_is_looked_for_is_answered_whatever_happens() {
    let mut world = World::new();
    world.has_looked("a", 0, "y");
    let silent = world.seeks(1, &submit_of("x"));
    world.pass(seconds(1.0));
    let (code, _, said) = world.refused_later(silent);
    assert!(code == Code::BadOperation && said.contains("agent a has not told its tools in time"), "{said}");

    let gone = world.seeks(1, &submit_of("x"));
    let behind = world.seeks(1, &submit_of("y"));
    let mut forgotten = world.controller.handle_disconnected(gone.connection);
    forgotten.sort_unstable();
    assert_eq!(forgotten, [gone, behind]);
    let left = world.seeks(2, &submit_of("x"));
    let _ = world.say("a", FromAgent::Exit);
    assert!(matches!(world.later(left), Some(Reply::Submitted { .. })), "no agent: nothing is known");
    world.has_looked("a", 0, "y");
    let stopped = world.seeks(2, &submit_of("z"));
    world.controller.handle_stop();
    world.settle();
    assert_eq!(world.refused_later(stopped).0, Code::Stopping);
}

#[test]
fn submits_that_are_looked_for_are_bounded_in_number_and_bytes() {
    let mut world = World::new();
    world.settings.waiting_bytes_max = 100_000;
    world.restart();
    world.has_looked("a", 0, "y");
    let big = format!(r#"{{"__TYPE__":"TASK/SUBMIT","__OPERATION__":"x","p":"{}"}}"#, "x".repeat(60_000));
    world.seeks(1, &big);
    let Ok((_, Message::Client(request))) = requests::parse(big.as_bytes(), &rules()) else { panic!() };
    let (_, Some(reply)) = world.ask_or_wait(2, request) else { panic!("it waits, too") };
    assert_eq!(refused(&reply), Code::LimitReached);
    let mut refusals = 0;
    for _ in 0..=world.settings.parked_max {
        let Ok((_, Message::Client(request))) = requests::parse(submit_of("x").as_bytes(), &rules()) else { panic!() };
        refusals += usize::from(world.ask_or_wait(3, request).1.is_some());
    }
    assert!(refusals > 0);
}
