//! A signal to a client while it is busy with files.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

use rustix::process::Signal;

use crate::home::files::noise;
use crate::home::travel::Machines;
use crate::home::user::{Program, Start as _, User, eventually, found, signal};

/// The bytes that a process has read: more than its start reads are those of an input.
fn read_by(child: &Program) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or_default()
}

fn end(mut child: Program, with: Signal) -> ExitStatus {
    child.signal(with);
    found("it ends", || child.try_wait().expect("its end"))
}

/// A hole costs no room, and to read it takes long.
fn endless(path: &Path) {
    fs::File::create(path).expect("made").set_len(1 << 40).expect("a size");
}

#[test]
fn a_signal_ends_run_and_submit_while_they_read_an_input() {
    let user = User::new();
    user.ok("elsewhere", &format!("--home {} up 1", user.path("a").display()));
    endless(&user.path("a/large"));
    for (line, with) in [("run --in large --sh true", Signal::INT), ("submit --in large --sh true", Signal::TERM)] {
        let child = user.command("a", line).start();
        eventually("it reads", || read_by(&child) > 8 << 20);
        assert_eq!(end(child, with).signal(), Some(with.as_raw()), "{line}");
    }
    assert_eq!(user.ok("a", "list --output wire").json()["tasks"].as_array().map(Vec::len), Some(0));
}

/// The controller is stopped, so the sender waits for its answers; nothing that it has put into the store stays.
#[test]
fn a_signal_ends_run_and_submit_while_they_send_an_input() {
    let machines = Machines::new();
    machines.write("data", &noise(1 << 20));
    let controller = machines.process(" controller").expect("the controller");
    signal(controller, Signal::STOP);
    for (line, with) in [("run --in data --sh true", Signal::TERM), ("submit --in data --sh true", Signal::INT)] {
        let child = machines.user.command("a", line).start();
        eventually("it has read the input", || read_by(&child) > 1 << 20);
        assert_eq!(end(child, with).signal(), Some(with.as_raw()), "{line}");
    }
    signal(controller, Signal::CONT);
    assert_eq!(machines.user.ok("a", "list --output wire").json()["tasks"].as_array().map(Vec::len), Some(0));
    // Ctrl-C still ends a task that is there, and waits for it.
    machines.agents(1);
    let child = machines.user.command("a", "run --in data").args(["--sh", "echo here; sleep 100"]).start();
    let has_started =
        || !machines.user.ok("a", "list --status RUNNING --output wire").json()["tasks"].as_array().unwrap().is_empty();
    eventually("it runs", has_started);
    child.signal(Signal::INT);
    let said = child.said();
    assert!(said.code.is_some_and(|code| code != 0) && said.err.contains("ending "), "{said:?}");
}

#[test]
fn a_file_that_is_made_as_it_is_read_is_refused() {
    let user = User::new();
    user.ok("elsewhere", &format!("--home {} up 1", user.path("a").display()));
    let said = user.llts("a", "submit --in /proc/cpuinfo --sh true");
    assert!(
        said.code == Some(1) && said.err.contains("/proc/cpuinfo does not have the 0 bytes of its size"),
        "{said:?}"
    );
    // It has 2^38 bytes and no size.
    user.llts("a", "run --in /proc/self/pagemap --sh true").failed(1, "send a copy of it");
}
