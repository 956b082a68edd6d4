//! How a run and a worker end before their time, and that nothing is left behind.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::prompt_worker::master::Master;
use crate::prompt_worker::sandbox::{Program, Sandbox, eventually, names, namespace, signal};

/// Ignores SIGTERM, and has a child in a session of its own whose parent is gone. Both are running when the file is there.
const STUBBORN: &str = "trap '' TERM INT HUP; \
    setsid sh -c 'trap \"\" TERM; (while :; do sleep 1000; done) & touch running; wait' & \
    while :; do sleep 1000; done";

fn is_running(sandbox: &Sandbox) {
    eventually("a running command", || sandbox.path("running").exists());
    assert!(sandbox.commands().len() >= 3, "{:?}", sandbox.commands());
}

/// Kills a worker and its guard, which can do nothing about it.
fn kill_both(sandbox: &Sandbox, worker: &Program) {
    let guard = sandbox.guard_of(worker);
    signal(guard, Signal::STOP);
    worker.signal(Signal::KILL);
    signal(guard, Signal::KILL);
}

#[test]
fn a_cut_connection_ends_everything_before_the_worker_joins_again() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], STUBBORN);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    is_running(&sandbox);
    drop(peer);
    let mut peer = master.join();
    sandbox.is_clean();
    peer.check();
    assert_eq!(names(&sandbox.path(".tasks")), [".runs"]);
}

#[test]
fn a_stop_ends_everything_and_then_leaves() {
    for signal in [Signal::INT, Signal::TERM] {
        let (sandbox, master) = (Sandbox::new(), Master::new());
        let [host, port] = [master.address().ip().to_string(), master.address().port().to_string()];
        // The check comes before the last signal to the command, after which the worker leaves.
        let ladder = [("LLTS_PROMPT_WORKER_KILL_INTERVAL", "5000")];
        let worker = sandbox.start_with(&ladder, &["worker", &host, &port, "--", "sh", "-c", STUBBORN]);
        let mut peer = master.join();
        peer.request("a.txt", "x");
        is_running(&sandbox);
        worker.signal(signal);
        peer.check();
        peer.hears("LEAVE");
        sandbox.is_clean();
        peer.hears_the_end();
        drop(peer);
        assert_eq!(worker.said().code, Some(0));
    }
}

#[test]
fn what_a_killed_worker_leaves_is_ended_by_its_guard() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let worker = sandbox.worker(master.address(), &[], STUBBORN);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    is_running(&sandbox);
    worker.signal(Signal::KILL);
    peer.hears_the_end();
    assert_eq!(worker.said().code, None);
    sandbox.is_clean();
}

/// Nothing but its brand tells whose it is: its environment, its session and its parent are others.
#[test]
fn what_has_got_away_from_a_killed_worker_is_ended_by_its_guard() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let escape = "(env -i setsid sh -c 'echo $$ >escaped; exec sleep 1000' &); while :; do sleep 1000; done";
    let worker = sandbox.worker(master.address(), &[], escape);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    let mut escaped = 0;
    eventually("a process that got away", || {
        escaped = fs::read_to_string(sandbox.path("escaped")).ok().and_then(|pid| pid.trim().parse().ok()).unwrap_or(0);
        sleeps(escaped)
    });
    worker.signal(Signal::KILL);
    worker.said();
    let is_left = sleeps(escaped);
    if is_left {
        signal(escaped, Signal::KILL);
    }
    assert!(!is_left, "{escaped}");
}

fn sleeps(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\0"))
}

#[test]
fn a_worker_whose_guard_is_killed_stops() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let worker = sandbox.worker(master.address(), &[], STUBBORN);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    is_running(&sandbox);
    signal(sandbox.guard_of(&worker), Signal::KILL);
    peer.hears("LEAVE");
    sandbox.is_clean();
}

#[test]
fn what_even_the_guard_cannot_end_is_ended_by_the_next_worker() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let worker = sandbox.worker(master.address(), &[], STUBBORN);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    is_running(&sandbox);
    kill_both(&sandbox, &worker);
    peer.hears_the_end();
    assert!(sandbox.commands().len() >= 3, "{:?}", sandbox.commands());
    let _next = sandbox.worker(master.address(), &[], "cat");
    master.join();
    sandbox.is_clean();
}

/// Both loops of the command, blocked until a signal ends them.
fn sleepers(sandbox: &Sandbox) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    eventually("two loops asleep", || {
        found = sandbox.commands().into_iter().filter(|(_, line)| line.trim_end() == "sleep 1000").collect();
        found.len() == 2
    });
    found
}

