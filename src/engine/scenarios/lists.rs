//! Scenarios of lists: which tasks go ahead, and what becomes of those that have not started.
#![cfg(test)]

use super::*;
use api::wire::requests::heartbeat::Beat;
use api::wire::requests::report::LetGo;
use api::wire::version::Version;
use base::{RoundEnd, Scalar};

fn short() -> Fields {
    Fields::new().with(words::EXPECTED_DURATION, 0.001)
}

impl World {
    /// A world in which this agent takes lists, and as many short tasks wait.
    fn with_lists(agent: &str, count: usize) -> (Self, Vec<TaskId>) {
        let mut world = Self::new();
        world.takes_lists(agent);
        let tasks = (0..count).map(|_| world.submitted(&short())).collect();
        (world, tasks)
    }

    fn takes_lists(&mut self, agent: &str) {
        let _ =
            self.say(agent, FromAgent::Heartbeat(Heartbeat { version: Some(Version::ours()), ..Heartbeat::default() }));
    }

    /// The tasks that an agent gets at once, and the number of their list if there is one.
    fn gets(&mut self, agent: &str) -> (Vec<TaskId>, u64) {
        listed(match self.say(agent, FromAgent::Apply(Some(INTERVAL))).1 {
            Answer::Now(reply) => reply,
            other => panic!("{other:?}"),
        })
    }

    /// A task of a list ends.
    fn done(&mut self, agent: &str, task: TaskId, let_go: Option<LetGo>) -> Option<Code> {
        let report = Report { let_go, ..report_of(task, Round(0), Phase::Finished, Some(result(0))) };
        match self.say(agent, FromAgent::Report(Box::new(report))).1 {
            Answer::Now(Reply::Reported { refusal, .. }) => refusal.map(|refusal| refusal.code),
            other => panic!("{other:?}"),
        }
    }

    /// The number of tasks that a client sees in this phase.
    fn counts_of(&mut self, phase: Phase) -> usize {
        match self.ask(Request::TaskStatistic) {
            Reply::Statistic(TaskCounts(counts), None) => counts[phase as usize],
            other => panic!("{other:?}"),
        }
    }

    fn rounds(&mut self, tasks: &[TaskId]) -> Vec<(Phase, u32)> {
        tasks.iter().map(|task| self.record(*task)).map(|record| (record.shown_phase(), record.round.0)).collect()
    }
}

fn listed(reply: Reply) -> (Vec<TaskId>, u64) {
    match reply {
        Reply::Assigned(record, _) => (vec![record.id], 0),
        Reply::AssignedList(records, terms) => (records.iter().map(|record| record.id).collect(), terms.number),
        other => panic!("{other:?}"),
    }
}

const WAITS: (Phase, u32) = (Phase::Waiting, 0);
const NEXT: (Phase, u32) = (Phase::Waiting, 1);

#[test]
fn an_agent_gets_its_share_of_short_tasks_and_goes_on_without_asking() {
    let (mut world, tasks) = World::with_lists("a", 12);
    world.takes_lists("b");
    // Half of its share of those that wait behind the first one.
    let (mine, number) = world.gets("a");
    assert_eq!((&mine[..], number > 0), (&tasks[..2], true));
    assert_eq!(world.rounds(&mine), [(Phase::Dispatched, 0), WAITS]);
    assert!(world.why(mine[1]).contains("agent a has it in a list"), "{}", world.why(mine[1]));
    let of_a = |record: &TaskRecord| record.assignment().is_some_and(|run| run.agent.as_str() == "a");
    assert!(of_a(&world.stored[&mine[1]]), "a restart waits for its agent");
    assert_eq!((world.counts_of(Phase::Waiting), world.counts_of(Phase::Dispatched)), (11, 1));
    assert_eq!(world.done("a", mine[0], None), None);
    assert_eq!(world.rounds(&mine), [(Phase::Finished, 0), WAITS]);
    assert_eq!(world.beat("a", Some((mine[1], Round(0)))), Some(Directive::Run), "it has its turn");
    assert_eq!(world.done("a", mine[1], None), None);
    assert_eq!(world.counts().free, 2);
    // An agent that does not say that it takes lists gets one task.
    assert_eq!(world.gets("c").0.len(), 1);
}

