//! A disk that is full when an output is to be kept: the run is not hurt, and the reader is told.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::outputs::sandbox::{Said, Sandbox, Start as _, eventually};

/// `llts up` in a namespace in which the work folder is a small disk.
fn up_on_a_small_disk(sandbox: &Sandbox) -> Said {
    fs::create_dir(sandbox.path("work")).expect("a new folder");
    let script = "mount -t tmpfs -o size=3m,mode=700 none work && exec \"$0\" \"$@\"";
    let wrapper = ["unshare", "-m", "--propagation", "private", "sh", "-c", script];
    sandbox.command("up 1").under(&wrapper).process_group(0).said()
}

#[test]
fn a_full_disk_hurts_no_run_and_is_named() {
    let allowed =
        Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return println!("skipped: this user may not mount a tmpfs");
    }
    let sandbox = Sandbox::new();
    // Neither fits twice, and bytes of chance cannot be compressed.
    sandbox.tool("noise", "head -c 2000000 /dev/urandom");
    sandbox.tool("plain", "echo x");
    sandbox.tool("full", "cat /dev/zero > zeros; seq 20000; exit 0");
    up_on_a_small_disk(&sandbox).ok();
    let id = sandbox.ok("submit noise").line().to_owned();
    sandbox.ok(&format!("wait {id}"));
    let mut command = sandbox.command(&format!("logs {id} --stdout"));
    eventually("the reader is told", || {
        let logs = command.said();
        logs.code == Some(1) && logs.err.contains("could not keep it") && logs.err.contains("No space left")
    });
    assert_eq!(sandbox.ok("run plain").out, "x\n", "the disk has room again");
    let said = sandbox.ok("run full");
    assert!(said.out.len() < 20_000 && said.err.contains("SUCCEEDED: the disk has"), "{said:?}");
    assert!(said.err.contains("so that the end of the output may be missing"), "{said:?}");
    assert_eq!(sandbox.ok("run plain").out, "x\n");
    let id = crate::outputs::finished(&sandbox, "noise");
    assert_eq!(sandbox.ok(&format!("wait {id}")).code, Some(0));
}
