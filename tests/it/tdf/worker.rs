//! What a worker asks of a namespace: registration, claims, reports, leases.

use std::time::Duration;

use base::tdf::State;
use redis::Commands as _;
use tdf::engine::pool::RunLine;
use tdf::shell::{Claim, Ending, Namespace, RedisError, Report, Reported, WorkerKind};
use tdf::wire::Budget;

use super::original::{Order, now};
use super::{NAMESPACE, Place, clock, name};

#[test]
fn a_worker_is_known_as_the_original_makes_itself_known() {
    let mut place = Place::new();
    place.original.register("theirs");
    let id = place.ours.register(&name("ours"), WorkerKind::Worker).unwrap();
    assert_eq!(id.0, 2);
    assert_eq!(place.ours.register(&name("ours"), WorkerKind::Worker).unwrap(), id);
    // It was killed between two commands.
    let () = place.original.redis.set("MyProgram:worker_id:half", 7).unwrap();
    assert_eq!(place.ours.register(&name("half"), WorkerKind::Worker).unwrap().0, 7);
    let names: std::collections::BTreeSet<String> = place.original.redis.smembers("MyProgram:worker").unwrap();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["half", "ours", "theirs"]);
}

#[test]
fn a_claim_leaves_what_the_originals_does() {
    let mut place = Place::new();
    let id = place.original.open(&Order { timeout: "12.5", ..Order::default() });
    let before = now();
    let claimed = place.claim("w", 5);
    let [task] = &claimed[..] else { panic!("one task is open: {claimed:?}") };
    assert_eq!(
        (task.fence.task.0, task.fence.round, task.program.as_str(), task.input.as_slice()),
        (id, 0, "p", &b"1 2"[..])
    );
    assert_eq!(task.timeout, Some(Duration::from_millis(12_500)));
    assert_eq!(place.sets(id), ["running"]);
    assert_eq!((place.get(id, "state").unwrap(), place.get(id, "0:worker").unwrap()), ("running".into(), "w".into()));
    let started = place.get(id, "0:running").unwrap();
    assert_eq!(started, task.fence.started);
    let score: f64 = place.original.redis.zscore("MyProgram:running", id).unwrap();
    assert_eq!(started.parse::<f64>().unwrap(), score);
    assert!((score - before.parse::<f64>().unwrap()).abs() < 60.0 && !started.contains('e'));
    assert_eq!(place.log(id), ["moving task 1: open -> running"]);
    place.original.assert_readable(id);
    assert!(place.claim("w", 5).is_empty());
}

#[test]
fn the_day_in_a_log_is_the_day_of_redis() {
    let mut place = Place::new();
    let id = place.original.open(&Order::default());
    let fence = place.claim_one("w");
    let log = place.get(id, "log").unwrap();
    let started = fence.started.parse().unwrap();
    assert_eq!(log, tdf::wire::log::line(started, "moving task 1: open -> running"));
}

#[test]
fn a_repeated_claim_gets_the_same_tasks() {
    let mut place = Place::new();
    for _ in 0..3 {
        place.original.open(&Order::default());
    }
    let worker = name("w");
    let claim = Claim { worker: &worker, token: "once", count: 2 };
    let first = place.ours.claim(&claim).unwrap();
    assert_eq!(first.len(), 2);
    assert_eq!(place.ours.claim(&claim).unwrap(), first);
    place.execute(&first[0].fence, "", "");
    assert_eq!(place.ours.claim(&claim).unwrap(), first[1..]);
    assert_eq!(place.claim("w", 5).len(), 1);
}

#[test]
fn a_task_is_not_started_before_its_start_whatever_its_score() {
    let mut place = Place::new();
    let wall = clock::now().wall.micros() / 1_000_000;
    let id = place.original.open(&Order { start_after: &(wall + 3600).to_string(), ..Order::default() });
    assert!(place.claim("w", 5).is_empty());
    // An original has opened it again: the score is the time of that.
    let () = place.original.redis.zadd("MyProgram:open", id, wall - 5).unwrap();
    assert!(place.claim("w", 5).is_empty());
    let score: u64 = place.original.redis.zscore("MyProgram:open", id).unwrap();
    assert_eq!(score, wall + 3600);
    // The clock of whoever has opened this one again is ahead.
    let ahead = place.original.open(&Order::default());
    let () = place.original.redis.zadd("MyProgram:open", ahead, wall + 600).unwrap();
    assert_eq!(place.claim_one("w").task.0, ahead);
}

