//! `llts restart`: every process is replaced, and nothing notices but the one who asked.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, eventually, signal};

/// Waits until it may end.
const PATIENT: &str = "\
echo $$ > $PLACE/runs
until [ -e $PLACE/end ]; do sleep 0.05; done
echo run >> $PLACE/ended
exit 7";

/// The service as `up` has written it.
fn service(sandbox: &Sandbox) -> Value {
    let text = fs::read(sandbox.path("state/service.json")).expect("a service is up");
    serde_json::from_slice(&text).expect("JSON")
}

/// The program of a process.
fn program(pid: i32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

/// Another file with the same program.
fn another_version(sandbox: &Sandbox) -> PathBuf {
    let path = sandbox.path("llts-next");
    fs::copy(env!("CARGO_BIN_EXE_llts"), &path).expect("copied");
    path
}

fn restart(sandbox: &Sandbox, program: &Path, options: &[&str]) {
    let mut command = sandbox.program(program.to_str().expect("text"));
    command.arg("restart").args(options);
    let said = sandbox.said(sandbox.spawn(&mut command));
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn every_process_is_of_the_new_program_and_a_task_runs_on() {
    let sandbox = Sandbox::new();
    sandbox.tool("patient", PATIENT);
    sandbox.ok("up 2");
    let (supervisor, controller) = (sandbox.process("--agents 2"), sandbox.process(" controller"));
    let task = sandbox.ok("submit patient").line().to_owned();
    eventually("it runs", || sandbox.path("runs").exists());
    let waiting = sandbox.start(&format!("wait {task}"));
    let busy =
        sandbox.agents().iter().find(|agent| agent["__TASK_ID__"] == task.as_str()).cloned().expect("one has it");
    let busy = busy["__AGENT_ID__"].as_str().expect("a name").to_owned();
    let old = sandbox.process(&format!("agent --name {busy}"));
    let next = another_version(&sandbox);
    restart(&sandbox, &next, &[]);
    assert_eq!(program(supervisor), next, "the supervisor has kept its number");
    assert_eq!(program(controller), next, "and the controller its own");
    assert_ne!(program(old), next, "an agent with a task stays");
    let is_next =
        |(_, line): &(i32, String)| line.contains("agent --name") && line.starts_with(next.to_str().expect("text"));
    eventually("the other agent is new", || sandbox.processes().iter().any(is_next));
    eventually("one is left", || service(&sandbox)["renewal"]["agents_left"] == 1);
    fs::write(sandbox.path("end"), "").expect("written");
    assert_eq!(sandbox.said(waiting).code, Some(7), "the wait has got its end");
    eventually("the last agent is new", || service(&sandbox)["renewal"]["agents_left"] == 0);
    assert_eq!(sandbox.processes().iter().filter(|one| is_next(one)).count(), 2);
    assert_eq!(fs::read_to_string(sandbox.path("ended")).expect("written"), "run\n", "it ran once");
    for agent in sandbox.agents() {
        assert_eq!(agent["__PROGRAM_VERSION__"], env!("CARGO_PKG_VERSION"), "{agent}");
    }
    restart(&sandbox, Path::new(env!("CARGO_BIN_EXE_llts")), &["--wait"]);
    assert!(!sandbox.processes().iter().any(is_next), "the way back");
    sandbox.ok("down");
    sandbox.is_clean();
}

/// A REQ client that submits and asks without a pause, until it may end. A request without an answer would hang it.
fn client(endpoint: &str, number: usize, ends: &AtomicBool) -> Vec<String> {
    let socket = zmq::Context::new().socket(zmq::REQ).expect("a socket");
    socket.set_rcvtimeo(60_000).expect("an option");
    socket.set_linger(0).expect("an option");
    socket.connect(endpoint).expect("an address");
    let ask = |request: Value| -> Value {
        socket.send(request.to_string().as_bytes(), 0).expect("sent");
        let answer = socket.recv_bytes(0).unwrap_or_else(|error| panic!("client {number}: {request}: {error}"));
        serde_json::from_slice(&answer).expect("JSON")
    };
    let mut tasks = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        let answer = ask(json!({ "__TYPE__": "TASK/SUBMIT", "__OPERATION__": "note" }));
        assert_eq!(answer["__CODE__"], 0, "{answer}");
        let task = answer["__TASK_ID__"].as_str().expect("an id").to_owned();
        let found = ask(json!({ "__TYPE__": "TASK/QUERY", "__TASK_ID__": task }));
        assert_eq!(found["__CODE__"], 0, "{found}");
        tasks.push(task);
    }
    tasks
}

#[test]
fn clients_in_the_middle_of_requests_get_their_answers_and_each_task_runs_once() {
    let sandbox = Sandbox::new();
    sandbox.tool("note", "echo \"$__TASK_ID__\" >> $PLACE/notes");
    sandbox.ok("up 2");
    let endpoint = service(&sandbox)["controller"].as_str().expect("an address").to_owned();
    let ends = AtomicBool::new(false);
    let tasks: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn({
                    let (endpoint, ends) = (&endpoint, &ends);
                    move || client(endpoint, number, ends)
                })
            })
            .collect();
        for _ in 0..4 {
            restart(&sandbox, Path::new(env!("CARGO_BIN_EXE_llts")), &[]);
        }
        ends.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().expect("it gets every answer")).collect()
    });
    let waiting = tasks.join(" ");
    assert!(tasks.len() >= 4, "{tasks:?}");
    sandbox.ok(&format!("wait {waiting}"));
    let notes = fs::read_to_string(sandbox.path("notes")).expect("written");
    let ran: Vec<&str> = notes.lines().collect();
    let submitted: BTreeSet<&str> = tasks.iter().map(String::as_str).collect();
    assert!(ran.iter().all(|task| submitted.contains(task)), "a task has another id");
    assert_eq!(ran.iter().collect::<BTreeSet<_>>().len(), tasks.len(), "each has run");
    assert_eq!(ran.len(), tasks.len(), "none ran twice");
}

#[test]
fn a_program_that_cannot_take_over_changes_nothing() {
    let sandbox = Sandbox::new();
    let said = sandbox.llts("restart");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("no service runs") && said.err.contains("llts up"), "{said:?}");
    sandbox.ok("up 1");
    let supervisor = sandbox.process("--agents 1");
    let before = sandbox.processes();
    // A version whose supervisor hands over another state.
    let foreign = sandbox.path("foreign");
    let script = format!("#!/bin/sh\necho '{{}}' | exec {} \"$@\"\n", env!("CARGO_BIN_EXE_llts"));
    fs::write(&foreign, script).expect("written");
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o755)).expect("its own file");
    for (id, program, why) in [
        ("1", "/bin/false", "it is not a version of llts that can"),
        ("2", "/nowhere/llts", "cannot be started"),
        ("3", foreign.to_str().expect("text"), "does not understand the state of the running supervisor"),
    ] {
        let request = json!({ "id": id, "program": program });
        fs::write(sandbox.path("state/restart-supervisor.json"), request.to_string()).expect("written");
        signal(supervisor, Signal::USR2);
        let renewal = || service(&sandbox)["renewal"].clone();
        eventually("it answers", || renewal()["request"] == id);
        let failure = renewal()["failure"].as_str().expect("a sentence").to_owned();
        assert!(failure.contains(program) && failure.contains(why), "{failure}");
    }
    assert_eq!(sandbox.processes(), before);
    // A request to the controller that it cannot read.
    signal(sandbox.process(" controller"), Signal::USR2);
    assert_eq!(sandbox.ok("run -- echo on").out, "on\n");
    assert_eq!(sandbox.processes(), before);
}
