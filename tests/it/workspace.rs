//! Anything that a tool leaves in its folder is read without being followed, and removed (docs/design/hazards.md, P6, P7).

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::scenario::{alone, alone_without_rights, run, this_binary};
use agent::workspace::{Removed, Remover, TailLimit, TaskDir, TrashRemainder, Workspace};
use base::{TaskId, Wall};
use rustix::fs::{CWD, Mode, mkdirat, mkfifoat};

const BUDGET: u32 = 256;
const TAIL: TailLimit = TailLimit { bytes_max: 10_000, drop_partial_line: true };

struct Site {
    folder: tempfile::TempDir,
    workspace: Workspace,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let workspace = Workspace::open(&folder.path().join("work")).expect("it can be made");
        Self { folder, workspace }
    }

    fn task(&self) -> TaskDir {
        let (task, leftover) = self.workspace.create(id()).expect("it can be made");
        assert_eq!(leftover, None);
        task
    }

    /// Names in the work folder, and in its trash.
    fn names(&self) -> (Vec<String>, usize) {
        let names = |path: &Path| {
            let entries = fs::read_dir(path).expect("it is there");
            entries.map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned()).collect()
        };
        let work = self.folder.path().join("work");
        let trash: Vec<String> = names(&work.join(".trash"));
        (names(&work).into_iter().filter(|name| name != ".trash").collect(), trash.len())
    }

    fn is_empty(&self) -> bool {
        self.names() == (vec![], 0)
    }

    fn remove(&self, task: TaskDir) {
        let removed = self.workspace.remove(task, BUDGET);
        assert!(matches!(removed, Removed::Done), "{removed:?}, {:?}", self.names());
        assert!(self.is_empty());
    }

    fn remove_with_rest(&self, task: TaskDir, budget: u32) -> TrashRemainder {
        match self.workspace.remove(task, budget) {
            Removed::Rest(rest) => rest,
            other => panic!("{other:?}"),
        }
    }
}

fn id() -> TaskId {
    TaskId::new(Wall::from_micros(7), [0; 5])
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn a_task_gets_an_empty_folder_of_its_own() {
    let site = Site::new();
    let mut task = site.task();
    assert!(task.path().is_absolute());
    assert_eq!(task.path().file_name().unwrap().to_str().unwrap(), id().to_string());
    assert_eq!(fs::metadata(task.path()).unwrap().mode() & 0o7777, 0o700);
    task.write_file("task.info", b"a=1\n").unwrap();
    assert_eq!(fs::read(task.path().join("task.info")).unwrap(), b"a=1\n");
    assert_eq!(fs::metadata(task.path().join("task.info")).unwrap().mode() & 0o7777, 0o600);
    assert!(task.write_file("task.info", b"again").is_err(), "files are new");
    assert!(task.write_file("../x", b"outside").is_err());
    site.remove(task);
}

#[test]
fn a_leftover_of_the_same_name_is_moved_away() {
    let site = Site::new();
    fs::create_dir_all(site.folder.path().join(format!("work/{}/a/b", id()))).unwrap();
    let (task, leftover) = site.workspace.create(id()).unwrap();
    assert_eq!(fs::read_dir(task.path()).unwrap().count(), 0);
    let remover = Remover::start(&site.workspace).unwrap();
    remover.take(leftover.expect("there was one"));
    remover.finish();
    site.remove(task);

    assert_eq!(site.workspace.discard(id()).unwrap(), None);
    drop(site.task());
    assert!(site.workspace.discard(id()).unwrap().is_some());
}

/// The next round of a task may run under another agent, in a folder of the same name.
#[test]
fn the_folder_of_another_run_is_left_alone() {
    let site = Site::new();
    let old = site.task();
    let (mut new, leftover) = site.workspace.create(id()).unwrap();
    new.write_file("mine", b"").unwrap();
    assert!(leftover.is_some());
    assert!(matches!(site.workspace.remove(old, BUDGET), Removed::Done));
    assert!(new.path().join("mine").exists());
    assert!(matches!(site.workspace.remove(new, BUDGET), Removed::Done));
    assert_eq!(site.names().0, [""; 0]);
}

/// Folders without rights, as a user whom they stop (docs/design/hazards.md, P7).
#[test]
fn folders_without_rights_are_removed() {
    alone_without_rights(|| {
        for mode in [0o000, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600, 0o700] {
            let site = Site::new();
            let task = site.task();
            let deep = task.path().join("a/b/c");
            fs::create_dir_all(&deep).unwrap();
            for folder in [&deep, deep.parent().unwrap(), task.path()] {
                fs::write(folder.join("file"), "").unwrap();
                set_mode(&folder.join("file"), 0o000);
            }
            for folder in [&deep, deep.parent().unwrap(), &task.path().join("a"), task.path()] {
                set_mode(folder, mode);
            }
            let rest = site.remove_with_rest(task, 1);
            assert_eq!(site.names(), (vec![], 1), "it was moved although it has the mode {mode:o}");
            let remover = Remover::start(&site.workspace).unwrap();
            remover.take(rest);
            remover.finish();
            assert!(site.is_empty());
        }
    });
}

/// Deeper than any path, any stack and any limit of descriptors (docs/design/hazards.md, P7).
#[test]
fn a_folder_of_any_depth_is_removed() {
    const DEPTH: u32 = 2_200;
    let site = Site::new();
    let task = site.task();
    let mut folder = rustix::fs::open(task.path(), rustix::fs::OFlags::RDONLY, Mode::empty()).unwrap();
    for _ in 0..DEPTH {
        mkdirat(&folder, "d", Mode::RWXU).unwrap();
        folder = rustix::fs::openat(&folder, "d", rustix::fs::OFlags::RDONLY, Mode::empty()).unwrap();
    }
    let rest = site.remove_with_rest(task, BUDGET);
    assert_eq!(site.names().0, [""; 0], "out of the way at once");
    let remover = Remover::start(&site.workspace).unwrap();
    remover.take(rest);
    remover.finish();
    assert!(site.is_empty());
}

#[test]
fn links_are_removed_and_not_followed() {
    let site = Site::new();
    let outside = site.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "keep").unwrap();
    set_mode(&outside, 0o750);
    let task = site.task();
    symlink(&outside, task.path().join("to a folder")).unwrap();
    symlink(outside.join("file"), task.path().join("to a file")).unwrap();
    symlink("nowhere", task.path().join("to nothing")).unwrap();
    symlink(".", task.path().join("to itself")).unwrap();
    fs::hard_link(outside.join("file"), task.path().join("hard")).unwrap();
    fs::create_dir(task.path().join("inner")).unwrap();
    symlink(&outside, task.path().join("inner/link")).unwrap();
    site.remove(task);
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"keep");
    assert_eq!(fs::metadata(&outside).unwrap().mode() & 0o7777, 0o750);
}

