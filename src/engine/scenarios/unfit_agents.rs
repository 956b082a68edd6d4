//! Scenarios of agents that are unfit for a task: their disk is full, or their machine does not have its folder or its client.
#![cfg(test)]

use super::*;
use base::RoundEnd;

impl World {
    /// The agent has no room for the task.
    fn is_full(&mut self, agent: &str, task: TaskId, round: u32) {
        let result = RunResult::of(ExitCode::DISK_FULL, "cannot write /disk/x: No space left".to_owned());
        assert_eq!(self.ends(agent, task, Round(round), result), None);
    }

    pub(super) fn drain(&mut self, agent: &str, drain: bool) {
        let fields = Fields::new().with(words::AGENT_ID, agent).with(words::DRAIN, drain);
        assert_eq!(self.send(AGENT_DRAIN, &fields), Reply::Done);
    }

    fn with_agents<const N: usize>(agents: [&str; N]) -> Self {
        let mut world = Self::new();
        for agent in agents {
            world.park(agent);
        }
        world
    }
}

#[test]
fn a_task_goes_on_at_an_agent_with_room_and_counts_nothing() {
    let mut world = World::with_agents(["a", "b", "c"]);
    let task = world.submitted(&Fields::new().with(words::OPERATION, "x"));
    world.is_full("a", task, 0);
    world.is_full("b", task, 1);
    let record = world.record(task);
    assert_eq!(record.assignment().unwrap().agent.as_str(), "c");
    assert_eq!(record.past.iter().map(|past| past.end).collect::<Vec<_>>(), [RoundEnd::DiskFull; 2]);
    assert_eq!((record.counts.fails, record.counts.losses), (0, 0));
    world.report("c", task, Round(2), Phase::Finished);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
    let ended: Vec<_> = world.ended.iter().map(|round| words::round_outcome(round.outcome)).collect();
    assert_eq!(ended, ["DISK_FULL", "DISK_FULL", "SUCCEEDED"]);
}

#[test]
fn a_task_waits_for_a_busy_agent_while_the_full_one_runs_others() {
    let mut world = World::with_agents(["b"]);
    let other = world.submitted(&Fields::new().with(words::OPERATION, "x"));
    world.park("a");
    let task = world.submitted(&Fields::new().with(words::OPERATION, "x"));
    world.is_full("a", task, 0);
    assert_eq!(world.apply("a"), None);
    let why = world.why(task);
    assert!(why.contains("are busy") && why.contains("it has been with a and does not go there again"), "{why}");
    assert!(
        why.contains("the disk of agent a is full: cannot write /disk/x: No space left; free space there"),
        "{why}"
    );
    let next = world.submitted(&Fields::new().with(words::OPERATION, "x"));
    assert_eq!(world.apply("a"), Some((next, Round(0))), "what comes later is not held up");
    world.report("a", next, Round(0), Phase::Finished);
    world.restart();
    assert_eq!(world.apply("a"), None, "a restart forgets nothing of this");
    world.report("b", other, Round(0), Phase::Finished);
    assert_eq!(world.apply("b").map(|(task, _)| task), Some(task));
}

#[test]
fn a_task_for_which_no_agent_has_room_ends_and_names_them() {
    let mut world = World::with_agents(["a", "b"]);
    let task = world.submitted(&Fields::new().with(words::OPERATION, "x"));
    world.is_full("a", task, 0);
    world.is_full("b", task, 1);
    assert_eq!(world.outcome(task), Outcome::Failed);
    let result = world.record(task).result().cloned().unwrap();
    assert_eq!(result.exit_code, ExitCode::PREPARE_FAILED);
    let why = &result.error;
    assert!(why.starts_with("the disk of agent b is full: cannot write /disk/x: No space left; free space"), "{why}");
    assert!(why.ends_with("; earlier, there was no room for the task at a"), "{why}");
    // Another round on request forgets that.
    world.told(TASK_RETRY, task);
    assert!(world.apply("a").is_some());
}

#[test]
fn a_task_says_that_only_full_agents_are_left() {
    let mut world = World::with_agents(["b"]);
    let other = world.submitted(&Fields::new().with(words::OPERATION, "x"));
    world.park("a");
    let task = world.submitted(&Fields::new().with(words::OPERATION, "x"));
    world.is_full("a", task, 0);
    world.report("b", other, Round(0), Phase::Finished);
    let _ = world.say("b", FromAgent::Exit);
    let why = world.why(task);
    assert!(why.starts_with("no other agent here may run it; it has been with a"), "{why}");
    assert_eq!(world.apply("c"), Some((task, Round(1))));
}

#[test]
fn a_killed_task_goes_nowhere_else() {
    let mut world = World::with_agents(["a", "b"]);
    let task = world.submitted(&Fields::new().with(words::OPERATION, "x"));
    world.kill(task);
    world.is_full("a", task, 0);
    assert_eq!(world.outcome(task), Outcome::Killed);
}

