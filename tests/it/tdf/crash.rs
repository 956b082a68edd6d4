//! All components of a namespace as processes, while they are killed at random, and while Redis is frozen or restarted.
//!
//! `TDF_CRASH_TASKS=2000` is the long form of the random run, `TDF_CRASH_SEED` another one of the same length.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use redis::{Cmd, Connection};
use rustix::process::Signal;

use crate::tdf::clock;
use crate::tdf::ground::{self, Redis};
use crate::tdf::processes::place::{NAMESPACE, Place};
use testkit::{PATIENCE, Program, Start as _, eventually, pass};

/// Tasks of the short form.
const TASKS: u64 = 300;

/// Each task of a number that this divides writes to stderr, always.
const FAILS_EACH: u64 = 7;

/// Longer than any answer is waited for.
const FREEZE: Duration = Duration::from_secs(9);

/// The components, each of which is started again when it is killed.
struct Parts(Vec<(Vec<String>, Program)>);

impl Parts {
    /// Opens tasks with the inputs from 1 on, and starts workers and servers, and a manager that notes what it is called for.
    fn start(place: &Place, tasks: u64, workers: usize, servers: usize) -> Self {
        let address = place.redis.address();
        let write = |name: &str, rest: &str| {
            fs::write(place.path(name), ground::config(address, NAMESPACE, rest)).expect("a configuration");
        };
        write("server.cfg", "[server]\nround_duration=0.2\n");
        write("manager.cfg", "[manager]\nround_duration=0.2\n[task_defaults]\nmax_fails=1\n");
        let worker = place.config(address).display().to_string();
        let lines: String = (1..=tasks).map(|number| format!("{number}\n")).collect();
        fs::write(place.path("lines"), lines).expect("a file");
        let open = ["open", "manager.cfg", "p", "http://127.0.0.1:1/run.sh", "--each-line", "lines"];
        place.command(&open).said().ok();
        let mut parts = Vec::new();
        let mut add = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            parts.push((words.clone(), run(place, &words)));
        };
        (1..=workers).for_each(|number| add(&["worker", &format!("w{number}"), &worker]));
        (1..=servers).for_each(|number| add(&["server", &format!("s{number}"), "server.cfg"]));
        add(&["manage", "manager.cfg", "--on-succeeded", "cat >>called", "--on-failed", "cat >>called"]);
        Self(parts)
    }

    /// Kills a component, and starts it again.
    fn restart(&mut self, place: &Place, at: usize) {
        let (words, process) = &mut self.0[at];
        process.kill();
        *process = run(place, words);
    }
}

/// Starts a component. Losses are part of this, however many a task has of them.
fn run(place: &Place, words: &[String]) -> Program {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    place.command(&words).env("LLTS_TDF_MAX_LOSSES", "1000").start()
}

/// Number of kills without a verdict after which killing pauses, so that the components make progress. A busy machine starts them
/// more slowly than they are killed, and none would ever do anything.
const FUTILE_MAX: u32 = 30;

