//! `llts up` and `llts down` against the real service: what is started, what comes back, what is left.

use std::os::unix::fs::MetadataExt as _;

use crate::cli::sandbox::{Sandbox, Start as _, eventually, names, signal};
use rustix::process::Signal;

/// Says which run it is, starts a process that no group holds, then sleeps in it.
const STUBBORN: &str = "\
trap '' TERM
echo $$ >> $PLACE/started
setsid sh -c 'trap \"\" TERM; echo $$ >> $PLACE/escaped; while :; do sleep 0.1; done' &
while :; do sleep 0.1; done";

/// The pids that a tool has written to a file.
fn pids(sandbox: &Sandbox, file: &str) -> Vec<i32> {
    let text = std::fs::read_to_string(sandbox.path(file)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn is_alive(sandbox: &Sandbox, pid: i32) -> bool {
    sandbox.processes().iter().any(|(found, line)| *found == pid && !line.is_empty())
}

#[test]
fn a_service_goes_up_once_and_down_as_a_whole() {
    let sandbox = Sandbox::new();
    let said = sandbox.ok("up 3");
    let lines: Vec<_> = said.out.lines().collect();
    assert!(lines[0].starts_with("controller  tcp://127.0.0.1:"), "{said:?}");
    assert!(lines[1].starts_with("publisher   tcp://127.0.0.1:"), "{said:?}");
    assert!(lines[2].starts_with("http        http://127.0.0.1:"), "{said:?}");
    assert_eq!(lines[3..], ["agents      3"]);
    let mut agents: Vec<_> = sandbox.agents().iter().map(|agent| agent["__AGENT_ID__"].to_string()).collect();
    agents.sort();
    assert_eq!(agents, ["\"agent-1\"", "\"agent-2\"", "\"agent-3\""], "all are registered when `up` returns");
    assert_eq!(sandbox.processes().len(), 5);

    let supervisor = sandbox.process("--agents 3");
    let said = sandbox.llts("up 1");
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
    assert!(said.err.contains(&format!("process {supervisor}")), "{said:?}");
    assert_eq!(sandbox.processes().len(), 5, "the first service is undisturbed");

    assert_eq!(sandbox.ok("down").out, format!("stopped the service (process {supervisor})\n"));
    sandbox.is_clean();
    assert!(!names(&sandbox.path("state")).contains(&"service.json".to_owned()));
    let said = sandbox.ok("down");
    assert!(said.out.is_empty() && said.err.contains("no service runs"), "{said:?}");
}

#[test]
fn a_service_ends_its_tasks() {
    let sandbox = Sandbox::serving(2, &[("stubborn", STUBBORN)]);
    sandbox.ok("submit stubborn");
    eventually("the tool runs", || !pids(&sandbox, "escaped").is_empty());
    sandbox.ends_clean();
}

#[test]
fn an_agent_that_is_killed_comes_back_and_its_tree_is_gone() {
    let sandbox = Sandbox::serving(1, &[("stubborn", STUBBORN)]);
    let id = sandbox.ok("submit stubborn").line().to_owned();
    eventually("the tool runs", || !pids(&sandbox, "escaped").is_empty());
    let first = sandbox.process("agent --name agent-1");
    let tree = [pids(&sandbox, "started")[0], pids(&sandbox, "escaped")[0]];
    signal(first, Signal::KILL);
    eventually("the next run of the task", || pids(&sandbox, "started").len() > 1);
    // The next agent starts only after the orphans are gone, so that none is left once its run has begun.
    assert!(tree.iter().all(|pid| !is_alive(&sandbox, *pid)), "{tree:?}: {:?}", sandbox.processes());
    assert_ne!(sandbox.process("agent --name agent-1"), first);
    assert_eq!(sandbox.agents().len(), 1, "it has the place of the first one");
    let task = sandbox.ok(&format!("query {id} --output wire")).json();
    assert_eq!(task["__ROUND__"].as_i64(), Some(1));
    sandbox.ends_clean();
}

#[test]
fn a_controller_that_is_killed_comes_back_on_its_ports() {
    let sandbox = Sandbox::new();
    let before = sandbox.ok("up 2 --output wire").json();
    let first = sandbox.process(" controller");
    signal(first, Signal::KILL);
    eventually("a controller", || {
        sandbox.processes().iter().any(|(pid, line)| line.trim_end().ends_with(" controller") && *pid != first)
    });
    eventually("its agents", || {
        let agents = sandbox.llts("agents --output wire");
        agents.code == Some(0) && agents.json()["total"].as_u64() == Some(2)
    });
    let endpoint = before["controller"].as_str().unwrap();
    sandbox.ok(&format!("stats --controller {endpoint}"));
}

/// Document, 4.3: the key names the log of every agent; one without a name that stands in a terminal logs there unless it is set.
#[test]
fn an_agent_without_a_name_logs_to_the_file_that_was_set() {
    let sandbox = Sandbox::new();
    let mut controller = sandbox.start("controller");
    eventually("the controller answers", || {
        said_in_logs(&sandbox, "controller ready") + said_in_logs(&sandbox, "rep tcp") > 0
    });
    for set in [false, true] {
        let mut command = sandbox.command("agent");
        if set {
            command.env("LLTS_AGENT_LOG_FILE", "agent.log");
        }
        let agent = command.start();
        let logs =
            || names(&sandbox.path("log")).into_iter().filter(|name| name.starts_with("agent.log.AGENT_")).count();
        // That of the agent before it may still be ending.
        let guard = format!(" guard --pid {} ", agent.pid());
        eventually("it runs", || {
            set == (logs() > 0) && sandbox.processes().iter().any(|(_, line)| line.contains(&guard))
        });
        // Its loop obeys the signal whenever it comes.
        agent.signal(Signal::TERM);
        let said = agent.said();
        assert_eq!(
            (said.code, said.err.contains("agent AGENT_"), logs()),
            (Some(0), !set, usize::from(set)),
            "{said:?}"
        );
    }
    controller.kill();
}

/// How often a log of the place says this.
fn said_in_logs(sandbox: &Sandbox, text: &str) -> usize {
    let logs = names(&sandbox.path("log")).into_iter().map(|name| sandbox.path("log").join(name));
    logs.map(|log| std::fs::read_to_string(log).unwrap_or_default().matches(text).count()).sum()
}

#[track_caller]
fn runs_a_task(sandbox: &Sandbox) {
    let id = sandbox.ok("submit true").line().to_owned();
    sandbox.ok(&format!("wait {id}"));
}

#[test]
fn agents_of_a_service_use_its_socket_in_the_file_system() {
    let sandbox = Sandbox::serving(2, &[("true", "exit 0")]);
    let socket = sandbox.path("state/controller.sock");
    assert_eq!(socket.symlink_metadata().expect("it is there").mode() & 0o777, 0o600);
    assert_eq!(said_in_logs(&sandbox, "of controller ipc://state/controller.sock"), 2);
    runs_a_task(&sandbox);

    // It leaves its file behind, and the next one makes another in its place.
    let first = sandbox.process(" controller");
    let made = |socket: &std::path::Path| {
        socket.symlink_metadata().map(|file| (file.ino(), file.ctime(), file.ctime_nsec())).ok()
    };
    let before = made(&socket);
    signal(first, Signal::KILL);
    eventually("another socket", || made(&socket).is_some_and(|now| Some(now) != before));
    runs_a_task(&sandbox);
    sandbox.ok("down");
    assert!(!socket.exists());

    // A killed service leaves it too.
    std::os::unix::net::UnixListener::bind(&socket).unwrap();
    sandbox.ok("up 1");
    assert_eq!(said_in_logs(&sandbox, "of controller ipc://state/controller.sock"), 3);
    runs_a_task(&sandbox);
    sandbox.ok("down");
}

#[test]
fn agents_use_tcp_where_there_is_no_socket_and_a_socket_with_a_long_path() {
    let long = format!("STATE_DIR = \"{}\"", "x".repeat(110));
    for (setting, over_tcp) in [(long.as_str(), 0), ("CONTROLLER_IPC_FILE = \"\"", 1)] {
        let sandbox = Sandbox::new();
        sandbox.tool("true", "exit 0");
        sandbox.append("config.toml", setting);
        sandbox.ok("up 1");
        assert_eq!(said_in_logs(&sandbox, "of controller tcp://127.0.0.1:"), over_tcp, "{setting}");
        runs_a_task(&sandbox);
        sandbox.ok("down");
    }
}

/// Else its agents would try that place for half a minute, or talk to another program.
#[test]
fn what_stands_in_the_place_of_a_socket_is_named_at_once_and_stays() {
    for name in ["controller.sock", "controller.sock.pub"] {
        let sandbox = Sandbox::new();
        let path = sandbox.path("state").join(name);
        std::fs::create_dir(sandbox.path("state")).unwrap();
        let refused = |what: &str| {
            let said = sandbox.llts("up 1");
            assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
            let sentence = format!("cannot bind ipc://state/{name}: {what}; ");
            assert!(said.err.contains(&sentence) && said.err.contains("CONTROLLER_IPC_FILE"), "{said:?}");
            assert!(path.symlink_metadata().is_ok());
            assert_eq!(sandbox.processes(), []);
        };
        std::fs::write(&path, "precious").unwrap();
        refused("the file there is not a socket");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        refused("the file there is not a socket");
        std::fs::remove_dir(&path).unwrap();
        let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        refused("a process listens there");
        // The remains of another service are none of these.
        drop(other);
        sandbox.ok("up 1");
        sandbox.ok("down");
    }
}

#[test]
fn the_endpoints_of_a_service_are_told_as_absolute_paths() {
    let sandbox = Sandbox::new();
    let deep = sandbox.path(&"x".repeat(100));
    std::fs::create_dir(&deep).unwrap();
    std::fs::write(deep.join("config.toml"), "CONTROLLER_IP = \"\"\nSTATE_DIR = \"s\"\nLOG_DIR = \"s\"\n").unwrap();
    let llts = |line: &str| sandbox.command(line).current_dir(&deep).said();
    let said = llts("up 1 --output wire");
    let [controller, publisher] = ["controller", "publisher"].map(|key| said.json()[key].clone());
    let socket = deep.join("s/controller.sock");
    assert_eq!(
        (&controller, &publisher),
        (&format!("ipc://{}", socket.display()).into(), &format!("ipc://{}.pub", socket.display()).into())
    );
    assert!(said.err.contains(&format!("socket {}, but libraries of ZeroMQ", socket.display())), "{said:?}");
    llts("agents").ok();
    llts("down");
}

/// Its lock is gone only when it is dead.
fn kill_supervisor(sandbox: &Sandbox, pid: i32) {
    signal(pid, Signal::KILL);
    eventually("the supervisor is dead", || !is_alive(sandbox, pid));
}

#[test]
fn what_a_killed_supervisor_leaves_is_ended_by_down() {
    let sandbox = Sandbox::up(2);
    kill_supervisor(&sandbox, sandbox.process("--agents 2"));
    let said = sandbox.ok("down");
    assert_eq!(said.out, "the supervisor had ended; ended 3 processes that it had left behind\n");
    eventually("all of it has ended", || sandbox.processes().is_empty());
    sandbox.is_clean();
}

#[test]
fn what_a_killed_supervisor_leaves_is_ended_by_the_next_start() {
    let sandbox = Sandbox::serving(1, &[("stubborn", STUBBORN)]);
    sandbox.ok("submit stubborn");
    eventually("the tool runs", || !pids(&sandbox, "escaped").is_empty());
    let tree = [pids(&sandbox, "started")[0], pids(&sandbox, "escaped")[0]];
    kill_supervisor(&sandbox, sandbox.process("--agents 1"));
    sandbox.ok("up 1");
    assert!(tree.iter().all(|pid| !is_alive(&sandbox, *pid)), "{:?}", sandbox.processes());
    eventually("the next run of the task, which is stored", || pids(&sandbox, "started").len() > 1);
    sandbox.ends_clean();
}

/// A controller that is killed loses no task, and the run that goes on meanwhile is adopted (README.md, promise 2).
#[test]
fn a_controller_that_is_killed_keeps_its_tasks() {
    let sandbox = Sandbox::new();
    sandbox.tool("patient", "#!/bin/sh\nuntil [ -e \"$PARAM_until\" ]; do sleep 0.05; done\necho done > report.log\n");
    sandbox.ok("up 1");
    let until = sandbox.path("until");
    let submit = || sandbox.ok(&format!("submit patient until={}", until.display())).line().to_owned();
    let (running, waiting) = (submit(), submit());
    let status = |id: &str| {
        let said = sandbox.llts(&format!("query {id} --output wire"));
        (said.code == Some(0)).then(|| said.json()["__STATUS__"].as_str().unwrap_or_default().to_owned())
    };
    eventually("the first task runs", || status(&running).as_deref() == Some("RUNNING"));
    signal(sandbox.process(" controller"), Signal::KILL);
    eventually("both tasks are known again", || {
        status(&running).as_deref() == Some("RUNNING") && status(&waiting).as_deref() == Some("WAITING")
    });
    std::fs::write(&until, "").unwrap();
    // The one that waited may have been handed out without a trace: its next run has a number that fences that one off.
    for (id, round) in [(&running, 0), (&waiting, 1)] {
        assert_eq!(sandbox.ok(&format!("wait {id}")).code, Some(0));
        let task = sandbox.ok(&format!("query {id} --output wire")).json();
        assert_eq!(
            (task["__ROUND__"].as_i64(), task["__REPORT_LOG__"].as_str()),
            (Some(round), Some("done\n")),
            "{task}"
        );
    }
    sandbox.ok("down");
    sandbox.ok("up 1");
    assert_eq!(status(&running).as_deref(), Some("FINISHED"), "a clean stop keeps them too");
    sandbox.ends_clean();
}

#[test]
fn a_start_that_fails_says_why_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let up = sandbox.command("up 2").env("LLTS_CONTROLLER_REP_PORT", &port).output().unwrap();
    let err = String::from_utf8(up.stderr).unwrap();
    assert_eq!(up.status.code(), Some(1), "{err}");
    assert!(err.starts_with("llts: ") && err.contains(&port) && err.lines().count() == 1, "{err}");
    sandbox.is_clean();
    sandbox.ok("up 1");
}

#[test]
fn a_start_that_is_interrupted_leaves_nothing() {
    let sandbox = Sandbox::new();
    let up = sandbox.start("up 40");
    eventually("it has begun", || sandbox.path("log/supervisor.log").exists());
    up.signal(Signal::INT);
    let said = up.said();
    // It may have been up already.
    if said.code != Some(0) {
        assert!(said.code == Some(1) && said.err.contains("was stopped before it was up"), "{said:?}");
        sandbox.is_clean();
    }
}

#[test]
fn tools_are_packed_at_the_start_and_a_broken_one_is_named() {
    let sandbox = Sandbox::new();
    sandbox.tool("good", "echo fine >> report.log");
    sandbox.tool("bad", "");
    std::fs::rename(sandbox.path("tools/bad"), sandbox.path("tools/b a d")).unwrap();
    let said = sandbox.ok("up 1");
    assert_eq!(said.err.lines().filter(|line| line.contains("b a d")).count(), 1, "{said:?}");
    assert_eq!(names(&sandbox.path("testTools")), ["good.tar.gz"]);
    assert_eq!(sandbox.ok("run good").out, "fine\n");
}
