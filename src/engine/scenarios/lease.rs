//! Scenarios of exclusive tasks, and of unconfirmed ends.
#![cfg(test)]

use super::*;
use api::wire::publish;
use api::wire::requests::heartbeat::Beat;
use api::wire::version::Version;

const LOSS: Duration = Duration::from_secs(6);
const MOMENT: Duration = Duration::from_millis(1);

fn exclusive() -> Fields {
    Fields::new().with(words::EXCLUSIVE, true)
}

fn heartbeat(run: Option<(TaskId, Round)>) -> Heartbeat {
    let beat = Some(Beat { number: 1, kill_budget: None });
    Heartbeat { busy: run.is_some(), run, beat, version: Some(Version::ours()), ..Heartbeat::default() }
}

/// Another controller may lead by then, to which the agent is silent.
#[test]
fn a_leader_that_cannot_reach_the_shared_store_extends_no_lease() {
    for stores_first in [false, true] {
        let mut world = World::with(|settings| settings.stores_first = stores_first);
        let mut extends = |trouble: Option<&str>| {
            world.controller.handle_store(trouble.map(str::to_owned));
            match world.say("a", FromAgent::Heartbeat(heartbeat(None))).1 {
                Answer::Now(Reply::Heartbeat(Heard { beat, .. })) => beat.is_some(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([extends(None), extends(Some("cut off")), extends(None)], [true, !stores_first, true]);
    }
}

impl World {
    /// An exclusive task runs at agent a, which is silent from here on.
    fn exclusive_at_a_silent_agent() -> (Self, TaskId) {
        let mut world = Self::new();
        let task = world.submitted(&exclusive());
        world.can_hold_leases("a");
        world.runs("a", task, Round(0));
        (world, task)
    }

    fn can_hold_leases(&mut self, agent: &str) {
        let _ = self.say(agent, FromAgent::Heartbeat(heartbeat(None)));
    }

    /// An agent that can hold leases asks for a task.
    fn asks(&mut self, agent: &str) -> Option<(TaskId, Round)> {
        self.can_hold_leases(agent);
        self.apply(agent)
    }

    /// Whether the end of a task is reported as unconfirmed: in the answer to a query, and in the push.
    fn unconfirmed(&mut self, task: TaskId) -> [bool; 2] {
        let is_true = |fields: &Fields| match fields.get(words::UNCONFIRMED) {
            None => false,
            Some(value) => value.as_bool().expect("true or false"),
        };
        let answer = self.told(TASK_QUERY, task);
        let pushed = self.pushes.iter().rfind(|record| record.id == task).expect("its end is pushed");
        let pushed = json::parse(&publish::encode_status(pushed), &json::FieldLimits::TRUSTED).unwrap();
        [is_true(&answer), is_true(&pushed)]
    }

    fn replaced(&mut self, agent: &str, session: u64, before: u64) {
        let heartbeat = Heartbeat { replaces: Some(Session(before)), ..heartbeat(None) };
        let _ = self.say_as(agent, session, FromAgent::Heartbeat(heartbeat));
    }
}

/// The next round waits for the lease and the kill budget, and for no more than that (docs/design/hazards.md, A7).
#[test]
fn the_next_round_waits_for_the_lease() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.pass(LOSS);
    assert_eq!((world.counts().lost, world.phase(task)), (1, Phase::Running));
    let why = world.why(task);
    assert!(why.contains("lease") && why.contains("agent a is silent"), "{why}");
    world.pass(BUDGET - MOMENT);
    assert_eq!(world.asks("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.asks("b"), Some((task, Round(1))));
    assert_eq!(world.record(task).counts.losses, 1);
}

#[test]
fn a_task_that_is_not_exclusive_does_not_wait() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    world.pass(LOSS);
    assert_eq!(world.asks("b"), Some((task, Round(1))));
}

/// Its configuration may differ from that of the controller.
#[test]
fn an_agent_says_how_long_it_needs() {
    let mut world = World::new();
    let task = world.submitted(&exclusive());
    let beat = Some(Beat { number: 7, kill_budget: Some(Duration::from_secs(60)) });
    let (_, answer) = world.say("a", FromAgent::Heartbeat(Heartbeat { beat, ..heartbeat(None) }));
    assert!(matches!(answer, Answer::Now(Reply::Heartbeat(Heard { beat: Some(7), .. }))), "{answer:?}");
    world.runs("a", task, Round(0));
    world.pass(LOSS + Duration::from_secs(60) - MOMENT);
    assert_eq!(world.asks("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.asks("b"), Some((task, Round(1))));
}

#[test]
fn an_agent_that_has_ended_its_run_is_not_waited_for() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.pass(LOSS);
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Drop), "its lease has expired");
    assert_eq!(world.asks("b"), None);
    assert_eq!(world.ends("a", task, Round(0), result(ExitCode::LEASE_OVER.0)), None);
    assert_eq!(world.asks("b"), Some((task, Round(1))));
    let record = world.record(task);
    assert_eq!((record.counts.losses, record.counts.fails), (1, 0), "it was no failure of the tool");
}

/// The controller may be in contact again before it has noticed anything.
#[test]
fn a_run_that_was_given_up_before_its_agent_was_lost_is_a_loss() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    assert_eq!(world.ends("a", task, Round(0), result(ExitCode::LEASE_OVER.0)), None);
    assert_eq!(world.record(task).counts.losses, 1);
    assert_eq!(world.asks("b"), Some((task, Round(1))));
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
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Drop));
    world.pass(LOSS + BUDGET - MOMENT);
    assert_eq!(world.asks("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.asks("b"), Some((task, Round(1))));
}

#[test]
fn what_proves_that_a_session_is_over() {
    for lost_before in [false, true] {
        let silence = if lost_before { LOSS } else { Duration::ZERO };
        let (mut world, task) = World::exclusive_at_a_silent_agent();
        world.pass(silence);
        world.replaced("a", 2, 1);
        assert_eq!(world.asks("b"), Some((task, Round(1))), "the process before it is known to be gone");

        let (mut world, task) = World::exclusive_at_a_silent_agent();
        world.pass(silence);
        let _ = world.say("a", FromAgent::Exit);
        assert_eq!(world.asks("b"), Some((task, Round(1))), "it has said good-bye");
    }
}

/// The name of a lost agent may be taken by a process on another machine.
#[test]
fn another_agent_of_the_name_proves_nothing() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.pass(LOSS);
    world.replaced("a", 3, 2);
    let _ = world.say_as("a", 3, FromAgent::Exit);
    assert_eq!(world.asks("b"), None);
    let report = |session, world: &mut World| {
        let report = report_of(task, Round(0), Phase::Finished, Some(result(0)));
        world.say_as("a", session, FromAgent::Report(Box::new(report))).1
    };
    let answer = report(4, &mut world);
    assert!(matches!(&answer, Answer::Now(Reply::Reported { refusal: Some(_), .. })), "{answer:?}");
    world.pass(BUDGET);
    assert_eq!(world.asks("b"), Some((task, Round(1))));
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
    // A task that was lost and has run again.
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
    assert_eq!(world.asks("b"), Some((task, Round(1))));
    world.controller.handle_undelivered(world.now, task, Round(1));
    world.settle();
    world.restart();
    world.kill(task);
    assert_eq!((world.outcome(task), world.unconfirmed(task)), (Outcome::Killed, [true, true]));
}

