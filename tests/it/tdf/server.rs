//! The rounds of the server.

use redis::Commands as _;

use tdf::shell::{Ending, Report, Reported};

use super::original::Order;
use super::{Place, clock};
use testkit::eventually;

#[test]
fn an_executed_task_succeeds_or_fails_by_its_stderr() {
    let mut place = Place::new();
    let cases = [("", "0", "succeeded", "0"), ("bad\n", "0", "failed", "1"), ("bad\n", "1", "open", "1")];
    for (error, max_fails, expected, fails) in cases {
        let id = place.original.open(&Order { max_fails, ..Order::default() });
        let fence = place.claim_one("w");
        place.execute(&fence, "out", error);
        place.rounds(1);
        assert_eq!(place.sets(id), [expected]);
        assert_eq!(
            (place.get(id, "state").unwrap().as_str(), place.get(id, "fails").unwrap().as_str()),
            (expected, fails)
        );
        let round = if expected == "open" { "1" } else { "0" };
        assert_eq!(place.get(id, "round").unwrap(), round);
        assert!(place.get(id, &format!("{round}:{expected}")).is_some());
        assert_eq!(place.get(id, "0:failure").is_some(), !error.is_empty());
        place.original.assert_readable(id);
        if expected == "open" {
            assert_eq!(
                place.log(id)[2..],
                [format!("moving task {id}: executed -> failure"), format!("moving task {id}: failure -> open")]
            );
            let fence = place.claim_one("w");
            place.execute(&fence, "", "again");
            place.rounds(1);
            assert_eq!((place.sets(id), place.get(id, "1:failed").is_some()), (vec!["failed"], true));
        }
    }
}

#[test]
fn open_running_and_executed_tasks_expire() {
    let mut place = Place::new();
    let open = place.original.open(&Order { end_before: "1000", ..Order::default() });
    let ids = [(); 2].map(|()| place.original.open(&Order::default()));
    let claimed = place.claim("w", 5);
    assert_eq!(claimed.len(), 2, "an expired task is not claimed");
    place.execute(&claimed[1].fence, "", "");
    for id in ids {
        let () = place.original.redis.hset(format!("MyProgram:task:{id}"), "end_before", "1000.5").unwrap();
    }
    place.rounds(1);
    for id in [open, ids[0], ids[1]] {
        assert_eq!((place.sets(id), place.get(id, "0:expired").is_some()), (vec!["expired"], true));
        place.original.assert_readable(id);
    }
    assert_eq!(place.log(open), ["moving task 1: open -> expired"]);
}

#[test]
fn a_run_times_out_until_its_budget_is_spent() {
    let mut place = Place::new();
    let id = place.original.open(&Order { timeout: "0.0", max_timeouts: "1", ..Order::default() });
    place.claim_one("w");
    let () = place.original.redis.del("MyProgram:llts:leases").unwrap();
    place.rounds(1);
    assert_eq!((place.sets(id), place.get(id, "round").unwrap()), (vec!["open"], "1".to_owned()));
    assert_eq!(place.log(id)[1..], ["moving task 1: running -> timeout", "moving task 1: timeout -> open"]);
    assert_eq!((place.get(id, "0:timeout").is_some(), place.get(id, "1:open").is_some()), (true, true));
    place.claim_one("w");
    let () = place.original.redis.del("MyProgram:llts:leases").unwrap();
    place.rounds(1);
    assert_eq!((place.sets(id), place.get(id, "timeouts").unwrap()), (vec!["timed_out"], "2".to_owned()));
    place.original.assert_readable(id);
}

/// The original looks at the first ten of them for ever.
#[test]
fn every_task_of_a_large_set_is_looked_at() {
    let mut place = Place::new();
    let mut late = Vec::new();
    for at in 0..1_300 {
        let end_before = if at % 13 == 0 { "1000" } else { "inf" };
        let id = place.original.open(&Order { end_before, ..Order::default() });
        if end_before == "1000" {
            late.push(id);
        }
    }
    place.rounds(1);
    let expired: u64 = place.original.redis.zcard("MyProgram:expired").unwrap();
    assert_eq!(usize::try_from(expired).unwrap(), late.len());
    let claimed = place.claim("w", 1_200);
    for task in &claimed {
        place.execute(&task.fence, "", "");
    }
    place.rounds(1);
    let succeeded: usize = place.original.redis.zcard("MyProgram:succeeded").unwrap();
    assert_eq!(succeeded, claimed.len());
}

