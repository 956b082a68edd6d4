//! Scenarios of time limits: the limit of a run, the kill, and other ends that take precedence.
#![cfg(test)]

use super::*;

fn limited(timeouts_max: u32) -> Fields {
    Fields::new().with(words::TIMEOUT, 5u32).with(words::MAX_TIMEOUTS, timeouts_max)
}

fn kills(world: &World, task: TaskId) -> usize {
    world.published.iter().filter(|message| matches!(message, Published::Kill(killed, _) if *killed == task)).count()
}

/// The next round may start only when the agent reports that the last one has ended.
#[test]
fn a_run_that_takes_too_long_is_ended_before_the_next_one_starts() {
    let mut world = World::new();
    let task = world.submitted(&limited(1));
    world.runs("a", task, Round(0));
    world.pass_with(seconds(4.999), &[("a", Some((task, Round(0))))]);
    assert_eq!(kills(&world, task), 0);
    world.pass(seconds(0.001));
    assert_eq!((kills(&world, task), world.phase(task)), (1, Phase::Running));
    assert_eq!(world.apply("b"), None, "the run may still be there");
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Kill), "PUB may lose");
    assert_eq!(world.ends("a", task, Round(0), result(-9)), None);
    let record = world.record(task);
    assert_eq!((record.phase(), record.round, record.counts.timeouts), (Phase::Waiting, Round(1), 1));
    assert_eq!(record.kill, None, "the next round is not to be ended");
    world.runs("b", task, Round(1));
    world.pass_with(seconds(5.0), &[("b", Some((task, Round(1))))]);
    world.ends("b", task, Round(1), result(-15));
    assert_eq!(world.outcome(task), Outcome::TimedOut);
    let told = world.told(TASK_QUERY, task);
    assert_eq!((text(&told, "0:__ROUND_END__"), text(&told, words::TIMEOUTS)), ("TIMED_OUT".into(), "2".into()));
    assert!(text(&told, words::REASON).contains("__TIMEOUT__"), "{told:?}");
}

/// Waiting and preparing do not count as running.
#[test]
fn only_the_run_counts() {
    let mut world = World::new();
    let task = world.submitted(&limited(0));
    world.pass(seconds(60.0));
    world.apply("a");
    world.report("a", task, Round(0), Phase::Preparing);
    world.pass_with(seconds(60.0), &[("a", Some((task, Round(0))))]);
    world.report("a", task, Round(0), Phase::Running);
    world.pass(seconds(4.9));
    assert_eq!(world.ends("a", task, Round(0), result(0)), None);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
    world.pass(seconds(60.0));
    assert_eq!(kills(&world, task), 0);
}

#[test]
fn an_agent_that_is_lost_while_it_ends_a_run_frees_the_next_round() {
    let mut world = World::new();
    let task = world.submitted(&limited(1));
    world.runs("a", task, Round(0));
    world.pass_with(seconds(5.0), &[("a", Some((task, Round(0))))]);
    world.pass(INTERVAL * 2);
    world.exits("b", task, 1, 0);
    assert_eq!((world.outcome(task), world.record(task).kill), (Outcome::Succeeded, None));
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Drop));
}

/// A kill of the task takes precedence over the time limit of its run.
#[test]
fn a_kill_while_a_run_is_timed_out_ends_the_task() {
    let mut world = World::new();
    let task = world.submitted(&limited(9));
    world.runs("a", task, Round(0));
    world.pass(seconds(5.0));
    assert_eq!(world.kill(task), Reply::Done);
    world.ends("a", task, Round(0), result(-15));
    assert_eq!(world.outcome(task), Outcome::Killed);
    let told = world.told(TASK_QUERY, task);
    assert_eq!((text(&told, words::KILLED), text(&told, words::REASON)), ("TRUE".into(), "killed by a client".into()));
}

#[test]
fn the_end_of_its_life_goes_before_the_end_of_its_run() {
    let mut world = World::new();
    let task = world.submitted(&limited(9).with(words::END_BEFORE, world.moment(5.5)));
    world.runs("a", task, Round(0));
    world.pass(seconds(5.6));
    world.ends("a", task, Round(0), result(-15));
    assert_eq!(world.outcome(task), Outcome::Expired);
}

