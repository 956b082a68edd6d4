//! A controller that serves a folder with its own agents: `[lists] DIR`.

use std::fs;

use rustix::process::Signal;

use testkit::Place;

use crate::lists::sandbox::{ENDS, Sandbox, Start as _, eventually, found, signal};

const CONFIG: &str = "\
CONTROLLER_REP_PORT = 0
CONTROLLER_PUB_PORT = 0
AGENT_HEARTBEAT_INTERVAL = 1000
AGENT_KILL_INTERVAL = 300
LOG_DIR = \"log\"
";

/// A home with so many agents, whose service runs.
fn up(agents: u32, keys: &[(&str, &str)]) -> Sandbox {
    let mut sandbox = Sandbox::home(CONFIG);
    keys.iter().for_each(|(key, value)| sandbox.set(key, value));
    sandbox.ok(&format!("up {agents}"));
    sandbox
}

/// The process of the controller.
fn controller(sandbox: &Sandbox) -> i32 {
    sandbox.process(" controller")
}

/// Where the folder is served.
fn address(sandbox: &Sandbox) -> String {
    found("the address of the lists", || {
        let log = fs::read_to_string(sandbox.root().join("log/controller.log")).ok()?;
        let (_, rest) = log.rsplit_once("server of task lists ready: ")?;
        rest.split(' ').next().map(str::to_owned)
    })
}

/// Whether a task of the lists is in this phase.
fn has(sandbox: &Sandbox, status: &str) -> bool {
    sandbox.plain(&format!("list --job lists --status {status}")).out.contains("TASK_")
}

#[test]
fn a_controller_works_its_folder_off() {
    let sandbox = up(2, &[]);
    let lines: String = (1..=40).map(|number| format!("echo {number}; test $LLTS_TASK_ID\n")).collect();
    let ids = sandbox.llts_with(&["add", "--each-line", "-"], lines.as_bytes()).ok().out;
    let ids: Vec<&str> = ids.lines().collect();
    let bad = sandbox.add(&["echo out; echo bad >&2; exit 0", "--max-fails", "2"]);
    let quiet = sandbox.add(&["exit 75"]);
    let ended = sandbox.add(&["kill -9 $$"]);
    let long = sandbox.add(&["head -c 100000 /dev/zero | tr '\\0' x; printf '\\377' >&1"]);
    sandbox.until("completed_archive", 42);
    for (id, number) in ids.iter().zip(1..) {
        assert_eq!(sandbox.text(&format!("completed_archive/{id}.out")), format!("{number}\n"));
        let task = sandbox.text(&format!("completed_archive/{id}.task"));
        assert_eq!(task.lines().nth(7), Some("controller"), "{task}");
    }
    assert_eq!(sandbox.ended(&quiet), "completed_archive", "the exit code is not looked at, and it ran once");
    let bytes = fs::read(sandbox.path(&format!("completed_archive/{long}.out"))).unwrap();
    assert_eq!((bytes.len(), bytes.last()), (100_001, Some(&255)), "an output longer than the result is read whole");
    assert_eq!(sandbox.ended(&ended), "failed_count");
    assert_eq!(sandbox.text(&format!("failed_count/{ended}.err")), "ended by signal 9\n");
    let again = bad.replace("_0", "_1");
    assert_eq!(sandbox.ended(&again), "failed_count", "two runs");
    assert_eq!(sandbox.ended(&bad), "failed_archive");
    for (state, id) in [("failed_archive", &bad), ("failed_count", &again)] {
        let text = |ending| sandbox.text(&format!("{state}/{id}.{ending}"));
        assert_eq!([text("out"), text("err")], ["out\n", "bad\n"]);
    }
    let listed = sandbox.ok("list --job lists --output wire").out;
    assert!(listed.contains(ids[0]), "they are tasks of the controller: {listed}");
    for state in ["new", "open", "running", "closed", "completed", "failed"] {
        eventually(&format!("nothing in {state}"), || sandbox.names(state).is_empty());
    }
}

