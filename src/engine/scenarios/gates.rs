//! Scenarios of gates: limits of running tasks, limits per interval, closing, and tasks that are not concerned.
#![cfg(test)]

use super::*;

fn at(gate: &str) -> Fields {
    Fields::new().with(words::GATE, gate)
}

fn running_max(max: u32) -> Fields {
    Fields::new().with(words::MAX_RUNNING, max)
}

fn pace(starts: u32, interval: f64) -> Fields {
    Fields::new().with(words::MAX_STARTS, starts).with(words::INTERVAL, interval)
}

fn closed(world: &World, seconds: f64) -> Fields {
    Fields::new().with(words::CLOSED_UNTIL, world.moment(seconds))
}

fn closes(retry_after: f64, gate: &str) -> RunResult {
    let gates = Labels::parse(gate).unwrap();
    RunResult {
        defer: Some(Box::new(Defer { retry_after: Some(seconds(retry_after)), until_released: false, gates })),
        ..result(75)
    }
}

/// The ids of the tasks that these new agents get.
fn taken(world: &mut World, agents: &[&str]) -> Vec<Option<TaskId>> {
    agents.iter().map(|agent| world.apply(agent).map(|(task, _)| task)).collect()
}

#[test]
fn a_gate_lets_so_many_run_at_once() {
    let mut world = World::new();
    world.set_gate("g", running_max(2));
    let tasks: Vec<_> = (0..3).map(|_| world.submitted(&at("g"))).collect();
    assert_eq!(taken(&mut world, &["a", "b", "c"]), [Some(tasks[0]), Some(tasks[1]), None]);
    let view = world.gate("g");
    assert_eq!((view.running, view.waiting, view.verdict), (2, 1, GateVerdict::Full));
    let ticket = world.park("c");
    world.ends("a", tasks[0], Round(0), result(0));
    assert!(matches!(&world.replies[..], [(t, Reply::Assigned(r, _))] if *t == ticket && r.id == tasks[2]));
}

/// A task whose gate is closed does not hold up a task that does not name it, whatever its priority.
#[test]
fn a_closed_gate_holds_up_nobody_else() {
    let mut world = World::new();
    world.set_gate("g", running_max(0));
    let stuck = world.submitted(&at("g").with(words::PRIORITY, 100u32));
    let both = world.submitted(&at("g,h").with(words::PRIORITY, 50u32));
    let free = world.submitted(&at("h"));
    let plain = world.task();
    assert_eq!(taken(&mut world, &["a", "b", "c"]), [Some(free), Some(plain), None]);
    world.set_gate("g", running_max(9));
    assert_eq!(taken(&mut world, &["c", "d"]), [Some(stuck), Some(both)]);
}

#[test]
fn a_task_passes_all_of_its_gates_or_none() {
    let mut world = World::new();
    world.set_gate("g", running_max(1));
    world.set_gate("h", running_max(1));
    let (both, g, h) = (world.submitted(&at("h, g")), world.submitted(&at("g")), world.submitted(&at("h")));
    assert_eq!(taken(&mut world, &["a", "b"]), [Some(both), None]);
    world.ends("a", both, Round(0), result(0));
    assert_eq!(taken(&mut world, &["a", "b"]), [Some(g), Some(h)]);
    let next = world.submitted(&at("g,h"));
    world.ends("a", g, Round(0), result(0));
    assert_eq!(taken(&mut world, &["a"]), [None], "h is still full");
    assert_eq!((world.gate("g").running, world.gate("h").running), (0, 1), "one that did not pass takes no room");
    world.ends("b", h, Round(0), result(0));
    assert_eq!(taken(&mut world, &["a"]), [Some(next)]);
}

#[test]
fn a_gate_is_raised_and_lowered_while_tasks_run() {
    let mut world = World::new();
    world.set_gate("g", running_max(3));
    let tasks: Vec<_> = (0..6).map(|_| world.submitted(&at("g"))).collect();
    assert_eq!(taken(&mut world, &["a", "b", "c", "d"])[2..], [Some(tasks[2]), None]);
    world.set_gate("g", running_max(1));
    assert_eq!(world.gate("g").running, 3, "those that run go on");
    world.ends("a", tasks[0], Round(0), result(0));
    world.ends("b", tasks[1], Round(0), result(0));
    assert_eq!(taken(&mut world, &["a"]), [None]);
    world.ends("c", tasks[2], Round(0), result(0));
    assert_eq!(taken(&mut world, &["a", "b"]), [Some(tasks[3]), None]);
    let ticket = world.park("b");
    world.set_gate("g", running_max(2));
    assert!(matches!(&world.replies[..], [(t, Reply::Assigned(r, _))] if *t == ticket && r.id == tasks[4]));
    let ticket = world.park("c");
    world.set_gate("g", Fields::new().with(words::MAX_RUNNING, base::Scalar::Null));
    assert!(matches!(&world.replies[1..], [(t, Reply::Assigned(r, _))] if *t == ticket && r.id == tasks[5]));
}

