//! `llts restart`: every process is replaced, and nothing notices but the one who asked.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use testkit::Client;

use crate::cli::sandbox::{Sandbox, Start as _, eventually, found, signal};
use crate::cli::takeover::failures;

/// Waits until it may end.
pub(crate) const PATIENT: &str = "\
echo $$ > $PLACE/runs
until [ -e $PLACE/end ]; do sleep 0.05; done
echo run >> $PLACE/ended
exit 7";

/// The service as `up` has written it.
pub(crate) fn service(sandbox: &Sandbox) -> Value {
    let text = fs::read(sandbox.path("state/service.json")).expect("a service is up");
    serde_json::from_slice(&text).expect("JSON")
}

/// The program of a process.
fn program(pid: i32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

/// The version of this build.
const THIS: &str = env!("CARGO_PKG_VERSION");

/// The one that [`another_version`] reports.
const OTHER: &str = "9.9.9";

/// This program with another version in it.
fn another_version(sandbox: &Sandbox) -> PathBuf {
    assert_eq!(THIS.len(), OTHER.len(), "the places of everything behind it must stay");
    let stamp = "llts program version ";
    let mut sed = std::process::Command::new("sed");
    sed.env("LC_ALL", "C").arg(format!("s/{stamp}{THIS}/{stamp}{OTHER}/g")).arg(env!("CARGO_BIN_EXE_llts"));
    let program = sed.output().expect("sed").stdout;
    let path = sandbox.path("llts-next");
    fs::write(&path, program).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its own file");
    path
}

/// The versions of the agents, without repetitions.
fn versions(sandbox: &Sandbox) -> BTreeSet<String> {
    let version = |agent: &Value| agent["__PROGRAM_VERSION__"].as_str().unwrap_or_default().to_owned();
    sandbox.agents().iter().map(version).collect()
}

/// Returns what it says.
pub(crate) fn restart(sandbox: &Sandbox, program: &Path, options: &[&str]) -> String {
    let mut command = sandbox.program(program.to_str().expect("text"));
    command.arg("restart").args(options);
    let said = command.said().ok();
    said.out
}

#[test]
fn every_process_is_of_the_new_program_and_a_task_runs_on() {
    let sandbox = Sandbox::serving(2, &[("patient", PATIENT)]);
    let (supervisor, controller) = (sandbox.process("--agents 2"), sandbox.process(" controller"));
    let task = sandbox.ok("submit patient").line().to_owned();
    eventually("it runs", || sandbox.path("runs").exists());
    let waiting = sandbox.start(&format!("wait {task}"));
    let busy =
        found("one has it", || sandbox.agents().iter().find(|agent| agent["__TASK_ID__"] == task.as_str()).cloned());
    let busy = busy["__AGENT_ID__"].as_str().expect("a name").to_owned();
    let old = sandbox.process(&format!("agent --name {busy}"));
    let next = another_version(&sandbox);
    assert_eq!(versions(&sandbox), [THIS.to_owned()].into());
    let said = restart(&sandbox, &next, &[]);
    assert!(said.contains(&format!("restarted as version {OTHER} ")), "{said}");
    assert_eq!(service(&sandbox)["version"], OTHER);
    assert_eq!(program(supervisor), next, "the supervisor has kept its number");
    assert_eq!(program(controller), next, "and the controller its own");
    assert_ne!(program(old), next, "an agent with a task stays");
    let is_next =
        |(_, line): &(i32, String)| line.contains("agent --name") && line.starts_with(next.to_str().expect("text"));
    eventually("the other agent is new", || sandbox.processes().iter().any(is_next));
    eventually("one is left", || service(&sandbox)["renewal"]["agents_left"] == 1);
    eventually("the two versions serve together", || versions(&sandbox) == [THIS, OTHER].map(str::to_owned).into());
    fs::write(sandbox.path("end"), "").expect("written");
    assert_eq!(waiting.said().code, Some(7), "the wait has got its end");
    eventually("the last agent is new", || service(&sandbox)["renewal"]["agents_left"] == 0);
    eventually("both are there", || sandbox.processes().iter().filter(|one| is_next(one)).count() == 2);
    assert_eq!(fs::read_to_string(sandbox.path("ended")).expect("written"), "run\n", "it ran once");
    eventually("the new version is alone", || versions(&sandbox) == [OTHER.to_owned()].into());
    restart(&sandbox, Path::new(env!("CARGO_BIN_EXE_llts")), &["--wait"]);
    assert!(!sandbox.processes().iter().any(is_next), "the way back");
    sandbox.ends_clean();
}

/// Clients that submit while the service is restarted, and the tasks that they submit together at least.
const CLIENTS: usize = 4;
const TASKS_MIN: usize = 1000;

/// Tasks of one client. It submits without a pause, but the tasks behind these are always the same one, by its key: a slow restart must
/// not leave more tasks than a slow machine runs in time.
const TASKS_OF_CLIENT: usize = 250;

/// The name and the key of that task end so.
const AGAIN: &str = "again";

/// Ends the clients when it is dropped, also by a panic, which would wait for them otherwise.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A REQ client that submits and asks without a pause, until it may end; returns its tasks. A request without an answer would hang it.
fn client(endpoint: &str, ends: &AtomicBool) -> BTreeSet<String> {
    let client = Client::new(endpoint);
    let first = client.submit("note", json!({}));
    let mut tasks = BTreeSet::from([first.clone()]);
    while !ends.load(Ordering::Relaxed) || tasks.len() < TASKS_MIN / CLIENTS {
        let task = if tasks.len() < TASKS_OF_CLIENT {
            client.submit("note", json!({}))
        } else {
            let again = json!({ "__OPERATION__": "note", "__SUBMIT_KEY__": format!("behind {first}") });
            client.ask("TASK/SUBMIT", again)["__TASK_ID__"].as_str().expect("it is accepted").to_owned()
        };
        let found = client.query(&task);
        assert_eq!(found["__CODE__"], 0, "{found}");
        tasks.insert(task);
    }
    tasks
}

#[test]
fn clients_in_the_middle_of_requests_get_their_answers_and_each_task_runs_once() {
    let sandbox = Sandbox::serving(2, &[("note", "echo \"$__TASK_ID__\" >> $PLACE/notes")]);
    let endpoint = service(&sandbox)["controller"].as_str().expect("an address").to_owned();
    let (this, next) = (Path::new(env!("CARGO_BIN_EXE_llts")), another_version(&sandbox));
    let ends = AtomicBool::new(false);
    let tasks: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn({
                    let (endpoint, ends) = (&endpoint, &ends);
                    move || client(endpoint, ends)
                })
            })
            .collect();
        let stop = Stop(&ends);
        for (program, version) in [(&*next, OTHER), (this, THIS), (&next, OTHER)] {
            restart(&sandbox, program, &[]);
            assert_eq!(service(&sandbox)["version"], version);
            eventually("its agents serve", || versions(&sandbox) == [version.to_owned()].into());
        }
        drop(stop);
        clients.into_iter().flat_map(|client| client.join().expect("it gets every answer")).collect()
    });
    assert!(tasks.len() >= TASKS_MIN, "{}", tasks.len());
    sandbox.ok(&format!("wait {}", tasks.join(" ")));
    let notes = fs::read_to_string(sandbox.path("notes")).expect("written");
    let ran: Vec<&str> = notes.lines().collect();
    let submitted: BTreeSet<&str> = tasks.iter().map(String::as_str).collect();
    assert!(ran.iter().all(|task| submitted.contains(task)), "a task has another id");
    assert_eq!(ran.iter().collect::<BTreeSet<_>>().len(), tasks.len(), "each has run");
    assert_eq!(ran.len(), tasks.len(), "none ran twice");
}

