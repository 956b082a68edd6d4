//! Scenarios of a task on its way: submit, dispatch, report.
#![cfg(test)]

use super::*;
use crate::turn::batch_delay;
use api::wire::rounds::of_record;

#[test]
fn a_task_goes_through_all_phases_and_each_is_pushed_once() {
    let mut world = World::new();
    let task = world.task();
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    for phase in [Phase::Preparing, Phase::Running, Phase::Ended, Phase::Finished] {
        assert_eq!(world.report("a", task, Round(0), phase), None);
        assert_eq!(world.phase(task), phase);
    }
    let pushed: Vec<_> = world.pushes.iter().map(|record| (record.phase(), record.pushes)).collect();
    let expected = [(Phase::Preparing, 1), (Phase::Running, 2), (Phase::Ended, 3), (Phase::Finished, 4)];
    assert_eq!(pushed, expected);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
    assert_eq!(world.counts(), AgentCounts { total: 1, free: 1, busy: 0, lost: 0 });
}

/// A report may carry several phases at once, and ask for the next task.
#[test]
fn one_report_may_carry_all_phases_and_the_next_apply() {
    let mut world = World::new();
    let (first, second) = (world.task(), world.task());
    world.apply("a");
    let times = PhaseTimes { run: Some(world.now.wall), ..PhaseTimes::default() };
    let wait = Some(INTERVAL);
    let report = Report { times, wait, ..report_of(first, Round(0), Phase::Finished, Some(result(7))) };
    let (ticket, answer) = world.say("a", FromAgent::Report(Box::new(report)));
    assert!(matches!(answer, Answer::NowAndLater(Reply::Reported { refusal: None, .. })), "{answer:?}");
    let phases: Vec<_> = world.pushes.iter().map(TaskRecord::phase).collect();
    assert_eq!(phases, [Phase::Preparing, Phase::Running, Phase::Ended, Phase::Finished]);
    assert_eq!(world.outcome(first), Outcome::Failed);
    assert!(matches!(&world.replies[..], [(t, Reply::Assigned(record, _))] if *t == ticket && record.id == second));
}

/// A service with free agents reports everything at once; a busy one may batch.
#[test]
fn only_a_task_that_had_to_queue_has_a_batch_delay() {
    let mut world = World::new();
    let ticket = world.park("a");
    let at_once = world.task();
    assert!(matches!(&world.replies[..], [(t, Reply::Assigned(_, _))] if *t == ticket));
    let (short, long, later) = (world.task(), world.task(), world.task());
    let batch_delays = [(short, 32, 2), (long, 1_000, 8)].map(|(task, wait, batch_delay)| {
        world.pass(Duration::from_millis(wait));
        assert_eq!(world.apply("b"), Some((task, Round(0))));
        world.report("b", task, Round(0), Phase::Finished);
        (world.record(task).batch_delay(), Duration::from_millis(batch_delay))
    });
    assert_eq!(world.record(at_once).batch_delay(), Duration::ZERO);
    for (batch_delay, expected) in batch_delays {
        assert_eq!(batch_delay, expected);
    }
    assert_eq!(world.record(later).batch_delay(), Duration::ZERO, "nothing runs");
    // A run of TDF.
    let run = Fields::new().with(words::JOB, "j").with(words::OPERATION, "p").with(words::SOURCE, "http://x/run.sh");
    let run = world.submitted(&run.with(words::SOURCE_UNCHECKED, true));
    let since = Duration::from_millis(20);
    let delay = batch_delay::after_queuing(world.now.wall + since, &world.record(run));
    assert_eq!(delay, Duration::from_millis(5), "a quarter");
}

