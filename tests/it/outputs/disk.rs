//! A disk that is full when an output is to be kept: the run is not hurt, and the reader is told.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::outputs::sandbox::{Said, Sandbox, eventually};

/// `llts up` in a namespace in which the work folder is a small disk.
fn up_on_a_small_disk(sandbox: &Sandbox) -> Said {
    let llts = sandbox.command("up 1");
    fs::create_dir(sandbox.path("work")).expect("a new folder");
    let script =
        format!("mount -t tmpfs -o size=3m,mode=700 none work && exec {} up 1", llts.get_program().to_string_lossy());
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", &script]);
    command.current_dir(sandbox.path(".")).stdin(Stdio::null()).process_group(0);
    for (name, value) in llts.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    sandbox.said(sandbox.spawn(&mut command))
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
    let up = up_on_a_small_disk(&sandbox);
    assert_eq!(up.code, Some(0), "{up:?}");
    let id = sandbox.ok("submit noise").line().to_owned();
    sandbox.ok(&format!("wait {id}"));
    let mut command = sandbox.command(&format!("logs {id} --stdout"));
    eventually("the reader is told", || {
        let logs = command.output().unwrap();
        let says = String::from_utf8_lossy(&logs.stderr).into_owned();
        logs.status.code() == Some(1) && says.contains("could not keep it") && says.contains("No space left")
    });
    assert_eq!(sandbox.ok("run plain").out, "x\n", "the disk has room again");
    let said = sandbox.ok("run full");
    assert!(said.out.len() < 20_000 && said.err.contains("SUCCEEDED: the disk has"), "{said:?}");
    assert!(said.err.contains("so that the end of the output may be missing"), "{said:?}");
    assert_eq!(sandbox.ok("run plain").out, "x\n");
    let id = crate::outputs::finished(&sandbox, "noise");
    assert_eq!(sandbox.ok(&format!("wait {id}")).code, Some(0));
}
