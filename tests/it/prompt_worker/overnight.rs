//! A night on two machines, in minutes: a command that reaches its limit again and again, a cut network, a restarted master, a full
//! disk, and kill -9 of each process: the master, workers, their guards, the process that has started several workers, and a command. All
//! connections are secured by CURVE. Every prompt is answered, none has failed, and all answers lie at the master.
//!
//! `LLTS_TEST_OVERNIGHT=1` runs it in full: 200 prompts, a limit after each 20, and a cut of 64 s, which takes some minutes. Otherwise
//! fewer prompts and shorter times. The namespaces that stand for machines need root; without it, both machines are this one, no cable is
//! cut, and no disk becomes full.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use proc::clock;
use rustix::process::Signal;
use testkit::{Place, pass, within};

use crate::prompt_worker::sandbox::{Program, Start as _, names};
use crate::support::LLTS;

/// Says its limit after `LIMIT` answers, until `RESET` seconds have passed; the answers of all workers count. The prompt `LAST` is
/// answered in the morning, so that the master is there until then.
const CLAUDE: &str = r#"#!/bin/sh
cd "$ACCOUNT" || exit 2
exec 9>lock
flock 9
answers=$(cat answers) until=$(cat until) now=$(date +%s)
if [ "$answers" -ge "$LIMIT" ]; then
    if [ "$until" = 0 ]; then until=$((now + RESET)); echo "$until" >until; fi
    if [ "$now" -lt "$until" ]; then
        echo "limit" >>limits
        echo "Claude AI usage limit reached|$until"
        exit 1
    fi
    answers=0
    echo 0 >until
fi
echo $((answers + 1)) >answers
flock -u 9
exec 9>&-
prompt=$(cat)
sleep "$TIME"
while [ "$prompt" = "$LAST" ] && [ ! -e morning ]; do sleep 0.1; done
yes "$prompt" | head -c 60000
echo "the answer to $prompt"
echo "$PROMPT_NAME" >>ended
"#;

/// The port of the master, in a network namespace of its own.
const PORT: &str = "34567";
const MASTER: &str = "10.77.0.1";

/// The keys that master and workers share, by their names in the configuration.
const KEYS: [(&str, &str); 4] = [
    ("SERVER_SECRET_KEY_FILE", "server.key"),
    ("AUTHORISED_KEYS_DIR", "authorised"),
    ("SECRET_KEY_FILE", "worker.key"),
    ("SERVER_PUBLIC_KEY_FILE", "server.key.pub"),
];

struct Scale {
    prompts: usize,
    limit: u64,
    reset: u64,
    time: &'static str,
    cut: Duration,
    /// Milliseconds.
    lease: &'static str,
    /// Time within which the night ends.
    patience: Duration,
}

impl Scale {
    fn of_environment() -> Self {
        if std::env::var_os("LLTS_TEST_OVERNIGHT").is_some() {
            let (cut, patience) = (Duration::from_secs(64), Duration::from_secs(900));
            return Self { prompts: 200, limit: 20, reset: 5, time: "0.3", cut, lease: "180000", patience };
        }
        let (cut, patience) = (Duration::from_secs(2), Duration::from_secs(120));
        Self { prompts: 30, limit: 10, reset: 1, time: "0.1", cut, lease: "4000", patience }
    }
}

/// A process that holds a network namespace open. Dropping it ends it.
struct Machine(Program);

struct Night {
    place: Place,
    scale: Scale,
    /// The one with the master, and the other one; `None` where no namespaces may be made.
    machines: Option<[Machine; 2]>,
    /// The address of the master.
    host: String,
}

