//! The hazards of a worker: answers that are lost, a Redis that is away, workers that are killed.

use std::sync::mpsc;

use rustix::process::Signal;

use super::arrows::{STUBBORN, is_running};
use super::place::Place;
use crate::tdf::ground::Redis;
use crate::tdf::proxy::Proxy;
use testkit::{eventually, found, names, signal};

/// Says that it runs, and ends when it is told to.
pub(crate) const WAITS: &str = "echo run >>../runs; while [ ! -e ../go ]; do sleep 0.02; done; echo done";

/// An original loses the task (docs/design/hazards.md, R1).
#[test]
fn a_report_whose_answer_is_lost_is_made_again_and_counts_once() {
    let place = Place::new();
    place.program("p", "echo run >>../runs; echo $1");
    let proxy = Proxy::to(place.redis.address());
    let _worker = place.worker_of("w", proxy.address());
    assert_eq!(place.result(place.open_input("warm")).0, "warm\n");
    // The output is in the report only, with which the next claim goes.
    proxy.lose("cold\n");
    let id = place.open_input("cold");
    let next = place.open_input("next");
    assert_eq!([place.result(id).0, place.result(next).0], ["cold\n", "next\n"]);
    assert_eq!((proxy.lost(), place.runs()), (1, 3), "each ran once");
    let moves = place.field(id, "log").matches("running -> executed").count();
    assert_eq!((moves, place.redis.ask::<usize>("ZCARD ns:running")), (1, 0));
}

/// As that of a long result does on a slow line.
#[test]
fn a_report_that_takes_longer_than_a_lease_keeps_its_run() {
    let place = Place::new();
    place.program("p", "echo run >>../runs; echo $1");
    let proxy = Proxy::to(place.redis.address());
    let _worker = place.worker_of("w", proxy.address());
    let (passes_on, told) = mpsc::channel::<()>();
    proxy.before("long\n", move || {
        let _ = told.recv();
    });
    let id = place.open_input("long");
    place.until(id, "running");
    let lease = || place.redis.ask::<String>(&format!("HGET ns:llts:leases {id}"));
    for _ in 0..2 {
        let before = lease();
        eventually("a renewal beside the report", || lease() != before);
    }
    drop(passes_on);
    assert_eq!(place.result(id).0, "long\n");
    assert_eq!(place.runs(), 1);
}

#[test]
fn every_answer_of_a_task_may_be_lost_in_turn() {
    let place = Place::new();
    place.program("p", "echo run >>../runs; echo $1");
    let proxy = Proxy::to(place.redis.address());
    let _worker = place.worker_of("w", proxy.address());
    place.result(place.open_input("warm"));
    let ids: Vec<u64> = (0..20).map(|number| place.open_input(&format!("{number}"))).collect();
    for _ in 0..10 {
        let before = proxy.lost();
        proxy.lose("ns:");
        eventually("a lost answer", || proxy.lost() > before);
    }
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(place.result(*id).0, format!("{number}\n"));
    }
    assert_eq!(place.runs(), 21, "each ran once");
}

#[test]
fn a_program_goes_on_while_redis_is_restarted_and_its_result_is_reported() {
    let mut place = Place::with(Redis::durable());
    place.program("p", WAITS);
    let _worker = place.worker("w");
    let id = place.open_input("");
    place.until(id, "running");
    eventually("a run", || place.runs() == 1);
    place.redis.kill();
    std::fs::write(place.path("go"), "").unwrap();
    let results = place.path(".llts@tdf/results/w-w");
    eventually("a result on the disk", || names(&results).len() == 1);
    place.redis.start_again();
    assert_eq!(place.result(id), ("done\n".into(), String::new()));
    eventually("nothing on the disk", || names(&results).is_empty());
    assert_eq!(place.runs(), 1);
    let next = place.open_input("");
    assert_eq!(place.result(next).0, "done\n");
}

#[test]
fn a_result_outlives_a_worker_that_is_killed_while_redis_is_away() {
    let mut place = Place::with(Redis::durable());
    place.program("p", WAITS);
    let mut worker = place.worker("w");
    let id = place.open_input("");
    place.until(id, "running");
    eventually("a run", || place.runs() == 1);
    place.redis.kill();
    std::fs::write(place.path("go"), "").unwrap();
    let results = place.path(".llts@tdf/results/w-w");
    eventually("a result on the disk", || names(&results).iter().any(|name| name.ends_with(".result")));
    worker.kill();
    place.redis.start_again();
    assert_eq!(place.sets(id), ["running"]);
    let _next = place.worker("w");
    assert_eq!(place.result(id).0, "done\n");
    assert_eq!(place.runs(), 1, "it has not run again");
    eventually("nothing on the disk", || names(&results).is_empty());
}

