//! Scenarios of a controller that starts again.
#![cfg(test)]

use super::*;

#[test]
fn waiting_tasks_keep_their_order_and_ids_go_on() {
    let mut world = World::new();
    let tasks = [world.task(), world.task(), world.task()];
    // The clock may be anywhere when the controller is back.
    world.now.wall = Wall::from_micros(START - 1);
    world.restart();
    let later = world.task();
    assert!(tasks.iter().all(|task| *task < later));
    // Tasks from before the restart may have been handed out by a controller that died before it could store that.
    let rounds = tasks.into_iter().map(|task| (task, Round(1))).chain([(later, Round(0))]);
    for (task, round) in rounds {
        let agent = format!("agent-{task}");
        assert_eq!(world.apply(&agent), Some((task, round)));
    }
}

/// docs/design/hazards.md, A6.
#[test]
fn a_running_task_is_adopted_when_its_agent_comes_back() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.report("a", task, Round(0), Phase::Running);
    world.restart();
    assert_eq!(world.phase(task), Phase::Running);
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Directive::Run));
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

/// The first report of an agent may be the result that it has kept meanwhile.
#[test]
fn a_result_from_before_the_restart_is_taken() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.restart();
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

#[test]
fn an_agent_that_does_not_come_back_is_lost() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.restart();
    world.pass(INTERVAL * 2);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    assert_eq!(world.record(task).counts.losses, 1);
}

/// The answer to its APPLY may have been lost with the controller: that does not count as a loss.
#[test]
fn an_agent_that_comes_back_without_its_task_frees_it() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.restart();
    assert_eq!(world.beat("a", None), None);
    assert_eq!(world.phase(task), Phase::Dispatched, "its result may be on its way");
    world.pass(INTERVAL);
    assert_eq!(world.beat("a", None), None);
    let record = world.record(task);
    assert_eq!((record.phase(), record.round, record.counts.losses), (Phase::Waiting, Round(1), 0));
}

/// An agent that asks for a task has finished reporting on the previous one.
#[test]
fn an_agent_that_comes_back_and_asks_for_a_task_has_none() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.restart();
    assert_eq!(world.apply("a"), Some((task, Round(1))));
}

/// The heartbeat of an agent whose run has ended meanwhile comes before its result.
#[test]
fn a_result_that_comes_after_a_heartbeat_is_taken() {
    let mut world = World::new();
    let (done, task) = (world.task(), world.task());
    world.apply("a");
    world.report("a", done, Round(0), Phase::Finished);
    world.apply("a");
    world.restart();
    world.beat("a", None);
    assert_eq!(world.report("a", done, Round(0), Phase::Finished), None, "said again, of an earlier run");
    world.beat("a", None);
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    assert_eq!((world.outcome(task), world.record(task).round), (Outcome::Succeeded, Round(0)));
}

#[test]
fn families_labels_kills_and_retention_survive() {
    let mut world = World::new();
    let father = world.submitted(&Fields::new().with(words::GIVEN_ID, "g"));
    world.apply("a");
    let child = world.child(father);
    let done = world.task();
    world.kill(done);
    world.restart();
    let found = world.ask(Request::Query(filter(words::GIVEN_ID, "g"), None));
    assert!(matches!(found, Reply::Task { record, .. } if record.id == father));
    world.report("a", father, Round(0), Phase::Finished);
    assert_eq!(world.outcome(child), Outcome::Killed);
    world.pass(Duration::from_secs(3700));
    assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic(TaskCounts([0; 6]), None));
    assert!(world.stored.is_empty(), "what is forgotten is forgotten on disk too");
}

/// The dispatch left before its record was committed, and the controller died between the two.
#[test]
fn a_run_whose_dispatch_was_not_stored_goes_on() {
    let mut world = World::new();
    let (first, second) = (world.task(), world.task());
    world.restart();
    assert_eq!(world.beat("a", Some((first, Round(0)))), Some(Directive::Run));
    assert_eq!(world.report("b", second, Round(0), Phase::Finished), None, "its report says the same");
    assert_eq!(world.apply("c"), None, "both are taken");
    assert_eq!(world.report("a", first, Round(0), Phase::Finished), None);
    assert_eq!((world.outcome(first), world.outcome(second)), (Outcome::Succeeded, Outcome::Succeeded));
}