#[test]
fn a_list_has_no_more_than_its_time_and_its_count() {
    for (seconds, expected) in [(0.001, 8), (0.02, 2), (0.06, 1)] {
        let mut world = World::new();
        world.takes_lists("a");
        for _ in 0..40 {
            world.submitted(&Fields::new().with(words::EXPECTED_DURATION, seconds));
        }
        assert_eq!(world.gets("a").0.len(), expected, "{seconds}");
    }
}

#[test]
fn a_job_teaches_how_long_its_tasks_take() {
    let mut world = World::new();
    world.takes_lists("a");
    let of_job = Fields::new().with(words::JOB, "j");
    let tasks: Vec<_> = (0..40).map(|_| world.submitted(&of_job)).collect();
    for task in &tasks[..8] {
        assert_eq!(world.gets("a").0, [*task], "nothing is known");
        let mut report = report_of(*task, Round(0), Phase::Finished, Some(result(0)));
        let run = world.now.wall;
        report.times = PhaseTimes { run: Some(run), end: Some(run + Duration::from_millis(2)), ..report.times };
        let _ = world.say("a", FromAgent::Report(Box::new(report)));
    }
    assert_eq!(world.gets("a").0.len(), 8);
}

#[test]
fn only_plain_tasks_of_one_priority_go_ahead() {
    let policies: [(&str, Scalar); 5] = [
        (words::GATE, "g".into()),
        (words::EXCLUSIVE, true.into()),
        (words::PRIORITY, (-1).into()),
        (words::JOB, "other".into()),
        (words::EXPECTED_DURATION, 30.into()),
    ];
    for (name, value) in policies {
        let (mut world, tasks) = World::with_lists("a", 2);
        world.set_gate("g", Fields::new().with(words::MAX_RUNNING, 100u32));
        let beat = Some(Beat { number: 1, kill_budget: None });
        let heartbeat = Heartbeat { version: Some(Version::ours()), beat, ..Heartbeat::default() };
        let _ = world.say("a", FromAgent::Heartbeat(heartbeat));
        for _ in 0..20 {
            world.submitted(&short().with(name, value.clone()));
        }
        assert_eq!(world.gets("a").0, tasks, "{name}");
    }
}

/// The rest comes back in its round, at once and for any agent: the agent says that it will not start it.
#[test]
fn the_rest_of_a_list_that_is_let_go_waits_again() {
    let (mut world, _) = World::with_lists("a", 20);
    let (mine, list) = world.gets("a");
    assert_eq!(mine.len(), 8);
    world.done("a", mine[0], None);
    let let_go = Some(LetGo { list, started: 2 });
    let report = Report { let_go, ..report_of(mine[1], Round(0), Phase::Running, None) };
    let _ = world.say("a", FromAgent::Report(Box::new(report.clone())));
    assert_eq!(world.rounds(&mine[1..]), [vec![(Phase::Running, 0)], vec![WAITS; 6]].concat());
    // Said again, and late, it changes nothing: another agent has them in a list of its own.
    world.takes_lists("d");
    let (theirs, _) = world.gets("d");
    assert_eq!(theirs[0], mine[2]);
    let _ = world.say("a", FromAgent::Report(Box::new(report)));
    assert_eq!(world.phase(theirs[0]), Phase::Dispatched);
}

/// Also the task whose turn the controller believes to have come.
#[test]
fn a_task_that_was_not_started_when_its_turn_came_waits_again() {
    let (mut world, _) = World::with_lists("a", 20);
    let (mine, list) = world.gets("a");
    world.done("a", mine[0], None);
    assert_eq!(world.phase(mine[1]), Phase::Dispatched);
    let again = Report {
        let_go: Some(LetGo { list, started: 1 }),
        ..report_of(mine[0], Round(0), Phase::Finished, Some(result(0)))
    };
    let _ = world.say("a", FromAgent::Report(Box::new(again)));
    assert_eq!(world.rounds(&mine[1..]), vec![WAITS; 7]);
    assert_eq!(world.gets("a").0[0], mine[1]);
}

