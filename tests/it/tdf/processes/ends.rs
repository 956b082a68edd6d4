//! How a worker ends, and what it says when it cannot begin.

use std::fs;

use rustix::process::Signal;
use testkit::{Said, eventually, signal};

use super::arrows::{STUBBORN, is_running};
use super::hazards::WAITS;
use super::place::Place;
use crate::tdf::ground::Redis;

#[test]
fn a_stop_ends_the_program_and_its_task_waits_again_in_the_same_round() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        place.program("p", STUBBORN);
        let worker = place.worker("w");
        let id = place.open_input("");
        is_running(&place);
        worker.signal(signal);
        let Said { code, err, .. } = worker.said();
        assert_eq!(code, Some(0), "{err}");
        assert!(
            err.contains(&format!("the run of task {id} was ended; the task waits again in the same round")),
            "{err}"
        );
        assert_eq!(place.commands(), []);
        assert_eq!(place.sets(id), ["open"]);
        assert_eq!([place.field(id, "round"), place.field(id, "fails"), place.field(id, "timeouts")], ["0"; 3]);
        let log = place.field(id, "log");
        assert!(log.lines().last().unwrap().contains("running -> open"), "{log}");
        assert_eq!(place.redis.ask::<usize>("HLEN ns:llts:leases"), 0);
    }
}

#[test]
fn an_idle_worker_stops_at_once() {
    let place = Place::new();
    place.program("p", "echo x");
    let worker = place.worker("w");
    place.result(place.open_input(""));
    worker.signal(Signal::TERM);
    let Said { code, err, .. } = worker.said();
    assert_eq!(code, Some(0));
    assert!(err.contains("no task was running"), "{err}");
}

#[test]
fn a_worker_whose_guard_is_killed_stops() {
    let place = Place::new();
    place.program("p", STUBBORN);
    let worker = place.worker("w");
    let id = place.open_input("");
    is_running(&place);
    signal(place.guard_of(&worker), Signal::KILL);
    assert_eq!(worker.said().code, Some(0));
    assert_eq!((place.sets(id), place.commands()), (vec!["open"], vec![]));
}

#[test]
fn a_name_belongs_to_one_process_of_a_folder() {
    let place = Place::new();
    place.program("p", "echo x");
    let mut worker = place.worker("w");
    place.result(place.open_input(""));
    let Said { code, err, .. } = place.worker("w").said();
    assert_eq!(code, Some(1));
    assert!(err.contains("a worker w already runs in"), "{err}");
    worker.kill();
    let _next = place.worker("w");
    place.result(place.open_input(""));
}

/// In another folder, as on another machine.
#[test]
fn a_name_belongs_to_one_process_of_a_namespace() {
    let (place, other) = (Place::new(), tempfile::tempdir().unwrap());
    place.program("p", WAITS);
    let mut worker = place.worker("w");
    let id = place.open_input("");
    eventually("a run", || place.runs() == 1);
    let Said { code, err, .. } = place.worker_in(other.path(), "w").said();
    assert_eq!(code, Some(1), "{err}");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert!(err.contains(&format!("as process {} on {host}", worker.pid())), "{err}");
    assert_eq!(place.sets(id), ["running"]);
    // A dead process of this machine needs no name, and one that has ended as it should has given it up.
    worker.kill();
    fs::write(place.path("go"), "").unwrap();
    let next = place.worker_in(other.path(), "w");
    place.until(id, "executed");
    next.signal(Signal::TERM);
    next.said();
    assert!(place.redis.ask::<Vec<String>>("HKEYS ns:llts:names").is_empty());
}

/// It was stopped for so long that another one could take its name.
#[test]
fn a_worker_whose_name_another_process_has_taken_stops() {
    let place = Place::new();
    place.program("p", WAITS);
    let worker = place.worker("w");
    let id = place.open_input("");
    eventually("a run", || place.runs() == 1);
    let lease = "another-session 99999999999.0";
    let () = redis::cmd("HSET").arg("ns:llts:names").arg("w").arg(lease).query(&mut place.redis.connect()).unwrap();
    let Said { code, err, .. } = worker.said();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("a worker w already runs for this namespace as"), "{err}");
    assert_eq!((place.sets(id), place.commands()), (vec!["running"], vec![]), "what it says does not count any more");
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_written_to_redis() {
    let place = Place::new();
    let config = place.config(place.redis.address());
    let good = fs::read_to_string(&config).unwrap();
    let path = config.to_str().unwrap();
    let says = |arguments: &[&str], code: i32, why: &str| {
        let said = place.start(arguments).said();
        assert_eq!(said.code, Some(code), "{}", said.err);
        assert!(said.err.contains(why), "{}", said.err);
    };
    for (arguments, given) in [(&[][..], 0), (&["w"][..], 1), (&["w", path, "x"][..], 3)] {
        says(arguments, 1, &format!("expecting 2 arguments ({given} given)"));
    }
    says(&["a/b", path], 1, "without /");
    says(&["w", "nowhere.cfg"], 1, "nowhere.cfg");
    for (from, to, why) in [
        ("[worker]", "[other]", "[worker] is missing"),
        ("sleep_after_success=0", "sleep_after_success=x", "[worker] sleep_after_success is \"x\""),
        ("$round.err", "$round.out", "give them different names"),
    ] {
        fs::write(&config, good.replace(from, to)).unwrap();
        says(&["w", path], 1, why);
    }
    fs::write(&config, good.replace("password=None", "password=secret")).unwrap();
    says(&["w", path], 4, "refuses us");
    assert_eq!(place.redis.ask::<Vec<String>>("KEYS *"), Vec::<String>::new());
    let mut redis = Redis::start();
    redis.kill();
    let gone = place.config(redis.address());
    says(&["w", gone.to_str().unwrap()], 3, &redis.address().to_string());
    eventually("no process is left", || place.commands().is_empty());
}