/// A promise comes after the records that it depends on (README.md, promise 1).
#[test]
fn a_promise_never_precedes_its_record() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.order.clear();
    world.report("a", task, Round(0), Phase::Finished);
    assert_eq!(world.order.last(), Some(&"record"), "the shell commits records before promises, in one turn");
    let promised = world.order.iter().filter(|what| **what == "promise").count();
    assert_eq!(promised, 1, "FINISHED, and not the phases of the run: {:?}", world.order);
    assert_eq!(claim_of_reply(&Reply::Submitted { task, warning: None, duplicate: false }), Claim::Promise);
    let record = Box::new(world.record(task));
    assert_eq!(
        claim_of_reply(&Reply::Assigned(record.clone(), None)),
        Claim::Nothing,
        "no dispatch waits for the disk"
    );
    let again = Box::new(TaskRecord { round: Round(1), ..*record });
    assert_eq!(claim_of_reply(&Reply::Assigned(again, None)), Claim::Promise, "but a later round is used only once");
}

#[test]
fn parked_agents_get_tasks_in_the_order_in_which_they_came() {
    let mut world = World::new();
    let (a, b) = (world.park("a"), world.park("b"));
    let (first, second) = (world.task(), world.task());
    let assigned: Vec<_> = std::mem::take(&mut world.replies)
        .into_iter()
        .map(|(ticket, reply)| match reply {
            Reply::Assigned(record, _) => (ticket, record.id),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(assigned, [(a, first), (b, second)]);
    assert!(!world.published.contains(&Published::Inform), "no other agent needs to wake up");
}

#[test]
fn a_parked_agent_is_told_when_its_time_is_over() {
    let mut world = World::new();
    let ticket = world.park("a");
    world.pass(INTERVAL);
    world.beat("a", None);
    world.pass(INTERVAL);
    assert!(matches!(&world.replies[..], [(t, Reply::Refused(r))] if *t == ticket && r.code == Code::NoTask));
}

/// An agent that does not park learns of work from PUB, even if it missed the first message.
#[test]
fn agents_that_do_not_park_are_informed() {
    let mut world = World::new();
    assert_eq!(world.apply("a"), None);
    world.task();
    assert_eq!(std::mem::take(&mut world.published), [Published::Inform]);
    world.beat("a", None);
    assert_eq!(world.published, [Published::Inform]);
}

/// An agent that waits for a task, without a request known here, is told to ask (docs/design/hazards.md, A5).
#[test]
fn an_agent_hears_whether_its_apply_is_here() {
    let mut world = World::new();
    assert!(!world.is_parked("a"), "it has never asked");
    world.park("a");
    assert!(world.is_parked("a"));
    let task = world.task();
    assert!(world.is_parked("a"), "the task may be on its way");
    world.pass(INTERVAL / 10);
    assert!(!world.is_parked("a"), "that was long ago, and it does not speak of the task");
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    assert_eq!(world.report("a", task, Round(0), Phase::Preparing), None);
    assert!(world.is_parked("a"), "a report of the run has come, so its heartbeat was sent before");
}

/// An agent that never saw the answer to its APPLY gets the same task again (docs/design/hazards.md, A5).
#[test]
fn an_apply_that_is_repeated_gets_the_same_task() {
    let mut world = World::new();
    let (task, _) = (world.task(), world.task());
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    assert_eq!(world.apply("a"), Some((task, Round(0))));
}

#[test]
fn a_task_that_could_not_be_delivered_waits_again_in_the_same_round() {
    let mut world = World::new();
    world.park("a");
    let task = world.task();
    world.controller.handle_undelivered(world.now, task, Round(0));
    world.settle();
    assert_eq!(world.phase(task), Phase::Waiting);
    assert_eq!(world.apply("b"), Some((task, Round(0))));
}

/// Two requests may cross one answer; if the second answer finds no peer, that proves nothing about the first.
#[test]
fn a_task_that_was_handed_out_twice_is_not_taken_back() {
    let mut world = World::new();
    let task = world.task();
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    world.controller.handle_undelivered(world.now, task, Round(0));
    world.settle();
    assert_eq!(world.apply("b"), None);
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    world.task();
    world.apply("a");
    world.pass_with(INTERVAL * 2, &[("b", None)]);
    world.pass(INTERVAL / 4);
    assert!(world.apply("b").is_some(), "an agent that never had it is lost like any other");
}

/// A simple agent of any language (docs/sources/controller.md, 5.1): no session, no round, the result with FINISHED only.
#[test]
fn a_simple_agent_is_understood() {
    let mut world = World::new();
    let task = world.task();
    let mut say = |message| world.say_as("simple", 0, message).1;
    let report =
        |phase, result| FromAgent::Report(Box::new(Report { round: None, ..report_of(task, Round(0), phase, result) }));
    assert!(matches!(say(FromAgent::Apply(None)), Answer::Now(Reply::Assigned(_, _))));
    for phase in [Phase::Preparing, Phase::Running, Phase::Ended] {
        let answer = say(report(phase, None));
        assert!(matches!(answer, Answer::Now(Reply::Reported { refusal: None, .. })), "{answer:?}");
    }
    let answer = say(report(Phase::Finished, None));
    assert!(matches!(answer, Answer::Now(Reply::Reported { refusal: Some(r), .. }) if r.code == Code::BadField));
    let _ = say(report(Phase::Finished, Some(result(3))));
    assert_eq!(world.record(task).result().map(|result| result.exit_code), Some(ExitCode(3)));
}

/// The same seed and the same events give the same run, byte for byte.
#[test]
fn the_same_seed_replays_the_same_run() {
    let run = || {
        let mut world = World::new();
        let tasks: Vec<_> = (0..3).map(|_| world.task()).collect();
        world.apply("a");
        world.report("a", tasks[0], Round(0), Phase::Finished);
        format!("{:?} {:?}", world.pushes, tasks)
    };
    assert_eq!(run(), run());
}

/// The history tells it of rounds whose agents are long gone.
#[test]
fn a_run_has_the_address_of_another_machine() {
    let mut world = World::new();
    for (agent, ip, host) in [("a", "192.0.2.7", "192.0.2.7"), ("b", "127.0.0.1", ""), ("c", "nonsense", "")] {
        let _ = world.say(agent, FromAgent::Heartbeat(Heartbeat { ip: Some(ip.into()), ..Heartbeat::default() }));
        let task = world.submitted(&Fields::new().with(words::OPERATION, "t"));
        assert_eq!(world.apply(agent), Some((task, Round(0))));
        world.report(agent, task, Round(0), Phase::Finished);
        let record = world.record(task).clone();
        assert_eq!(of_record::newest(&record).unwrap().host, host);
    }
}

/// A slip would be stored, and drain nothing.
#[test]
fn a_name_that_no_agent_has_is_not_drained() {
    let mut world = World::new();
    world.beat("alpha-agent-1", None);
    let drain = |agent: &str| Fields::new().with(words::AGENT_ID, agent);
    let Reply::Refused(refusal) = world.send(AGENT_DRAIN, &drain("alpha-agent1")) else { panic!("it is drained") };
    assert_eq!(refusal.code, Code::BadField);
    let expected =
        "no agent has the name alpha-agent1; the nearest is alpha-agent-1; `llts agents` lists them; for one that";
    assert!(refusal.message.starts_with(expected), "{}", refusal.message);
    let undo = drain("alpha").with(words::DRAIN, false);
    assert_eq!(refused(&world.send(AGENT_DRAIN, &undo)), Code::BadField);
    let ahead = drain("beta").with(words::AHEAD, true);
    assert_eq!(world.send(AGENT_DRAIN, &ahead), Reply::Done);
    assert_eq!(world.send(AGENT_DRAIN, &drain("beta").with(words::DRAIN, false)), Reply::Done, "it is drained");
    assert_eq!(world.send(AGENT_DRAIN, &drain("alpha-agent-1")), Reply::Done);
}