/// Its heartbeat, which names the run that it has, comes before the results that were not confirmed. A refused result would mean
/// that its task runs twice.
#[test]
fn results_of_earlier_runs_are_taken_beside_the_present_run() {
    let mut world = World::new();
    let (first, second, third) = (world.task(), world.task(), world.task());
    world.restart();
    assert_eq!(world.beat("a", Some((third, Round(0)))), Some(Directive::Run));
    for done in [first, second] {
        assert_eq!(world.report("a", done, Round(0), Phase::Running), Some(Code::NotAllowed), "it has one slot");
        assert_eq!(world.report("a", done, Round(0), Phase::Finished), None);
        assert_eq!((world.outcome(done), world.record(done).round), (Outcome::Succeeded, Round(0)));
    }
    assert_eq!(world.beat("a", Some((third, Round(0)))), Some(Directive::Run));
    assert_eq!(world.apply("b"), None, "nothing runs twice");
    assert_eq!(world.ends("a", third, Round(0), result(0)), None);
    assert_eq!(world.outcome(third), Outcome::Succeeded);
}

/// Pushes that the earlier controller did not store: no number stands for two states, and no phase goes back.
#[test]
fn pushes_go_on_where_they_were() {
    for told in [Phase::Preparing, Phase::Running, Phase::Ended, Phase::Finished] {
        let mut world = World::new();
        world.loses_progress = true;
        let task = world.task();
        world.apply("a");
        for life in 0..3 {
            if life > 0 {
                world.restart();
            }
            let known = world.pushes.len();
            assert_eq!(world.report("a", task, Round(0), Phase::Preparing.max(told.min(Phase::Running))), None);
            let new = world.pushes[known..].iter().map(|record| Effect::Push(Box::new(record.clone())));
            let promised = new.map(|push| push.claim()).filter(|claim| *claim == Claim::Promise).count();
            assert_eq!(promised, if life > 0 { world.pushes.len() - known } else { 0 }, "numbers are stored before");
            // The next controller then knows of it.
            let record = world.record(task);
            if life > 0 {
                world.stored.insert(task, record);
            }
        }
        world.restart();
        world.report("a", task, Round(0), told);
        world.pass(INTERVAL * 2);
        world.apply("b");
        let pushed: Vec<_> = world.pushes.iter().map(|record| (record.pushes, record.round, record.phase())).collect();
        let goes_on =
            |pair: &[(u32, Round, Phase)]| pair[0].0 < pair[1].0 && (pair[0].1, pair[0].2) <= (pair[1].1, pair[1].2);
        assert!(pushed.windows(2).all(goes_on), "{pushed:?}");
        assert!(world.pushes.last().unwrap().round == Round(1) || told >= Phase::Ended, "{pushed:?}");
    }
}

/// The dispatch was not even stored, and the run was pushed as RUNNING.
#[test]
fn pushes_of_a_run_whose_dispatch_was_not_stored_go_on() {
    let mut world = World::new();
    let task = world.task();
    let waiting = world.record(task);
    world.runs("a", task, Round(0));
    world.stored.insert(task, waiting);
    world.restart();
    assert_eq!(world.report("a", task, Round(0), Phase::Running), None);
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    let pushed: Vec<_> = world.pushes.iter().map(|record| (record.pushes, record.phase())).collect();
    // The earlier controller may have pushed ENDED as 3.
    let expected = [Phase::Preparing, Phase::Running, Phase::Running, Phase::Ended, Phase::Finished];
    assert_eq!(pushed, [1, 2, 4, 5, 6].into_iter().zip(expected).collect::<Vec<_>>());
}

/// ENDED is pushed before it is stored, so a push after a restart must not show an earlier phase.
#[test]
fn a_run_that_has_ended_meanwhile_does_not_run_again_for_its_receiver() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    let dispatched = world.record(task);
    assert_eq!(world.report("a", task, Round(0), Phase::Running), None);
    assert_eq!(world.report("a", task, Round(0), Phase::Ended), None);
    world.stored.insert(task, dispatched);
    world.restart();
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    let pushed: Vec<_> = world.pushes.iter().map(TaskRecord::phase).collect();
    let phases = [Phase::Preparing, Phase::Running, Phase::Ended, Phase::Ended, Phase::Finished];
    assert_eq!(pushed, phases);
    assert!(world.pushes.is_sorted_by_key(|record| record.pushes), "and no number is used again");
}