/// Waits until all are archived, and does something after each look, as long as that does not keep everything from going on.
fn until_archived(redis: &mut Connection, tasks: u64, mut act: impl FnMut(&mut Connection)) {
    let (mut judged, mut futile, mut until) = (0, 0, clock::now().mono + PATIENCE);
    loop {
        let counts = ground::SETS.map(|set| -> u64 { count(redis, set) });
        if counts.last() == Some(&tasks) {
            return;
        }
        if clock::now().mono >= until {
            panic!(
                "not all are archived: {:?} = {counts:?}, {futile} kills since the last verdict; {}",
                ground::SETS,
                state(redis)
            );
        }
        let known = ["succeeded", "failed", "archived"].map(|set| count(redis, set)).iter().sum();
        // Both counts of a task that moves between them may miss it.
        (judged, futile, until) =
            if known > judged { (known, 0, clock::now().mono + PATIENCE) } else { (judged, futile + 1, until) };
        if futile < FUTILE_MAX {
            act(redis);
        } else {
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

/// Who holds the lease of the rounds and of runs, and when each worker was seen last, for a run that hangs.
fn state(redis: &mut Connection) -> String {
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{NAMESPACE}:llts:*")).query(redis).expect("Redis");
    let now: (u64, u64) = redis::cmd("TIME").query(redis).expect("Redis");
    let shown = keys.into_iter().map(|key| {
        let kind: String = redis::cmd("TYPE").arg(&key).query(redis).expect("Redis");
        let value: redis::Value = match kind.as_str() {
            "string" => redis::cmd("GET").arg(&key).query(redis),
            "hash" => redis::cmd("HGETALL").arg(&key).query(redis),
            "zset" => redis::cmd("ZRANGE").arg(&key).arg(0).arg(20).arg("WITHSCORES").query(redis),
            _ => redis::cmd("PTTL").arg(&key).query(redis),
        }
        .expect("Redis");
        let left: i64 = redis::cmd("PTTL").arg(&key).query(redis).expect("Redis");
        format!("{key} ({left} ms left) = {}", format!("{value:?}").chars().take(1000).collect::<String>())
    });
    let shown: Vec<String> = shown.collect();
    format!("at {}: {}", now.0, shown.join("\n"))
}

fn count(redis: &mut Connection, set: &str) -> u64 {
    Cmd::zcard(format!("{NAMESPACE}:{set}")).query(redis).expect("Redis")
}

/// Every task is archived once, has the result of its program, and its log and counters tell the same. How many runs were lost.
fn check(place: &Place, tasks: u64) -> usize {
    let mut lost = 0;
    for id in 1..=tasks {
        assert_eq!(place.sets(id), ["archived"]);
        let log = place.field(id, "log");
        let count = |what: &str| log.lines().filter(|line| line.contains(what)).count();
        let fails = id % FAILS_EACH == 0;
        let (state, counted, runs) = if fails { ("failed", "2", 2) } else { ("succeeded", "0", 1) };
        assert_eq!((place.field(id, "state").as_str(), place.field(id, "fails").as_str()), (state, counted), "{log}");
        assert_eq!((place.field(id, "timeouts").as_str(), count(" -> archived")), ("0", 1), "{log}");
        let round = place.field(id, "round");
        assert_eq!(place.field(id, &format!("{round}:output")), format!("{id}\n"), "{log}");
        assert_eq!(count(": running -> executed"), runs, "{log}");
        let again = count(": running -> open");
        assert_eq!(count(": open -> running"), runs + again, "{log}");
        lost += again;
    }
    let called = fs::read_to_string(place.path("called")).expect("calls");
    let ids: BTreeSet<u64> = called
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["id"].as_u64().expect("an id"))
        .collect();
    assert_eq!(ids.len() as u64, tasks, "each was called for");
    lost
}

fn place(redis: Redis, pause: &str) -> Place {
    let place = Place::with(redis);
    let script = format!("echo run >>../runs; {pause} echo $1; [ $(($1 % {FAILS_EACH})) != 0 ] || echo bad >&2");
    place.program("p", &script);
    place
}

/// Breaks a connection to Redis, but not this one.
fn break_one(redis: &mut Connection, random: &mut Xoshiro256PlusPlus) {
    let own: u64 = redis::cmd("CLIENT").arg("ID").query(redis).expect("Redis");
    let list: String = redis::cmd("CLIENT").arg("LIST").query(redis).expect("Redis");
    let ids = list.lines().filter_map(|line| line.split(' ').next()?.strip_prefix("id=")?.parse().ok());
    let others: Vec<u64> = ids.filter(|id| *id != own).collect();
    if !others.is_empty() {
        let id = others[random.random_range(0..others.len())];
        // It may have gone by itself.
        let _: Result<u64, _> = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(redis);
    }
}

#[test]
fn every_task_is_archived_once_whatever_is_killed() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (tasks, seed) = (number("TDF_CRASH_TASKS").unwrap_or(TASKS), number("TDF_CRASH_SEED").unwrap_or(15));
    let place = place(Redis::start(), "");
    let mut redis = place.redis.connect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let began = clock::now().mono;
    let mut parts = Parts::start(&place, tasks, 4, 2);
    let (mut workers, mut servers, mut connections) = (0, 0, 0);
    until_archived(&mut redis, tasks, |redis| {
        std::thread::park_timeout(Duration::from_millis(random.random_range(20..200)));
        match random.random_range(0..10) {
            0..4 => {
                workers += 1;
                parts.restart(&place, random.random_range(0..4));
            }
            4..6 => {
                servers += 1;
                parts.restart(&place, random.random_range(4..6));
            }
            _ => {
                connections += 1;
                break_one(redis, &mut random);
            }
        }
    });
    let lost = check(&place, tasks);
    let _ = writeln!(
        std::io::stderr(),
        "seed {seed}: {tasks} tasks archived in {:.1} s; killed {workers} workers, {servers} servers and {connections} \
         connections; {lost} runs lost, {} runs begun",
        clock::now().mono.since(began).as_secs_f64(),
        place.runs()
    );
}

#[test]
fn a_redis_that_is_frozen_and_then_restarted_costs_no_run() {
    const TASKS: u64 = 24;
    let mut place = place(Redis::durable(), "sleep 0.1;");
    let mut redis = place.redis.connect();
    let _parts = Parts::start(&place, TASKS, 2, 1);
    eventually("the first tasks", || count(&mut redis, "archived") >= 4);
    place.redis.signal(Signal::STOP);
    pass(FREEZE);
    place.redis.signal(Signal::CONT);
    eventually("tasks after the frost", || count(&mut redis, "archived") >= 8);
    place.redis.kill();
    place.redis.start_again();
    let mut redis = place.redis.connect();
    until_archived(&mut redis, TASKS, |_| std::thread::park_timeout(Duration::from_millis(10)));
    assert_eq!(check(&place, TASKS), 0, "no run was lost");
    assert_eq!(place.runs() as u64, TASKS + TASKS / FAILS_EACH, "each round has run once");
}

/// The lease of a server is longer than any pause that a user would understand.
#[test]
fn a_killed_server_is_replaced_before_its_lease_ends() {
    let place = place(Redis::start(), "");
    let mut redis = place.redis.connect();
    let mut parts = Parts::start(&place, 3, 1, 1);
    let key = format!("{NAMESPACE}:llts:server");
    let holder =
        |redis: &mut Connection| -> Option<String> { redis::cmd("GET").arg(&key).query(redis).expect("Redis") };
    eventually("a server at work", || holder(&mut redis).is_some());
    parts.0[1].1.kill();
    // The one that was killed may have been about to give it up.
    let dead = holder(&mut redis).expect("its lease goes on");
    let () = redis::cmd("SET").arg(&key).arg(&dead).arg("EX").arg(3600).query(&mut redis).expect("Redis");
    parts.restart(&place, 1);
    eventually("another server", || holder(&mut redis).is_some_and(|now| now != dead));
    until_archived(&mut redis, 3, |_| std::thread::park_timeout(Duration::from_millis(10)));
    assert_eq!(check(&place, 3), 0, "no run was lost");
}
