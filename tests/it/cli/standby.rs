//! `llts up --standby`: a second service of the same home, which starts when the first one has ended.

use std::process::Stdio;

use rustix::process::Signal;

use crate::cli::sandbox::{Program, Sandbox, Start as _, eventually, signal};

/// A standby that waits.
fn standby(sandbox: &Sandbox) -> Program {
    sandbox.command("up 1 --standby").stdout(Stdio::null()).start().ready("another one starts here when it ends")
}

#[test]
fn a_standby_takes_over_from_a_service_that_was_killed_and_from_one_that_is_stopped() {
    let sandbox = Sandbox::up(1);
    let [mut first, mut second] = [(); 2].map(|()| standby(&sandbox));
    let later = sandbox.ok("submit --start-after +1h -- true").out;
    sandbox.ok("restart");
    assert!(first.is_running() && second.is_running(), "a restart is no end");

    for (pid, line) in sandbox.processes() {
        if !line.contains("up 1 --standby") {
            signal(pid, Signal::KILL);
        }
    }
    eventually("one takes over", || !first.is_running() || !second.is_running());
    assert!(sandbox.ok("list").out.contains(later.trim()));
    sandbox.ok("run -- true");
    assert!(first.is_running() || second.is_running(), "one service at a time");

    sandbox.ok("down");
    eventually("the other one takes over", || !first.is_running() && !second.is_running());
    sandbox.ok("run -- true");
    sandbox.ends_clean();
}

#[test]
fn a_standby_starts_at_once_where_nothing_runs_and_ends_with_a_signal() {
    let sandbox = Sandbox::new();
    sandbox.ok("up 1 --standby");
    let waiting = standby(&sandbox);
    waiting.signal(Signal::INT);
    waiting.said().failed(130, "left before the other service has ended");
    sandbox.llts("up --standby --add 1").failed(2, "cannot be used with");
    sandbox.ends_clean();
}