#[test]
fn an_interrupted_restart_says_so_and_the_next_one_is_not_lost() {
    let sandbox = Sandbox::serving(1, &[("patient", PATIENT)]);
    sandbox.ok("submit patient");
    eventually("it runs", || sandbox.path("runs").exists());
    let next = another_version(&sandbox);
    // As long as the task runs, it cannot end before the signal.
    let first = sandbox.program(next.to_str().expect("text")).args(["restart", "--wait"]).start();
    let is_next = |(pid, line): &(i32, String)| line.contains("controller") && program(*pid) == next;
    eventually("the controller is tried", || sandbox.processes().iter().any(is_next));
    first.signal(Signal::INT);
    let said = first.said();
    assert_eq!((said.code, said.out.as_str()), (Some(130), ""), "{said:?}");
    assert!(said.err.contains("it goes on"), "{said:?}");
    let said = restart(&sandbox, Path::new(env!("CARGO_BIN_EXE_llts")), &[]);
    assert!(said.contains(&format!("restarted as version {THIS} ")), "{said}");
    fs::write(sandbox.path("end"), "").expect("written");
    eventually("the agent is replaced", || service(&sandbox)["renewal"]["agents_left"] == 0);
    eventually("the agent is of the last request", || versions(&sandbox) == [THIS.to_owned()].into());
    sandbox.ends_clean();
}

