//! Runs a test in a process of its own, because subreaper, limits, signal masks and "all children" belong to a process.
//!
//! The test starts its own test binary once more with only itself selected; there, the body runs. This works with the threads
//! of `cargo test` and with `cargo nextest` alike. Whatever the body starts with [`COOKIE`] in its environment is ended
//! by the outer process, even if the body panics or hangs.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use proc::process::{Cookie, Ended, sweep_by_cookie};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Longer than any scenario takes on a loaded machine; a hanging one fails instead of stopping the run.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const MARKER: &str = "LLTS_SCENARIO_MARKER";
/// The variable that marks what a scenario starts: hand it on to all of that.
pub(crate) const COOKIE: &str = "LLTS_SCENARIO_COOKIE";
const NOBODY: u32 = 65534;

/// Runs the body of a test in a process of its own.
pub(crate) fn alone(body: impl FnOnce()) {
    run(Command::new(this_binary()), body);
}

/// The same as a user without rights, if we are root: root may enter every folder and has no limit of processes.
pub(crate) fn alone_without_rights(body: impl FnOnce()) {
    let mut command = Command::new(this_binary());
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    run(command, body);
}

/// The test binary that runs.
pub(crate) fn this_binary() -> std::path::PathBuf {
    std::env::current_exe().expect("a test binary has a path")
}

/// Runs the body of a test in a process that `command` starts: [`this_binary`] as it is, or by way of a wrapper. The body is a closure
/// of the test itself, whose name is part of that of the closure.
pub(crate) fn run<B: FnOnce()>(command: Command, body: B) {
    match std::env::var_os(MARKER) {
        Some(marker) => {
            body();
            std::fs::write(marker, "").expect("the marker can be written");
        }
        None => {
            let closure = std::any::type_name::<B>();
            let (_, name) = closure.split_once("::").expect("the crate comes first");
            run_outer(name.split("::{{").next().unwrap_or(name), command);
        }
    }
}

fn run_outer(name: &str, mut command: Command) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let anyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), anyone).expect("it is ours");
    let (marker, output) = (folder.path().join("marker"), folder.path().join("output"));
    let cookie = format!("{name}-{}", std::process::id());
    let file = std::fs::File::create(&output).expect("a new file");
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(MARKER, &marker).env(COOKIE, &cookie);
    command.stdin(Stdio::null()).stdout(file.try_clone().expect("a copy")).stderr(file);

    let mut child = command.spawn().expect("our own binary starts");
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("it was just started");
    let timeout = PollTimeout::try_from(PATIENCE + PATIENCE).expect("fits");
    let ended = poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], timeout) == Ok(1);
    if !ended {
        child.kill().expect("it is our child");
    }
    let status = child.wait().expect("it is our child");
    let left_behind = sweep_by_cookie(&Cookie::new([format!("{COOKIE}={cookie}")]));

    let output = read(&output);
    assert!(ended && status.success(), "scenario {name}: {status}, ended by itself: {ended}\n{output}");
    // A name that selects no test would pass as well.
    assert!(marker.exists(), "scenario {name} did not run\n{output}");
    assert_eq!(left_behind, Ended::default(), "scenario {name} left processes behind\n{output}");
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