#[test]
fn a_gate_lets_so_many_start_in_so_long() {
    let mut world = World::new();
    world.set_gate("g", pace(2, 10.0));
    let tasks: Vec<_> = (0..5).map(|_| world.submitted(&at("g"))).collect();
    world.exits("a", tasks[0], 0, 0);
    world.pass(seconds(4.0));
    world.exits("a", tasks[1], 0, 0);
    assert_eq!(world.apply("a"), None);
    assert_eq!(world.gate("g").verdict, GateVerdict::Paced);
    world.pass_with(seconds(5.999), &[("a", None)]);
    assert_eq!(world.apply("a"), None);
    let ticket = world.park("a");
    world.pass(seconds(0.001));
    assert!(matches!(&world.replies[..], [(t, Reply::Assigned(r, _))] if *t == ticket && r.id == tasks[2]));
    world.report("a", tasks[2], Round(0), Phase::Finished);
    assert_eq!(world.apply("a"), None, "two in any ten seconds: the second start was at four");
    world.pass(seconds(4.0));
    assert_eq!(world.apply("a"), Some((tasks[3], Round(0))));
}

/// A rate limit that one run has hit applies to all tasks at the same gate.
#[test]
fn a_run_that_defers_closes_its_gate_for_all() {
    let mut world = World::new();
    let (first, second) = (world.submitted(&at("api")), world.submitted(&at("api")));
    let plain = world.task();
    world.runs("a", first, Round(0));
    world.ends("a", first, Round(0), closes(20.0, "api"));
    assert_eq!(taken(&mut world, &["a", "b"]), [Some(plain), None]);
    assert!(world.why(second).contains("closed until"), "{}", world.why(second));
    world.restart();
    assert_eq!(world.apply("c"), None, "also after a restart");
    world.pass_with(seconds(20.0), &[("a", Some((plain, Round(0))))]);
    assert_eq!(taken(&mut world, &["c", "d"]), [Some(first), Some(second)], "the first one has kept its place");
}

/// A tool can close only a gate of its own task.
#[test]
fn a_run_closes_no_gate_that_its_task_does_not_name() {
    let mut world = World::new();
    let (task, other) = (world.submitted(&at("mine")), world.submitted(&at("yours")));
    world.runs("a", task, Round(0));
    world.ends("a", task, Round(0), closes(20.0, "yours"));
    assert_eq!(world.gate("yours").verdict, GateVerdict::Open);
    assert_eq!(world.apply("a"), Some((other, Round(0))));
}

/// The second run that hits the limit must not open the gate earlier, nor open a gate that people closed.
#[test]
fn a_defer_never_opens_a_gate() {
    let mut world = World::new();
    let (first, second) = (world.submitted(&at("api")), world.submitted(&at("api")));
    world.runs("a", first, Round(0));
    world.runs("b", second, Round(0));
    world.ends("a", first, Round(0), closes(20.0, "api"));
    world.ends("b", second, Round(0), closes(1.0, "api"));
    assert_eq!(world.gate("api").verdict, GateVerdict::Closed(world.now.wall + seconds(20.0)));
}

#[test]
fn settings_running_counts_and_pace_survive_a_restart() {
    let mut world = World::new();
    world.set_gate("g", running_max(2));
    world.set_gate("p", pace(1, 100.0));
    let tasks: Vec<_> = (0..3).map(|_| world.submitted(&at("g"))).collect();
    let (done, paced) = (world.submitted(&at("p")), world.submitted(&at("p")));
    world.apply("a");
    world.apply("b");
    assert_eq!(taken(&mut world, &["c"]), [Some(done)]);
    world.report("c", done, Round(0), Phase::Finished);
    world.pass_with(seconds(4.0), &[("a", Some((tasks[0], Round(0)))), ("b", Some((tasks[1], Round(0))))]);
    world.restart();
    world.beat("a", Some((tasks[0], Round(0))));
    world.beat("b", Some((tasks[1], Round(0))));
    assert_eq!((world.gate("g").running, world.gate("g").settings.running_max), (2, Some(2)));
    assert_eq!(world.apply("c"), None, "one gate is full, the other one has let one start");
    let running = [("a", Some((tasks[0], Round(0)))), ("b", Some((tasks[1], Round(0)))), ("c", None)];
    world.pass_with(seconds(95.9), &running);
    assert_eq!(world.apply("c"), None);
    world.pass(seconds(0.1));
    assert_eq!(world.apply("c").map(|(task, _)| task), Some(paced));
    world.report("a", tasks[0], Round(0), Phase::Finished);
    assert_eq!(world.apply("a").map(|(task, _)| task), Some(tasks[2]));
}

