//! Controllers as worker pools of a namespace: `[tdf] REDIS_URL`. Each has a home with two agents.
//!
//! `TDF_POOL_TASKS=1000` is the long form of the run in which a controller is killed.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;

use crate::tdf::folder;
use crate::tdf::ground::Redis;
use crate::tdf::original::Order;
use crate::tdf::processes::place::{NAMESPACE, Place};
use crate::tdf::waiting::eventually;

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

/// A home beside a namespace. Dropping it stops its service.
struct Home {
    redis: SocketAddr,
    folder: PathBuf,
}

impl Home {
    /// One whose results are kept in the place.
    fn new(place: &Place, name: &str) -> Self {
        let folder = place.path(name);
        for name in ["log", "tools"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(place.path("."), folder.join("tdf")).unwrap();
        fs::write(folder.join("config.toml"), CONFIG).unwrap();
        Self { redis: place.redis.address(), folder }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = folder::program(env!("CARGO_BIN_EXE_llts"), &self.folder);
        command.env("LLTS_TDF_REDIS_URL", format!("redis://{}", self.redis));
        command.env("LLTS_TDF_WORKER_OUTPUT_BYTES_MAX", "4096");
        command.args(words);
        command
    }

    fn llts(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn up(&self) {
        let said = self.llts(&["up", "2"]);
        assert!(said.status.success(), "{said:?}");
    }

    fn controller(&self) -> i32 {
        let all = folder::processes(&self.folder);
        let is_controller = |line: &str| line.split(' ').any(|word| word == "controller") && line.contains("llts");
        all.iter().find(|(_, line)| is_controller(line)).map(|(pid, _)| *pid).unwrap_or_else(|| panic!("{all:?}"))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log/controller.log")).unwrap_or_default()
    }

    /// Tasks of the namespace in this phase.
    fn has(&self, status: &str) -> bool {
        let said = self.llts(&["list", "--job", "tdf", "--status", status]);
        String::from_utf8_lossy(&said.stdout).contains("TASK_")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let said = self.llts(&["down"]);
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "{said:?}\n{}", self.log());
        }
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
    let home = Home::new(&place, "a");
    home.up();
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
    assert!(place.field(unknown, "0:error").starts_with("\"../p\" is not the name of a program"));
    assert!(place.field(absent, "0:error").starts_with("program './absent/run.sh' does not exist!"));
    let log = place.field(good, "log");
    assert!(log.contains(" - executing task: cd ./p/; ./run.sh 'echo out; exit 3'\n"), "{log}");
    assert!(place.field(good, "0:worker").starts_with("controller-"));
    let listed = home.llts(&["list", "--job", "tdf", "--output", "wire"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains(&format!("\"{good}\"")), "tasks of the controller");
}

#[test]
fn no_more_is_claimed_than_can_start() {
    let place = Place::new();
    place.program("p", &format!("until test -e {}; do sleep 0.02; done", place.path("go").display()));
    let home = Home::new(&place, "a");
    home.up();
    for _ in 0..6 {
        open_input(&place, "");
    }
    eventually("two runs", || count(&place, "running") == 2);
    eventually("two commands", || home.llts(&["list", "--job", "tdf", "--status", "RUNNING"]).stdout.len() > 100);
    assert_eq!((count(&place, "running"), count(&place, "open")), (2, 4));
    assert!(!home.has("WAITING"));
    fs::write(place.path("go"), "").unwrap();
    eventually("all ends", || count(&place, "succeeded") == 6);
}

/// A part of a service that is started alone.
struct Part(Child);

impl Drop for Part {
    fn drop(&mut self) {
        folder::signal(self.0.id().cast_signed(), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Neither its next heartbeat nor the pool's own look at the agents comes within the patience of a test.
#[test]
fn an_agent_that_joins_gets_a_waiting_task_at_once() {
    let place = Place::new();
    place.program("p", "echo out");
    let home = Home::new(&place, "a");
    let start = |word: &str| {
        let mut command = home.command(&[word]);
        command.env("LLTS_AGENT_HEARTBEAT_INTERVAL", "3600000");
        Part(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
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
    let mut manager = place.command(&["manage", config.to_str().unwrap()]).spawn().unwrap();
    let (one, other) = (Home::new(&place, "a"), Home::new(&place, "b"));
    one.up();
    other.up();
    let tasks = std::env::var("TDF_POOL_TASKS").map_or(TASKS, |tasks| tasks.parse().unwrap());
    let lines: String = (1..=tasks).map(|number| format!("{number}\n")).collect();
    fs::write(place.path("lines"), lines).unwrap();
    let opened = place.command(&[
        "open",
        config.to_str().unwrap(),
        "p",
        &source(&place),
        "--each-line",
        place.path("lines").to_str().unwrap(),
    ]);
    assert!({ opened }.output().unwrap().status.success());
    for done in [tasks / 5, tasks * 2 / 5, tasks * 3 / 5] {
        eventually("some ends", || count(&place, "archived") >= done);
        folder::signal(one.controller(), Signal::KILL);
        let before = one.log().matches("controller ready").count();
        eventually("another controller", || one.log().matches("controller ready").count() > before);
    }
    eventually("all are archived", || count(&place, "archived") == tasks);
    manager.kill().unwrap();
    manager.wait().unwrap();
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
    let server = ["a", "b"].iter().filter(|name| {
        fs::read_to_string(place.path(name).join("log/controller.log")).unwrap().contains("at work on ns")
    });
    assert!(server.count() >= 1);
}

#[test]
fn a_redis_that_is_away_at_the_start_or_in_the_middle_loses_nothing() {
    let mut redis = Redis::durable();
    redis.kill();
    let mut place = Place::with(redis);
    let [runs, go] = ["runs", "go"].map(|name| place.path(name).display().to_string());
    place.program("p", &format!("echo begun >>{runs}; until test -e {go}; do sleep 0.02; done; echo out"));
    let home = Home::new(&place, "a");
    home.up();
    eventually("a word about it", || home.log().contains("the work in progress goes on"));
    place.redis.start_again();
    let id = open_input(&place, "");
    place.until(id, "running");
    eventually("the program", || place.path("runs").exists());
    place.redis.kill();
    fs::write(place.path("go"), "").unwrap();
    eventually("a word about it", || home.log().matches("the work in progress goes on").count() == 2);
    let results = place.path(".llts@tdf/results");
    let kept = || fs::read_dir(&results).unwrap().flatten().any(|worker| !folder::names(&worker.path()).is_empty());
    eventually("a result on the disk", kept);
    folder::signal(home.controller(), Signal::KILL);
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
    let home = Home::new(&place, "a");
    let refused = |changes: &[(&str, &str)], words: &[&str]| {
        let mut command = folder::program(env!("CARGO_BIN_EXE_llts"), &home.folder);
        command.envs(changes.iter().copied());
        let said = command.arg("controller").output().unwrap();
        let err = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.status.success(), "{changes:?}");
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
    fs::write(home.folder.join("file"), "").unwrap();
    refused(&[(url, "redis://localhost"), ("LLTS_TDF_DIR", "file")], &["file of tdf.DIR"]);
}