impl Machine {
    fn new() -> Option<Self> {
        let machine = Self(Command::new("unshare").args(["-n", "sleep", "100000"]).stderr(Stdio::null()).start());
        let own = fs::read_link("/proc/self/ns/net").ok()?;
        let theirs = || fs::read_link(format!("/proc/{}/ns/net", machine.0.id()));
        let until = clock::now().mono + Duration::from_secs(10);
        while theirs().is_ok_and(|theirs| theirs == own) && clock::now().mono < until {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        theirs().is_ok_and(|theirs| theirs != own).then_some(machine)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.0.id().to_string(), "-n"]).args(words);
        command
    }

    fn run(&self, words: &str) -> bool {
        let words: Vec<_> = words.split(' ').collect();
        self.command(&words).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

/// Two machines with a cable between them.
fn machines() -> Option<[Machine; 2]> {
    let [one, other] = [Machine::new()?, Machine::new()?];
    let cable = format!("ip link add cable type veth peer name cable netns {}", other.0.id());
    let are_connected = one.run(&cable)
        && one.run(&format!("ip addr add {MASTER}/24 dev cable"))
        && other.run("ip addr add 10.77.0.2/24 dev cable")
        && [&one, &other].iter().all(|machine| machine.run("ip link set cable up") && machine.run("ip link set lo up"));
    are_connected.then_some([one, other])
}

impl Night {
    fn new(scale: Scale, machines: Option<[Machine; 2]>) -> Self {
        let mut place = Place::new(LLTS);
        let host = if machines.is_some() { MASTER.to_owned() } else { testkit::own_ip().to_string() };
        for (key, value) in
            [("LEASE", scale.lease), ("BIND", &*host), ("TIMER_INTERVAL", "300"), ("REQUEST_TIMEOUT", "1500")]
        {
            place.set(format!("LLTS_PROMPT_{key}"), value);
        }
        for (key, file) in KEYS {
            place.set(format!("LLTS_CURVE_{key}"), place.path(file));
        }
        place.set("LLTS_PROMPT_WORKER_LIMITED_PAUSE", "500");
        place.set("LLTS_PROMPT_WORKER_PAUSE_MAX", "1000");
        place.set("ACCOUNT", place.path("account"));
        place.set("LIMIT", scale.limit.to_string());
        place.set("RESET", scale.reset.to_string());
        place.set("TIME", scale.time);
        place.set("LAST", format!("prompt {}", scale.prompts - 1));
        let night = Self { place, scale, machines, host };
        for name in ["master/.tasks/pending", "account", "authorised", "two", "three"] {
            fs::create_dir_all(night.path(name)).expect("a folder of ours");
        }
        for (name, text) in [("answers", "0"), ("until", "0"), ("ended", ""), ("limits", "")] {
            fs::write(night.path("account").join(name), text).expect("a file of ours");
        }
        let [server, worker] = ["server.key", "worker.key"].map(|name| night.path(name));
        let made = Command::new(env!("CARGO_BIN_EXE_llts")).args(["keys", "new"]).args([server, worker]).output();
        assert!(made.is_ok_and(|made| made.status.success()), "no keys");
        fs::copy(night.path("worker.key.pub"), night.path("authorised/worker")).expect("a key");
        fs::write(night.path("claude"), CLAUDE).expect("a file of ours");
        fs::set_permissions(night.path("claude"), fs::Permissions::from_mode(0o755)).expect("a file of ours");
        for number in 0..night.scale.prompts {
            fs::write(night.path("master/.tasks/pending").join(name_of(number)), format!("prompt {number}"))
                .expect("a file of ours");
        }
        night
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    /// A program of ours on a machine.
    fn start(&self, machine: usize, wrapper: &[&str], words: &[&str]) -> Program {
        let machine = self.machines.as_ref().map(|machines| machines[machine].0.pid().to_string());
        let mut command = self.place.command(&[&["prompt"], words].concat());
        if !wrapper.is_empty() {
            command = command.under(wrapper);
        }
        if let Some(machine) = machine {
            command = command.under(&["nsenter", "-t", &machine, "-n"]);
        }
        let log = fs::File::options().append(true).create(true).open(self.path("log")).expect("a file of ours");
        command.stdout(log.try_clone().expect("a file of ours")).stderr(log).start()
    }

    fn master(&self) -> Program {
        self.start(0, &[], &["master", PORT, "--root-dir", "master"])
    }

    fn worker(&self, machine: usize, wrapper: &[&str], root: &str) -> Program {
        self.start(machine, wrapper, &["worker", &self.host, PORT, "--root-dir", root, "--", "./claude", "-p"])
    }

    /// The worker on the disk that becomes full.
    fn worker_on_small_disk(&self) -> Program {
        if self.machines.is_none() {
            return self.worker(1, &[], "two");
        }
        let mount = "mount -t tmpfs -o size=1m none two && exec \"$@\"";
        self.worker(1, &["unshare", "-m", "sh", "-c", mount, "sh"], "two")
    }

    /// Two workers of one process, at the master's root.
    fn crew(&self) -> Program {
        let words = ["worker", &self.host, PORT, "--jobs", "2", "--root-dir", "master", "--", "./claude", "-p"];
        self.start(0, &[], &words)
    }

    /// Kills one of these processes, with these words in its command line.
    #[track_caller]
    fn kill_one(&self, what: &str, of: fn(&Place) -> Vec<(i32, String)>, words: &str) {
        self.eventually(what, || {
            let found = of(&self.place).into_iter().find(|(_, line)| line.contains(words));
            let pid = found.as_ref().and_then(|(pid, _)| rustix::process::Pid::from_raw(*pid));
            // It may have ended by itself.
            pid.is_some_and(|pid| rustix::process::kill_process(pid, Signal::KILL).is_ok())
        });
    }

    fn count(&self, name: &str) -> usize {
        names(&self.path("master/.tasks").join(name)).iter().filter(|name| is_prompt(name)).count()
    }

    #[track_caller]
    fn eventually(&self, what: &str, is: impl FnMut() -> bool) {
        within(self.scale.patience, || format!("{what}; the log is:\n{}", self.log()), is);
    }

    /// This many more prompts are done, or all but the last one.
    #[track_caller]
    fn goes_on(&self, more: usize) {
        let goal = (self.count("done") + more).min(self.scale.prompts - 1);
        self.eventually("progress", || self.count("done") >= goal);
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

fn name_of(number: usize) -> String {
    format!("task_{number:04}.txt")
}

fn is_prompt(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending == "txt")
}

/// Fills the disk of a worker until it says so, and makes room again.
fn fill_disk(night: &Night, worker: &Program) {
    // A process sees its own mounts below this path.
    let filler = PathBuf::from(format!("/proc/{}/root{}", worker.id(), night.path("two/filler").display()));
    // Whichever of its files meets the full disk first.
    let complaints = |log: &str| log.matches("disk has").count() + log.matches("No space left").count();
    let before = complaints(&night.log());
    let is_told = || complaints(&night.log()) > before;
    let mut file = fs::File::create(&filler).expect("a file on the small disk");
    let deadline = clock::now().mono + night.scale.patience;
    while !is_told() && night.count("done") < night.scale.prompts - 1 {
        let _ = file.write_all(&[0; 4096]);
        assert!(clock::now().mono < deadline, "the worker does not see the full disk:\n{}", night.log());
    }
    fs::remove_file(filler).expect("a file of ours");
}

#[test]
fn a_night_on_two_machines_answers_every_prompt() {
    let night = Night::new(Scale::of_environment(), machines());
    let all = night.scale.prompts;
    let step = all / 10;
    let mut master = night.master();
    let (mut one, two, three) =
        (night.worker(0, &[], "master"), night.worker_on_small_disk(), night.worker(1, &[], "three"));
    night.goes_on(step);
    if let Some([first, _]) = &night.machines {
        fill_disk(&night, &two);
        night.goes_on(step);
        assert!(first.run("ip link set cable down"));
        pass(night.scale.cut);
        assert!(first.run("ip link set cable up"));
        night.goes_on(step);
    }
    night.kill_one("a command", Place::commands, "claude -p");
    // Its worker stops, and is started again.
    night.kill_one("a guard", Place::processes, &format!("guard --pid {} ", one.id()));
    night.eventually("the end of a worker without a guard", || !one.is_running());
    let one = night.crew();
    night.goes_on(step);
    master.kill();
    master = night.master();
    night.goes_on(step);
    let workers = [one, two, three].map(|mut worker| worker.kill()).len();
    let joined = || night.log().matches(" has joined").count();
    let before = joined();
    let again = [night.crew(), night.worker_on_small_disk(), night.worker(1, &[], "three")];
    night.eventually("the new workers", || joined() >= before + 4);
    fs::write(night.path("account/morning"), "").expect("a file of ours");
    night.eventually("the end of the master", || !master.is_running());
    assert_eq!(master.said().code, Some(0), "{}", night.log());
    for mut worker in again {
        night.eventually("the end of a worker", || !worker.is_running());
        assert_eq!(worker.said().code, Some(0), "{}", night.log());
    }
    assert_eq!([night.count("pending"), night.count("working"), night.count("failed")], [0; 3]);
    for number in 0..all {
        let answer = fs::read_to_string(night.path(&format!("master/.tasks/done/{}.out", name_of(number))));
        let answer = answer.unwrap_or_else(|error| panic!("prompt {number}: {error}\n{}", night.log()));
        assert!(answer.ends_with(&format!("the answer to prompt {number}\n")) && answer.len() > 60_000, "{number}");
    }
    // A run of a killed worker, or of one with a full disk, may have ended without being kept.
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for name in fs::read_to_string(night.path("account/ended")).expect("a file of ours").lines() {
        *ends.entry(name.to_owned()).or_default() += 1;
    }
    let twice = ends.values().map(|count| count - 1).sum::<usize>();
    let limits = fs::read_to_string(night.path("account/limits")).expect("a file of ours").lines().count();
    println!("{all} prompts, {limits} limited attempts, {twice} prompts ended twice");
    // One more run for each killed process and each full disk, as the manual says; the crew has two.
    assert!(limits > 0 && ends.len() == all && twice <= workers + 4, "{twice} {ends:?}");
}
