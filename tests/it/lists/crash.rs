//! Server and workers, killed at random during many tasks.
//!
//! `LISTS_CRASH_TASKS=2000` is the long form, `LISTS_CRASH_SEED` another run of the same length.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::time::Duration;

use proc::clock;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use crate::lists::sandbox::{ENDS, Program, Sandbox, eventually, port};

/// Tasks of the short form.
const TASKS: u64 = 200;

/// Each task of a number that this divides writes to stderr, always.
const FAILS_EACH: u64 = 7;

/// Number of kills without an end of a task after which the next end is waited for.
const FUTILE_MAX: u32 = 20;

const WORKERS: [&str; 3] = ["w_1", "w_2", "v"];

/// The processes, each of which is started again when it is killed.
struct Parts<'a> {
    sandbox: &'a Sandbox,
    port: String,
    server: Program,
    workers: Vec<Program>,
}

impl Parts<'_> {
    fn restart_server(&mut self) {
        self.server.kill();
        self.server = self.sandbox.server_at(&self.port);
    }

    fn restart_worker(&mut self, at: usize) {
        self.workers[at].kill();
        self.workers[at] = self.sandbox.worker_at(WORKERS[at], &format!("127.0.0.1:{}", self.port));
    }
}

/// Each task once in its newest form, at every instant: the folders are read while tasks move on, so that one may be missed between
/// two looks, but none may be seen twice in an end.
fn ends(sandbox: &Sandbox) -> BTreeMap<u64, Vec<(u32, &'static str)>> {
    let mut found: BTreeMap<u64, Vec<(u32, &'static str)>> = BTreeMap::new();
    for state in ENDS {
        for id in sandbox.tasks(state) {
            let (nanos, fails) = id.split_once('_').expect("an id");
            found.entry(nanos.parse().expect("a number")).or_default().push((fails.parse().expect("a count"), state));
        }
    }
    found
}

#[test]
fn every_task_ends_once_whatever_is_killed() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (tasks, seed) = (number("LISTS_CRASH_TASKS").unwrap_or(TASKS), number("LISTS_CRASH_SEED").unwrap_or(17));
    let mut sandbox = Sandbox::impatient();
    sandbox.set("LIST_TASKS_MAX", "20");
    fs::create_dir_all(sandbox.path("new")).unwrap();
    let lines: String = (1..=tasks)
        .map(|number| {
            let complaint = if number % FAILS_EACH == 0 { "; echo bad >&2" } else { "" };
            format!("echo run >>runs; sleep 0.01; echo {number}{complaint}\n")
        })
        .collect();
    let ids = sandbox.llts_with(&["add", "--each-line", "-", "--max-fails", "2"], lines.as_bytes()).ok().out;
    let ids: Vec<&str> = ids.lines().collect();
    let began = clock::now().mono;
    let server = sandbox.server();
    let port = port(&server);
    let workers = WORKERS.iter().map(|name| sandbox.worker(name, &server)).collect();
    let mut parts = Parts { sandbox: &sandbox, port, server, workers };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut killed = [0, 0];
    let count_ends =
        || ["completed_archive", "failed_count"].iter().map(|state| sandbox.tasks(state).len() as u64).sum::<u64>();
    let (mut ends_before, mut futile) = (0, 0);
    while count_ends() < tasks {
        let known = count_ends();
        (ends_before, futile) = if known > ends_before { (known, 0) } else { (ends_before, futile + 1) };
        // A busy machine starts the parts more slowly than they are killed, and none would ever do anything.
        if futile >= FUTILE_MAX {
            eventually("an end without kills", || count_ends() > ends_before);
        }
        std::thread::park_timeout(Duration::from_millis(random.random_range(20..300)));
        if random.random_range(0..3) == 0 {
            killed[0] += 1;
            parts.restart_server();
        } else {
            killed[1] += 1;
            parts.restart_worker(random.random_range(0..WORKERS.len()));
        }
    }
    // The last moves behind an end may be under way.
    parts.server.stop();
    parts.workers.drain(..).for_each(|worker| drop(worker.stop()));
    let ends = ends(&sandbox);
    assert_eq!(ends.len() as u64, tasks);
    for (id, number) in ids.iter().zip(1..) {
        let nanos = id.strip_suffix("_0").unwrap();
        let expected: &[(u32, &str)] = if number % FAILS_EACH == 0 {
            &[(0, "failed_archive"), (1, "failed_count")]
        } else {
            &[(0, "completed_archive")]
        };
        assert_eq!(ends[&nanos.parse().unwrap()], expected, "task {number}");
        for (fails, state) in expected {
            let text = |ending| sandbox.text(&format!("{state}/{nanos}_{fails}.{ending}"));
            assert_eq!(text("out"), format!("{number}\n"));
            assert_eq!(text("task").lines().count(), 10);
            assert_eq!(number % FAILS_EACH == 0, sandbox.path(&format!("{state}/{nanos}_{fails}.err")).exists());
        }
    }
    for state in ["new", "open", "running", "closed", "completed", "failed"] {
        assert_eq!(sandbox.names(state), [""; 0], "{state}");
    }
    assert_eq!(sandbox.commands(), [], "no command is left");
    let runs = fs::read_to_string(sandbox.root().join("runs")).unwrap().lines().count();
    let _ = writeln!(
        std::io::stderr(),
        "seed {seed}: {tasks} tasks ended in {:.1} s; killed {} servers and {} workers; {runs} runs begun",
        clock::now().mono.since(began).as_secs_f64(),
        killed[0],
        killed[1],
    );
}