/// Gives the folder of all runs the name that a former version has given it.
fn as_a_former_version(sandbox: &Sandbox) {
    let around = sandbox.path(".tasks/.runs");
    let realms: Vec<_> = names(&around).into_iter().filter(|name| !name.ends_with(".lock")).collect();
    let [realm] = &realms[..] else { panic!("{realms:?}") };
    let host = realm.rsplitn(3, '-').last().expect("a host");
    fs::rename(around.join(realm), around.join(host)).expect("our folders");
    fs::remove_file(around.join(format!("{realm}.lock"))).expect("our files");
}

#[test]
fn what_a_killed_worker_of_a_former_version_has_left_is_ended_by_the_next_worker() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let worker = sandbox.worker(master.address(), &[], STUBBORN);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    is_running(&sandbox);
    kill_both(&sandbox, &worker);
    peer.hears_the_end();
    as_a_former_version(&sandbox);
    let _next = sandbox.worker(master.address(), &[], "cat");
    master.join();
    sandbox.is_clean();
}

#[test]
fn a_living_worker_of_a_former_version_keeps_its_run() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], STUBBORN);
    keeps_its_run_as_a_former_version(&sandbox, &master);
}

#[test]
fn a_living_worker_of_a_former_version_in_another_pid_namespace_keeps_its_run() {
    let Some(unshare) = namespace("-pf") else { return };
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let wrapper = [&unshare[..], &["--mount-proc", "--kill-child", "--"]].concat();
    let _worker = sandbox.worker_in(&wrapper, master.address(), STUBBORN);
    keeps_its_run_as_a_former_version(&sandbox, &master);
}

/// The worker that has just been started, beside a new one.
fn keeps_its_run_as_a_former_version(sandbox: &Sandbox, master: &Master) {
    let mut peer = master.join();
    peer.request("a.txt", "x");
    is_running(sandbox);
    as_a_former_version(sandbox);
    let before = sleepers(sandbox);
    let _next = sandbox.worker(master.address(), &[], "cat");
    master.join();
    let after = sandbox.commands();
    assert!(before.iter().all(|one| after.contains(one)), "{before:?} {after:?}");
    peer.check();
}

#[test]
fn a_master_that_closes_has_ended_the_work_if_nobody_has_patience() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let worker = sandbox.worker(master.address(), &["--patience", "0"], "cat");
    drop(master.join());
    assert_eq!(worker.said().code, Some(0));
}

#[test]
fn a_master_that_is_restarted_is_found_again() {
    let sandbox = Sandbox::new();
    let master = Master::new();
    let address = master.address();
    let _worker = sandbox.worker(address, &["--patience", "forever"], "cat");
    drop(master.join());
    drop(master);
    let master = Master::at(address);
    master.join().check();
}

#[test]
fn a_limited_worker_may_end() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let worker = sandbox.worker(master.address(), &["--end-when-limited"], "exit 75");
    let mut peer = master.join();
    peer.request("a.txt", "x");
    peer.hears("USAGE_LIMITED");
    drop(peer);
    worker.said().failed(75, "limited for 60 s");
}

#[test]
fn what_is_wrong_is_said_before_any_prompt_is_taken() {
    let sandbox = Sandbox::new();
    sandbox
        .start(&["worker", "--", "no-such-program", "x"])
        .said()
        .failed(2, "there is no program \"no-such-program\" in any folder of PATH");
    let help = sandbox.start(&["worker", "--help"]).said().out;
    assert!(help.contains("2 if there is no such command or folder"), "{help}");
    sandbox.start(&["worker", "--root-dir", "nowhere", "--", "cat"]).said().failed(2, "root folder nowhere");
    let nobody = Master::gone();
    sandbox
        .start_at("worker", nobody, &["--patience", "0", "--", "cat"])
        .said()
        .failed(3, &format!("no prompt master answers at {nobody}"));
}

#[test]
fn a_refusal_is_told_and_a_command_that_vanishes_costs_no_prompt() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let worker = sandbox.worker(master.address(), &[], "cat");
    let mut peer = master.accept();
    peer.hears("JOIN");
    peer.say(&json!({ "type": "REFUSED", "msg": "wrong secret" }));
    worker.said().failed(4, "wrong secret");

    fs::write(sandbox.path("tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(sandbox.path("tool"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let worker = sandbox.start_at("worker", master.address(), &["--", "./tool"]);
    let mut peer = master.join();
    fs::remove_file(sandbox.path("tool")).unwrap();
    peer.request("a.txt", "x");
    peer.hears("LEAVE");
    drop(peer);
    worker.said().failed(1, "given back");
    sandbox.is_clean();
}
