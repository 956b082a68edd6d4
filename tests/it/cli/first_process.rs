//! A controller as the first process of a PID namespace, as in a container without an init.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};

use rustix::process::Signal;

use crate::cli::sandbox::{Sandbox, eventually, signal};

/// The children of a process.
fn children(pid: i32) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    fs::read_to_string(path).unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// unshare(1), with which all processes of its namespace end.
struct Outside(Child);

impl Drop for Outside {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_reaps_what_falls_to_it_and_passes_signals_on() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.program("/usr/bin/unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", env!("CARGO_BIN_EXE_llts"), "controller"]);
    let Ok(mut outside) = command.spawn() else { return };
    let mut said = BufReader::new(outside.stdout.take().expect("a pipe"));
    let mut outside = Outside(outside);
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    if !line.contains("controller ready") {
        // This user may not make a namespace.
        return;
    }
    let first = children(outside.0.id().cast_signed())[0];
    let controller = children(first);
    assert_eq!(controller.len(), 1, "it runs below the first process");
    let mut inside = Command::new("/usr/bin/nsenter");
    inside.args(["--pid", "--target", &first.to_string(), "sh", "-c", "(sleep 0.1; :) & (true) &"]);
    assert!(inside.status().unwrap().success());
    eventually("the orphans are reaped", || children(first) == controller);
    signal(first, Signal::TERM);
    assert_eq!(outside.0.wait().unwrap().code(), Some(0));
}
