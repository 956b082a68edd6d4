//! Scenarios of agents, or a controller, that are cut off for a while.
#![cfg(test)]

use super::*;
use api::wire::requests::heartbeat::Beat;
use api::wire::version::Version;
use base::IncidentKind;

const LOSS: Duration = Duration::from_secs(6);
const MOMENT: Duration = Duration::from_millis(1);

impl World {
    /// Tasks that run at these agents, each with its own, all heard at the same moment.
    fn running_at(&mut self, agents: &[&str]) -> Vec<TaskId> {
        let tasks: Vec<_> = agents.iter().map(|_| self.task()).collect();
        for (agent, task) in agents.iter().zip(&tasks) {
            self.runs(agent, *task, Round(0));
        }
        tasks
    }

    fn round_and_losses(&mut self, task: TaskId) -> (Round, u32) {
        let record = self.record(task);
        (record.round, record.counts.losses)
    }

    /// A heartbeat of agent "a" with a number, on this connection.
    fn beat_on(&mut self, connection: u64, number: u32, run: Option<(TaskId, Round)>) {
        self.beat_as(1, connection, number, run);
    }

    fn beat_as(&mut self, session: u64, connection: u64, number: u32, run: Option<(TaskId, Round)>) {
        let beat = Some(Beat { number, kill_budget: None });
        let heartbeat =
            Heartbeat { busy: run.is_some(), run, beat, version: Some(Version::ours()), ..Heartbeat::default() };
        let _ = self.say_on(session, connection, FromAgent::Heartbeat(heartbeat));
    }

    fn apply_on(&mut self, connection: u64) -> Option<(TaskId, Round)> {
        self.apply_as(1, connection)
    }

    fn apply_as(&mut self, session: u64, connection: u64) -> Option<(TaskId, Round)> {
        match self.say_on(session, connection, FromAgent::Apply(None)) {
            Answer::Now(Reply::Assigned(record, _)) => Some((record.id, record.round)),
            Answer::Now(Reply::Refused(refusal)) if refusal.code == Code::NoTask => None,
            other => panic!("{other:?}"),
        }
    }

    fn say_on(&mut self, session: u64, connection: u64, message: FromAgent) -> Answer {
        let ticket = self.ticket_of(connection);
        let sender = Sender::new(AgentId::new("a").unwrap(), Session(session));
        let answer = self.controller.handle_agent(self.now, ticket, &sender, message);
        self.settle();
        answer
    }

    fn shown(&mut self, task: TaskId) -> Phase {
        self.record(task).shown_phase()
    }
}

#[test]
fn a_run_goes_on_when_its_agent_is_back_before_another_round_has_begun() {
    let mut world = World::new();
    let task = world.running_at(&["a"])[0];
    let pushes = world.pushes.len();
    world.pass(LOSS * 10);
    assert_eq!((world.counts().lost, world.shown(task)), (1, Phase::Running), "no other round has begun");
    let why = world.why(task);
    assert!(why.starts_with("agent a is lost since ") && why.contains("its run goes on"), "{why}");
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Run));
    assert_eq!(world.round_and_losses(task), (Round(0), 0), "that was no loss");
    assert_eq!(world.pushes.len(), pushes, "a receiver sees nothing of it");
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    assert_eq!((world.outcome(task), world.record(task).past.len()), (Outcome::Succeeded, 0));
    assert_eq!(world.ended.len(), 1, "the history has one round");
}

#[test]
fn a_result_is_taken_when_its_agent_is_back_before_another_round_has_begun() {
    let mut world = World::new();
    let task = world.running_at(&["a"])[0];
    world.pass(LOSS * 2);
    // The slot is free, and the kept report follows the heartbeat.
    assert_eq!(world.beat("a", None), None);
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    assert_eq!((world.outcome(task), world.round_and_losses(task)), (Outcome::Succeeded, (Round(0), 0)));
}

