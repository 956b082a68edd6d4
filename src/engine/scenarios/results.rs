//! Scenarios of JOB/RESULTS: the ends of a job, told in their order to clients that follow it.
#![cfg(test)]

use super::*;
use api::wire::requests::job::results::{Cursor, JOB_RESULTS, ResultsAsk};

/// The ends in an answer, and the next cursor.
fn ends(reply: &Reply) -> (Vec<TaskId>, String) {
    match reply {
        Reply::Results(ends) => (ends.rows.iter().map(|row| row.task).collect(), ends.next.to_string()),
        other => panic!("{other:?}"),
    }
}

fn of_job() -> Fields {
    Fields::new().with(words::JOB, "j")
}

fn parked(cursor: &str) -> Request {
    let cursor: Cursor = cursor.parse().unwrap();
    let job = JobName::new("j").unwrap();
    Request::JobResults(Box::new(ResultsAsk {
        job,
        cursor: Some(cursor),
        limit: None,
        wait: Some(seconds(60.0)),
        early: false,
    }))
}

impl World {
    fn follow(&mut self) -> String {
        ends(&self.send(JOB_RESULTS, &of_job())).1
    }

    fn read_on(&mut self, cursor: &str) -> Reply {
        self.send(JOB_RESULTS, &of_job().with(words::CURSOR, cursor))
    }

    /// The answers to parked requests since the last call.
    fn told_ends(&mut self) -> Vec<(Ticket, Vec<TaskId>)> {
        let replies = std::mem::take(&mut self.replies).into_iter();
        let told = replies.filter(|(_, reply)| matches!(reply, Reply::Results(_)));
        told.map(|(ticket, reply)| (ticket, ends(&reply).0)).collect()
    }
}

#[test]
fn ends_are_told_in_their_order_from_a_cursor_on() {
    let mut world = World::new();
    let before = world.submitted(&of_job());
    world.exits("a", before, 0, 0);
    let begin = world.follow();
    let tasks: Vec<_> = (0..3).map(|_| world.submitted(&of_job())).collect();
    let stranger = world.submitted(&Fields::new().with(words::JOB, "other"));
    assert_eq!(ends(&world.read_on(&begin)), (vec![], begin.clone()));
    world.runs("a", tasks[0], Round(0));
    world.exits("b", tasks[1], 0, 7);
    world.ends("a", tasks[0], Round(0), result(0));
    world.kill(stranger);
    let reply = world.read_on(&begin);
    let (told, next) = ends(&reply);
    assert_eq!(told, [tasks[1], tasks[0]]);
    assert_eq!(claim_of_reply(&reply), Claim::Promise, "an end is told after its commit");
    world.kill(tasks[2]);
    assert_eq!(ends(&world.read_on(&next)).0, [tasks[2]], "every way of ending");
    assert_eq!(ends(&world.read_on(&begin)).0, [tasks[1], tasks[0], tasks[2]], "a lost answer can be asked for again");
    let limited = of_job().with(words::CURSOR, begin).with(words::LIMIT, 1u32);
    assert_eq!(ends(&world.send(JOB_RESULTS, &limited)), (vec![tasks[1]], next.replace(":2", ":1")));
}