/// A restart of the controller does not restart the time of a run.
#[test]
fn the_time_of_a_run_goes_on_over_a_restart() {
    let mut world = World::new();
    let task = world.submitted(&limited(0));
    world.apply("a");
    let began = world.now.wall;
    let running = |world: &mut World| {
        let times = PhaseTimes { run: Some(began), ..PhaseTimes::default() };
        let phase = Phase::Running;
        let ran = Some(world.now.wall.since(began));
        let report = Report {
            task,
            round: Some(Round(0)),
            phase,
            times,
            ran,
            result: None,
            provided: None,
            progress: None,
            let_go: None,
            wait: None,
        };
        let _ = world.say("a", FromAgent::Report(Box::new(report)));
    };
    running(&mut world);
    world.pass(seconds(3.0));
    world.restart();
    running(&mut world);
    world.pass(seconds(1.999));
    assert_eq!(kills(&world, task), 0);
    world.pass(seconds(0.001));
    assert_eq!(kills(&world, task), 1);
}

#[test]
fn a_timeout_that_is_under_way_survives_a_restart() {
    let mut world = World::new();
    let task = world.submitted(&limited(1));
    world.runs("a", task, Round(0));
    world.pass(seconds(5.0));
    world.restart();
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Kill));
    world.ends("a", task, Round(0), result(-15));
    let record = world.record(task);
    assert_eq!((record.phase(), record.round, record.counts.timeouts), (Phase::Waiting, Round(1), 1));
}

/// RUNNING is stored as soon as anything else of a running task changes: its time must be kept then, too.
#[test]
fn a_running_task_that_was_stored_as_such_is_timed_after_a_restart() {
    let mut world = World::new();
    let task = world.submitted(&limited(0));
    world.runs("a", task, Round(0));
    assert_eq!(world.do_to(TASK_HOLD, task), Reply::Done);
    world.restart();
    assert_eq!(world.phase(task), Phase::Running);
    world.report("a", task, Round(0), Phase::Running);
    world.pass_with(seconds(5.0), &[("a", Some((task, Round(0))))]);
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Kill));
}

/// Agents on other machines have clocks of their own, and clocks jump (docs/design/hazards.md, D7).
#[test]
fn no_clock_shortens_a_run() {
    for offset in [-86_400, -60, 60, 86_400] {
        let mut world = World::new();
        let task = world.submitted(&limited(0));
        world.pass(seconds(1.0));
        world.apply("a");
        let micros = world.now.wall.micros().saturating_add_signed(offset * 1_000_000);
        let times = PhaseTimes { run: Some(Wall::from_micros(micros)), ..PhaseTimes::default() };
        let phase = Phase::Running;
        let report = Report {
            task,
            round: Some(Round(0)),
            phase,
            times,
            ran: None,
            result: None,
            provided: None,
            progress: None,
            let_go: None,
            wait: None,
        };
        let _ = world.say("a", FromAgent::Report(Box::new(report)));
        world.pass_with(seconds(4.9), &[("a", Some((task, Round(0))))]);
        assert_eq!(kills(&world, task), 0, "an agent whose clock is {offset} s off");
        world.jump(offset);
        assert_eq!(kills(&world, task), 0, "a jump of {offset} s");
        world.pass(seconds(0.2));
        assert_eq!(kills(&world, task), 1, "the time of a run is that of no clock on the wall");
    }
}

/// The agent measures the duration of its run by a monotonic clock; a run without that is not judged by the wall clock.
#[test]
fn no_clock_that_jumps_before_a_restart_ends_a_run() {
    for (offset, says_how_long) in [(60, true), (86_400, true), (-86_400, true), (86_400, false)] {
        let mut world = World::new();
        let task = world.submitted(&limited(0));
        world.apply("a");
        let times = PhaseTimes { run: Some(world.now.wall), ..PhaseTimes::default() };
        let running = |world: &mut World, ran: Option<Duration>| {
            let (phase, round, ran) = (Phase::Running, Some(Round(0)), ran.filter(|_| says_how_long));
            let report = Report {
                task,
                round,
                phase,
                times,
                ran,
                result: None,
                provided: None,
                progress: None,
                let_go: None,
                wait: None,
            };
            let _ = world.say("a", FromAgent::Report(Box::new(report)));
        };
        running(&mut world, Some(Duration::ZERO));
        world.pass(seconds(2.0));
        world.jump(offset);
        world.restart();
        world.pass(seconds(0.5));
        running(&mut world, Some(seconds(2.5)));
        world.pass(seconds(2.4));
        assert_eq!(kills(&world, task), 0, "a jump of {offset} s");
        let left = if says_how_long { 0.2 } else { 2.7 };
        world.pass_with(seconds(left), &[("a", Some((task, Round(0))))]);
        assert_eq!(kills(&world, task), 1, "a jump of {offset} s");
    }
}
