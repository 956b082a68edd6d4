//! A process of another user that a tool has left behind: its agent may not end it, and says so.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::cli::sandbox::{Said, Sandbox, Start as _, eventually, signal};

/// The user of the agents.
const NOBODY: u32 = 65534;

/// `llts` in this place as a user who is not root.
fn as_nobody(sandbox: &Sandbox, line: &str) -> Said {
    let mut llts = sandbox.program(sandbox.path("llts"));
    llts.args(line.split(' ')).under(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]).said()
}

/// A place in which a user who is not root runs a service of one agent, and a program that makes itself root; `None` where that
/// cannot be had. A result is held back for so many milliseconds.
#[expect(clippy::print_stdout, reason = "a test that does not run says why")]
fn sandbox_of_nobody(timeout: u32) -> Option<Sandbox> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make a process that its agent may not end");
        return None;
    }
    let sandbox = Sandbox::new();
    let copy = |from: &str, name: &str, mode| {
        fs::copy(from, sandbox.path(name)).expect("copied");
        fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(mode)).expect("its mode");
    };
    copy(env!("CARGO_BIN_EXE_llts"), "llts", 0o755);
    sandbox.append("config.toml", &format!("AGENT_FOREIGN_PROCESS_TIMEOUT = {timeout}"));
    sandbox.tool(
        "foreign",
        "$PLACE/become --reuid=0 --regid=0 --clear-groups sh -c 'echo $$ > $PLACE/log/pid; exec sleep 1000' &
        while ! grep -qs sleep /proc/$(cat $PLACE/log/pid)/comm; do sleep 0.01; done 2>/dev/null",
    );
    sandbox.tool(
        "turned",
        "echo so far > report.log
        echo $$ > $PLACE/log/pid
        exec $PLACE/become --reuid=0 --regid=0 --clear-groups sleep 1000",
    );
    let own = |path: PathBuf| chown(path, Some(NOBODY), Some(NOBODY)).expect("given away");
    [".", "log", "tools", "tmp", "tools/foreign", "tools/turned"].into_iter().for_each(|name| own(sandbox.path(name)));
    let setpriv =
        String::from_utf8(Command::new("sh").args(["-c", "command -v setpriv"]).output().ok()?.stdout).ok()?;
    copy(setpriv.trim(), "become", 0o4755);
    let test = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(sandbox.path("become"))
        .args(["--reuid=0", "--regid=0", "--clear-groups", "true"])
        .stderr(Stdio::null())
        .status();
    if !test.is_ok_and(|status| status.success()) {
        println!("skipped: set-user-id programs do not work here");
        return None;
    }
    Some(sandbox)
}

/// The process of the last run.
fn pid(sandbox: &Sandbox) -> Option<i32> {
    fs::read_to_string(sandbox.path("log/pid")).ok()?.trim().parse().ok()
}

/// Ends the process, which nothing else does. Dropped before its place.
struct Foreign<'a>(&'a Sandbox);

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        if let Some(pid) = pid(self.0).and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn a_process_that_an_agent_may_not_end_is_named_and_no_task_runs_beside_it() {
    let Some(sandbox) = sandbox_of_nobody(300) else { return };
    as_nobody(&sandbox, "up 1").ok();
    let id = as_nobody(&sandbox, "submit foreign").line().to_owned();
    eventually("the tool has left its process", || sandbox.path("log/pid").exists());
    let _foreign = Foreign(&sandbox);
    as_nobody(&sandbox, &format!("wait {id} --timeout 60")).ok();
    let task = as_nobody(&sandbox, &format!("query {id} --output wire")).json();
    let pid = pid(&sandbox).unwrap();
    let reason = task["__REASON__"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains(&format!("process {pid} (sleep) of user 0")), "{task}");
    assert_eq!((task["__EXIT_CODE__"].as_i64(), task["__OUTCOME__"].as_str()), (Some(0), Some("SUCCEEDED")));
    let explained = as_nobody(&sandbox, &format!("explain {id}"));
    assert!(explained.out.contains(&reason), "{explained:?}");
    let log = fs::read_to_string(sandbox.path("log/agent.log.agent-1")).unwrap();
    assert!(log.lines().any(|line| line.contains("WARN") && line.contains(&reason)), "{log}");

    let next = as_nobody(&sandbox, "submit foreign").line().to_owned();
    let agents = || as_nobody(&sandbox, "agents --output wire").json()["agents"][0].clone();
    eventually("it says that it is busy", || agents()["__AGENT_STATUS__"] == "BUSY");
    assert!(agents()["__TASK_ID__"].is_null(), "{}", agents());
    assert_eq!(as_nobody(&sandbox, &format!("query {next} --output wire")).json()["__STATUS__"], "WAITING");
    let waits = as_nobody(&sandbox, &format!("explain {next}"));
    assert!(waits.out.contains(&format!("is kept busy by the remains of task {id}: {reason}")), "{waits:?}");

    fs::remove_file(sandbox.path("log/pid")).unwrap();
    signal(pid, Signal::KILL);
    eventually("the next task starts when it has ended", || sandbox.path("log/pid").exists());
    as_nobody(&sandbox, &format!("wait {next} --timeout 60")).ok();
    as_nobody(&sandbox, "down");
}

