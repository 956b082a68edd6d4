//! What a tool has left mounted in its folder when its task ends, however it ends, is other people's data.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::place::{Place, Said, eventually, names, signal};

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
    place: Place,
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
        let place = Place::new();
        place.tool("mounty", MOUNTY);
        fs::create_dir_all(place.path("precious/a/b")).expect("a file of the place");
        (0..300).for_each(|n| fs::write(place.path(&format!("precious/a/b/{n}")), "x").expect("a file of the place"));
        fs::write(place.path("precious/file"), "x").expect("a file of the place");
        let files = names(&place.path("precious/a/b"));
        Some(Self { place, files })
    }

    /// `llts` in a namespace that all its children share.
    fn command(&self, line: &str) -> Command {
        let llts = self.place.command(line);
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private"]).arg(llts.get_program()).args(llts.get_args());
        command.current_dir(self.place.path(".")).stdin(Stdio::null()).env("PLACE", self.folder());
        command.env("TMPDIR", self.place.path("tmp")).process_group(0);
        command
    }

    /// As the place names it.
    fn folder(&self) -> PathBuf {
        let command = self.place.command("");
        let mark = command.get_envs().find_map(|(name, value)| value.filter(|_| name == "PLACE"));
        PathBuf::from(mark.expect("the mark of the place"))
    }

    fn llts(&self, line: &str) -> Said {
        self.place.said(self.place.spawn(&mut self.command(line)))
    }

    #[track_caller]
    fn precious_is_untouched(&self) {
        assert_eq!(names(&self.place.path("precious")), ["a", "file"]);
        assert_eq!(names(&self.place.path("precious/a")), ["b"]);
        assert_eq!(names(&self.place.path("precious/a/b")), self.files);
        assert_eq!(fs::read_to_string(self.place.path("precious/file")).expect("a file of the place"), "x");
    }
}

#[test]
fn a_hosted_run_leaves_what_its_tool_has_mounted() {
    let Some(mounts) = Mounts::new() else { return };
    let said = mounts.llts("run mounty");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "a\nfile\n"), "{said:?}");
    mounts.precious_is_untouched();
    mounts.place.is_clean();
}

#[test]
fn the_guard_of_a_hosted_run_leaves_what_its_tool_has_mounted() {
    let Some(mounts) = Mounts::new() else { return };
    let mut run = mounts.place.spawn(mounts.command("run mounty").args(["then=sleep 1000"]));
    eventually("the tool has mounted", || mounts.place.path("mounted").exists());
    let processes = mounts.place.processes();
    let supervisor = processes.iter().find(|(_, line)| line.contains(" supervise ")).expect("a supervisor").0;
    signal(supervisor, Signal::KILL);
    run.kill().unwrap();
    run.wait().unwrap();
    eventually("all of it has ended", || mounts.place.processes().is_empty());
    mounts.precious_is_untouched();
    mounts.place.is_clean();
}

#[test]
fn a_service_leaves_what_its_tools_have_mounted() {
    let Some(mounts) = Mounts::new() else { return };
    let place = &mounts.place;
    let said = mounts.llts("up 1");
    assert_eq!(said.code, Some(0), "{said:?}");
    for _ in 0..2 {
        assert_eq!(place.ok("run mounty").out, "a\nfile\n");
        mounts.precious_is_untouched();
    }
    eventually("the folders are gone", || names(&place.path("work/.trash")).is_empty());
    let log = fs::read_to_string(place.path("log/agent.log.agent-1")).unwrap();
    assert!(log.contains("WARN") && log.contains("/mnt") && log.contains("mounted"), "{log}");
    place.ok("down");
    mounts.precious_is_untouched();
    place.is_clean();
}