#[test]
fn an_outside_worker_gets_what_our_agents_cannot_start() {
    let sandbox = up(1, &[("LIST_TASKS_MAX", "1")]);
    // The agent is busy with the first list, so the second one stays open until a worker comes.
    let first = sandbox.add(&["until test -e go; do sleep 0.05; done; echo first"]);
    eventually("a list of ours", || sandbox.names("running").iter().any(|name| name.contains("_controller_")));
    let second = sandbox.add(&["echo second"]);
    eventually("an open list", || sandbox.names("open").len() == 1);
    let _worker = sandbox.worker_at("outside", &address(&sandbox));
    assert_eq!(sandbox.ended(&second), "completed_archive");
    let task = sandbox.text(&format!("completed_archive/{second}.task"));
    assert_eq!(task.lines().nth(7), Some("outside"));
    fs::write(sandbox.root().join("go"), "").unwrap();
    assert_eq!(sandbox.ended(&first), "completed_archive");
}

#[test]
fn a_list_that_waits_goes_to_an_idle_worker() {
    let sandbox = up(1, &[]);
    let lines = "until test -e go; do sleep 0.05; done; echo 1\necho 2\necho 3\n";
    let ids = sandbox.llts_with(&["add", "--each-line", "-"], lines.as_bytes()).ok().out;
    let ids: Vec<&str> = ids.lines().collect();
    eventually("a list of ours", || sandbox.names("running").iter().any(|name| name.contains("_controller_")));
    eventually("its first task", || has(&sandbox, "RUNNING"));
    // The next task of the list waits behind this one.
    let blocker = "until test -e end; do sleep 0.05; done";
    sandbox.ok(&["submit", "--priority", "50", "--sh", blocker]);
    fs::write(sandbox.root().join("go"), "").unwrap();
    eventually("the wait of the second task", || has(&sandbox, "WAITING"));
    let _worker = sandbox.worker_at("outside", &address(&sandbox));
    sandbox.until("completed_archive", 3);
    for (id, (worker, out)) in ids.iter().zip([("controller", "1\n"), ("outside", "2\n"), ("outside", "3\n")]) {
        let task = sandbox.text(&format!("completed_archive/{id}.task"));
        assert_eq!(task.lines().nth(7), Some(worker), "{task}");
        assert_eq!(sandbox.text(&format!("completed_archive/{id}.out")), out);
    }
    fs::write(sandbox.root().join("end"), "").unwrap();
}

#[test]
fn a_task_that_a_user_kills_or_that_is_late_has_failed_with_a_sentence() {
    let sandbox = up(1, &[]);
    let killed = sandbox.add(&["echo begun; exec sleep 1000"]);
    eventually("the command", || has(&sandbox, "RUNNING"));
    let late = sandbox.add(&["echo never >never", "--until", "+10s"]);
    eventually("the end of its time", || {
        let until: u64 = fs::read_dir(sandbox.path("open"))
            .ok()
            .and_then(|mut lists| lists.next()?.ok())
            .and_then(|list| {
                fs::read_to_string(list.path().join(format!("{late}.task"))).ok()?.lines().nth(2)?.parse().ok()
            })
            .unwrap_or(u64::MAX);
        proc::clock::now().wall.micros() / 1_000_000 > until
    });
    sandbox.ok("kill --job lists --yes");
    assert_eq!(sandbox.ended(&killed), "failed_count");
    let err = sandbox.text(&format!("failed_count/{killed}.err"));
    assert!(err.starts_with("ended by signal 15\nkilled by a client"), "{err}");
    assert_eq!(sandbox.text(&format!("failed_count/{killed}.out")), "begun\n");
    assert_eq!(sandbox.ended(&late), "failed_count");
    assert!(sandbox.text(&format!("failed_count/{late}.err")).starts_with("not started before "));
    assert!(!sandbox.root().join("never").exists());
}

