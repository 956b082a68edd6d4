//! Controllers as worker pools of a namespace: `[tdf] REDIS_URL`. Each has a home with two agents.
//!
//! `TDF_POOL_TASKS=1000` is the long form of the run in which a controller is killed.

use std::fs;
use std::ops::Deref;

use rustix::process::Signal;
use testkit::{Said, Start as _, eventually, names, signal};

use crate::support::LLTS;
use crate::tdf::ground::Redis;
use crate::tdf::original::Order;
use crate::tdf::processes::place::{NAMESPACE, Place};

/// Tasks of the short form.
const TASKS: u64 = 250;

const CONFIG: &str = "\
CONTROLLER_REP_PORT = \"off\"
CONTROLLER_PUB_PORT = \"off\"
AGENT_HEARTBEAT_INTERVAL = 1000
AGENT_KILL_INTERVAL = 300
LOG_DIR = \"log\"
[tdf]
NAMESPACE = \"ns\"
ROUND_DURATION = 50
";

/// A home beside a namespace.
struct Home(testkit::Place);

impl Deref for Home {
    type Target = testkit::Place;

    fn deref(&self) -> &testkit::Place {
        &self.0
    }
}

impl Home {
    /// One whose results are kept in the place.
    fn new(place: &Place) -> Self {
        let mut home = testkit::Place::home(LLTS, CONFIG);
        std::os::unix::fs::symlink(place.root(), home.path("tdf")).unwrap();
        home.set("LLTS_TDF_REDIS_URL", format!("redis://{}", place.redis.address()));
        home.set("LLTS_TDF_WORKER_OUTPUT_BYTES_MAX", "4096");
        Self(home)
    }

    /// One with two agents.
    fn up(place: &Place) -> Self {
        let home = Self::new(place);
        home.ok("up 2");
        home
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log/controller.log")).unwrap_or_default()
    }

    /// Tasks of the namespace in this phase.
    fn has(&self, status: &str) -> bool {
        self.llts(&format!("list --job tdf --status {status}")).out.contains("TASK_")
    }
}

/// The source of the program `p` of the place.
fn source(place: &Place) -> String {
    format!("rsync:{}", place.path("p/run.sh").display())
}

/// Opens a task of it with this input.
fn open_input(place: &Place, input: &str) -> u64 {
    place.open(&Order { source: &source(place), input: input.as_bytes(), ..Order::default() })
}

fn count(place: &Place, set: &str) -> u64 {
    place.redis.ask(&format!("ZCARD {NAMESPACE}:{set}"))
}

#[test]
fn a_task_ends_as_it_does_with_a_worker() {
    let place = Place::new();
    place.program("p", "eval \"$1\"");
    let home = Home::up(&place);
    let good = open_input(&place, "'echo out; exit 3'");
    let bad = open_input(&place, "'echo out; echo bad >&2'");
    let long = open_input(&place, "'head -c 10000 /dev/zero | tr \"\\0\" x'");
    let bytes = place.open(&Order { source: &source(&place), input: b"'printf \"<\xff>\"'", ..Order::default() });
    let slow = place.open(&Order {
        source: &source(&place),
        input: b"'echo begun; sleep 100'",
        timeout: "0.3",
        ..Order::default()
    });
    let unknown = place.open(&Order { program: "../p", ..Order::default() });
    let absent = place.open(&Order { program: "absent", ..Order::default() });
    for (id, set) in
        [(good, "succeeded"), (bad, "failed"), (long, "succeeded"), (bytes, "succeeded"), (slow, "timed_out")]
    {
        place.until(id, set);
    }
    place.until(unknown, "failed");
    place.until(absent, "failed");
    assert_eq!([place.field(good, "0:output"), place.field(good, "0:error")], ["out\n", ""]);
    assert_eq!([place.field(bad, "0:output"), place.field(bad, "0:error")], ["out\n", "bad\n"]);
    let output = place.field(long, "0:output");
    assert!((4090..=4096).contains(&output.len()) && output.contains("[llts: 5952 of 10000 bytes are left out here]"));
    assert_eq!(place.field(bytes, "0:output"), "<\u{fffd}>");
    eventually("the end of the slow program", || !home.has("RUNNING"));
    assert!(home.ok("tdf stats").out.lines().any(|line| line.split_whitespace().eq(["succeeded", "3"])));
    assert!(place.field(unknown, "0:error").starts_with("\"../p\" is not the name of a program"));
    assert!(place.field(absent, "0:error").starts_with("program './absent/run.sh' does not exist!"));
    let log = place.field(good, "log");
    assert!(log.contains(" - executing task: cd ./p/; ./run.sh 'echo out; exit 3'\n"), "{log}");
    assert!(place.field(good, "0:worker").starts_with("controller-"));
    let listed = home.llts("list --job tdf --output wire").out;
    assert!(listed.contains(&format!("\"{good}\"")), "tasks of the controller");
}