#[test]
fn the_lowest_score_is_claimed_first() {
    let mut place = Place::new();
    let ids = ["30", "10", "20"].map(|start_after| place.original.open(&Order { start_after, ..Order::default() }));
    let claimed: Vec<u64> = place.claim("w", 3).iter().map(|task| task.fence.task.0).collect();
    assert_eq!(claimed, [ids[1], ids[2], ids[0]]);
}

/// A whole task may stand behind it: another program has written both.
#[test]
fn an_entry_whose_id_is_no_number_stops_neither_a_claim_nor_a_start() {
    let mut place = Place::new();
    let id = place.original.open(&Order::default());
    let odd = ["017", "0", "abc", "1 2", "-1", "99999999999999999999"];
    odd.iter().for_each(|odd| place.copy(id, odd, "open"));
    let fence = place.claim_one("w");
    assert_eq!((fence.task.0, place.claim("w", 9)), (id, vec![]));
    let poisoned: u64 = place.original.redis.zcount("MyProgram:open", "+inf", "+inf").unwrap();
    assert_eq!(poisoned, 6, "they are the last that an original would take");
    for odd in odd {
        place.copy(id, odd, "running");
        let lease: String = place.original.redis.hget("MyProgram:llts:leases", id).unwrap();
        let () = place.original.redis.hset("MyProgram:llts:leases", odd, lease).unwrap();
    }
    let claims = place.ours.own_claims(&name("w"), 3).unwrap();
    assert_eq!(claims.into_iter().map(|claimed| claimed.fence.task.0).collect::<Vec<_>>(), [id]);
    let lost = place.ours.lose_own_runs(&name("w"), 3, None).unwrap();
    assert_eq!(lost, [(fence.task, State::Open)]);
}

#[test]
fn poisoned_entries_stop_no_claim() {
    let mut place = Place::new();
    for id in 900..1000 {
        let () = place.original.redis.zadd("MyProgram:open", id, -1).unwrap();
    }
    let () = place.original.redis.zadd("MyProgram:open", "no number", -2).unwrap();
    let bad = place.original.open(&Order { start_after: "-5", ..Order::default() });
    let () = place.original.redis.hset("MyProgram:task:1", "timeout", "soon").unwrap();
    let odd = place.original.open(&Order { start_after: "-4", ..Order::default() });
    let () = place.original.redis.del("MyProgram:task:2").unwrap();
    let () = place.original.redis.set("MyProgram:task:2", "a string").unwrap();
    let good = place.original.open(&Order::default());
    assert_eq!(place.claim_one("w").task.0, good);
    // They are the last that an original would take.
    let first: Vec<u64> = {
        place.original.open(&Order::default());
        place.original.redis.zrange("MyProgram:open", 0, 0).unwrap()
    };
    assert_eq!(first, [good + 1]);
    assert_eq!((place.sets(bad), place.sets(odd)), (vec!["open"], vec!["open"]));
}

#[test]
fn a_report_leaves_what_the_originals_does() {
    let mut place = Place::new();
    let id = place.original.open(&Order::default());
    let fence = place.claim_one("w");
    // A line that another component has written meanwhile stays.
    let log = place.get(id, "log").unwrap() + "\n2026-11-22 12:00:00 - between";
    let () = place.original.redis.hset("MyProgram:task:1", "log", log).unwrap();
    let log = [RunLine { since_start: Duration::from_millis(5), text: "executing task 1\n".into() }];
    let ending = Ending::Executed { output: b"5\n\xff", error: b"" };
    assert_eq!(place.ours.report(&Report { fence: &fence, ending, log: &log }).unwrap(), Reported::Moved);
    assert_eq!(place.sets(id), ["executed"]);
    let output: Vec<u8> = place.original.redis.hget("MyProgram:task:1", "0:output").unwrap();
    assert_eq!((output.as_slice(), place.get(id, "0:error").unwrap().as_str()), (&b"5\n\xff"[..], ""));
    let () = place.original.redis.hset("MyProgram:task:1", "0:output", "").unwrap();
    place.original.assert_readable(id);
    let expected =
        ["moving task 1: open -> running", "between", "executing task 1\\n", "moving task 1: running -> executed"];
    assert_eq!(place.log(id), expected);
    let own: Vec<String> = place.original.redis.keys("MyProgram:llts:leases").unwrap();
    assert!(own.is_empty(), "the lease is gone: {own:?}");
}