#[test]
fn a_task_whose_time_passes_while_it_waits_is_not_started() {
    let sandbox = up(1, &[]);
    let lines = "until test -e go; do sleep 0.05; done\necho never >never\n";
    let ids = sandbox.llts_with(&["add", "--each-line", "-", "--until", "+15s"], lines.as_bytes()).ok().out;
    let ids: Vec<&str> = ids.lines().collect();
    eventually("its first task", || has(&sandbox, "RUNNING"));
    let blocker = "until test -e end; do sleep 0.05; done";
    sandbox.ok(&["submit", "--priority", "50", "--sh", blocker]);
    fs::write(sandbox.root().join("go"), "").unwrap();
    assert_eq!(sandbox.ended(ids[0]), "completed_archive");
    assert_eq!(sandbox.ended(ids[1]), "failed_count");
    assert!(sandbox.text(&format!("failed_count/{}.err", ids[1])).starts_with("not started before "));
    fs::write(sandbox.root().join("end"), "").unwrap();
    assert!(!sandbox.root().join("never").exists());
}

#[test]
fn a_killed_controller_finds_its_tasks_again() {
    let sandbox = up(2, &[("LIST_TASKS_MAX", "20")]);
    let lines: String = (1..=120)
        .map(|number| {
            let complaint = if number % 7 == 0 { "; echo bad >&2" } else { "" };
            format!("echo {number} >>runs; sleep 0.01; echo {number}{complaint}\n")
        })
        .collect();
    let ids = sandbox.llts_with(&["add", "--each-line", "-", "--max-fails", "1"], lines.as_bytes()).ok().out;
    let done = || ENDS.iter().map(|state| sandbox.tasks(state).len()).sum::<usize>();
    for count in [15, 40, 70, 95] {
        eventually("some ends", || done() >= count);
        let killed = controller(&sandbox);
        signal(killed, Signal::KILL);
        eventually("another controller", || {
            sandbox.processes().iter().all(|(pid, _)| *pid != killed) && sandbox.plain("stats").code == Some(0)
        });
    }
    eventually("all ends", || done() == 120);
    for (id, number) in ids.lines().zip(1..) {
        let state = if number % 7 == 0 { "failed_count" } else { "completed_archive" };
        assert_eq!(sandbox.ended(id), state, "{number}");
        assert_eq!(sandbox.text(&format!("{state}/{id}.out")), format!("{number}\n"));
        assert_eq!(sandbox.path(&format!("{state}/{id}.err")).exists(), number % 7 == 0);
    }
    let runs = fs::read_to_string(sandbox.root().join("runs")).unwrap();
    let mut runs: Vec<u64> = runs.lines().map(|line| line.parse().unwrap()).collect();
    runs.sort_unstable();
    assert_eq!(runs, (1..=120).collect::<Vec<_>>(), "each command ran once");
    for state in ["new", "open", "running", "closed", "completed", "failed"] {
        eventually(&format!("nothing in {state}"), || sandbox.names(state).is_empty());
    }
}

#[test]
fn a_folder_that_cannot_be_used_keeps_the_controller_from_starting() {
    let mut sandbox = Sandbox::home(CONFIG);
    let server = sandbox.server();
    let said = sandbox.plain("controller");
    assert_eq!(said.out, "");
    said.failed(1, "another server of task lists already has ");
    said.failed(1, "(process ");
    server.stop();
    sandbox.ok("up 1");
    sandbox.llts(&["server", "tasks", "--port", "0"]).refused(1, "another server of task lists already has ");
    sandbox.ok("down");
    fs::write(sandbox.root().join("file"), "").unwrap();
    sandbox.set("DIR", "file");
    sandbox.plain("controller").failed(1, "cannot use file");
    sandbox.set("DIR", "tasks");
    let mut command = Place::command(&sandbox, "controller");
    command.env("LLTS_ALLOW_COMMANDS", "no").said().failed(1, "ALLOW_COMMANDS = \"no\" takes none");
}