/// It cannot know the time of the agent's last message.
#[test]
fn a_new_controller_waits_for_a_whole_lease() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.pass(LOSS + BUDGET - MOMENT);
    // Even if its intervals are shorter: the agent uses the term that it was given.
    world.settings.heartbeat_interval = INTERVAL / 3;
    world.settings.kill_budget = Duration::ZERO;
    world.restart();
    world.pass(LOSS + BUDGET - MOMENT);
    assert_eq!(world.asks("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.asks("b"), Some((task, Round(1))));
}

#[test]
fn a_new_controller_goes_on_with_the_session_that_holds_the_lease() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.restart();
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Run));
    assert_eq!(world.ends("a", task, Round(0), result(0)), None);
    assert_eq!(world.outcome(task), Outcome::Succeeded);

    // Its answer may have been lost with the controller, or the agent has forgotten the run: there is no way to tell.
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.restart();
    assert_eq!(world.apply("a"), None);
    world.pass(LOSS + BUDGET - MOMENT);
    assert_eq!(world.asks("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.asks("b"), Some((task, Round(1))));

    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.restart();
    world.replaced("a", 2, 1);
    assert_eq!(world.asks("a2"), Some((task, Round(1))), "the process is known to be gone");
}

/// A controller that dies must not leave a run unknown to its successor.
#[test]
fn an_exclusive_task_is_handed_out_after_its_commit() {
    let mut world = World::new();
    world.can_hold_leases("a");
    for (fields, claim) in [(exclusive(), Claim::Promise), (Fields::new(), Claim::Nothing)] {
        let task = world.submitted(&fields);
        let (_, answer) = world.say("a", FromAgent::Apply(None));
        let Answer::Now(reply @ Reply::Assigned(_, _)) = answer else { panic!("{answer:?}") };
        assert_eq!(claim_of_reply(&reply), claim);
        let lease = fields_of(TASK_APPLY, &reply);
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
    assert_eq!(world.beat("a", Some((other, Round(0)))), Some(Directive::Run));
    world.pass_with(LOSS + BUDGET - MOMENT, &[("a", Some((other, Round(0))))]);
    assert_eq!(world.asks("b"), None);
    world.pass(MOMENT);
    assert_eq!(world.asks("b"), Some((task, Round(1))));
    assert_eq!(world.ends("a", other, Round(0), result(0)), None);
    assert_eq!(world.outcome(other), Outcome::Succeeded);
}

/// An agent of an earlier version, or a simple one: nothing would end its run in time.
#[test]
fn an_agent_that_cannot_hold_a_lease_gets_no_exclusive_task() {
    let mut world = World::new();
    world.beat("old", None);
    let parked = world.park("old");
    let task = world.submitted(&exclusive());
    assert_eq!(world.replies, []);
    let why = world.why(task);
    assert!(why.contains("it is exclusive") && why.contains("llts up"), "{why}");
    let (plain, next) = (world.task(), world.task());
    assert!(
        matches!(&world.replies[..], [(ticket, Reply::Assigned(record, _))] if (*ticket, record.id) == (parked, plain))
    );
    world.report("old", plain, Round(0), Phase::Finished);
    assert_eq!(world.apply("old"), Some((next, Round(0))), "it holds up no other task");
    world.report("old", next, Round(0), Phase::Finished);
    assert_eq!(world.apply("old"), None);
    assert_eq!(world.asks("new"), Some((task, Round(0))));
    let second = world.submitted(&exclusive());
    let why = world.why(second);
    assert!(why.contains("it is next in the queue; all agents that could run it are busy"), "{why}");
}

#[test]
fn an_agent_that_is_upgraded_while_it_waits_gets_the_task_at_once() {
    let mut world = World::new();
    let ticket = world.park("a");
    let task = world.submitted(&exclusive());
    assert_eq!(world.replies, []);
    world.can_hold_leases("a");
    assert!(matches!(&world.replies[..], [(to, Reply::Assigned(record, _))] if (*to, record.id) == (ticket, task)));
    world.report("a", task, Round(0), Phase::Finished);
    world.beat("a", None);
    world.submitted(&exclusive());
    assert_eq!(world.apply("a"), None, "what it says last counts");
}

/// The ability to hold a lease is no reason to leave other agents idle.
#[test]
fn a_task_that_needs_no_lease_goes_to_an_agent_that_cannot_hold_one_if_there_is_a_choice() {
    let mut world = World::new();
    world.can_hold_leases("new");
    let new = world.park("new");
    world.beat("old", None);
    let old = world.park("old");
    let (plain, exclusive) = (world.task(), world.submitted(&exclusive()));
    let got: Vec<_> = std::mem::take(&mut world.replies).into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(got, [old, new], "{plain} and {exclusive}");
}

#[test]
fn tags_and_a_lease_have_to_be_in_one_place() {
    let mut world = World::new();
    world.tagged("old", "gpu");
    world.can_hold_leases("new");
    let task = world.submitted(&exclusive().with(words::TAGS, "gpu"));
    assert_eq!([world.apply("old"), world.apply("new")], [None, None]);
    let why = world.why(task);
    assert!(
        why.contains("it is exclusive") && why.contains("no agent here with the tags gpu takes such tasks"),
        "{why}"
    );
    let none = world.submitted(&exclusive().with(words::TAGS, "arm"));
    assert!(world.why(none).contains("no agent has the tags arm"), "{}", world.why(none));
}

/// The assignment waited for the store, which recovered while the lease of the lost agent ran out.
#[test]
fn an_assignment_does_not_leave_while_its_lease_runs_out() {
    let mut world = World::new();
    let task = world.submitted(&exclusive());
    assert_eq!(world.asks("a"), Some((task, Round(0))));
    let assigned = world.record(task);
    assert!(world.controller.is_present(&assigned));
    world.pass(LOSS);
    assert_eq!(world.phase(task), Phase::Dispatched, "the next round waits for the lease");
    assert!(!world.controller.is_present(&assigned), "a start now would outlive the lease");
}

/// A request for a task may be older than the run, which begins or goes on when the agent reads its messages.
#[test]
fn an_end_after_a_request_for_a_task_is_unconfirmed() {
    for restarts in [true, false] {
        let mut world = World::new();
        let task = world.task();
        world.runs("a", task, Round(0));
        world.kill(task);
        if restarts {
            world.restart();
        }
        world.park("a");
        assert_eq!((world.outcome(task), world.unconfirmed(task)), (Outcome::Killed, [true, true]));
    }
}

/// The clock was set back between the two: the earlier run seems to be the later one.
#[test]
fn a_new_controller_knows_the_run_that_was_given_up_whatever_the_clock_has_shown() {
    let (mut world, task) = World::exclusive_at_a_silent_agent();
    world.pass(LOSS);
    world.jump(-3600);
    let other = world.task();
    world.runs("a", other, Round(0));
    world.restart();
    assert_eq!(world.ends("a", other, Round(0), result(0)), None, "its result is taken");
    assert_eq!((world.outcome(other), world.phase(task)), (Outcome::Succeeded, Phase::Running));
}