#[test]
fn a_repeated_report_is_known_and_one_of_another_run_is_dropped() {
    let mut place = Place::new();
    let id = place.original.open(&Order::default());
    let fence = place.claim_one("w");
    assert_eq!(place.execute(&fence, "out", "err"), Reported::Moved);
    assert_eq!(place.execute(&fence, "out", "err"), Reported::Already);
    place.rounds(1);
    assert_eq!(place.execute(&fence, "out", "err"), Reported::Already);
    let gone = place.execute(&fence, "other", "");
    assert!(matches!(gone, Reported::Gone { ref state, .. } if state == "failed"), "{gone:?}");
    assert_eq!(place.get(id, "0:output").unwrap(), "out");
    assert_eq!(place.log(id).iter().filter(|line| line.contains("-> executed")).count(), 1);
}

#[test]
fn a_worker_that_was_away_does_not_touch_the_next_round() {
    let mut place = Place::new();
    let id = place.original.open(&Order { timeout: "0", max_timeouts: "5", ..Order::default() });
    let first = place.claim_one("w");
    // Its lease has ended.
    let () = place.original.redis.del("MyProgram:llts:leases").unwrap();
    place.rounds(1);
    assert_eq!((place.sets(id), place.get(id, "round").unwrap()), (vec!["open"], "1".to_owned()));
    let second = place.claim_one("w");
    assert!(matches!(place.execute(&first, "late", ""), Reported::Gone { .. }));
    assert_eq!((place.sets(id), place.get(id, "0:output")), (vec!["running"], None));
    assert_eq!(place.execute(&second, "in time", ""), Reported::Moved);
}