/// Both sides of NULL: the greeting and the READY of a DEALER.
const OPENING: &[u8] = b"\
    \xFF\0\0\0\0\0\0\0\x01\x7F\x03\x01NULL\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER";

#[test]
fn a_client_in_the_middle_of_its_handshake_gets_its_answer() {
    let sandbox = Sandbox::new();
    sandbox.configure("HANDSHAKE_TIMEOUT = 60000\n");
    sandbox.ok("up 1");
    let next = another_version(&sandbox);
    let endpoint = service(&sandbox)["controller"].as_str().expect("an address").to_owned();
    let mut stream = TcpStream::connect(endpoint.trim_start_matches("tcp://")).expect("a controller");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
    // The controller sends the rest of its greeting when it has read the beginning of ours.
    stream.write_all(&OPENING[..10]).expect("written");
    stream.read_exact(&mut [0; 64]).expect("a greeting");
    let restarting = sandbox.program(next.to_str().expect("text")).arg("restart").start();
    // The handshake has a limit, and a restart ends when the new program has lived for a while.
    let is_next = |(pid, line): &(i32, String)| line.contains("controller") && program(*pid) == next;
    eventually("the controller is the new program", || sandbox.processes().iter().any(is_next));
    stream.write_all(&OPENING[10..]).expect("written");
    let request = br#"{"__TYPE__":"AGENT/QUERY"}"#;
    stream
        .write_all(&[&[1, 0, 0, u8::try_from(request.len()).expect("short")], &request[..]].concat())
        .expect("written");
    let mut heard = Vec::new();
    while !heard.ends_with(b"}") {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).expect("an answer");
        assert_ne!(count, 0, "the connection is closed after {:?}", String::from_utf8_lossy(&heard));
        heard.extend(&bytes[..count]);
    }
    assert!(String::from_utf8_lossy(&heard).contains("\"__CODE__\":0"), "{:?}", String::from_utf8_lossy(&heard));
    restarting.said().ok();
}

/// A client of the HTTP door that keeps its connection as long as the door does.
struct HttpClient {
    address: String,
    token: String,
    connection: Option<BufReader<TcpStream>>,
}

impl HttpClient {
    /// The answer to a submit; `None` if there is none: then nothing was done.
    fn submit(&mut self, name: &str) -> Option<Value> {
        let mut body = json!({ "__TYPE__": "TASK/SUBMIT", "__OPERATION__": "note", "name": name });
        if name.ends_with(AGAIN) {
            body["__SUBMIT_KEY__"] = name.into();
        }
        let body = body.to_string();
        let request = format!(
            "POST /api HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => BufReader::new(TcpStream::connect(&self.address).expect("the listener stays open")),
        };
        connection.get_ref().write_all(request.as_bytes()).ok()?;
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            match connection.read_line(&mut line) {
                Ok(0) | Err(_) if head.is_empty() => return None,
                read => assert!(read.expect("the rest of an answer") > 0, "half an answer: {head:?}"),
            }
            if line.trim_end().is_empty() {
                break;
            }
            head.push(line.trim_end().to_lowercase());
        }
        let length =
            head.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).expect("a length");
        let mut answer = vec![0; length];
        connection.read_exact(&mut answer).expect("a whole answer");
        let answer = serde_json::from_slice(&answer).expect("JSON");
        if !head.iter().any(|line| line == "connection: close") {
            self.connection = Some(connection);
        }
        match head[0].split(' ').nth(1) {
            Some("200") => Some(answer),
            Some("503") => None,
            _ => panic!("{head:?} {answer}"),
        }
    }

    /// Submits until it may end; returns the names of its tasks.
    fn run(&mut self, number: usize, ends: &AtomicBool) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        while !ends.load(Ordering::Relaxed) {
            let behind = if names.len() < TASKS_OF_CLIENT { &names.len().to_string() } else { AGAIN };
            let name = format!("{number}-{behind}");
            let answer = std::iter::repeat_with(|| self.submit(&name)).take(100).flatten().next();
            let answer = answer.unwrap_or_else(|| panic!("{name} was turned away again and again"));
            assert_eq!(answer["__CODE__"], 0, "{answer}");
            names.insert(name);
        }
        names
    }
}

