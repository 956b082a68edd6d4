//! A mount that a tool has left in its folder when its task ends, however it ends, is other people's data.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::cli::sandbox::{Said, Sandbox, Start as _, eventually, names, signal};

/// Binds the folder with the data in several places that its removers go through, and one in its whole folder.
const MOUNTY: &str = "\
mkdir -p mnt far/below
mount --bind $PLACE/precious mnt
mount --bind $PLACE/precious far/below
mount --bind $PLACE/precious/file ../stdout
touch $PLACE/mounted
eval \"$PARAM_then\"
ls mnt > report.log";

/// A place with data beside it, whose programs have a mount namespace of their own.
struct Mounts {
    sandbox: Sandbox,
    files: Vec<String>,
}

impl Mounts {
    /// `None` where that is not allowed.
    #[expect(clippy::print_stdout, reason = "a test that does not run says why")]
    fn new() -> Option<Self> {
        let allowed = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
        if !allowed.is_ok_and(|status| status.success()) {
            println!("skipped: this user may not make a mount namespace");
            return None;
        }
        let sandbox = Sandbox::new();
        sandbox.tool("mounty", MOUNTY);
        fs::create_dir_all(sandbox.path("precious/a/b")).expect("a file of the place");
        (0..300).for_each(|n| fs::write(sandbox.path(&format!("precious/a/b/{n}")), "x").expect("a file of the place"));
        fs::write(sandbox.path("precious/file"), "x").expect("a file of the place");
        let files = names(&sandbox.path("precious/a/b"));
        Some(Self { sandbox, files })
    }

    /// `llts` in a namespace that all its children share.
    fn command(&self, line: &str) -> Command {
        let mut command = self.sandbox.command(line).under(&["unshare", "-m", "--propagation", "private"]);
        command.process_group(0);
        command
    }

    fn llts(&self, line: &str) -> Said {
        self.command(line).said()
    }

    #[track_caller]
    fn precious_is_untouched(&self) {
        assert_eq!(names(&self.sandbox.path("precious")), ["a", "file"]);
        assert_eq!(names(&self.sandbox.path("precious/a")), ["b"]);
        assert_eq!(names(&self.sandbox.path("precious/a/b")), self.files);
        assert_eq!(fs::read_to_string(self.sandbox.path("precious/file")).expect("a file of the place"), "x");
    }
}

#[test]
fn a_hosted_run_leaves_what_its_tool_has_mounted() {
    let Some(mounts) = Mounts::new() else { return };
    mounts.llts("run --no-service mounty").prints("a\nfile\n");
    mounts.precious_is_untouched();
    mounts.sandbox.is_clean();
}

#[test]
fn the_guard_of_a_hosted_run_leaves_what_its_tool_has_mounted() {
    let Some(mounts) = Mounts::new() else { return };
    let mut run = mounts.command("run --no-service mounty").args(["then=sleep 1000"]).start();
    eventually("the tool has mounted", || mounts.sandbox.path("mounted").exists());
    let processes = mounts.sandbox.processes();
    let supervisor = processes.iter().find(|(_, line)| line.contains(" supervise ")).expect("a supervisor").0;
    signal(supervisor, Signal::KILL);
    run.kill();
    eventually("all of it has ended", || mounts.sandbox.processes().is_empty());
    mounts.precious_is_untouched();
    mounts.sandbox.is_clean();
}

#[test]
fn a_service_leaves_what_its_tools_have_mounted() {
    let Some(mounts) = Mounts::new() else { return };
    let sandbox = &mounts.sandbox;
    mounts.llts("up 1").ok();
    for _ in 0..2 {
        assert_eq!(sandbox.ok("run mounty").out, "a\nfile\n");
        mounts.precious_is_untouched();
    }
    eventually("the folders are gone", || names(&sandbox.path("work/.trash")).is_empty());
    let log = || fs::read_to_string(sandbox.path("log/agent.log.agent-1")).unwrap();
    eventually("it is logged", || ["WARN", "/mnt", "mounted"].iter().all(|part| log().contains(part)));
    sandbox.ok("down");
    mounts.precious_is_untouched();
    sandbox.is_clean();
}