#[test]
fn what_originals_leave_between_two_states_goes_on() {
    let mut place = Place::new();
    let mut at = |round: u32, state: &str, field: &str, order: Order<'_>| {
        let id = place.original.open(&order);
        assert!(place.original.leave(id, "open"));
        place.original.enter(id, "running", state, round, &[(field, "1"), ("round", &round.to_string())]);
        id
    };
    let again = || Order { max_fails: "1", max_timeouts: "1", ..Order::default() };
    // Killed between the two moves: of a failure, of a time-out by the worker, of a time-out by the server.
    let failure = at(0, "failure", "fails", again());
    let by_worker = at(0, "timeout", "timeouts", again());
    let by_server = at(1, "timeout", "timeouts", again());
    let spent = at(0, "failure", "fails", Order::default());
    let timed_out = at(0, "timeout", "timeouts", Order::default());
    place.rounds(1);
    for (id, set, round) in [
        (failure, "open", "1"),
        (by_worker, "open", "1"),
        (by_server, "open", "1"),
        (spent, "failed", "0"),
        (timed_out, "timed_out", "0"),
    ] {
        assert_eq!((id, place.sets(id), place.get(id, "round").unwrap()), (id, vec![set], round.to_owned()));
        place.original.assert_readable(id);
    }
}

#[test]
fn poison_is_counted_and_stops_no_round() {
    let mut place = Place::new();
    for set in ["open", "running", "executed", "timeout", "failure"] {
        let () = place.original.redis.zadd(format!("MyProgram:{set}"), 900, -1).unwrap();
        let () = place.original.redis.zadd(format!("MyProgram:{set}"), "x", -1).unwrap();
    }
    let id = place.original.open(&Order::default());
    let () = place.original.redis.hset("MyProgram:task:1", "max_fails", "many").unwrap();
    // An original worker that was away: round 1, and no error of it.
    let odd = place.original.open(&Order { max_fails: "5", ..Order::default() });
    assert!(place.original.leave(odd, "open"));
    place.original.enter(odd, "running", "executed", 1, &[("round", "1"), ("0:output", "x")]);
    let good = place.original.open(&Order::default());
    let fence = place.claim_one("w");
    place.execute(&fence, "", "");
    place.rounds(3);
    assert_eq!((fence.task.0, place.sets(good)), (good, vec!["succeeded"]));
    assert_eq!((place.sets(odd), place.get(odd, "round").unwrap()), (vec!["open"], "2".to_owned()));
    assert_eq!(place.get(odd, "1:error").unwrap(), "no result of this round was reported\n");
    let told: std::collections::BTreeMap<String, String> =
        place.original.redis.hgetall("MyProgram:llts:poisoned").unwrap();
    assert_eq!(told[&id.to_string()], "the field max_fails is \"many\"; a whole number is expected");
    assert_eq!(told["900"], "the task has no hash");
    // Somebody mends it.
    let () = place.original.redis.hset("MyProgram:task:1", "max_fails", "0").unwrap();
    place.rounds(1);
    let claimed: Vec<u64> = place.claim("w", 5).iter().map(|task| task.fence.task.0).collect();
    assert!(claimed.contains(&id), "{claimed:?}");
}