#[test]
fn a_client_of_http_gets_its_answer_or_nothing_was_done() {
    let sandbox = Sandbox::new();
    sandbox.tool("note", "echo \"$PARAM_name\" >> $PLACE/notes");
    sandbox.append("config.toml", "[http]\nENABLED = true\nPORT = 0");
    sandbox.ok("up 2");
    let http = service(&sandbox)["http"].clone();
    let address = http.as_str().and_then(|http| http.strip_prefix("http://")).expect("an address").to_owned();
    let token = fs::read_to_string(sandbox.path("state/http.token")).expect("text").trim().to_owned();
    let (this, next) = (Path::new(env!("CARGO_BIN_EXE_llts")), another_version(&sandbox));
    let ends = AtomicBool::new(false);
    let names: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let mut client = HttpClient { address: address.clone(), token: token.clone(), connection: None };
                let ends = &ends;
                scope.spawn(move || client.run(number, ends))
            })
            .collect();
        let stop = Stop(&ends);
        for program in [&*next, this, &next] {
            restart(&sandbox, program, &[]);
            assert_eq!(service(&sandbox)["http"], http, "its port stays");
        }
        drop(stop);
        clients.into_iter().flat_map(|client| client.join().expect("it gets every answer")).collect()
    });
    let total = names.len();
    assert_eq!(sandbox.ok("list --limit 1 --output wire").json()["total"], total, "accepted, and told so");
    eventually("every task has run", || {
        sandbox.ok("list --where __STATUS__=FINISHED --limit 1 --output wire").json()["total"] == total
    });
    let notes = fs::read_to_string(sandbox.path("notes")).expect("written");
    let mut ran: Vec<&str> = notes.lines().collect();
    ran.sort_unstable();
    let mut submitted = names;
    submitted.sort_unstable();
    assert_eq!(ran, submitted, "each ran once");
}

#[test]
fn a_program_that_cannot_take_over_changes_nothing() {
    let sandbox = Sandbox::new();
    let said = sandbox.llts("restart").ended(1);
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
    // What was tried may still be ending.
    eventually("the processes are those from before", || sandbox.processes() == before);
    // A request to the controller that it cannot read.
    signal(sandbox.process(" controller"), Signal::USR2);
    assert_eq!(sandbox.ok("run -- echo on").out, "on\n");
    eventually("the processes are still those from before", || sandbox.processes() == before);
}

/// A program that is like this one, but for what a script does with some of its command lines.
pub(crate) fn broken(sandbox: &Sandbox, name: &str, cases: &str) -> PathBuf {
    let this = env!("CARGO_BIN_EXE_llts");
    let path = sandbox.path(name);
    let script = format!("#!/bin/sh\nthis={this}\ncase \"$*\" in\n*--probe*) ;;\n{cases}\nesac\nexec $this \"$@\"\n");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its own file");
    path
}

/// Asks the supervisor to become a program, as `llts restart` of that program does; returns why it did not.
pub(crate) fn failed_restart(sandbox: &Sandbox, id: &str, program: &Path) -> String {
    let request = json!({ "id": id, "program": program });
    fs::write(sandbox.path("state/restart-supervisor.json"), request.to_string()).expect("written");
    signal(service(sandbox)["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a number"), Signal::USR2);
    let renewal = || service(sandbox)["renewal"].clone();
    eventually("it answers", || renewal()["request"] == id);
    renewal()["failure"].as_str().expect("a sentence").to_owned()
}