/// The only other agent is busy for days. A disk that is still full is asked less and less often.
#[test]
fn an_agent_is_tried_again_after_a_pause_that_doubles() {
    let mut world = World::with_agents(["b"]);
    let other = world.submitted(&Fields::new().with(words::OPERATION, "x"));
    let (mut round, minute) = (0, Duration::from_mins(1));
    world.park("a");
    let task = world.submitted(&Fields::new().with(words::OPERATION, "x"));
    for pause in [10, 20, 40] {
        let run = [("b", Some((other, Round(0)))), ("a", Some((task, Round(round))))];
        world.pass_with(minute, &run);
        world.is_full("a", task, round);
        round += 1;
        assert_eq!(world.apply("a"), None);
        let until = world.now.wall + minute * pause;
        let why = world.why(task);
        assert!(why.contains(&format!("does not go there again before {until}")), "{why}");
        if pause == 20 {
            world.restart();
        }
        let in_contact = [("b", Some((other, Round(0)))), ("a", None)];
        world.pass_with(minute * (pause - 1), &in_contact);
        assert_eq!(world.apply("a"), None, "after {pause} minutes");
        world.pass_with(minute * 2, &in_contact);
        assert_eq!(world.apply("a"), Some((task, Round(round))), "after {pause} minutes");
    }
    world.report("a", task, Round(round), Phase::Finished);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

#[test]
fn a_task_waits_for_a_drained_agent_and_says_so() {
    let mut world = World::with_agents(["a", "b"]);
    world.drain("b", true);
    let task = world.submitted(&Fields::new().with(words::OPERATION, "x"));
    world.is_full("a", task, 0);
    let why = world.why(task);
    let drained = "the other agents that could run it are paused: b; `llts resume --agent b` gives them tasks again; it has been with a";
    assert!(why.starts_with(drained), "{why}");
    world.drain("b", false);
    assert_eq!(world.record(task).assignment().map(|run| run.agent.as_str()), Some("b"));
}

impl World {
    /// An agent of this machine, which is the controller's without an address, waits for a task.
    fn parks_at(&mut self, agent: &str, ip: Option<&str>) {
        let heartbeat = Heartbeat { ip: ip.map(str::to_owned), ..Heartbeat::default() };
        let _ = self.say(agent, FromAgent::Heartbeat(heartbeat));
        self.park(agent);
    }

    /// The machine of the agent does not have the folder of the task.
    fn has_no_folder(&mut self, agent: &str, task: TaskId, round: u32) {
        let result = RunResult::of(ExitCode::NOT_HERE, "cannot open the folder /proj: No such file".to_owned());
        assert_eq!(self.ends(agent, task, Round(round), result), None);
    }

    pub(super) fn agent_of(&mut self, task: TaskId) -> Option<String> {
        self.record(task).assignment().map(|run| run.agent.to_string())
    }
}

fn in_a_folder() -> Fields {
    Fields::new().with(words::OPERATION, "x")
}

#[test]
fn a_command_whose_folder_a_machine_lacks_goes_to_another_machine() {
    let mut world = World::new();
    for agent in ["a1", "a2", "a3"] {
        world.parks_at(agent, Some("192.0.2.1"));
    }
    world.parks_at("b1", Some("192.0.2.2"));
    let task = world.submitted(&in_a_folder());
    assert_eq!(world.agent_of(task).as_deref(), Some("a1"));
    world.has_no_folder("a1", task, 0);
    assert_eq!(world.agent_of(task).as_deref(), Some("b1"), "the other agents of the machine are not tried");
    let record = world.record(task);
    assert_eq!(record.past.iter().map(|past| past.end).collect::<Vec<_>>(), [RoundEnd::NotHere]);
    assert_eq!((record.counts.fails, record.counts.losses), (0, 0));
    world.report("b1", task, Round(1), Phase::Finished);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
    let ended: Vec<_> = world.ended.iter().map(|round| words::round_outcome(round.outcome)).collect();
    assert_eq!(ended, ["NOT_HERE", "SUCCEEDED"]);
}

#[test]
fn a_command_waits_for_a_machine_that_may_have_its_folder_and_says_so() {
    let mut world = World::new();
    world.parks_at("b", Some("192.0.2.2"));
    let other = world.submitted(&in_a_folder());
    world.parks_at("a", None);
    let task = world.submitted(&in_a_folder());
    world.has_no_folder("a", task, 0);
    world.restart();
    assert_eq!(world.apply("a"), None, "a restart forgets nothing of this");
    let why = world.why(task);
    assert!(why.contains("it has been with a and does not go there again before"), "{why}");
    assert!(why.contains("agent a cannot open the folder /proj"), "{why}");
    let _ =
        world.say("b", FromAgent::Heartbeat(Heartbeat { ip: Some("192.0.2.2".to_owned()), ..Heartbeat::default() }));
    world.report("b", other, Round(0), Phase::Finished);
    assert_eq!(world.apply("b").map(|(task, _)| task), Some(task));
}

#[test]
fn a_command_whose_folder_no_machine_has_ends_with_the_way_out() {
    let mut world = World::new();
    world.parks_at("a", None);
    world.parks_at("b", Some("192.0.2.2"));
    let task = world.submitted(&in_a_folder());
    world.has_no_folder("a", task, 0);
    world.has_no_folder("b", task, 1);
    assert_eq!(world.outcome(task), Outcome::Failed);
    let result = world.record(task).result().cloned().unwrap();
    assert_eq!(result.exit_code, base::TaskCommand::NOT_STARTED);
    assert_eq!(result.error, "agent b cannot open the folder /proj: No such file; it could not run at a, either");
}