#[test]
fn another_round_is_a_loss_and_fences_the_run() {
    let mut world = World::new();
    let task = world.running_at(&["a"])[0];
    world.pass(LOSS);
    let pushes = world.pushes.len();
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    assert_eq!(world.round_and_losses(task), (Round(1), 1));
    let pushed = &world.pushes[pushes];
    assert_eq!((pushed.phase(), pushed.round), (Phase::Waiting, Round(1)), "the round is pushed before it begins");
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Drop));
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), Some(Code::NotAllowed));
    assert_eq!(world.report("b", task, Round(1), Phase::Finished), None);
    assert_eq!((world.outcome(task), world.ended.len()), (Outcome::Succeeded, 2));
}

/// The answer with the task was lost in the cut.
#[test]
fn a_task_that_never_reached_its_agent_is_handed_to_it_again() {
    let mut world = World::new();
    let task = world.task();
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    world.pass(LOSS);
    assert_eq!(world.apply("a"), Some((task, Round(0))), "in the same round");
    assert_eq!(world.round_and_losses(task), (Round(0), 0));
}

#[test]
fn an_agent_that_asks_for_a_task_has_lost_its_run() {
    let mut world = World::new();
    let task = world.running_at(&["a"])[0];
    world.pass(LOSS);
    assert_eq!(world.apply("a"), Some((task, Round(1))));
    assert_eq!(world.round_and_losses(task), (Round(1), 1));
}

#[test]
fn the_pause_before_another_round_begins_with_the_silence() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::RETRY_DELAY, 10));
    world.runs("a", task, Round(0));
    world.pass(LOSS);
    assert_eq!(world.apply("b"), None);
    world.pass_with(Duration::from_secs(13), &[("b", None)]);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
}

#[test]
fn a_kill_ends_a_task_whose_agent_is_silent() {
    let mut world = World::new();
    let task = world.running_at(&["a"])[0];
    let child = world.child(task);
    world.pass(LOSS);
    assert_eq!(world.shown(child), Phase::Waiting, "it belongs to a run that may go on");
    world.kill(task);
    assert_eq!((world.outcome(task), world.outcome(child)), (Outcome::Killed, Outcome::Killed));
    assert!(world.record(task).unconfirmed, "its processes may be left");
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Drop));
}

#[test]
fn a_time_limit_goes_on_with_the_run() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::TIMEOUT, 20));
    world.runs("a", task, Round(0));
    world.pass(Duration::from_secs(30));
    assert_eq!(world.shown(task), Phase::Running, "nothing could end the run");
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Run));
    world.pass(MOMENT);
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Kill));
}

/// Its supervisor has started it again after the machine had crashed.
#[test]
fn another_process_of_the_agent_does_not_have_the_run() {
    for (replaces, losses) in [(Some(Session(1)), 1), (None, 1)] {
        let mut world = World::new();
        let task = world.running_at(&["a"])[0];
        world.pass(LOSS);
        let _ = world.say_as("a", 2, FromAgent::Heartbeat(Heartbeat { replaces, ..Heartbeat::default() }));
        assert_eq!(world.shown(task), Phase::Waiting, "{replaces:?}");
        assert_eq!(world.round_and_losses(task), (Round(1), losses), "{replaces:?}");
    }
}

/// The controller has started again meanwhile, and knows no process of the agent.
#[test]
fn another_process_does_not_have_the_run_of_an_earlier_controller() {
    let mut world = World::new();
    let task = world.running_at(&["a"])[0];
    world.restart();
    world.pass(LOSS);
    let replaces = Some(Session(1));
    let _ = world.say_as("a", 2, FromAgent::Heartbeat(Heartbeat { replaces, ..Heartbeat::default() }));
    assert_eq!((world.shown(task), world.round_and_losses(task)), (Phase::Waiting, (Round(1), 1)));
}

