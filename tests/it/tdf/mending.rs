//! What originals leave in no set, and everything at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::Commands as _;
use tdf::shell::{Claim, Ending, Namespace, Report};

use super::original::Order;
use super::proxy::Proxy;
use super::{NAMESPACE, Place, name};
use testkit::{PATIENCE, Program, eventually, within};

/// An original that is killed between ZREM and MULTI, or whose connection breaks there.
#[test]
fn tasks_in_no_set_are_moved_on() {
    let mut place = Place::new();
    place.configs();
    // (in the hash, where it goes, the round then)
    let cases = [
        ("open", "open", "0"),
        ("running", "open", "0"),
        ("executed", "succeeded", "0"),
        ("failure", "failed", "0"),
        ("timeout", "timed_out", "0"),
        ("succeeded", "succeeded", "0"),
        ("expired", "expired", "0"),
    ];
    let ids: Vec<u64> = cases
        .iter()
        .map(|(state, ..)| {
            let id = place.original.open(&Order::default());
            let counter = match *state {
                "failure" => [("fails", "1")],
                "timeout" => [("timeouts", "1")],
                _ => [("0:error", "")],
            };
            if *state != "open" {
                assert!(place.original.r#move(id, "open", state, 0, &counter));
            }
            assert!(place.original.leave(id, state));
            id
        })
        .collect();
    let archived = place.original.open(&Order::default());
    assert!(place.original.r#move(archived, "open", "succeeded", 0, &[("0:error", "")]));
    assert!(place.original.r#move(archived, "succeeded", "archived", 0, &[]));
    // One that comes back by itself: it was between two commands of a component that lives.
    let between = place.original.open(&Order::default());
    assert!(place.original.leave(between, "open"));
    let server = place.start(&["server", "one", "server.cfg"]);
    place.original.enter(between, "open", "running", 0, &[("0:worker", "theirs")]);
    for (id, (state, set, round)) in ids.into_iter().zip(cases) {
        eventually(&format!("{state} goes on"), || place.sets(id) == [set]);
        assert_eq!(place.get(id, "round").unwrap(), round);
        place.original.assert_readable(id);
    }
    assert_eq!((place.sets(between), place.sets(archived)), (vec!["running"], vec!["archived"]));
    let said = server.stop().ok().err;
    assert!(said.contains("is in no set although its state is executed"), "{said}");
}

#[test]
fn a_second_entry_of_a_task_is_removed() {
    let mut place = Place::new();
    let id = place.original.open(&Order::default());
    let fence = place.claim_one("w");
    let () = place.original.redis.zadd("MyProgram:open", id, 0).unwrap();
    assert!(place.claim("other", 1).is_empty());
    assert_eq!(place.sets(id), ["running"]);
    let () = place.original.redis.zadd("MyProgram:executed", id, 0).unwrap();
    place.rounds(1);
    assert_eq!(place.sets(id), ["running"]);
    place.execute(&fence, "", "");
    assert_eq!(place.sets(id), ["executed"]);
}

#[test]
fn what_our_keys_say_of_gone_tasks_is_removed() {
    let mut place = Place::new();
    let id = place.original.open(&Order::default());
    place.claim_one("w");
    // Originals do the rest, and a worker of ours has died meanwhile.
    assert!(place.original.report(id, 0, "", ""));
    assert!(place.original.r#move(id, "executed", "succeeded", 0, &[]));
    assert!(place.original.r#move(id, "succeeded", "archived", 0, &[]));
    place.rounds(1);
    for key in ["leases", "losses", "poisoned"] {
        let left: u64 = place.original.redis.hlen(format!("MyProgram:llts:{key}")).unwrap();
        assert_eq!(left, 0, "{key}");
    }
}

/// Workers whose connections break, and servers and managers that are killed.
#[test]
fn every_task_is_archived_once_whatever_breaks() {
    const TASKS: u64 = 400;
    let mut place = Place::new();
    place.configs();
    std::fs::write(place.redis.folder().join("lines"), (0..TASKS).map(|at| format!("{at}\n")).collect::<String>())
        .unwrap();
    place.run(&["open", "manager.cfg", "p", "s", "--each-line", "lines", "--max-fails", "9"]).ok();
    let proxy = Proxy::to(place.redis.address());
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (mut ours, done) = (place.behind(&proxy), &done);
            scope.spawn(move || work(&mut ours, &format!("w{worker}"), done));
        }
        let mut rounds = 0_u32;
        let mut services = Vec::new();
        within(
            PATIENCE * 5,
            || "every task is archived",
            || {
                rounds += 1;
                proxy.lose("");
                if rounds % 20 == 1 {
                    services.iter_mut().for_each(Program::kill);
                    services = vec![
                        place.start(&["server", "one", "server.cfg"]),
                        place.start(&["server", "two", "server.cfg"]),
                        place.start(&["manage", "manager.cfg"]),
                    ];
                    let () = redis::cmd("CLIENT")
                        .arg("KILL")
                        .arg("TYPE")
                        .arg("normal")
                        .query(&mut place.original.redis)
                        .unwrap();
                }
                place.original.redis.zcard::<_, u64>("MyProgram:archived").unwrap() == TASKS
            },
        );
        done.store(usize::MAX, Ordering::SeqCst);
    });
    for id in 1..=TASKS {
        assert_eq!(place.sets(id), ["archived"]);
        let log = place.log(id);
        let count = |what: &str| log.iter().filter(|line| line.ends_with(what)).count();
        assert_eq!((count("-> archived"), count("-> succeeded")), (1, 1), "{log:?}");
        // Each seventh fails in its first round.
        let fails = usize::from(id % 7 == 0);
        assert_eq!(place.get(id, "fails").unwrap(), fails.to_string(), "{log:?}");
        assert_eq!(count("failure -> open"), fails, "{log:?}");
        place.original.assert_readable(id);
    }
}

/// Claims and reports until it is told that all is done; each call is repeated until it is answered.
fn work(ours: &mut Namespace, worker: &str, done: &AtomicUsize) {
    let worker = name(worker);
    let mut claims = 0;
    while done.load(Ordering::SeqCst) != usize::MAX {
        claims += 1;
        let token = format!("{worker}-{claims}");
        let claim = Claim { worker: &worker, token: &token, count: 2 };
        let claimed = loop {
            match ours.claim(&claim) {
                Ok(claimed) => break claimed,
                Err(error) => assert!(error.is_away(), "{error}"),
            }
        };
        if claimed.is_empty() {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        for task in claimed {
            let fence = task.fence.clone();
            let error: &[u8] = if task.fence.task.0 % 7 == 0 && task.fence.round == 0 { b"bad" } else { b"" };
            let report = Report { fence: &fence, ending: Ending::Executed { output: b"out", error }, log: &[] };
            while let Err(error) = ours.report(&report) {
                assert!(error.is_away(), "{error}");
            }
        }
    }
}

/// A field that exhausts the memory of its reader would end one worker after the other.
#[test]
fn a_task_with_a_field_that_is_too_long_is_parked_with_a_sentence() {
    let mut place = Place::new();
    place.configs();
    for field in ["input", "source", "program", "log"] {
        let fat = place.original.open(&Order::default());
        let lean = place.original.open(&Order::default());
        let key = format!("{NAMESPACE}:task:{fat}");
        let () = place.original.redis.hset(&key, field, "x".repeat(17 << 20)).unwrap();
        let claimed: Vec<u64> = place.claim("w", 2).iter().map(|claimed| claimed.fence.task.0).collect();
        assert_eq!(claimed, [lean], "{field}");
        let said = place.get(fat, "log").unwrap();
        let said = said.lines().last().unwrap();
        assert!(said.contains(&format!("its field {field} has 17825792 bytes; at most 16777216")), "{said:.200}");
        // As the sentence says.
        let () = place.original.redis.hset(&key, field, "").unwrap();
        let () = place.original.redis.zadd(format!("{NAMESPACE}:open"), fat, 0).unwrap();
        assert_eq!(place.claim_one("w").task.0, fat, "{field}");
    }
    let claims = place.ours.own_claims(&name("w"), 3).unwrap().len();
    assert_eq!(claims, 8);
}

/// A process that ends of a run before it renews the lease gets it again after its start, but not for ever. It may ask twice, when the
/// answer is lost.
#[test]
fn a_run_that_ends_its_worker_at_once_counts_losses() {
    let mut place = Place::new();
    place.configs();
    place.original.open(&Order::default());
    let fence = place.claim_one("w");
    let left = |place: &mut Place| {
        let mut process = Namespace::connect(&place.section().redis, NAMESPACE).unwrap();
        let [first, again] = [(); 2].map(|()| process.own_claims(&name("w"), 3).unwrap().len());
        assert_eq!(first, again);
        again
    };
    assert_eq!([(); 5].map(|()| left(&mut place)), [1, 1, 1, 0, 0]);
    let losses: u32 = place.original.redis.hget(format!("{NAMESPACE}:llts:losses"), fence.task.0).unwrap();
    assert_eq!(losses, 5);
    let lease = format!("0 {} {} w", fence.started, fence.started.parse::<f64>().unwrap() + 12.0);
    let () = place.original.redis.hset(format!("{NAMESPACE}:llts:leases"), fence.task.0, lease).unwrap();
    assert_eq!(left(&mut place), 1, "a process that has renewed the lease was not ended by the run");
}
