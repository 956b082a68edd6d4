//! SIGHUP to a service, and a service without agents.

use std::fs;

use rustix::process::Signal;

use crate::cli::sandbox::{Sandbox, eventually, signal};

#[test]
fn a_service_takes_up_what_it_can_at_sighup_and_goes_on() {
    let sandbox = Sandbox::up(1);
    let running = sandbox.ok("submit -- sleep 600").line().to_owned();
    eventually("it runs", || sandbox.ok(&format!("query {running}")).out.contains("RUNNING"));
    let parts = ["--agents 1", " controller", "agent --name agent-1"];
    let before = parts.map(|end| sandbox.process(end));
    let logs = ["supervisor.log", "controller.log", "agent.log.agent-1"].map(|name| sandbox.path("log").join(name));
    // A program that rotates logs renames them first.
    for log in &logs {
        fs::rename(log, log.with_added_extension("old")).expect("its own file");
    }
    sandbox.configure("LOG_LEVEL = \"debug\"\nAGENT_KILL_COUNT = 7\n");
    signal(before[0], Signal::HUP);
    let said = "LOG_LEVEL is debug; `llts restart` is needed for AGENT_KILL_COUNT";
    for log in &logs {
        eventually("it logs to a new file", || fs::read_to_string(log).is_ok_and(|text| text.contains(said)));
    }
    eventually("it is an incident", || sandbox.ok("incidents --kind reloaded").out.contains(said));
    sandbox.configure("LOG_LEVEL = \"loud\"\n");
    signal(before[1], Signal::HUP);
    let error = "everything stays as it is: config.toml";
    eventually("it tells of an error", || fs::read_to_string(&logs[1]).is_ok_and(|text| text.contains(error)));
    sandbox.configure("");
    assert_eq!(parts.map(|end| sandbox.process(end)), before);
    assert!(!sandbox.llts("incidents --kind crashed").out.contains("CRASHED"));
    sandbox.ok(&format!("kill {running}"));
    signal(before[0], Signal::TERM);
    eventually("it ends", || sandbox.processes().is_empty());
    sandbox.is_clean();
}

#[test]
fn a_service_without_agents_is_a_controller() {
    let sandbox = Sandbox::new();
    let said = sandbox.ok("up 0");
    assert!(said.out.contains("agents      0"), "{said:?}");
    let task = sandbox.ok("submit -- true").line().to_owned();
    assert!(sandbox.ok(&format!("query {task}")).out.contains("WAITING"));
    sandbox.ok("restart");
    assert_eq!(sandbox.agents().len(), 0);
    sandbox.ends_clean();
}