/// Its agent may have ended it in time, and could not say so.
#[test]
fn a_run_that_is_to_be_ended_for_its_time_is_not_given_up_for_that() {
    let mut world = World::new();
    let policy = Fields::new().with(words::TIMEOUT, 4).with(words::MAX_TIMEOUTS, 1);
    let task = world.submitted(&policy);
    world.runs("a", task, Round(0));
    world.pass(LOSS);
    assert_eq!(world.shown(task), Phase::Running);
    let done = RunResult { by_itself: true, ..result(0) };
    assert_eq!(world.ends("a", task, Round(0), done), None);
    assert_eq!((world.outcome(task), world.round_and_losses(task)), (Outcome::Succeeded, (Round(0), 0)));
}

#[test]
fn an_agent_that_comes_back_to_leave_gives_its_run_back() {
    let mut world = World::new();
    let task = world.running_at(&["a"])[0];
    world.pass(LOSS);
    let _ = world.say("a", FromAgent::Exit);
    assert_eq!((world.shown(task), world.round_and_losses(task)), (Phase::Waiting, (Round(1), 0)));
}

#[test]
fn a_restart_finds_a_silent_run_with_its_agent() {
    let mut world = World::new();
    let task = world.running_at(&["a"])[0];
    world.pass(LOSS);
    world.restart();
    assert_eq!((world.phase(task), world.counts().busy), (Phase::Running, 1));
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Run));
    assert_eq!(world.round_and_losses(task), (Round(0), 0));
}

#[test]
fn a_gate_is_passed_once_by_a_run_that_goes_on() {
    let mut world = World::new();
    world.set_gate("g", Fields::new().with(words::MAX_RUNNING, 1));
    let task = world.submitted(&Fields::new().with(words::GATE, "g"));
    world.runs("a", task, Round(0));
    world.pass(LOSS);
    assert_eq!(world.gate("g").running, 0, "the place is free for another round");
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Run));
    assert_eq!(world.gate("g").running, 1);
}

// Connections.

/// The delay of an APPLY shows in nothing but its connection: its agent has another one since, and has told there what it runs.
#[test]
fn an_apply_that_is_late_costs_no_run() {
    let mut world = World::new();
    world.beat_on(1, 1, None);
    let task = world.running_at(&["a"])[0];
    world.beat_on(2, 2, Some((task, Round(0))));
    // A heartbeat of the connection before may be late, too.
    world.beat_on(1, 1, None);
    assert_eq!(world.apply_on(1), None);
    assert_eq!((world.phase(task), world.round_and_losses(task)), (Phase::Running, (Round(0), 0)));
    world.pass(LOSS);
    // It has ended, and the report of that follows the heartbeat.
    world.beat_on(3, 3, None);
    assert_eq!(world.apply_on(2), None);
    assert_eq!(world.shown(task), Phase::Running);
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    assert_eq!((world.outcome(task), world.round_and_losses(task)), (Outcome::Succeeded, (Round(0), 0)));
}

#[test]
fn an_agent_that_has_lost_track_of_its_run_gets_another_one() {
    for (session, number) in [(1, 9), (0, 1)] {
        let mut world = World::new();
        world.beat_as(session, 1, 8, None);
        let task = world.task();
        let assigned = Some((task, Round(0)));
        assert_eq!(world.apply_as(session, 1), assigned);
        world.beat_as(session, 1, 8, assigned);
        let report = report_of(task, Round(0), Phase::Running, None);
        let _ = world.say_on(session, 1, FromAgent::Report(Box::new(report)));
        // Without a session, it may be another process.
        world.beat_as(session, 2, number, None);
        assert_eq!(world.apply_as(session, 2), Some((task, Round(1))), "session {session}");
        assert_eq!(world.round_and_losses(task), (Round(1), 1));
    }
}

// Exclusive tasks.