/// Only the run is lost; the others have the next round, which counts as no loss.
#[test]
fn a_lost_agent_loses_only_the_task_that_ran() {
    type Story = fn(&mut World);
    let stories: [(&str, Story, u32); 3] = [
        (
            "replaced",
            |world| {
                let replaces = Some(Session(1));
                let _ = world.say_as("a", 2, FromAgent::Heartbeat(Heartbeat { replaces, ..Heartbeat::default() }));
            },
            1,
        ),
        ("gone", |world| drop(world.say("a", FromAgent::Exit)), 0),
        ("lost its list", |world| drop(world.say("a", FromAgent::Apply(None))), 1),
    ];
    for (name, story, losses) in stories {
        let (mut world, _) = World::with_lists("a", 20);
        let (mine, _) = world.gets("a");
        world.done("a", mine[0], None);
        world.report("a", mine[1], Round(0), Phase::Running);
        story(&mut world);
        let again = world.rounds(&mine[1..]);
        let retaken = again.iter().filter(|state| state.0 != Phase::Waiting).count();
        assert!(again.iter().all(|(_, round)| *round == 1) && retaken <= 1, "{name}: {again:?}");
        let counts: Vec<_> = mine[1..].iter().map(|task| world.record(*task).counts.losses).collect();
        assert_eq!(counts, [vec![losses], vec![0; 6]].concat(), "{name}");
        let end = world.record(mine[3]).past[0].end;
        assert_eq!(end, RoundEnd::Returned, "{name}");
        // What it does in the old round counts no more.
        if name != "replaced" {
            assert_eq!(world.done("a", mine[2], None), Some(Code::NotAllowed), "{name}");
        }
    }
}

#[test]
fn an_answer_that_was_lost_is_given_again_as_a_whole() {
    let (mut world, _) = World::with_lists("a", 20);
    let first = world.gets("a");
    assert_eq!(world.gets("a"), first);
    // A peer that is gone has got nothing of it.
    let (mut world, _) = World::with_lists("a", 20);
    let (mine, _) = world.gets("a");
    world.controller.handle_undelivered(world.now, mine[0], Round(0));
    world.settle();
    assert_eq!(world.rounds(&mine), [vec![WAITS], vec![NEXT; 7]].concat());
}

#[test]
fn a_killed_task_of_a_list_ends_with_the_list_or_by_its_agent() {
    let (mut world, _) = World::with_lists("a", 20);
    let (mine, list) = world.gets("a");
    for task in [mine[1], mine[2]] {
        assert_eq!(world.kill(task), Reply::Done);
    }
    assert!(world.published.iter().any(|order| *order == Published::Kill(mine[1], Round(0))));
    assert!(world.why(mine[1]).contains("told not to start it"), "{}", world.why(mine[1]));
    world.done("a", mine[0], None);
    let killed = RunResult::of(ExitCode::KILLED_PREPARING, String::new());
    assert_eq!(world.ends("a", mine[1], Round(0), killed), None);
    assert_eq!(world.outcome(mine[1]), Outcome::Killed);
    let _ = world.say(
        "a",
        FromAgent::Report(Box::new(Report {
            let_go: Some(LetGo { list, started: 2 }),
            ..report_of(mine[1], Round(0), Phase::Finished, Some(result(0)))
        })),
    );
    assert_eq!(world.outcome(mine[2]), Outcome::Killed);
    assert_eq!(world.rounds(&mine[3..4]), [WAITS]);
}

/// The agent goes on with its list while the controller starts again.
#[test]
fn a_list_goes_on_over_a_restart() {
    let (mut world, _) = World::with_lists("a", 20);
    let (mine, list) = world.gets("a");
    world.done("a", mine[0], None);
    world.kill(mine[3]);
    world.restart();
    assert_eq!(world.rounds(&mine[1..3]), [WAITS, WAITS]);
    assert!(!mine.contains(&world.gets("b").0[0]), "they are with their agent");
    assert_eq!(world.done("a", mine[0], None), None, "said again");
    for task in [mine[1], mine[2]] {
        assert_eq!(world.done("a", task, None), None);
    }
    let killed = RunResult::of(ExitCode::KILLED_PREPARING, String::new());
    assert_eq!(world.ends("a", mine[3], Round(0), killed), None);
    assert_eq!(world.outcome(mine[3]), Outcome::Killed);
    // It has a new connection, and lets the others go.
    let let_go = Some(LetGo { list, started: 5 });
    assert_eq!(world.done("a", mine[4], let_go), None);
    assert_eq!(world.rounds(&mine[4..]), [vec![(Phase::Finished, 0)], vec![WAITS; 3]].concat());
}