/// run.sh itself has become another user.
#[test]
fn a_run_sh_that_an_agent_may_not_end_is_named_and_its_kill_comes_to_an_end() {
    let Some(sandbox) = sandbox_of_nobody(300) else { return };
    as_nobody(&sandbox, "up 1").ok();
    let id = as_nobody(&sandbox, "submit turned").line().to_owned();
    let is_foreign = || {
        let status = pid(&sandbox).and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
        status.is_some_and(|status| status.contains("Name:\tsleep") && status.contains("Uid:\t0"))
    };
    eventually("run.sh is another user", is_foreign);
    let _foreign = Foreign(&sandbox);
    let pid = pid(&sandbox).unwrap();
    let next = as_nobody(&sandbox, "submit foreign").line().to_owned();
    assert_eq!(as_nobody(&sandbox, &format!("kill {id}")).code, Some(0));
    let ended = as_nobody(&sandbox, &format!("wait {id} --timeout 60"));
    let task = as_nobody(&sandbox, &format!("query {id} --output wire")).json();
    assert_eq!(task["__OUTCOME__"], "KILLED", "{ended:?} {task}");
    assert_eq!((task["__EXIT_CODE__"].as_i64(), task["__REPORT_LOG__"].as_str()), (Some(-9), Some("so far\n")));
    let reason = format!("process {pid} (sleep) of user 0");
    assert!(task["__REASON__"].as_str().unwrap_or_default().contains(&reason), "{task}");
    let explained = as_nobody(&sandbox, &format!("explain {id}"));
    assert!(explained.out.contains(&reason), "{explained:?}");
    let agents = || as_nobody(&sandbox, "agents --output wire").json()["agents"][0].clone();
    eventually("it says that it is busy", || agents()["__AGENT_STATUS__"] == "BUSY");
    assert!(agents()["__TASK_ID__"].is_null(), "{}", agents());
    assert_eq!(as_nobody(&sandbox, &format!("query {next} --output wire")).json()["__STATUS__"], "WAITING");
    let waits = as_nobody(&sandbox, &format!("explain {next}"));
    assert!(waits.out.contains(&format!("is kept busy by the remains of task {id}: {reason}")), "{waits:?}");

    fs::remove_file(sandbox.path("log/pid")).unwrap();
    signal(pid, Signal::KILL);
    eventually("the next task starts when it has ended", || sandbox.path("log/pid").exists());
    as_nobody(&sandbox, &format!("wait {next} --timeout 60"));
    as_nobody(&sandbox, "down");
}

/// Long before the result is: in the session of run.sh, where SIGCONT is allowed to every process, as out of it.
#[test]
fn what_holds_a_task_that_has_ended_is_named_while_its_result_is_held_back() {
    let Some(sandbox) = sandbox_of_nobody(60_000) else { return };
    as_nobody(&sandbox, "up 1").ok();
    for (submit, is_killed) in [("submit foreign", false), ("submit turned", true), ("submit turned --exclusive", true)]
    {
        let id = as_nobody(&sandbox, submit).line().to_owned();
        let process = || pid(&sandbox).and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
        let is_foreign = |status: String| status.contains("Name:\tsleep") && status.contains("Uid:\t0");
        eventually("a process is another user", || process().is_some_and(is_foreign));
        let _foreign = Foreign(&sandbox);
        let pid = pid(&sandbox).unwrap();
        if is_killed {
            assert_eq!(as_nobody(&sandbox, &format!("kill {id}")).code, Some(0));
        }
        let status = || as_nobody(&sandbox, &format!("query {id} --output wire")).json()["__STATUS__"].clone();
        eventually("the run has ended", || status() == "ENDED");
        let holder = format!("process {pid} (sleep) of user 0");
        let explained = || as_nobody(&sandbox, &format!("explain {id}")).out;
        eventually(&format!("{submit}: the holder is named"), || explained().contains(&holder));
        fs::remove_file(sandbox.path("log/pid")).unwrap();
        signal(pid, Signal::KILL);
        eventually("the task has finished", || status() == "FINISHED");
    }
    as_nobody(&sandbox, "down");
}