#[test]
fn no_more_is_claimed_than_can_start() {
    let place = Place::new();
    place.program("p", &format!("until test -e {}; do sleep 0.02; done", place.path("go").display()));
    let home = Home::up(&place);
    for _ in 0..6 {
        open_input(&place, "");
    }
    eventually("two runs", || count(&place, "running") == 2);
    eventually("two commands", || home.llts("list --job tdf --status RUNNING").out.len() > 100);
    assert_eq!((count(&place, "running"), count(&place, "open")), (2, 4));
    assert!(!home.has("WAITING"));
    fs::write(place.path("go"), "").unwrap();
    eventually("all ends", || count(&place, "succeeded") == 6);
}

/// Neither its next heartbeat nor the pool's own look at the agents comes within the patience of a test.
#[test]
fn an_agent_that_joins_gets_a_waiting_task_at_once() {
    let place = Place::new();
    place.program("p", "echo out");
    let home = Home::new(&place);
    let start = |word: &str| home.command(word).env("LLTS_AGENT_HEARTBEAT_INTERVAL", "3600000").start();
    let _controller = start("controller");
    eventually("the worker", || place.redis.ask::<u64>(&format!("HLEN {NAMESPACE}:llts:workers")) == 1);
    let id = open_input(&place, "");
    let agent = start("agent");
    place.until(id, "succeeded");
    drop(agent);
    assert_eq!(place.field(id, "0:output"), "out\n");
}

#[test]
fn two_controllers_run_each_task_once_while_one_is_killed() {
    let place = Place::new();
    place.program("p", &format!("echo $1 >>{}; echo $1", place.path("runs").display()));
    let manager = "[manager]\nround_duration=0.05\n[task_defaults]\n";
    place.redis.write_config("manager.cfg", NAMESPACE, manager);
    let config = place.redis.folder().join("manager.cfg");
    let mut manager = place.command(&["manage", config.to_str().unwrap()]).start();
    let (one, other) = (Home::up(&place), Home::up(&place));
    let tasks = std::env::var("TDF_POOL_TASKS").map_or(TASKS, |tasks| tasks.parse().unwrap());
    let lines: String = (1..=tasks).map(|number| format!("{number}\n")).collect();
    fs::write(place.path("lines"), lines).unwrap();
    let open = ["open", config.to_str().unwrap(), "p", &source(&place), "--each-line", "lines"];
    place.command(&open).said().ok();
    for done in [tasks / 5, tasks * 2 / 5, tasks * 3 / 5] {
        eventually("some ends", || count(&place, "archived") >= done);
        let before = one.log().matches("controller ready").count();
        signal(one.process(" controller"), Signal::KILL);
        eventually("another controller", || one.log().matches("controller ready").count() > before);
    }
    eventually("all are archived", || count(&place, "archived") == tasks);
    manager.kill();
    let mut workers = std::collections::BTreeSet::new();
    for id in 1..=tasks {
        assert_eq!(place.field(id, "0:output"), format!("{id}\n"));
        assert_eq!(place.field(id, "log").matches("-> archived").count(), 1);
        workers.insert(place.field(id, "0:worker"));
    }
    assert_eq!(workers.len(), 2, "{workers:?}");
    let runs = fs::read_to_string(place.path("runs")).unwrap();
    let mut runs: Vec<u64> = runs.lines().map(|line| line.parse().unwrap()).collect();
    runs.sort_unstable();
    assert_eq!(runs, (1..=tasks).collect::<Vec<_>>(), "each program ran once");
    assert!([one, other].iter().any(|home| home.log().contains("at work on ns")));
}