/// The report on a task is lost, and the later ones arrive.
#[test]
fn reports_on_a_list_may_overtake_each_other() {
    let (mut world, _) = World::with_lists("a", 20);
    let (mine, _) = world.gets("a");
    assert_eq!(world.done("a", mine[1], None), None);
    world.report("a", mine[2], Round(0), Phase::Running);
    assert_eq!(world.beat("a", Some((mine[2], Round(0)))), Some(Directive::Run));
    assert_eq!(world.done("a", mine[0], None), None);
    assert_eq!(world.phase(mine[2]), Phase::Running);
    world.pass(INTERVAL * 3);
    let losses: Vec<_> = mine.iter().map(|task| world.record(*task).counts.losses).collect();
    assert_eq!(losses[..4], [0; 4], "its agent may come back with the third one");
    for (task, losses) in [(mine[2], 1), (mine[3], 0)] {
        let agent = format!("agent-{task}");
        assert_eq!(world.apply(&agent), Some((task, Round(1))));
        assert_eq!(world.record(task).counts.losses, losses, "only the third one was running");
    }
}

/// An agent that has forgotten its list, or is another process, may have started any of its tasks.
#[test]
fn the_list_of_an_agent_that_comes_back_without_it_gets_the_next_round() {
    type Story = fn(&mut World);
    let stories: [(&str, Story, u32); 2] = [
        ("it asks for a task", |world| drop(world.say("a", FromAgent::Apply(None))), 0),
        (
            "it is another process",
            |world| {
                let replaces = Some(Session(1));
                let _ = world.say_as("a", 2, FromAgent::Heartbeat(Heartbeat { replaces, ..Heartbeat::default() }));
            },
            1,
        ),
    ];
    for (name, story, losses) in stories {
        let (mut world, _) = World::with_lists("a", 20);
        let (mine, _) = world.gets("a");
        world.done("a", mine[0], None);
        world.restart();
        story(&mut world);
        let rounds: Vec<_> = world.rounds(&mine[1..]).into_iter().map(|(_, round)| round).collect();
        assert_eq!(rounds, [1; 7], "{name}");
        let counts: Vec<_> = mine[1..].iter().map(|task| world.record(*task).counts.losses).collect();
        assert_eq!(counts, [vec![losses], vec![0; 6]].concat(), "{name}");
    }
}

/// The agent went on with its list while it was cut off.
#[test]
fn the_results_of_a_list_are_taken_after_a_cut() {
    let (mut world, tasks) = World::with_lists("a", 12);
    let (mine, _) = world.gets("a");
    assert!(mine.len() > 2, "{mine:?}");
    world.pass(INTERVAL * 3);
    assert_eq!(world.counts().lost, 1);
    assert_eq!(world.rounds(&mine[1..]), vec![WAITS; mine.len() - 1], "they are shown as before");
    for task in &mine {
        assert_eq!(world.done("a", *task, None), None);
        assert_eq!(world.record(*task).counts.losses, 0);
    }
    assert_eq!(world.counts_of(Phase::Finished), mine.len());
    // Another agent that takes one begins its next round, and that is no loss.
    let rest = world.gets("a").0;
    world.pass(INTERVAL * 3);
    assert_eq!(world.apply("b"), Some((rest[0], Round(1))));
    assert_eq!(world.record(rest[0]).counts.losses, 1, "the first one may have begun");
    assert_eq!(world.apply("c"), Some((rest[1], Round(1))));
    assert_eq!(world.record(rest[1]).counts.losses, 0);
    assert!(tasks.contains(&rest[0]));
}