/// The run itself has ended with its lease; what it had brought about before counts.
#[test]
fn only_the_result_of_an_exclusive_run_is_taken_after_its_lease() {
    for is_result in [false, true] {
        let mut world = World::new();
        let beat = Some(Beat { number: 1, kill_budget: None });
        let _ = world
            .say("a", FromAgent::Heartbeat(Heartbeat { beat, version: Some(Version::ours()), ..Heartbeat::default() }));
        let task = world.submitted(&Fields::new().with(words::EXCLUSIVE, true));
        world.runs("a", task, Round(0));
        world.pass(LOSS + BUDGET + MOMENT);
        if is_result {
            assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
            assert_eq!((world.outcome(task), world.round_and_losses(task)), (Outcome::Succeeded, (Round(0), 0)));
        } else {
            assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Drop));
            let _ = world.say(
                "b",
                FromAgent::Heartbeat(Heartbeat { beat, version: Some(Version::ours()), ..Heartbeat::default() }),
            );
            assert_eq!(world.apply("b"), Some((task, Round(1))));
        }
    }
}

// Suspicion.

#[test]
fn the_controller_suspects_itself_when_most_agents_fall_silent() {
    let mut world = World::new();
    let tasks = world.running_at(&["a", "b", "c"]);
    world.pass_with(LOSS, &[("d", None)]);
    assert_eq!(world.counts().lost, 3);
    assert_eq!(world.apply("d"), None, "the others may be about to speak");
    world.pass(INTERVAL / 4);
    let incidents = world.controller.take_incidents();
    let said: Vec<_> = incidents.iter().filter(|(kind, _)| *kind == IncidentKind::CutOff).collect();
    let [(_, line)] = said[..] else { panic!("{incidents:?}") };
    assert!(line.starts_with("3 of 4 agents have fallen silent within one heartbeat interval"), "{line}");
    let why = world.why(tasks[0]);
    assert!(why.contains("the controller may be cut off itself"), "{why}");
    assert_eq!(world.apply("d"), None, "their tasks wait for one more loss time");
    world.pass_with(LOSS - MOMENT, &[("d", None)]);
    assert_eq!(world.apply("d"), None);
    assert_eq!(world.beat("b", Some((tasks[1], Round(0)))), Some(Directive::Run));
    world.pass_with(LOSS, &[("d", None), ("b", Some((tasks[1], Round(0))))]);
    assert_eq!(world.apply("d"), Some((tasks[0], Round(1))), "the others had one loss time to follow the first one");
}

#[test]
fn fewer_than_most_agents_and_a_single_one_are_lost_at_once() {
    for (silent, others) in [(&["a"][..], &[][..]), (&["a"], &["b"]), (&["a", "b"], &["c", "d"])] {
        let mut world = World::new();
        let tasks = world.running_at(silent);
        let contact: Vec<_> = others.iter().map(|agent| (*agent, None)).collect();
        world.pass_with(LOSS, &contact);
        // Those that speak at the same moments as the silent one have a quarter of an interval for that.
        world.pass_with(INTERVAL / 4, &contact);
        assert_eq!(world.apply("e"), Some((tasks[0], Round(1))), "{silent:?} of {others:?}");
    }
}

/// They come back one after the other, in the order of their heartbeats: the last one is lost when the others are back already.
#[test]
fn agents_that_are_back_from_a_common_silence_speak_for_the_last_one() {
    let lost_after = silence_of_cut(INTERVAL * 2, INTERVAL);
    let mut world = World::with(|settings| settings.lost_after = lost_after);
    let tasks = world.running_at(&["a", "b", "c"]);
    world.pass(lost_after - MOMENT);
    let back = [("b", Some((tasks[1], Round(0)))), ("c", Some((tasks[2], Round(0))))];
    back.iter().for_each(|(agent, run)| assert_eq!(world.beat(agent, *run), Some(Directive::Run)));
    world.pass_with(INTERVAL, &back);
    assert!(world.record(tasks[0]).is_out_of_contact());
    assert_eq!(world.apply("d"), None, "it is about to be back");
    assert_eq!(world.beat("a", Some((tasks[0], Round(0)))), Some(Directive::Run));
    assert_eq!(world.round_and_losses(tasks[0]), (Round(0), 0));
    // The next silence is that of one agent.
    world.pass_with(lost_after + INTERVAL, &back);
    assert_eq!(world.apply("d"), Some((tasks[0], Round(1))));
}