#[test]
fn an_early_reader_does_not_wait_for_the_disk_and_gets_the_key_of_the_submit() {
    let mut world = World::new();
    let begin = world.follow();
    let task = world.submitted(&of_job().with(words::SUBMIT_KEY, "k 1"));
    world.exits("a", task, 0, 0);
    let early = |status: &str| of_job().with(words::CURSOR, &*begin).with(words::STATUS, status);
    let reply = world.send(JOB_RESULTS, &early("ENDED"));
    assert_eq!((ends(&reply).0, claim_of_reply(&reply)), (vec![task], Claim::Nothing));
    let shown = |reply: &Reply| String::from_utf8(reply::encode(JOB_RESULTS.word, reply, PageBytes(1000))).unwrap();
    assert!(shown(&reply).contains(r#""__SUBMIT_KEY__":"k 1""#), "{}", shown(&reply));
    let reply = world.send(JOB_RESULTS, &early("FINISHED"));
    assert_eq!(claim_of_reply(&reply), Claim::Promise);
    assert!(!shown(&reply).contains(words::SUBMIT_KEY), "{}", shown(&reply));
}

#[test]
fn an_end_shows_the_work_and_the_result_without_the_surroundings() {
    let mut world = World::new();
    let begin = world.follow();
    let task = world.submitted(&of_job().with(words::GIVEN_ID, "g").with("x", "y"));
    world.exits("a", task, 0, 7);
    let reply = world.read_on(&begin);
    let shown = String::from_utf8(reply::encode(JOB_RESULTS.word, &reply, PageBytes(1000))).unwrap();
    for part in [r#""__OPERATION__":"t""#, r#""__OUTCOME__":"FAILED","__EXIT_CODE__":7,"__REPORT_LOG__":"report""#] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(!shown.contains(words::GIVEN_ID) && !shown.contains(words::AGENT_ID), "{shown}");
}

#[test]
fn a_reader_that_waits_gets_the_ends_of_a_turn_together() {
    let mut world = World::new();
    let begin = world.follow();
    let tasks: Vec<_> = (0..3).map(|_| world.submitted(&of_job())).collect();
    let (ticket, answer) = world.ask_later(parked(&begin));
    assert_eq!(answer, Answer::Later);
    world.exits("a", tasks[0], 0, 0);
    world.exits("b", tasks[1], 0, 0);
    assert_eq!(world.told_ends(), [], "the turn has not ended");
    world.pass(Duration::ZERO);
    assert_eq!(world.told_ends(), [(ticket, tasks[..2].to_vec())]);
    let (ticket, _) = world.ask_by(1, parked(&begin.replace(":0", ":2")));
    world.pass(seconds(60.0));
    assert_eq!(world.told_ends(), [(ticket, vec![])], "none in time");
}

#[test]
fn ends_of_tasks_that_queued_are_gathered_for_a_moment() {
    let mut world = World::new();
    let begin = world.follow();
    world.park("a");
    let tasks: Vec<_> = (0..4).map(|_| world.submitted(&of_job())).collect();
    // The second one has queued for 64 ms, a quarter of which is 16 ms.
    world.pass(Duration::from_millis(64));
    assert_eq!(world.ends("a", tasks[0], Round(0), result(0)), None);
    let (first, answer) = world.ask_later(parked(&begin));
    assert_eq!(
        ends(match &answer {
            Answer::Now(reply) => reply,
            other => panic!("{other:?}"),
        })
        .0,
        [tasks[0]]
    );
    let begin = begin.replace(":0", ":1");
    let (ticket, _) = world.ask_by(first.connection.number, parked(&begin));
    world.exits("a", tasks[1], 0, 0);
    world.pass(Duration::from_millis(15));
    world.exits("a", tasks[2], 0, 0);
    assert_eq!(world.told_ends(), []);
    // One that asks meanwhile waits as long.
    let (late, answer) = world.ask_by(1, parked(&begin));
    assert_eq!(answer, Answer::Later);
    world.pass(Duration::from_millis(1));
    let both = tasks[1..3].to_vec();
    assert_eq!(world.told_ends(), [(ticket, both.clone()), (late, both)]);
    let (ticket, _) = world.ask_later(parked(&begin.replace(":1", ":3")));
    world.exits("a", tasks[3], 0, 0);
    world.pass(Duration::ZERO);
    assert_eq!(world.told_ends(), [(ticket, vec![tasks[3]])], "no other end can follow");
}

#[test]
fn a_cursor_ends_with_its_controller_and_is_refused_then() {
    let mut world = World::new();
    let begin = world.follow();
    let task = world.submitted(&of_job());
    world.restart();
    world.exits("a", task, 1, 0);
    assert_eq!(refused(&world.read_on(&begin)), Code::InvalidTaskId);
    let again = world.follow();
    assert_ne!(again, begin, "it would be taken for the place of another end");
    assert_eq!(refused(&world.read_on(&begin)), Code::InvalidTaskId);
    assert_eq!(refused(&world.read_on(&again.replace(":0", ":1"))), Code::InvalidTaskId, "behind the last end");
    assert_eq!(refused(&world.read_on("nonsense")), Code::BadField);
}

#[test]
fn the_ends_of_a_job_that_is_not_read_any_more_are_forgotten() {
    let mut world = World::new();
    let begin = world.follow();
    world.pass(seconds(50.0));
    assert_eq!(ends(&world.read_on(&begin)).0, []);
    world.pass(seconds(50.0));
    let _ = world.ask_later(parked(&begin));
    world.pass(seconds(110.0));
    assert_eq!(ends(&world.read_on(&begin)).0, [], "it was read on until a minute ago");
    world.pass(seconds(61.0));
    assert_eq!(refused(&world.read_on(&begin)), Code::InvalidTaskId);
    world.controller.sanity_check();
}

#[test]
fn a_retried_task_is_told_with_its_next_end_and_a_forgotten_one_without_a_result() {
    let mut world = World::with(|settings| settings.keep = seconds(10.0));
    let begin = world.follow();
    let (retried, forgotten) = (world.submitted(&of_job()), world.submitted(&of_job()));
    world.exits("a", retried, 0, 1);
    world.exits("a", forgotten, 0, 0);
    world.do_to(TASK_RETRY, retried);
    assert_eq!(ends(&world.read_on(&begin)).0, [forgotten], "the other waits again");
    world.exits("a", retried, 1, 0);
    assert_eq!(ends(&world.read_on(&begin)).0, [retried, forgotten], "each once");
    world.pass(seconds(30.0));
    let Reply::Results(ends) = world.read_on(&begin) else { panic!() };
    assert!(ends.rows.len() == 2 && ends.rows.iter().all(|row| row.record.is_none()), "{ends:?}");
}

#[test]
fn a_connection_parks_its_share_and_leaves_nothing_behind() {
    let mut world = World::with(|settings| settings.parked_max = 20);
    let begin = world.follow();
    let task = world.submitted(&of_job());
    let tickets = [world.ask_by(1, parked(&begin)).0, world.ask_by(1, parked(&begin)).0];
    let Answer::Now(reply) = world.ask_by(1, parked(&begin)).1 else { panic!() };
    assert_eq!(refused(&reply), Code::LimitReached);
    assert_eq!(world.controller.handle_disconnected(tickets[0].connection), tickets);
    world.exits("a", task, 0, 0);
    world.pass(Duration::ZERO);
    assert_eq!(world.told_ends(), []);
    assert_eq!(world.controller.poll_timeout().filter(|(at, _)| *at <= world.now.mono), None);
}
