//! Exclusive tasks against real processes: an agent is stopped or cut off, and no effect of a round comes after the next one begins.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::Client;

use crate::crash::sandbox::{Program, Start as _, eventually, names, signal};
use crate::crash::service::Service;

/// The first round has effects without end, also of a process that has detached, and ignores SIGTERM; the next ones end well.
const WRITER: &str = "\
effect() { date +%s%N >> \"$PLACE/effects/$__ROUND__\"; }
effect
[ \"$__ROUND__\" -eq 0 ] || exit 0
trap '' TERM
(setsid sh -c 'trap \"\" TERM; while :; do date +%s%N >> \"$PLACE/effects/0\"; sleep 0.02; done' &)
while :; do effect; sleep 0.02; done";

/// A service with the writer.
struct Trial {
    children: Vec<Program>,
    service: Service,
    client: Client,
}

impl Trial {
    fn new() -> Self {
        let service = Service::new();
        fs::create_dir(service.sandbox.path("effects")).expect("a new folder");
        service.sandbox.tool("writer", WRITER);
        service.sandbox.ok("tool pack tools/writer");
        let client = service.client();
        Self { service, client, children: Vec::new() }
    }

    fn start(&mut self, line: &str) {
        self.children.push(self.service.sandbox.start(line));
    }

    /// Submits the writer and waits until its agent has said that it runs.
    fn runs(&mut self, fields: Value) -> String {
        let task = self.client.submit("writer", fields);
        let effects = self.service.sandbox.path("effects/0");
        eventually("the tool runs", || fs::read_to_string(&effects).is_ok_and(|text| text.lines().count() > 3));
        eventually("its agent says so", || self.client.status(&task) == "RUNNING");
        task
    }

    /// The process of the agent that has this task.
    fn agent_of(&mut self, task: &str) -> i32 {
        let name = self.client.query(task)["__AGENT_ID__"].as_str().expect("it has one").to_owned();
        self.service.sandbox.pid(&format!("agent --name {name}")).expect("it runs")
    }

    fn finished(&mut self, task: &str) -> Value {
        eventually("the task has finished", || self.client.status(task) == "FINISHED");
        self.client.query(task)
    }

    /// The last effect of each round comes before the first one of the next.
    #[track_caller]
    fn no_round_overlaps(&self) {
        let rounds = names(&self.service.sandbox.path("effects"));
        let moments: Vec<Vec<u128>> = rounds.iter().map(|round| self.moments(round)).collect();
        assert!(moments.len() >= 2, "{rounds:?}");
        for (number, pair) in moments.windows(2).enumerate() {
            let (last, first) = (pair[0].iter().max(), pair[1].iter().min());
            assert!(last < first, "round {number} goes on until {last:?}, the next one begins at {first:?}");
        }
    }

    fn moments(&self, round: &str) -> Vec<u128> {
        let text = fs::read_to_string(self.service.sandbox.path("effects").join(round)).expect("its effects");
        // A process that is killed may leave half a line.
        text.lines().filter_map(|line| line.parse().ok()).filter(|moment| *moment > 1_000_000_000_000_000_000).collect()
    }

    /// Every agent waits for a task again.
    fn has_free_agents(&mut self, count: u64) {
        eventually("all agents are free", || {
            self.client
                .try_ask("AGENT/QUERY", json!({}))
                .is_some_and(|answer| answer["__FREE__"] == count && answer["__BUSY__"] == 0)
        });
    }
}

#[test]
fn the_guard_of_a_stopped_agent_ends_its_exclusive_run() {
    let mut trial = Trial::new();
    for line in ["controller", "agent --name one", "agent --name two"] {
        trial.start(line);
    }
    let task = trial.runs(json!({"__EXCLUSIVE__": true}));
    let agent = trial.agent_of(&task);
    signal(agent, Signal::STOP);
    let end = trial.finished(&task);
    assert_eq!((&end["__OUTCOME__"], &end["__UNCONFIRMED__"]), (&json!("SUCCEEDED"), &Value::Null), "{end}");
    trial.no_round_overlaps();
    signal(agent, Signal::CONT);
    trial.has_free_agents(2);
    trial.service.is_swept();
    assert_eq!(trial.client.query(&task), end, "what the agent says of it changes nothing");
}

#[test]
fn a_supervisor_ends_a_stopped_agent_with_its_exclusive_run() {
    let mut trial = Trial::new();
    trial.service.sandbox.ok("up 2");
    let task = trial.runs(json!({"__EXCLUSIVE__": true}));
    let agent = trial.agent_of(&task);
    signal(agent, Signal::STOP);
    assert_eq!(trial.finished(&task)["__OUTCOME__"], "SUCCEEDED");
    trial.no_round_overlaps();
    trial.has_free_agents(2);
    trial.service.is_swept();
}

#[test]
fn a_kill_is_finished_when_the_run_is_over_or_says_that_nobody_knows() {
    let mut trial = Trial::new();
    for line in ["controller", "agent --name one"] {
        trial.start(line);
    }
    for exclusive in [false, true] {
        let task = trial.runs(json!({"__EXCLUSIVE__": exclusive}));
        let agent = trial.agent_of(&task);
        signal(agent, Signal::STOP);
        trial.client.ask("TASK/KILL", json!({"__TASK_ID__": task}));
        let end = trial.finished(&task);
        let is_over = trial.service.tool_processes().is_empty();
        let unconfirmed = end["__UNCONFIRMED__"] == json!(true);
        assert_eq!((is_over, unconfirmed), (exclusive, !exclusive), "exclusive: {exclusive}, {end}");
        signal(agent, Signal::CONT);
        trial.service.is_swept();
        trial.has_free_agents(1);
        fs::remove_file(trial.service.sandbox.path("effects/0")).expect("it was there");
    }
}

#[test]
fn an_agent_that_is_cut_off_ends_its_exclusive_run() {
    let mut trial = Trial::new();
    trial.start("controller");
    let port = trial.service.endpoint.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    let link = CuttableLink::to(port);
    let mut command = trial.service.sandbox.command("agent --name far");
    command.env("LLTS_CONTROLLER_REP_PORT", link.port.to_string()).env("LLTS_CONTROLLER_IPC_FILE", "");
    trial.children.push(command.start());
    trial.has_free_agents(1);
    let task = trial.runs(json!({"__EXCLUSIVE__": true}));
    trial.start("agent --name near");
    link.cut();
    let end = trial.finished(&task);
    assert_eq!((&end["__OUTCOME__"], &end["__AGENT_ID__"]), (&json!("SUCCEEDED"), &json!("near")), "{end}");
    trial.no_round_overlaps();
    trial.service.is_swept();
    link.mend();
    trial.has_free_agents(2);
    assert_eq!(trial.client.query(&task), end);
}

/// A proxy to a port of this machine that can be cut: its connections then carry nothing in either direction.
struct CuttableLink {
    port: u16,
    is_cut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl CuttableLink {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let own = listener.local_addr().expect("it is bound").port();
        let (is_cut, streams) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let link = Self { port: own, is_cut: Arc::clone(&is_cut), streams: Arc::clone(&streams) };
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let both = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
                streams.lock().expect("no panic").extend([both(&near), both(&far)]);
                for (from, to) in [(both(&near), both(&far)), (far, near)] {
                    let is_cut = Arc::clone(&is_cut);
                    std::thread::spawn(move || pass_on(from, to, &is_cut));
                }
            }
        });
        link
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// Connections that were cut have lost bytes, and are of no use.
    fn mend(&self) {
        for stream in self.streams.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if !is_cut.load(Ordering::SeqCst) && to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