/// Most open tasks only wait; those that do not are found between them.
#[test]
fn open_tasks_that_wait_hide_no_other() {
    let mut place = Place::new();
    let crowd = |place: &mut Place| {
        for _ in 0..250 {
            place.original.open(&Order::default());
        }
    };
    let wall = clock::now().wall.micros() / 1_000_000;
    crowd(&mut place);
    let later = (wall + 3600).to_string();
    let start = Order { start_after: &later, ..Order::default() };
    let [future, early] = [(); 2].map(|()| place.original.open(&start));
    let [ahead, twice] = [(); 2].map(|()| place.original.open(&Order::default()));
    let bad = [
        ("round", "00"),
        ("start_after", "x"),
        ("end_before", ""),
        ("timeout", "nan"),
        ("fails", "1.5"),
        ("max_fails", "inf"),
        ("timeouts", "-"),
        ("max_timeouts", "0x1"),
    ];
    let poisoned = bad.map(|(field, value)| {
        let id = place.original.open(&Order::default());
        let () = place.original.redis.hset(place.original.task(id), field, value).unwrap();
        (id, format!("the field {field} is {value:?}"))
    });
    let () = place.original.redis.zadd("MyProgram:open", early, 5).unwrap();
    let () = place.original.redis.zadd("MyProgram:open", ahead, wall + 3600).unwrap();
    place.original.enter(twice, "running", "running", 0, &[("0:worker", "theirs")]);
    crowd(&mut place);
    place.rounds(1);
    let mut score = |id: u64| -> f64 { place.original.redis.zscore("MyProgram:open", id).unwrap() };
    let due = later.parse::<f64>().unwrap();
    assert_eq!((score(future), score(early)), (due, due));
    assert!(score(ahead) < due, "{}", score(ahead));
    assert_eq!(place.sets(twice), ["running"]);
    let told: std::collections::BTreeMap<u64, String> =
        place.original.redis.hgetall("MyProgram:llts:poisoned").unwrap();
    assert_eq!(told.keys().copied().collect::<Vec<_>>(), poisoned.each_ref().map(|(id, _)| *id));
    for (id, sentence) in &poisoned {
        assert!(told[id].starts_with(sentence), "{}", told[id]);
    }
    // One that ends while a server is at work, which has seen it wait.
    let end_before = format!("{}.5", clock::now().wall.micros() / 1_000_000 + 1);
    let ending = place.original.open(&Order { end_before: &end_before, ..Order::default() });
    place.configs();
    let server = place.start(&["server", "one", "server.cfg"]);
    eventually("it expires", || place.sets(ending) == ["expired"]);
    server.stop().ok();
    let open: usize = place.original.redis.zcard("MyProgram:open").unwrap();
    assert_eq!(open, 500 + 3 + poisoned.len());
}

/// A worker of ours that lives reports its time-outs itself, with what the program has written.
#[test]
fn a_worker_that_holds_its_lease_ends_its_program_before_the_server_ends_the_run() {
    let mut place = Place::new();
    let id = place.original.open(&Order { timeout: "0.0", ..Order::default() });
    let claimed = place.claim("w", 1).pop().unwrap();
    place.rounds(2);
    assert_eq!(place.sets(id), ["running"]);
    let fence = claimed.fence.clone();
    let ending = Ending::TimedOut { output: b"part", error: b"", timeouts: claimed.timeouts };
    assert_eq!(place.ours.report(&Report { fence: &fence, ending, log: &[] }).unwrap(), Reported::Moved);
    place.rounds(1);
    assert_eq!((place.sets(id), place.get(id, "0:output").unwrap()), (vec!["timed_out"], "part".to_owned()));
}

/// A worker puts it at the end of the line, and a server must not bring it back each round.
#[test]
fn what_no_worker_can_take_is_counted_and_left_at_the_end() {
    let mut place = Place::new();
    let id = place.original.open(&Order::default());
    let () = place.original.redis.hdel("MyProgram:task:1", "program").unwrap();
    let () = place.original.redis.zadd("MyProgram:open", b"\xff\xfe", -1).unwrap();
    assert!(place.claim("w", 1).is_empty());
    place.rounds(3);
    let told: std::collections::HashMap<Vec<u8>, String> =
        place.original.redis.hgetall("MyProgram:llts:poisoned").unwrap();
    assert_eq!(told[&id.to_string().into_bytes()], "the field program is missing");
    assert!(told.contains_key(&b"\xff\xfe"[..]), "{told:?}");
    let scores: Vec<(Vec<u8>, f64)> = place.original.redis.zrange_withscores("MyProgram:open", 0, -1).unwrap();
    assert!(scores.len() == 2 && scores.iter().all(|(_, score)| score.is_infinite()), "{scores:?}");
}