#[test]
fn a_task_that_was_replaced_by_a_link_is_removed_as_a_link() {
    let site = Site::new();
    let task = site.task();
    let outside = site.folder.path().join("outside");
    fs::rename(task.path(), &outside).unwrap();
    fs::write(outside.join("file"), "keep").unwrap();
    symlink(&outside, task.path()).unwrap();
    // The name leads to something that is not ours: it stays, and the next round of the task moves it away.
    assert!(matches!(site.workspace.remove(task, BUDGET), Removed::Done));
    let (task, leftover) = site.workspace.create(id()).unwrap();
    let remover = Remover::start(&site.workspace).unwrap();
    remover.take(leftover.unwrap());
    remover.finish();
    assert!(outside.join("file").exists());
    site.remove(task);
}

#[test]
fn names_and_kinds_of_all_sorts_are_removed() {
    let site = Site::new();
    let task = site.task();
    for name in [&b"\xff\xfe"[..], b"new\nline", b"-rf", b"...", &[b'x'; 255]] {
        fs::write(task.path().join(OsStr::from_bytes(name)), "").unwrap();
        let folder = task.path().join("folder");
        fs::create_dir_all(folder.join(OsStr::from_bytes(name))).unwrap();
        fs::write(folder.join(OsStr::from_bytes(name)).join(OsStr::from_bytes(name)), "").unwrap();
    }
    mkfifoat(CWD, task.path().join("pipe"), Mode::RWXU).unwrap();
    drop(std::os::unix::net::UnixListener::bind(task.path().join("socket")).unwrap());
    site.remove(task);
}

/// Names that a removal itself would use.
#[test]
fn names_that_are_in_the_way_do_not_stop_a_removal() {
    let site = Site::new();
    let task = site.task();
    for n in 0..40 {
        let name = format!(".moved-{}-{n}", std::process::id());
        fs::create_dir_all(task.path().join(&name).join(&name)).unwrap();
        fs::write(task.path().join(&name).join("file"), "").unwrap();
    }
    let rest = site.remove_with_rest(task, 10);
    let remover = Remover::start(&site.workspace).unwrap();
    remover.take(rest);
    remover.finish();
    assert!(site.is_empty());
}

#[test]
fn a_folder_that_is_gone_already_is_removed() {
    let site = Site::new();
    let task = site.task();
    fs::remove_dir_all(task.path()).unwrap();
    site.remove(task);
}