#[test]
fn an_original_that_takes_a_run_over_gets_it() {
    let mut place = Place::new();
    let id = place.original.open(&Order::default());
    let fence = place.claim_one("w");
    // It had read the id before, and moves running -> running.
    assert!(place.original.r#move(id, "running", "running", 0, &[("0:worker", "theirs")]));
    let lost = place.ours.renew(&name("w"), std::slice::from_ref(&fence)).unwrap();
    assert_eq!((lost.len(), lost[0].task.0, lost[0].state.as_str()), (1, id, "running"));
    assert!(matches!(place.execute(&fence, "ours", ""), Reported::Gone { .. }));
    assert!(place.original.report(id, 0, "theirs", ""));
    assert_eq!(place.get(id, "0:output").unwrap(), "theirs");
}

#[test]
fn a_worker_reports_its_own_time_out() {
    let mut place = Place::new();
    let id = place.original.open(&Order { max_timeouts: "1", ..Order::default() });
    for (round, sets, used) in [(0, "open", 1), (1, "timed_out", 2)] {
        let claimed = place.claim("w", 1).pop().unwrap();
        assert_eq!(claimed.timeouts, Budget { used: round, max: 1 });
        let ending = Ending::TimedOut { output: b"part", error: b"", timeouts: claimed.timeouts };
        let report = Report { fence: &claimed.fence, ending, log: &[] };
        assert_eq!(place.ours.report(&report).unwrap(), Reported::Moved);
        assert_eq!(place.ours.report(&report).unwrap(), Reported::Already);
        assert_eq!(place.sets(id), [sets]);
        assert_eq!(place.get(id, "timeouts").unwrap(), used.to_string());
        assert_eq!(place.get(id, &format!("{round}:output")).unwrap(), "part");
        assert!(place.get(id, &format!("{round}:timeout")).is_some());
    }
    assert_eq!((place.get(id, "round").unwrap(), place.get(id, "1:timed_out").is_some()), ("1".to_owned(), true));
    place.original.assert_readable(id);
}

#[test]
fn a_run_that_was_not_started_is_given_back_uncounted() {
    let mut place = Place::new();
    let id = place.original.open(&Order::default());
    let fence = place.claim_one("w");
    assert!(place.ours.give_back(&fence).unwrap());
    assert!(!place.ours.give_back(&fence).unwrap());
    assert_eq!(
        (place.sets(id), place.get(id, "round").unwrap(), place.get(id, "fails").unwrap()),
        (vec!["open"], "0".into(), "0".into())
    );
    assert_eq!(place.log(id).last().unwrap(), "moving task 1: running -> open (given back by worker w)");
    place.original.assert_readable(id);
}

#[test]
fn the_runs_of_a_dead_process_are_lost_and_those_of_an_original_of_the_same_name_are_not() {
    let mut place = Place::new();
    let ids = [(); 4].map(|()| place.original.open(&Order::default()));
    assert_eq!(place.original.claim("w"), Some((ids[0], 0)));
    let held = place.claim("w", 2);
    place.claim("other", 1);
    assert_eq!(place.ours.lose_own_runs(&name("nobody"), 3, None).unwrap(), []);
    let lost = place.ours.lose_own_runs(&name("w"), 3, None).unwrap();
    assert_eq!(lost, held.iter().map(|run| (run.fence.task, State::Open)).collect::<Vec<_>>());
    assert_eq!(ids.map(|id| place.sets(id)), [["running"], ["open"], ["open"], ["running"]]);
    assert_eq!(place.log(ids[1]).last().unwrap(), "moving task 2: running -> open (worker w lost)");
    assert_eq!(place.ours.lose_own_runs(&name("w"), 3, None).unwrap(), []);
    // A program that ends its worker each time has an end itself.
    let task = held[0].fence.task;
    for _ in 0..2 {
        place.claim("w", 2);
        place.ours.lose_own_runs(&name("w"), 3, None).unwrap();
    }
    place.claim("w", 2);
    assert!(place.ours.lose_own_runs(&name("w"), 3, None).unwrap().contains(&(task, State::Failed)));
    assert_eq!((place.sets(task.0), place.get(task.0, "fails").unwrap()), (vec!["failed"], "1".to_owned()));
    place.original.assert_readable(task.0);
}

#[test]
fn a_name_belongs_to_one_process_while_its_lease_lasts() {
    let mut place = Place::new();
    let mut second = Namespace::connect(&place.section().redis, NAMESPACE).unwrap();
    let (w, id) = (name("w"), place.ours.register(&name("w"), WorkerKind::Worker).unwrap());
    let refused = |answer: Result<(), RedisError>| match answer.unwrap_err() {
        error @ RedisError::NameTaken { .. } => error.to_string(),
        error => panic!("{error}"),
    };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let sentence = refused(second.register(&w, WorkerKind::Worker).map(drop));
    let holder = format!("a worker w already runs for this namespace as process {} on {host}", std::process::id());
    assert!(sentence.starts_with(&holder), "{sentence}");
    refused(second.renew(&w, &[]).map(drop));
    // An original knows of no leases.
    place.original.register("w");
    // What does not hold the name cannot give it up.
    second.leave(&w).unwrap();
    refused(second.register(&w, WorkerKind::Worker).map(drop));
    place.ours.leave(&w).unwrap();
    assert_eq!(second.register(&w, WorkerKind::Worker).unwrap(), id);
    refused(place.ours.renew(&w, &[]).map(drop));
    // It was not renewed for a lease.
    let lease = format!("{} 1000.0", second.session());
    let () = place.original.redis.hset("MyProgram:llts:names", "w", lease).unwrap();
    assert_eq!(place.ours.register(&w, WorkerKind::Worker).unwrap(), id);
    refused(second.renew(&w, &[]).map(drop));
}

#[test]
fn a_report_and_the_next_claim_are_one_round_trip() {
    let mut place = Place::new();
    let ids = [(); 2].map(|()| place.original.open(&Order::default()));
    let fence = place.claim_one("w");
    // As after a restart of Redis: no script is known.
    let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut place.original.redis).unwrap();
    let report = Report { fence: &fence, ending: Ending::Executed { output: b"", error: b"" }, log: &[] };
    let worker = name("w");
    let claim = Claim { worker: &worker, token: "next", count: 1 };
    let (reported, claimed) = place.ours.report_all(&[report], Some(&claim)).unwrap();
    assert_eq!((reported, claimed[0].fence.task.0), (vec![Reported::Moved], ids[1]));
}