#[test]
fn a_program_that_fails_as_the_controller_is_given_up_and_a_task_runs_on() {
    let sandbox = Sandbox::new();
    sandbox.tool("patient", PATIENT);
    // The file of the running program is replaced, as an installation does it.
    let installed = another_version(&sandbox);
    assert_eq!(sandbox.program(installed.to_str().expect("text")).args(["up", "1"]).said().code, Some(0));
    let supervisor = sandbox.process("--agents 1");
    let task = sandbox.ok("submit patient").line().to_owned();
    eventually("it runs", || sandbox.path("runs").exists());
    let agent = sandbox.process("agent --name agent-1");
    fs::remove_file(&installed).expect("its own file");
    let dies = broken(&sandbox, "dies", "*controller*) echo 'llts: no such thing' >&2; exit 3;;");
    fs::rename(&dies, &installed).expect("its own file");
    let why = failed_restart(&sandbox, "1", &installed);
    assert!(why.contains("was tried, but its controller failed: no such thing"), "{why}");
    assert_eq!(sandbox.ok("query TASK".replace("TASK", &task).as_str()).code, Some(0));
    // Its death comes behind its ready line, and before it has proved itself.
    let log = sandbox.path("log/controller.log").display().to_string();
    let count = format!("$(grep -c 'controller ready' {log})");
    let dies = format!("until [ {count} -gt $n ]; do sleep 0.05; done; sleep 0.5; kill -9 $$");
    let soon = broken(&sandbox, "soon", &format!("*controller*) n={count}; ({dies}) & ;;"));
    let why = failed_restart(&sandbox, "2", &soon);
    assert!(why.contains("was ready, but soon ended: it was ended by signal 9"), "{why}");
    assert!(sandbox.path("log/supervisor.log").exists());
    eventually("the earlier program serves", || sandbox.llts(&format!("query {task}")).code == Some(0));
    assert_eq!((sandbox.process("--agents 1"), sandbox.process("agent --name agent-1")), (supervisor, agent));
    eventually("its agent is of it", || versions(&sandbox) == [OTHER.to_owned()].into());
    fs::write(sandbox.path("end"), "").expect("written");
    assert_eq!(sandbox.llts(&format!("wait {task}")).code, Some(7));
    assert_eq!(fs::read_to_string(sandbox.path("ended")).expect("written"), "run\n", "it ran once");
    // A good one follows as ever.
    restart(&sandbox, Path::new(env!("CARGO_BIN_EXE_llts")), &["--wait"]);
    eventually("its agent is new", || versions(&sandbox) == [THIS.to_owned()].into());
    sandbox.ends_clean();
}

#[test]
fn a_program_that_fails_as_the_supervisor_is_followed_by_the_one_before_it() {
    let sandbox = Sandbox::up(1);
    let supervisor = sandbox.process("--agents 1");
    let task = sandbox.ok("submit --start-after +1h -- echo kept").line().to_owned();
    // The path that a program whose file was removed has for itself.
    let next = another_version(&sandbox);
    let file = fs::File::open(&next).expect("its own file");
    fs::remove_file(&next).expect("its own file");
    broken(&sandbox, "llts-next (deleted)", "*supervise*--handover*) echo 'llts: no such luck' >&2; exit 3;;");
    let said = sandbox.program(format!("/proc/self/fd/{}", file.as_raw_fd())).arg("restart").said().ended(1);
    let why = "the supervisor of the new program has ended: no such luck";
    assert!(said.err.contains(why) && said.err.contains("started again with the earlier program"), "{said:?}");
    eventually("the history tells of it", || failures(&sandbox).iter().any(|text| text.contains(why)));
    assert_ne!(service(&sandbox)["pid"], supervisor);
    assert_eq!(sandbox.ok("run -- echo on").out, "on\n");
    assert!(sandbox.ok(&format!("query {task}")).out.contains("WAITING"));
    sandbox.ends_clean();
}

/// It would be silent for ever, and its operator would look for it in `llts agents`.
#[test]
fn an_agent_that_cannot_be_spoken_to_is_refused_in_the_history() {
    let sandbox = Sandbox::up(1);
    let endpoint = service(&sandbox)["controller"].as_str().expect("an address").to_owned();
    let heartbeat = json!({
        "__AGENT_ID__": "stranger", "__STATUS__": "FREE",
        "__WIRE_VERSION__": 99, "__PROGRAM_VERSION__": OTHER,
    });
    for _ in 0..3 {
        let answer = Client::new(&endpoint).ask("AGENT/HEARTBEAT", heartbeat.clone());
        let said = answer["__ERROR_MSG__"].as_str().unwrap_or_default();
        assert!(said.contains("version 99") && said.contains("restart the controller"), "{answer}");
    }
    let found = sandbox.ok("incidents --kind refused --output wire").json();
    let incidents = found["incidents"].as_array().expect("a list");
    assert_eq!(incidents.len(), 1, "{found}");
    let said = incidents[0]["__REASON__"].as_str().expect("a sentence");
    assert!(said.starts_with("agent stranger is refused: ") && said.contains("restart the controller"), "{said}");
    sandbox.ok("down");
}