/// The caller's share of the work is bounded; the rest is done in the background (docs/design/hazards.md, P7).
#[test]
fn a_large_folder_is_removed_within_the_budget_and_then_in_the_background() {
    let site = Site::new();
    let task = site.task();
    for n in 0..600 {
        fs::write(task.path().join(n.to_string()), "").unwrap();
    }
    let rest = site.remove_with_rest(task, BUDGET);
    let trash = site.folder.path().join("work/.trash");
    let left = fs::read_dir(fs::read_dir(&trash).unwrap().next().unwrap().unwrap().path()).unwrap().count();
    assert_eq!(left, 600 - BUDGET as usize);
    let (next, leftover) = site.workspace.create(id()).unwrap();
    assert!(leftover.is_none() && fs::read_dir(next.path()).unwrap().count() == 0, "the next run is not held up");

    let remover = Remover::start(&site.workspace).unwrap();
    remover.take(rest);
    remover.finish();
    site.remove(next);
}

#[test]
fn the_trash_of_dead_agents_is_emptied_at_the_start() {
    let site = Site::new();
    let trash = site.folder.path().join("work/.trash");
    for n in 0..100 {
        fs::create_dir_all(trash.join(format!("TASK_{n}-1-0/a/b"))).unwrap();
    }
    fs::write(trash.join("a file"), "").unwrap();
    Remover::start(&site.workspace).unwrap().finish();
    assert!(site.is_empty());
}

/// More remainders than the queue takes.
#[test]
fn no_remainder_is_lost() {
    let site = Site::new();
    let remover = Remover::start(&site.workspace).unwrap();
    for _ in 0..200 {
        let task = site.task();
        fs::create_dir_all(task.path().join("a/b")).unwrap();
        remover.take(site.remove_with_rest(task, 0));
    }
    remover.finish();
    assert!(site.is_empty());
}

/// An immutable file stays, and nothing else does (docs/design/hazards.md, P7). Only root can make one.
#[test]
fn an_immutable_file_stops_nothing() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let site = Site::new();
    let task = site.task();
    fs::create_dir_all(task.path().join("a/b")).unwrap();
    fs::create_dir_all(task.path().join("c/d")).unwrap();
    let path = task.path().join("a/b/stays");
    let file = fs::File::create(&path).unwrap();
    let flags = rustix::fs::ioctl_getflags(&file).unwrap();
    if rustix::fs::ioctl_setflags(&file, flags | rustix::fs::IFlags::IMMUTABLE).is_err() {
        return; // A file system without such files.
    }
    let rest = site.remove_with_rest(task, BUDGET);
    let remover = Remover::start(&site.workspace).unwrap();
    remover.take(rest);
    remover.finish();
    let left = Command::new("find").arg(site.folder.path().join("work/.trash")).args(["-mindepth", "2"]).output();
    rustix::fs::ioctl_setflags(&file, flags).unwrap();
    let left = String::from_utf8(left.unwrap().stdout).unwrap();
    let left: Vec<&str> = left.lines().collect();
    assert_eq!(left.len(), 2, "the file and the folder that holds it: {left:?}");
    assert!(left[1].ends_with("/stays"));

    Remover::start(&site.workspace).unwrap().finish();
    assert!(site.is_empty());
}

/// A tool with the right to mount cannot have the content of the mounted folder removed.
#[test]
fn a_mount_point_is_not_entered() {
    let mut probe = Command::new("unshare");
    let allowed = probe.args(["-rm", "true"]).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return; // A machine that does not let us mount.
    }
    let mut command = Command::new("unshare");
    command.arg("-rm").arg(this_binary());
    run(command, || {
        let site = Site::new();
        let outside = site.folder.path().join("outside");
        fs::create_dir_all(outside.join("sub")).unwrap();
        fs::write(outside.join("file"), "keep").unwrap();
        let task = site.task();
        for mount_point in ["top", "a/b/deep"] {
            let target = task.path().join(mount_point);
            fs::create_dir_all(&target).unwrap();
            let mounted = Command::new("mount").arg("--bind").args([&outside, &target]).status().unwrap();
            assert!(mounted.success());
        }
        let rest = site.remove_with_rest(task, BUDGET);
        let remover = Remover::start(&site.workspace).unwrap();
        remover.take(rest);
        remover.finish();
        assert!(outside.join("sub").exists() && outside.join("file").exists());
        for line in fs::read_to_string("/proc/self/mounts").unwrap().lines().filter(|line| line.contains("/.trash/")) {
            let mount_point = line.split(' ').nth(1).unwrap();
            assert!(Command::new("umount").arg(mount_point).status().unwrap().success());
        }
        Remover::start(&site.workspace).unwrap().finish();
        assert!(site.is_empty());
    });
}