/// It may be readable again for the next worker, and another component does not have the result.
#[test]
fn a_kept_result_that_cannot_be_read_stays_on_the_disk() {
    let mut place = Place::with(Redis::durable());
    place.program("p", WAITS);
    let proxy = Proxy::to(place.redis.address());
    let mut worker = place.worker_of("w", proxy.address());
    let id = place.open_input("");
    eventually("a run", || place.runs() == 1);
    place.redis.kill();
    std::fs::write(place.path("go"), "").unwrap();
    let results = place.path(".llts@tdf/results/w-w");
    let result = || names(&results).into_iter().find(|name| name.ends_with(".result"));
    let file = results.join(found("a result on the disk", result));
    worker.kill();
    place.redis.start_again();
    // The first report has no answer, and when it is made again the result is another one.
    proxy.lose("done\n");
    let damaged = file.clone();
    proxy.before("done\n", move || std::fs::write(damaged, "damaged").unwrap());
    let next = place.worker_of("w", proxy.address());
    assert_eq!(place.result(id).0, "done\n");
    assert_eq!(place.result(place.open_input("")).0, "done\n", "the worker goes on");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "damaged");
    next.signal(Signal::TERM);
    next.said().failed(0, &format!("the result of task {id} stays on the disk: cannot read"));
}

#[test]
fn a_stop_while_redis_is_away_says_where_the_result_is() {
    let mut place = Place::with(Redis::durable());
    place.program("p", WAITS);
    let worker = place.worker("w");
    let id = place.open_input("");
    eventually("a run", || place.runs() == 1);
    place.redis.kill();
    std::fs::write(place.path("go"), "").unwrap();
    let results = place.path(".llts@tdf/results/w-w");
    eventually("a result on the disk", || names(&results).iter().any(|name| name.ends_with(".result")));
    worker.signal(Signal::TERM);
    // It does not wait for Redis a second time.
    worker.signal(Signal::TERM);
    worker.said().failed(0, &format!("the result of task {id} is on the disk"));
    place.redis.start_again();
    let _next = place.worker("w");
    assert_eq!(place.result(id).0, "done\n");
}

#[test]
fn what_a_killed_worker_leaves_is_ended_and_its_task_runs_once_more() {
    let place = Place::new();
    place.program("p", &format!("[ -e ../second ] && {{ echo run >>../runs; echo done; exit; }}; {STUBBORN}"));
    let mut worker = place.worker("w");
    let id = place.open_input("");
    is_running(&place);
    worker.kill();
    // Its guard.
    eventually("the end of the program", || place.commands().is_empty());
    assert_eq!(place.sets(id), ["running"]);
    std::fs::write(place.path("second"), "").unwrap();
    let _next = place.worker("w");
    assert_eq!(place.result(id).0, "done\n");
    assert_eq!([place.field(id, "round"), place.field(id, "fails"), place.field(id, "timeouts")], ["0"; 3]);
    assert_eq!(place.runs(), 2, "once more, and not twice");
    let log = place.field(id, "log");
    assert!(log.contains("running -> open (worker w lost)"), "{log}");
}

/// A program that is what ends its worker.
#[test]
fn a_worker_that_is_started_again_and_again_loses_its_task_only_as_often_as_allowed() {
    let place = Place::new();
    place.program("p", WAITS);
    let id = place.open_input("");
    for run in 1..=4 {
        let mut worker = place.worker("w");
        eventually("a run", || place.runs() == run);
        worker.kill();
    }
    let _next = place.worker("w");
    place.until(id, "failed");
    assert_eq!(place.runs(), 4);
    let error = place.field(id, "0:error");
    assert_eq!(error, "worker w lost; that is one loss more than the 3 that are allowed\n");
}

#[test]
fn what_even_the_guard_cannot_end_is_ended_by_the_next_worker() {
    let place = Place::new();
    place.program("p", STUBBORN);
    let mut worker = place.worker("w");
    place.open_input("");
    is_running(&place);
    let guard = place.guard_of(&worker);
    signal(guard, Signal::STOP);
    worker.kill();
    signal(guard, Signal::KILL);
    assert!(place.commands().len() >= 3, "{:?}", place.commands());
    place.redis.ask::<usize>("DEL ns:running");
    let _other = place.worker("another");
    eventually("the end of the program", || place.commands().is_empty());
}

/// A Redis that comes back without its data has forgotten the worker and the task.
#[test]
fn a_redis_that_comes_back_empty_is_worked_for() {
    let mut place = Place::new();
    place.program("p", WAITS);
    let _worker = place.worker("w");
    place.open_input("");
    eventually("a run", || place.runs() == 1);
    place.redis.kill();
    place.redis.start_again();
    eventually("the end of the program", || place.commands().is_empty());
    std::fs::write(place.path("go"), "").unwrap();
    let id = place.open_input("");
    assert_eq!(place.result(id).0, "done\n");
    assert_eq!(place.redis.ask::<Vec<String>>("SMEMBERS ns:worker"), ["w"]);
}