#[test]
fn a_dispatch_that_met_nobody_gives_the_gate_back() {
    let mut world = World::new();
    world.set_gate("g", running_max(1));
    let task = world.submitted(&at("g"));
    world.apply("a");
    world.controller.handle_undelivered(world.now, task, Round(0));
    world.settle();
    assert_eq!(world.gate("g").running, 0);
    assert_eq!(world.apply("b"), Some((task, Round(0))));
}

/// Retries pass the same gate as first runs.
#[test]
fn the_next_round_waits_at_the_gate_again() {
    let mut world = World::new();
    world.set_gate("g", running_max(1));
    let first = world.submitted(&at("g").with(words::MAX_FAILS, 1u32).with(words::RETRY_DELAY, 5u32));
    let second = world.submitted(&at("g"));
    world.exits("a", first, 0, 1);
    world.runs("a", second, Round(0));
    world.pass_with(seconds(6.5), &[("a", Some((second, Round(0)))), ("b", None)]);
    assert_eq!(world.apply("b"), None);
    world.report("a", second, Round(0), Phase::Finished);
    assert_eq!(world.apply("b"), Some((first, Round(1))));
}

#[test]
fn a_gate_is_free_again_however_its_run_ends() {
    let mut world = World::new();
    world.set_gate("g", running_max(1));
    let killed = world.submitted(&at("g"));
    world.runs("a", killed, Round(0));
    world.kill(killed);
    world.ends("a", killed, Round(0), result(-15));
    assert_eq!(world.gate("g").running, 0);
    let lost = world.submitted(&at("g").with(words::MAX_LOSSES, 0u32));
    world.runs("a", lost, Round(0));
    world.pass(INTERVAL * 2);
    assert_eq!(world.gate("g").running, 0);
    let left = world.submitted(&at("g"));
    world.runs("b", left, Round(0));
    let _ = world.say("b", FromAgent::Exit);
    assert_eq!(world.gate("g").running, 0);
    world.kill(left);
    assert_eq!(world.gate("g").waiting, 0);
}

#[test]
fn there_are_not_more_gates_and_needs_than_allowed() {
    let mut world = World::new();
    for number in 0..5 {
        world.set_gate(&format!("g{number}"), running_max(1));
    }
    let one_more = running_max(1).with(words::GATE, "one-more");
    assert_eq!(refused(&world.send(GATE_SET, &one_more)), Code::LimitReached);
    world.set_gate("g0", running_max(2));
    world.set_gate("g1", Fields::new().with(words::MAX_RUNNING, base::Scalar::Null));
    assert_eq!(world.send(GATE_SET, &one_more), Reply::Done);
    let accepted = (0..10).filter(|n| matches!(world.submit(&at(&format!("t{n}"))), Reply::Submitted { .. })).count();
    assert_eq!(accepted, 5, "different needs, of those that wait");
    assert!(matches!(world.submit(&Fields::new()), Reply::Submitted { .. }), "no gate of others holds up a plain task");
}

#[test]
fn a_closed_gate_can_be_opened_before_its_time() {
    let mut world = World::new();
    let fields = closed(&world, 500.0);
    world.set_gate("g", fields);
    let task = world.submitted(&at("g"));
    let ticket = world.park("a");
    world.set_gate("g", Fields::new().with(words::CLOSED_UNTIL, 0u32));
    assert!(matches!(&world.replies[..], [(t, Reply::Assigned(r, _))] if *t == ticket && r.id == task));
}

/// It opens by the wall clock, and a jump is noticed within a minute (docs/design/hazards.md, D7).
#[test]
fn a_closed_gate_opens_when_the_clock_jumps() {
    let mut world = World::new();
    let fields = closed(&world, 3600.0);
    world.set_gate("g", fields);
    let task = world.submitted(&at("g"));
    world.jump(86_400);
    world.pass(seconds(60.0));
    assert_eq!(world.apply("a"), Some((task, Round(0))));
}