/// Every thing that report.log can be (docs/design/hazards.md, P6).
#[test]
fn only_a_regular_file_of_its_own_is_read() {
    let site = Site::new();
    let task = site.task();
    let tool = task.path().join("tool");
    fs::create_dir(&tool).unwrap();
    let secret = site.folder.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let log = tool.join("report.log");
    let tail = || task.tail(&["tool"], "report.log", TAIL).text;
    let and_clear = || fs::remove_file(&log).unwrap();

    assert_eq!(tail(), "", "absent");
    fs::write(&log, "done\n").unwrap();
    assert_eq!(tail(), "done\n");
    set_mode(&log, 0o444);
    assert_eq!(tail(), "done\n");
    and_clear();
    symlink(&secret, &log).unwrap();
    assert_eq!(tail(), "", "symbolic link");
    and_clear();
    fs::hard_link(&secret, &log).unwrap();
    assert_eq!(tail(), "", "hard link");
    and_clear();
    mkfifoat(CWD, &log, Mode::RWXU).unwrap();
    assert_eq!(tail(), "", "named pipe");
    and_clear();
    drop(std::os::unix::net::UnixListener::bind(&log).unwrap());
    assert_eq!(tail(), "", "socket");
    and_clear();
    fs::create_dir(&log).unwrap();
    assert_eq!(tail(), "", "folder");
    fs::remove_dir(&log).unwrap();
    if rustix::process::geteuid().is_root() {
        let zero = rustix::fs::makedev(1, 5);
        rustix::fs::mknodat(CWD, &log, rustix::fs::FileType::CharacterDevice, Mode::RWXU, zero).unwrap();
        assert_eq!(tail(), "", "device");
        and_clear();
    }
    fs::remove_dir(&tool).unwrap();
    fs::write(site.folder.path().join("report.log"), "secret").unwrap();
    symlink(site.folder.path(), &tool).unwrap();
    assert_eq!(tail(), "", "the folder is a link");
    site.remove(task);
}

/// 10 GiB, of which nothing but the end is read (docs/design/hazards.md, P6).
#[test]
fn the_end_of_a_huge_file_is_read() {
    let site = Site::new();
    let task = site.task();
    let mut file = fs::File::create(task.path().join("report.log")).unwrap();
    file.set_len(10 << 30).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
    let line = "0123456789abcde\n";
    file.write_all(line.repeat(1_000).as_bytes()).unwrap();
    let tail = task.tail(&[], "report.log", TAIL).text;
    assert_eq!(tail, line.repeat(625));
    site.remove(task);
}

/// The data written to standard output counts, not the file to which the name leads afterwards.
#[test]
fn output_is_read_from_the_file_that_was_written() {
    let site = Site::new();
    let mut task = site.task();
    task.create_output("stdout").unwrap();
    assert!(task.create_output("stdout").is_err());
    let mut output = task.open_output("stdout").unwrap();
    output.write_all(b"written\n").unwrap();
    fs::remove_file(task.path().join("stdout")).unwrap();
    symlink("/etc/passwd", task.path().join("stdout")).unwrap();
    assert_eq!(task.output_tail("stdout", TAIL).text, "written\n");
    // A run that truncates its own output leaves no hole.
    output.set_len(0).unwrap();
    output.write_all(b"after\n").unwrap();
    assert_eq!(task.output_tail("stdout", TAIL).text, "after\n");
    site.remove(task);
}

/// The thread of the remover must not take the signals that the agent reads from a descriptor.
#[test]
fn the_remover_takes_no_signals() {
    alone(|| {
        let site = Site::new();
        let remover = Remover::start(&site.workspace).unwrap();
        let mask = || {
            let threads = fs::read_dir("/proc/self/task").unwrap();
            let status =
                |thread: std::io::Result<fs::DirEntry>| fs::read_to_string(thread.unwrap().path().join("status"));
            threads.filter_map(|thread| status(thread).ok()).find(|status| status.starts_with("Name:\tremover\n"))
        };
        // The thread sets its mask before it does anything else; a removal shows that it got there.
        let task = site.task();
        fs::create_dir(task.path().join("a")).unwrap();
        remover.take(site.remove_with_rest(task, 0));
        while !site.is_empty() {
            std::thread::yield_now();
        }
        let blocked = mask().unwrap().lines().find(|line| line.starts_with("SigBlk:")).unwrap().to_owned();
        // All but SIGKILL, SIGSTOP and the two of glibc.
        assert_eq!(blocked, "SigBlk:\tfffffffe7ffbfeff");
        remover.finish();
    });
}
