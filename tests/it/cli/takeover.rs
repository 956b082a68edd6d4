//! Restarts that fail, or that meet a busy machine: the service and its runs stay.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli::restart::{PATIENT, Stop, broken, failed_restart, restart, service};
use crate::cli::sandbox::{Sandbox, eventually, signal};

/// A case of [`broken`]: another process has the lock of the log of the new supervisor for some seconds.
fn holding_log(sandbox: &Sandbox, seconds: f64) -> String {
    let log = sandbox.path("log/supervisor.log");
    format!("*supervise*--handover*) exec 9>>{}; flock 9; sleep {seconds} & exec 9>&-;;", log.display())
}

/// The incidents about restarts.
pub(crate) fn failures(sandbox: &Sandbox) -> Vec<String> {
    let incidents = sandbox.ok("incidents --kind restart_failed --output wire").json();
    let texts = incidents["incidents"].as_array().expect("a list").iter();
    texts.map(|incident| incident["__REASON__"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn a_supervisor_that_cannot_serve_becomes_the_one_before_it_and_a_task_runs_on() {
    let sandbox = Sandbox::serving(1, &[("patient", PATIENT)]);
    let task = sandbox.ok("submit patient").line().to_owned();
    eventually("it runs", || sandbox.path("runs").exists());
    let processes = || [service(&sandbox)["pid"].clone(), json!(sandbox.process("agent --name agent-1"))];
    let before = processes();
    // The first one fails before it has read its configuration, as it lacks the copy; the second one when it opens its log.
    let unread = broken(
        &sandbox,
        "unread",
        "*supervise*--handover*) exec env -u LLTS_RUN_CONFIG $this --config /nowhere.toml \"$@\";;",
    );
    let logless = broken(&sandbox, "logless", &holding_log(&sandbox, 3.5));
    for (id, program, why) in [("1", &unread, "/nowhere.toml"), ("2", &logless, "another process logs to")] {
        let said = failed_restart(&sandbox, id, program);
        assert!(said.contains("the new program cannot serve as the supervisor") && said.contains(why), "{said}");
        eventually("the history tells of it", || failures(&sandbox).iter().any(|text| text.contains(why)));
        assert_eq!(processes(), before, "{why}");
    }
    fs::write(sandbox.path("end"), "").expect("written");
    assert_eq!(sandbox.llts(&format!("wait {task}")).code, Some(7));
    assert_eq!(fs::read_to_string(sandbox.path("ended")).expect("written"), "run\n", "it ran once");
    restart(&sandbox, Path::new(env!("CARGO_BIN_EXE_llts")), &["--wait"]);
    sandbox.ends_clean();
}

/// The file is that of the next start: neither a restart that fails nor the death of a process brings it into force.
#[test]
fn a_changed_configuration_takes_effect_with_a_restart_that_succeeds_and_not_before() {
    let sandbox = Sandbox::serving(1, &[("patient", PATIENT)]);
    let task = sandbox.ok("submit --exclusive patient").line().to_owned();
    eventually("it runs", || sandbox.path("runs").exists());
    let agent = sandbox.process("agent --name agent-1");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = other.local_addr().expect("its address").port();
    let door = format!("[http]\nENABLED = true\nPORT = {port}\n");
    for (lines, why) in [
        (door.as_str(), "cannot listen on http://127.0.0.1:"),
        ("AGENT_WORK_DIR = \"/proc/none\"\n", "AGENT_WORK_DIR: cannot open the work folder"),
        ("NO_SUCH_KEY = 1\n", "NO_SUCH_KEY"),
    ] {
        sandbox.configure(lines);
        let said = sandbox.llts("restart");
        assert!(said.code != Some(0) && said.err.contains(why), "{said:?}");
        sandbox.ok("stats");
    }
    sandbox.configure(&door);
    let controller = sandbox.process(" controller");
    signal(controller, Signal::KILL);
    let is_new = |(pid, line): &(i32, String)| line.trim_end().ends_with(" controller") && *pid != controller;
    eventually("another controller is started", || sandbox.processes().iter().any(is_new));
    eventually("it serves", || sandbox.llts("stats").code == Some(0));
    fs::write(sandbox.path("end"), "").expect("written");
    assert_eq!(sandbox.llts(&format!("wait {task}")).code, Some(7));
    assert_eq!(fs::read_to_string(sandbox.path("ended")).expect("written"), "run\n", "it ran once");
    assert_eq!(sandbox.process("agent --name agent-1"), agent);
    sandbox.configure("AGENT_WORK_DIR = \"/proc/none\"\n");
    signal(agent, Signal::KILL);
    sandbox.ok("run -- true");
    drop(other);
    sandbox.configure(&door);
    sandbox.ok("restart --wait");
    assert_eq!(service(&sandbox)["http"], format!("http://127.0.0.1:{port}"));
    sandbox.ends_clean();
}

/// The controller and the supervisor of the new configuration work.
#[test]
fn agents_that_do_not_start_after_a_restart_are_an_incident() {
    let sandbox = Sandbox::up(1);
    sandbox.configure("AGENT_LOG_FILE = \"/proc/none/agent.log\"\n");
    sandbox.ok("restart");
    let tells = |text: &String| text.contains("agent-1 failed: ") && text.contains("/proc/none");
    eventually("the history tells of it", || failures(&sandbox).iter().any(tells));
    sandbox.configure("");
    sandbox.ok("restart");
    sandbox.ok("run -- true");
    sandbox.ends_clean();
}

/// A process that the supervisor has just started has its descriptors until its exec, which takes as long as it gets no core.
#[test]
fn a_log_that_a_forked_process_still_has_does_not_stop_a_restart() {
    let sandbox = Sandbox::up(1);
    let before = service(&sandbox)["pid"].clone();
    let program = broken(&sandbox, "slow", &holding_log(&sandbox, 0.3));
    let request = json!({ "id": "1", "program": program });
    fs::write(sandbox.path("state/restart-supervisor.json"), request.to_string()).expect("written");
    signal(i32::try_from(before.as_i64().expect("a number")).expect("a pid"), Signal::USR2);
    let renewal = || service(&sandbox)["renewal"].clone();
    eventually("it answers", || renewal()["request"] == "1" && renewal()["agents_left"] == 0);
    assert_eq!((&renewal()["failure"], &service(&sandbox)["pid"]), (&Value::Null, &before));
    sandbox.ok("down");
}

/// A restart takes about four seconds. `LLTS_TEST_RESTARTS=300` is the long form.
#[test]
fn restarts_on_a_busy_machine_keep_the_run_of_a_task() {
    let restarts = std::env::var("LLTS_TEST_RESTARTS").map_or(1, |number| number.parse().expect("a number"));
    let sandbox = Sandbox::serving(2, &[("patient", PATIENT)]);
    let task = sandbox.ok("submit patient").line().to_owned();
    eventually("it runs", || sandbox.path("runs").exists());
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = Stop(&ends);
        for _ in 0..2 {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for _ in 0..restarts {
            restart(&sandbox, Path::new(env!("CARGO_BIN_EXE_llts")), &[]);
        }
        drop(stop);
    });
    let state = sandbox.ok(&format!("query {task} --output wire")).json();
    assert_eq!((&state["__STATUS__"], &state["__ROUND__"]), (&json!("RUNNING"), &json!(0)), "{state}");
    fs::write(sandbox.path("end"), "").expect("written");
    assert_eq!(sandbox.llts(&format!("wait {task}")).code, Some(7));
    sandbox.ends_clean();
}
