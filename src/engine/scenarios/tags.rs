//! Scenarios of agents with tags, and of tasks that require them.
#![cfg(test)]

use super::*;

fn requiring(tags: &str) -> Fields {
    Fields::new().with(words::TAGS, tags)
}

fn parked_tagged(world: &mut World, agent: &str, tags: &str) -> Ticket {
    world.tagged(agent, tags);
    world.park(agent)
}

fn assigned(world: &mut World) -> Vec<(Ticket, TaskId)> {
    let replies = std::mem::take(&mut world.replies);
    let task = |(ticket, reply)| if let Reply::Assigned(record, _) = reply { Some((ticket, record.id)) } else { None };
    replies.into_iter().filter_map(task).collect()
}

#[test]
fn a_task_goes_only_where_its_tags_are() {
    let mut world = World::new();
    let task = world.submitted(&requiring("linux, gpu"));
    for (agent, tags) in [("a", ""), ("b", "gpu"), ("c", "linux,big")] {
        world.tagged(agent, tags);
        assert_eq!(world.apply(agent), None, "{agent}");
    }
    world.tagged("d", "gpu,linux,big");
    assert_eq!(world.apply("d"), Some((task, Round(0))));
}

/// Specialised agents stay free for the tasks that need them.
#[test]
fn the_least_special_agent_takes_a_task() {
    let mut world = World::new();
    let special = parked_tagged(&mut world, "a", "gpu,big");
    let gpu = parked_tagged(&mut world, "b", "gpu");
    let (first, second) = (parked_tagged(&mut world, "c", ""), parked_tagged(&mut world, "d", ""));
    let tasks = [world.task(), world.submitted(&requiring("gpu")), world.task(), world.task()];
    let expected = [(first, tasks[0]), (gpu, tasks[1]), (second, tasks[2]), (special, tasks[3])];
    assert_eq!(assigned(&mut world), expected);
}

/// A task that no present agent can take does not hold up others.
#[test]
fn a_task_without_an_agent_holds_up_nobody() {
    let mut world = World::new();
    let stuck = world.submitted(&requiring("gpu").with(words::PRIORITY, 100u32));
    let task = world.task();
    world.beat("a", None);
    assert!(world.why(stuck).contains("no agent has the tags gpu"), "{}", world.why(stuck));
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    world.tagged("b", "gpu");
    let why = world.why(stuck);
    assert!(!why.contains("no agent has"), "{why}");
    world.pass(INTERVAL * 2);
    assert!(world.why(stuck).contains("no agent has the tags gpu"), "a lost one does not count");
}

#[test]
fn a_heartbeat_that_changes_the_tags_of_a_parked_agent_starts_what_it_may_run_now() {
    let mut world = World::new();
    let ticket = parked_tagged(&mut world, "a", "cpu");
    let task = world.submitted(&requiring("gpu"));
    assert_eq!(assigned(&mut world), []);
    world.tagged("a", "gpu");
    assert_eq!(assigned(&mut world), [(ticket, task)]);
    world.report("a", task, Round(0), Phase::Finished);
    world.tagged("a", "");
    let next = world.submitted(&requiring("gpu"));
    assert_eq!(world.apply("a"), None, "what it has lost does not count any more");
    assert!(world.why(next).contains("no agent has the tags gpu"));
}

#[test]
fn a_drained_agent_ends_its_task_and_gets_no_other() {
    let mut world = World::new();
    let drain = |world: &mut World, drain: bool| {
        let fields = Fields::new().with(words::AGENT_ID, "a").with(words::DRAIN, drain);
        assert_eq!(world.send(AGENT_DRAIN, &fields), Reply::Done);
    };
    let (first, second) = (world.task(), world.task());
    world.runs("a", first, Round(0));
    drain(&mut world, true);
    assert_eq!(world.ends("a", first, Round(0), result(0)), None);
    assert_eq!(world.outcome(first), Outcome::Succeeded);
    assert_eq!(world.apply("a"), None);
    let ticket = world.park("a");
    assert!(world.why(second).contains("are paused: a"), "{}", world.why(second));
    world.restart();
    assert_eq!(world.apply("a"), None, "also after a restart");
    let _ = world.say("a", FromAgent::Exit);
    let ticket = ticket.max(world.park("a"));
    assert_eq!(assigned(&mut world), [], "also when it comes back");
    drain(&mut world, false);
    assert_eq!(assigned(&mut world), [(ticket, second)]);
}

#[test]
fn an_agent_that_is_parked_can_be_drained() {
    let mut world = World::new();
    let (a, b) = (world.park("a"), world.park("b"));
    let fields = Fields::new().with(words::AGENT_ID, "a");
    assert_eq!(world.send(AGENT_DRAIN, &fields), Reply::Done);
    let task = world.task();
    assert_eq!(assigned(&mut world), [(b, task)]);
    world.task();
    assert_eq!(assigned(&mut world), []);
    let Reply::Agents { agents, .. } = world.ask(Request::AgentDetails(Page { offset: 0, limit: None })) else {
        panic!()
    };
    assert_eq!(agents.iter().map(|agent| agent.drained).collect::<Vec<_>>(), [true, false]);
    let _ = a;
}

/// A drained agent that is in contact does not keep later agents from the task.
#[test]
fn a_task_whose_only_agents_are_drained_says_so() {
    let mut world = World::new();
    world.tagged("a", "gpu");
    let task = world.submitted(&requiring("gpu"));
    world.send(AGENT_DRAIN, &Fields::new().with(words::AGENT_ID, "a"));
    assert!(world.why(task).contains("are paused: a; `llts resume --agent a`"), "{}", world.why(task));
}