/// A simple agent reports that it is busy, without naming its task (docs/sources/controller.md, 5.1).
#[test]
fn a_busy_agent_still_has_the_run_that_it_was_given() {
    let mut world = World::new();
    let task = world.task();
    assert_eq!(world.busy("a"), None, "it was given nothing");
    world.apply("a");
    world.report("a", task, Round(0), Phase::Running);
    world.restart();
    for _ in 0..3 {
        assert_eq!(world.busy("a"), Some((task, Round(0), Directive::Run)));
        world.pass(INTERVAL);
    }
    assert_eq!(world.apply("b"), None, "it is not taken away");
    world.kill(task);
    assert_eq!(world.busy("a"), Some((task, Round(0), Directive::Kill)), "PUB may lose");
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), None);
    assert_eq!(world.busy("a"), None, "it has reported the end of the run");
}

/// The run of a simple agent that was lost meanwhile is void, and the agent is told so.
#[test]
fn a_busy_agent_is_told_that_its_run_is_void() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    world.pass(INTERVAL * 2);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    assert_eq!(world.busy("a"), Some((task, Round(0), Directive::Drop)));
    assert_eq!(world.counts(), AgentCounts { total: 2, free: 0, busy: 2, lost: 0 });
    let report = Report { round: None, ..report_of(task, Round(0), Phase::Finished, Some(result(0))) };
    let (_, answer) = world.say("a", FromAgent::Report(Box::new(report)));
    let Answer::Now(Reply::Reported { refusal: Some(refusal), round: Round(0), .. }) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(refusal.code, Code::NotAllowed);
    assert_eq!(world.phase(task), Phase::Dispatched);
}

/// A controller that died before it could store its first dispatch; the agent does not name its round.
#[test]
fn the_report_of_a_simple_agent_finds_its_run() {
    let mut world = World::new();
    let task = world.task();
    world.restart();
    let (phase, times) = (Phase::Running, PhaseTimes::default());
    let report = Report {
        task,
        round: None,
        phase,
        times,
        ran: None,
        result: None,
        provided: None,
        progress: None,
        let_go: None,
        wait: None,
    };
    let (_, answer) = world.say("a", FromAgent::Report(Box::new(report)));
    assert!(matches!(answer, Answer::Now(Reply::Reported { refusal: None, .. })), "{answer:?}");
    assert_eq!(world.apply("b"), None);
}

/// It could not tell the next controller what it runs, if that was not stored.
#[test]
fn a_simple_agent_is_told_of_a_task_when_that_is_stored() {
    let mut world = World::new();
    let tasks = [world.task(), world.task()];
    for (session, claim) in [(0, Claim::Promise), (1, Claim::Nothing)] {
        let (_, answer) = world.say_as(&format!("agent-{session}"), session, FromAgent::Apply(None));
        let Answer::Now(reply @ Reply::Assigned(_, _)) = answer else { panic!("{answer:?}") };
        assert_eq!(claim_of_reply(&reply), claim);
    }
    world.restart();
    assert_eq!(world.phase(tasks[0]), Phase::Dispatched);
}

/// Neither the end of its last run nor the dispatch of this one was stored. An order to drop it would start the same round
/// once more, and its phases would go back.
#[test]
fn a_run_whose_agent_still_owes_the_end_of_another_one_goes_on() {
    let mut world = World::new();
    let (first, second) = (world.task(), world.task());
    world.runs("a", first, Round(0));
    world.restart();
    assert_eq!(world.beat("a", Some((second, Round(0)))), None, "undecided until the report arrives");
    assert_eq!(world.ends("a", first, Round(0), result(0)), None);
    assert_eq!(world.beat("a", Some((second, Round(0)))), Some(Directive::Run));
    assert_eq!(world.ends("a", second, Round(0), result(0)), None);
    assert_eq!((world.outcome(first), world.outcome(second)), (Outcome::Succeeded, Outcome::Succeeded));
}