#[test]
fn a_redis_that_is_away_at_the_start_or_in_the_middle_loses_nothing() {
    let mut redis = Redis::durable();
    redis.kill();
    let mut place = Place::with(redis);
    let [runs, go] = ["runs", "go"].map(|name| place.path(name).display().to_string());
    place.program("p", &format!("echo begun >>{runs}; until test -e {go}; do sleep 0.02; done; echo out"));
    let home = Home::up(&place);
    eventually("a word about it", || home.log().contains("the work in progress goes on"));
    place.redis.start_again();
    let id = open_input(&place, "");
    place.until(id, "running");
    eventually("the program", || place.path("runs").exists());
    place.redis.kill();
    fs::write(place.path("go"), "").unwrap();
    eventually("a word about it", || home.log().matches("the work in progress goes on").count() == 2);
    let results = place.path(".llts@tdf/results");
    let kept = || fs::read_dir(&results).unwrap().flatten().any(|worker| !names(&worker.path()).is_empty());
    eventually("a result on the disk", kept);
    signal(home.process(" controller"), Signal::KILL);
    place.redis.start_again();
    place.until(id, "succeeded");
    assert_eq!(place.field(id, "0:output"), "out\n");
    assert_eq!(fs::read_to_string(place.path("runs")).unwrap(), "begun\n");
    eventually("no result on the disk", || !kept());
    let away = home.log().matches("the work in progress goes on").count();
    assert!((2..=3).contains(&away), "once for each outage of each process: {away}");
}

#[test]
fn bad_values_keep_the_controller_from_starting() {
    let place = Place::new();
    let home = Home::new(&place);
    let refused = |changes: &[(&str, &str)], words: &[&str]| {
        let mut command = home.command("controller");
        command.env_remove("LLTS_TDF_REDIS_URL").envs(changes.iter().copied());
        let Said { code, err, .. } = command.said();
        assert_ne!(code, Some(0), "{changes:?}");
        words.iter().for_each(|word| assert!(err.contains(word), "{changes:?}: {err}"));
        assert!(!err.contains("hunter2"), "{err}");
    };
    let url = "LLTS_TDF_REDIS_URL";
    refused(&[], &["tdf.NAMESPACE is \"ns\" and tdf.REDIS_URL is not set"]);
    refused(
        &[(url, "redis://localhost"), ("LLTS_TDF_NAMESPACE", "")],
        &["tdf.REDIS_URL is set and tdf.NAMESPACE is not"],
    );
    refused(&[(url, "http://me:hunter2@localhost")], &["tdf.REDIS_URL", "…@localhost", "redis://127.0.0.1:6379/0"]);
    refused(&[(url, "redis://localhost/x")], &["tdf.REDIS_URL", "redis://localhost/x"]);
    refused(&[(url, "redis://localhost"), ("LLTS_TDF_NAME", "a/b")], &["tdf.NAME", "a/b"]);
    refused(&[(url, "redis://localhost"), ("LLTS_TDF_ROUND_DURATION", "1")], &["tdf.ROUND_DURATION", "10"]);
    refused(&[(url, "redis://localhost"), ("LLTS_ALLOW_COMMANDS", "no")], &["ALLOW_COMMANDS = \"no\" takes none"]);
    refused(&[(url, "rediss://localhost"), ("LLTS_TDF_REDIS_CA_FILE", "none.pem")], &["none.pem"]);
    fs::write(home.path("file"), "").unwrap();
    refused(&[(url, "redis://localhost"), ("LLTS_TDF_DIR", "file")], &["file of tdf.DIR"]);
}