/// No task waits at the gate when it is closed; a task that comes later still starts when it opens.
#[test]
fn a_task_that_comes_to_a_closed_gate_starts_when_it_opens() {
    let mut world = World::new();
    let fields = closed(&world, 5.0);
    world.set_gate("g", fields);
    let task = world.submitted(&at("g"));
    assert_eq!(world.gate("g").verdict, GateVerdict::Closed(world.now.wall + seconds(5.0)));
    let ticket = world.park("a");
    world.pass(seconds(4.999));
    assert!(world.replies.is_empty());
    world.pass(seconds(0.001));
    assert!(matches!(&world.replies[..], [(t, Reply::Assigned(r, _))] if *t == ticket && r.id == task));
}

#[test]
fn a_task_that_comes_to_a_paced_gate_starts_when_it_opens() {
    let mut world = World::new();
    world.set_gate("g", pace(1, 10.0));
    let first = world.submitted(&at("g"));
    world.exits("a", first, 0, 0);
    world.pass(seconds(1.0));
    let second = world.submitted(&at("g"));
    world.pass_with(seconds(8.999), &[("a", None)]);
    assert_eq!(world.apply("a"), None);
    let ticket = world.park("a");
    world.pass(seconds(0.001));
    let assigned =
        |(t, reply): &(Ticket, Reply)| *t == ticket && matches!(reply, Reply::Assigned(r, _) if r.id == second);
    assert!(world.replies.iter().any(assigned), "{:?}", world.replies);
}

/// The start of a run whose agent was lost is a start like any other.
#[test]
fn the_starts_of_runs_that_came_to_nothing_count_after_a_restart() {
    let mut world = World::new();
    world.set_gate("p", pace(1, 100.0));
    let lost = world.submitted(&at("p").with(words::MAX_LOSSES, 0u32));
    let next = world.submitted(&at("p"));
    assert_eq!(taken(&mut world, &["a"]), [Some(lost)]);
    world.pass(INTERVAL * 2);
    assert_eq!(world.outcome(lost), Outcome::Lost);
    assert_eq!(world.apply("b"), None);
    world.restart();
    assert_eq!(world.apply("b"), None, "the new controller knows of the start");
    world.pass(seconds(94.0));
    assert_eq!(world.apply("b").map(|(task, _)| task), Some(next));
}

/// Each task has a gate of its own and closes it: none of these gates may stay forever.
#[test]
fn gates_that_were_closed_by_runs_are_forgotten_when_they_are_open() {
    let mut world = World::with(|settings| settings.gates_max = 3);
    for number in 0..10 {
        let task = world.submitted(&at(&format!("host-{number}")));
        world.runs("a", task, Round(0));
        world.ends("a", task, Round(0), closes(1.0, &format!("host-{number}")));
        world.pass(seconds(1.0));
        world.exits("a", task, 1, 0);
    }
    world.pass_with(seconds(120.0), &[("a", None)]);
    world.set_gate("mine", running_max(1));
    assert_eq!(world.gates.values().filter(|settings| **settings != GateSettings::default()).count(), 1);
    world.restart();
    let Reply::Gates(gates) = world.send(GATE_QUERY, &Fields::new()) else { panic!() };
    assert_eq!(gates.len(), 1, "{gates:?}");
}

/// A task comes just when the gate opens, before its deadline has been handled.
#[test]
fn a_task_that_comes_when_its_gate_opens_holds_up_nobody() {
    let mut world = World::new();
    let fields = closed(&world, 5.0);
    world.set_gate("g", fields);
    let first = world.submitted(&at("g"));
    world.now = Now { mono: world.now.mono + seconds(6.0), wall: world.now.wall + seconds(6.0) };
    let second = world.submitted(&at("g,h"));
    assert_eq!(taken(&mut world, &["a", "b"]), [Some(first), Some(second)]);
}

/// What changes at the gate meanwhile does not open it for longer than the jump.
#[test]
fn a_clock_that_jumps_forward_and_back_passes_no_closed_gate() {
    let mut world = World::new();
    assert_eq!(world.apply("a"), None, "the agent is known, and nothing else opens or closes the line");
    let fields = closed(&world, 100.0);
    world.set_gate("g", fields);
    world.jump(3600);
    let task = world.submitted(&Fields::new().with(words::GATE, "g"));
    world.jump(-3600);
    assert_eq!(world.apply("a"), None);
    world.pass(seconds(100.0));
    assert_eq!(world.apply("a"), Some((task, Round(0))));
}
