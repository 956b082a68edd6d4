//! Stories of exclusive tasks, and of ends that no agent has confirmed.
#![cfg(test)]

use super::*;
use crate::protocol::publish;
use crate::protocol::request::Beat;

const LOSS: Duration = Duration::from_secs(6);
const MOMENT: Duration = Duration::from_millis(1);

fn exclusive() -> Fields {
    Fields::new().with(words::EXCLUSIVE, true)
}

fn heartbeat(run: Option<(TaskId, Round)>) -> Heartbeat {
    Heartbeat { busy: run.is_some(), run, ..Heartbeat::default() }
}

impl World {
    /// An exclusive task runs at agent a, which is not heard from here on.
    fn exclusive_at_a_silent_agent() -> (Self, TaskId) {
        let mut world = Self::new();
        let task = world.submitted(&exclusive());
        world.runs("a", task, Round(0));
        (world, task)
    }

    /// Whether the end of a task is told as unconfirmed: in the answer to a query, and in the push.
    fn unconfirmed(&mut self, task: TaskId) -> [bool; 2] {
        let is_true = |fields: &Fields| match fields.get(words::UNCONFIRMED) {
            None => false,
            Some(value) => value.as_bool().expect("true or false"),
        };
        let answer = self.told(words::kind::TASK_QUERY, task);
        let pushed = self.pushes.iter().rfind(|record| record.id == task).expect("its end is pushed");
        let pushed = json::parse(&publish::encode_status(pushed), &json::FieldLimits::TRUSTED).unwrap();
        [is_true(&answer), is_true(&pushed)]
    }

    fn replaced(&mut self, agent: &str, session: u64, before: u64) {
        let heartbeat = Heartbeat { replaces: Some(Session(before)), ..heartbeat(None) };
        let _ = self.say_as(agent, session, FromAgent::Heartbeat(heartbeat));
    }
}

/// HAZARDS row A7: the next round waits for the lease and the kill budget, and for no more than that.
#[test]
fn the_next_round_waits_for_the_lease() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.pass(LOSS);
    assert_eq!((world.counts().lost, world.phase(task)), (1, Phase::Running));
    let why = world.why(task);
    assert!(why.contains("lease") && why.contains("agent a is not heard"), "{why}");
    world.pass(BUDGET - MOMENT);
    assert_eq!(world.apply("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    assert_eq!(world.record(task).counts.losses, 1);
}

#[test]
fn a_task_that_is_not_exclusive_does_not_wait() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    world.pass(LOSS);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
}

/// Its configuration may differ from that of the controller.
#[test]
fn an_agent_says_how_long_it_needs() {
    let mut world = World::new();
    let task = world.submitted(&exclusive());
    let beat = Some(Beat { number: 7, kill_budget: Some(Duration::from_secs(60)) });
    let (_, answer) = world.say("a", FromAgent::Heartbeat(Heartbeat { beat, ..heartbeat(None) }));
    assert!(matches!(answer, Answer::Now(Reply::Heartbeat { beat: Some(7), .. })), "{answer:?}");
    world.runs("a", task, Round(0));
    world.pass(LOSS + Duration::from_secs(60) - MOMENT);
    assert_eq!(world.apply("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
}

#[test]
fn an_agent_that_has_ended_its_run_is_not_waited_for() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.pass(LOSS);
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Wanted::Drop), "its lease is over");
    assert_eq!(world.apply("b"), None);
    assert_eq!(world.ends("a", task, Round(0), result(ExitCode::LEASE_OVER.0)), None);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    let record = world.record(task);
    assert_eq!((record.counts.losses, record.counts.fails), (1, 0), "it was no failure of the tool");
}

/// The controller may be heard again before it has noticed anything.
#[test]
fn a_run_that_was_given_up_before_its_agent_was_lost_is_a_loss() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    assert_eq!(world.ends("a", task, Round(0), result(ExitCode::LEASE_OVER.0)), None);
    assert_eq!(world.record(task).counts.losses, 1);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
}

#[test]
fn a_result_that_comes_before_the_lease_is_over_counts() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.pass(LOSS + BUDGET - MOMENT);
    assert_eq!(world.ends("a", task, Round(0), result(0)), None);
    assert_eq!((world.outcome(task), world.record(task).counts.losses), (Outcome::Succeeded, 0));
    world.pass(LOSS * 2);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

/// The request may be older than the run.
#[test]
fn to_ask_for_a_task_proves_nothing() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    assert_eq!(world.apply("a"), None);
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Wanted::Drop));
    world.pass(LOSS + BUDGET - MOMENT);
    assert_eq!(world.apply("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
}

#[test]
fn what_proves_that_a_session_is_over() {
    for lost_before in [false, true] {
        let silence = if lost_before { LOSS } else { Duration::ZERO };
        let (mut world, task) = World::exclusive_at_a_silent_agent();
        world.pass(silence);
        world.replaced("a", 2, 1);
        assert_eq!(world.apply("b"), Some((task, Round(1))), "the process before it is known to be gone");

        let (mut world, task) = World::exclusive_at_a_silent_agent();
        world.pass(silence);
        let _ = world.say("a", FromAgent::Exit);
        assert_eq!(world.apply("b"), Some((task, Round(1))), "it has said good-bye");
    }
}

/// The name of a lost agent may be taken by a process on another machine.
#[test]
fn another_agent_of_the_name_proves_nothing() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.pass(LOSS);
    world.replaced("a", 3, 2);
    let _ = world.say_as("a", 3, FromAgent::Exit);
    assert_eq!(world.apply("b"), None);
    let report = |session, world: &mut World| {
        let (phase, times) = (Phase::Finished, PhaseTimes::default());
        let report =
            Report { task, round: Some(Round(0)), phase, times, ran: None, result: Some(result(0)), wait: None };
        world.say_as("a", session, FromAgent::Report(Box::new(report))).1
    };
    let answer = report(4, &mut world);
    assert!(matches!(&answer, Answer::Now(Reply::Reported { refusal: Some(_), .. })), "{answer:?}");
    world.pass(BUDGET);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
}