/// Cuts of one direction after the other make agents fall silent at different moments.
#[test]
fn an_agent_that_is_back_while_most_are_silent_speaks_for_them() {
    for silent in [true, false] {
        let lost_after = silence_of_cut(INTERVAL * 2, INTERVAL);
        let mut world = World::with(|settings| settings.lost_after = lost_after);
        let tasks = world.running_at(&["a", "b"]);
        let others = [("c", None), ("d", None)];
        world.pass_with(INTERVAL * 2, &others);
        world.pass_with(lost_after - INTERVAL * 2, if silent { &[] } else { &others });
        world.pass(INTERVAL / 2);
        assert_eq!(world.counts().lost, 2);
        assert_eq!(world.beat("a", Some((tasks[0], Round(0)))), Some(Directive::Run));
        let expected = if silent { None } else { Some((tasks[1], Round(1))) };
        assert_eq!(world.apply("c"), expected, "the others are silent: {silent}");
    }
}

/// A cut of any length below two loss times costs nothing. A longer one costs nothing, either, unless an agent that the controller
/// still reaches takes the tasks.
#[test]
fn a_cut_of_any_length_costs_no_run() {
    for seconds in 1..=60 {
        let mut world = World::new();
        let tasks = world.running_at(&["a", "b", "c", "d"]);
        world.beat("idle", None);
        world.pass(Duration::from_secs(seconds));
        // The idle one comes first, and asks for a task at once.
        assert_eq!(world.apply("idle"), None, "after {seconds} s");
        for (agent, task) in ["a", "b", "c", "d"].into_iter().zip(&tasks) {
            world.pass(Duration::from_secs(1));
            assert_eq!(world.beat(agent, Some((*task, Round(0)))), Some(Directive::Run), "after {seconds} s");
            assert_eq!(world.round_and_losses(*task), (Round(0), 0));
        }
    }
}

// The time after which an agent is lost.

#[test]
fn the_loss_time_of_the_service_and_of_a_task() {
    let minute = Duration::from_secs(60);
    let mut world = World::with(|settings| settings.lost_after = minute);
    let task = world.task();
    let hasty = world.submitted(&Fields::new().with(words::LOST_AFTER, 10));
    let patient = world.submitted(&Fields::new().with(words::LOST_AFTER, 300));
    let too_hasty = world.submitted(&Fields::new().with(words::LOST_AFTER, 0.001));
    for (agent, task) in [("a", task), ("b", hasty), ("c", patient), ("d", too_hasty)] {
        world.runs(agent, task, Round(0));
    }
    let silent = |world: &mut World, tasks: [TaskId; 4]| tasks.map(|task| world.record(task).is_out_of_contact());
    let all = [task, hasty, patient, too_hasty];
    // What a task demands is the length of a cut; that of the service is the silence.
    let [shortest, ten] = [LOSS, Duration::from_secs(10)].map(|cut| silence_of_cut(cut, LOSS / 2));
    for (at, expected) in [
        (shortest - MOMENT, [false, false, false, false]),
        (shortest, [false, false, false, true]),
        (ten, [false, true, false, true]),
        (minute - MOMENT, [false, true, false, true]),
        (minute, [true, true, false, true]),
        (minute * 6, [true; 4]),
    ] {
        let start = Mono::from_nanos(0);
        world.pass(at - world.now.mono.since(start));
        assert_eq!(silent(&mut world, all), expected, "after {at:?}");
    }
}