#[test]
fn a_kill_of_what_is_not_heard_waits_for_the_lease() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.kill(task);
    world.pass(LOSS + BUDGET - MOMENT);
    assert_eq!(world.phase(task), Phase::Running);
    world.pass(MOMENT);
    assert_eq!(world.outcome(task), Outcome::Killed);
    assert_eq!(world.unconfirmed(task), [false, false], "the lease has confirmed it");
}

#[test]
fn an_end_without_its_agent_is_unconfirmed() {
    let end = |fields: &Fields, kill: bool| {
        let mut world = World::new();
        let task = world.submitted(fields);
        world.runs("a", task, Round(0));
        if kill {
            world.kill(task);
        }
        world.pass(LOSS);
        world.pass(LOSS);
        (world.outcome(task), world.unconfirmed(task), world.log(task))
    };
    let lost = Fields::new().with(words::MAX_LOSSES, 0u32);
    let expired = Fields::new().with(words::END_BEFORE, World::new().moment(1.0));
    for (fields, kill, outcome) in
        [(Fields::new(), true, Outcome::Killed), (lost, false, Outcome::Lost), (expired, false, Outcome::Expired)]
    {
        let (ended, unconfirmed, log) = end(&fields, kill);
        assert_eq!((ended, unconfirmed), (outcome, [true, true]), "{log}");
    }
}

#[test]
fn an_end_that_an_agent_has_confirmed_is_not() {
    let mut world = World::new();
    let (killed, waiting) = (world.task(), world.submitted(&Fields::new().with(words::TAGS, "none")));
    world.runs("a", killed, Round(0));
    world.kill(killed);
    world.ends("a", killed, Round(0), result(-15));
    world.kill(waiting);
    assert_eq!(world.unconfirmed(killed), [false, false]);
    assert_eq!(world.unconfirmed(waiting), [false, false]);
    // What was lost, and has run again.
    let task = world.task();
    world.runs("a", task, Round(0));
    world.pass(LOSS);
    world.exits("b", task, 1, 0);
    assert_eq!(world.unconfirmed(task), [false, false]);
}

/// A kill of a task that waits for its next round: processes of the last one may be left.
#[test]
fn a_loss_stays_unconfirmed_until_the_next_run() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    world.pass(LOSS);
    // The next agent never gets it.
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    world.controller.handle_undelivered(world.now, task, Round(1));
    world.settle();
    world.restart();
    world.kill(task);
    assert_eq!((world.outcome(task), world.unconfirmed(task)), (Outcome::Killed, [true, true]));
}

/// It cannot know when the agent was heard last.
#[test]
fn a_new_controller_waits_for_a_whole_lease() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.pass(LOSS + BUDGET - MOMENT);
    // Even if its intervals are shorter: the agent holds to what it was told.
    world.settings.heartbeat_interval = INTERVAL / 3;
    world.settings.kill_budget = Duration::ZERO;
    world.restart();
    world.pass(LOSS + BUDGET - MOMENT);
    assert_eq!(world.apply("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
}

#[test]
fn a_new_controller_goes_on_with_the_session_that_holds_the_lease() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.restart();
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Wanted::Run));
    assert_eq!(world.ends("a", task, Round(0), result(0)), None);
    assert_eq!(world.outcome(task), Outcome::Succeeded);

    // Its answer may have died with the controller, or it has forgotten the run: nobody can tell.
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.restart();
    assert_eq!(world.apply("a"), None);
    world.pass(LOSS + BUDGET - MOMENT);
    assert_eq!(world.apply("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.apply("b"), Some((task, Round(1))));

    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.restart();
    world.replaced("a", 2, 1);
    assert_eq!(world.apply("a2"), Some((task, Round(1))), "the process is known to be gone");
}

/// A controller that dies must not leave a run that its successor does not know of.
#[test]
fn an_exclusive_task_is_handed_out_after_its_commit() {
    let mut world = World::new();
    for (fields, claim) in [(exclusive(), Claim::Promise), (Fields::new(), Claim::Nothing)] {
        let task = world.submitted(&fields);
        let (_, answer) = world.say("a", FromAgent::Apply(None));
        let Answer::Now(reply @ Reply::Assigned(_)) = answer else { panic!("{answer:?}") };
        assert_eq!(claim_of_reply(&reply), claim);
        let lease = fields_of(words::kind::TASK_APPLY, &reply);
        assert_eq!(lease.get(words::LEASE).is_some(), claim == Claim::Promise, "{lease:?}");
        world.report("a", task, Round(0), Phase::Finished);
    }
}

/// Its agent had come back and got another task, when the controller died.
#[test]
fn a_new_controller_waits_for_a_run_that_was_given_up_before() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.pass(LOSS);
    let other = world.submitted(&exclusive());
    world.runs("a", other, Round(0));
    world.restart();
    assert_eq!(world.beat("a", Some((other, Round(0)))), Some(Wanted::Run));
    world.pass_with(LOSS + BUDGET - MOMENT, &[("a", Some((other, Round(0))))]);
    assert_eq!(world.apply("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    assert_eq!(world.ends("a", other, Round(0), result(0)), None);
    assert_eq!(world.outcome(other), Outcome::Succeeded);
}
