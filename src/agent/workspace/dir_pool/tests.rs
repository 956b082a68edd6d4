#![cfg(test)]
//! Whatever a run has done to its folder, the next run gets its tool as packed, empty output, and nothing else.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::*;
use base::{ToolName, Wall};
use mountkit::{Precious, bind, in_own_mount_namespace, ways_to_mount};
use proc::files::file_stamp::tells_changes;

const SPARES_MAX: usize = 8;

const OWN: [&str; 5] = ["task.info", "task.json", "controller.info", "stdout", "stderr"];

struct Site {
    folder: tempfile::TempDir,
    workspace: Arc<Workspace>,
    remover: Remover,
    dir_pool: DirPool,
    tool: Arc<ToolSnapshot>,
    tasks: u64,
    /// Whether the folder is to settle before a run begins that changes something.
    is_settled: bool,
    /// Whether its tasks are those of steps.
    is_step: bool,
}

/// The state of the folder that a task finds: for each path its mode, its content if it is a file, and its number of links.
type Found = BTreeMap<PathBuf, (u32, Option<Vec<u8>>, u64)>;

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Arc::new(Workspace::open(&folder.path().join("work")).unwrap());
        let template = folder.path().join("template");
        fs::create_dir_all(template.join("data/deep")).unwrap();
        for (path, content, mode) in
            [("run.sh", "#!/bin/sh\n", 0o755), ("config", "a=1\n", 0o640), ("data/deep/empty", "", 0o600)]
        {
            fs::write(template.join(path), content).unwrap();
            fs::set_permissions(template.join(path), Permissions::from_mode(mode)).unwrap();
        }
        let tool = ToolSnapshot::of_folder(&ToolName::new("tool").unwrap(), &template).unwrap().expect("a small one");
        Self {
            remover: Remover::start(&workspace).unwrap(),
            dir_pool: DirPool::open(Arc::clone(&workspace), SPARES_MAX).unwrap(),
            tool: Arc::new(tool),
            tasks: 0,
            is_settled: false,
            is_step: false,
            folder,
            workspace,
        }
    }

    /// A site whose folders are always new, and one whose folders have been in use for long.
    fn both() -> [Self; 2] {
        let mut long_used = Self::new();
        long_used.is_settled = tells_changes(long_used.workspace.folder.as_fd()).unwrap();
        // Longer than the resolution of any kernel clock.
        long_used.dir_pool.settling = Duration::from_millis(20);
        [Self::new(), long_used]
    }

    /// Makes the folder of the next task settle.
    fn settle(&mut self) {
        let end = clock::now().mono + Duration::from_secs(20);
        while self.is_settled && !self.dir_pool.kept.last().is_some_and(TaskDir::is_settled) {
            assert!(clock::now().mono < end, "it never settles");
            let (dir, _) = self.task();
            self.put_aside(dir);
        }
    }

    /// The folder of a task whose run will change something.
    fn first(&mut self) -> TaskDir {
        self.settle();
        self.task().0
    }

    fn copy(&self, name: &str, into: &Path) {
        let mut copy = Command::new("cp");
        copy.arg("-r").arg("--preserve=mode").arg(self.folder.path().join("template")).arg(into.join(name));
        assert!(copy.status().unwrap().success());
    }

    /// The folder of the next task, and whether another task has used it before.
    fn task(&mut self) -> (TaskDir, bool) {
        self.tasks += 1;
        let id = TaskId::new(Wall::from_micros(self.tasks), [0; 5]);
        let taken = self.dir_pool.take((&self.tool, self.is_step), id, &self.remover);
        let reused = taken.is_some();
        let (mut dir, rest) = taken.unwrap_or_else(|| self.workspace.create(id).unwrap());
        assert_eq!(rest, None);
        assert_eq!(dir.path().file_name().unwrap().to_str().unwrap(), id.to_string());
        for name in OWN.iter().take(3) {
            dir.write_file(name, self.info(name).as_bytes()).unwrap();
            assert!(dir.write_file(name, b"twice").is_err());
        }
        dir.create_output("stdout").unwrap();
        dir.create_output("stderr").unwrap();
        if !reused {
            self.copy("tool", dir.path());
            if self.is_step {
                dir.make_step_folders().unwrap();
            }
            dir.keep_for(&self.tool, self.is_step);
        }
        (dir, reused)
    }

    /// The content becomes shorter from task to task, except for every hundredth. That of the last file stays, as at an agent.
    fn info(&self, name: &str) -> String {
        if name == "controller.info" {
            return "the same for all tasks\n".to_owned();
        }
        let round = usize::try_from(self.tasks % 100).unwrap();
        format!("{name} of task {}{}", self.tasks, "\n".repeat(100 - round))
    }

    /// The state of the folder that a task of this site must find.
    fn expected(&self) -> Found {
        let model = self.folder.path().join("model");
        let _ = fs::remove_dir_all(&model);
        fs::create_dir(&model).unwrap();
        fs::set_permissions(&model, Permissions::from_mode(0o700)).unwrap();
        self.copy("tool", &model);
        for name in OWN {
            let content = if name.starts_with("std") { String::new() } else { self.info(name) };
            fs::write(model.join(name), content).unwrap();
            fs::set_permissions(model.join(name), Permissions::from_mode(0o600)).unwrap();
        }
        for name in ["provide", "inputs"].into_iter().filter(|_| self.is_step) {
            fs::create_dir(model.join(name)).unwrap();
            fs::set_permissions(model.join(name), Permissions::from_mode(0o700)).unwrap();
        }
        found(&model)
    }

    /// Runs a script in the tool's folder, as run.sh would be run, and then puts the folder aside.
    fn run(&mut self, dir: TaskDir, script: &str) {
        let output = |name| Stdio::from(dir.open_output(name).unwrap());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).current_dir(dir.path().join("tool")).stdin(Stdio::null());
        let status = shell.stdout(output("stdout")).stderr(output("stderr")).status().unwrap();
        drop(shell);
        assert!(status.success(), "{script}: {}", dir.output_tail("stderr", TAIL).text);
        self.put_aside(dir);
    }

    fn put_aside(&mut self, dir: TaskDir) {
        let path = dir.path().to_owned();
        assert!(self.dir_pool.put_aside(dir, &self.remover).is_none());
        assert!(fs::symlink_metadata(&path).is_err(), "nothing of the name is left");
        self.dir_pool.tidy(&self.remover);
    }

    /// Whether the folder of a run is reused. The state that the next task finds must be fresh in any case.
    fn is_reused_after(&mut self, script: &str) -> bool {
        let dir = self.first();
        self.run(dir, script);
        let (next, reused) = self.task();
        assert_eq!(found(next.path()), self.expected(), "{script}");
        self.put_aside(next);
        reused
    }

    fn spares(&self) -> usize {
        fs::read_dir(self.around_spares()).unwrap().count()
    }

    /// The only spare folder.
    fn spare(&self) -> PathBuf {
        let mut spares: Vec<_> =
            fs::read_dir(self.around_spares()).unwrap().map(|spare| spare.unwrap().path()).collect();
        assert_eq!(spares.len(), 1);
        spares.remove(0)
    }

    fn around_spares(&self) -> PathBuf {
        self.folder.path().join("work").join(SPARE).join(self.dir_pool.name.to_str().unwrap())
    }
}

const TAIL: super::super::TailLimit = super::super::TailLimit { bytes_max: 1000, drop_partial_line: false };

fn found(top: &Path) -> Found {
    let mut found = Found::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        assert_eq!(rustix::fs::llistxattr_query(&path).unwrap_or(0), 0, "{path:?}");
        let content = metadata.is_file().then(|| fs::read(&path).unwrap());
        let name = path.strip_prefix(top).unwrap().to_owned();
        found.insert(name, (metadata.mode(), content, metadata.nlink()));
    }
    found
}

mod steps;

#[test]
fn the_next_task_gets_the_same_folder_as_fresh() {
    for mut site in Site::both() {
        for script in [
            "true",
            "echo to stdout; echo to stderr >&2; echo one > report.log; echo retry_after=1 > ../defer.info",
            "mkdir -p out/a/b; touch out/a/b/c data/more; mkfifo data/pipe ../pipe; ln -s /etc/passwd data/deep/link",
            "echo more >> ../task.info; : > ../task.json; cat ../controller.info > ../controller.info.copy",
            "printf THE | dd of=../controller.info conv=notrunc 2>/dev/null",
            "echo more >> ../controller.info",
            "head -c 100000 /dev/zero; head -c 1000 /dev/zero >&2; : > ../stdout; echo again",
            "exec 3< run.sh 4>> ../stdout; echo to 4 >&4",
            "mkdir closed; touch closed/in; chmod 000 closed",
        ] {
            assert!(site.is_reused_after(script), "{script}");
            assert_eq!(site.spares(), 1, "{script}");
        }
    }
}

#[test]
fn what_a_run_has_changed_is_not_given_to_the_next_one() {
    for mut site in Site::both() {
        for script in [
            // Content.
            "echo more >> run.sh",
            "printf b=2 | dd of=config conv=notrunc 2>&-; touch -d @1 config",
            "cp -p config old; printf b=2 | dd of=config conv=notrunc 2>&-; touch -r old config",
            "echo x > data/deep/empty",
            "touch -d @1 run.sh",
            // Other files under the names of the tool's files.
            "cp -p run.sh x; mv x run.sh",
            "rm run.sh; ln -s /etc/passwd run.sh",
            "rm run.sh; mkfifo run.sh",
            "rm config; mkdir config",
            "rm config",
            "for name in stdout stderr task.info; do rm ../$name; ln -s /etc/passwd ../$name; done",
            "rm ../stdout; mkfifo ../stdout",
            "mv ../task.json ../task.json.old; cp -p ../task.json.old ../task.json",
            // Folders.
            "mv ../tool ../moved",
            "mv ../tool ../moved; cp -rp ../moved ../tool",
            "mv ../tool ../moved; ln -s moved ../tool",
            "mv ../tool ../../carried; ln -s ../carried ../tool",
            "mv data moved; cp -rp moved data",
            "rm -r data",
            // Other properties of a file.
            "ln run.sh ../../elsewhere",
            "ln ../stdout hidden; mv hidden ../../hidden",
            "chmod 000 . .. || true",
            "chmod 777 run.sh",
            "chmod 666 ../stderr",
            "chmod 500 data",
            // Too much.
            "truncate -s 2M ../stdout",
            "truncate -s 1T report.log || truncate -s 2M report.log",
            "head -c 3000000 /dev/zero > ../task.info",
            "i=0; while [ $i -lt 500 ]; do : > file-$i; i=$((i + 1)); done",
            "i=0; while [ $i -lt 200 ]; do mkdir deep-$i; cd deep-$i; i=$((i + 1)); done",
        ] {
            assert!(!site.is_reused_after(script), "{script}");
            // The next folder is reused again.
            assert_eq!(site.spares(), 1, "{script}");
        }
    }
}

#[test]
fn attributes_do_not_stay() {
    for mut site in Site::both() {
        for path in ["", "stdout", "tool", "tool/run.sh", "tool/data/deep"] {
            let dir = site.first();
            let set = rustix::fs::setxattr(dir.path().join(path), "user.note", b"x", rustix::fs::XattrFlags::empty());
            if set.is_err() {
                return; // A file system without them.
            }
            site.put_aside(dir);
            let (next, reused) = site.task();
            assert!(!reused, "{path}");
            assert_eq!(found(next.path()), site.expected());
            site.put_aside(next);
        }
        // No dump, synchronous, append only, immutable; the last two are for root only.
        for flag in ["d", "S", "a", "i"] {
            for path in ["task.info", "tool", "tool/run.sh"] {
                let dir = site.first();
                let path = dir.path().join(path);
                let set = Command::new("chattr").arg(format!("+{flag}")).arg(&path).stderr(Stdio::null()).status();
                if !set.is_ok_and(|status| status.success()) {
                    continue;
                }
                let pinned = File::open(&path).unwrap();
                site.put_aside(dir);
                let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pinned));
                let (next, reused) = site.task();
                assert!(!reused, "+{flag} {path:?}");
                assert_eq!(found(next.path()), site.expected());
                site.put_aside(next);
                let _ = Command::new("chattr").arg(format!("-{flag}")).arg(again).stderr(Stdio::null()).status();
            }
        }
    }
}

/// A task of another tool, or of another agent of this host, can reach the folder that waits for the next task.
#[test]
fn what_another_task_has_changed_is_not_given_to_the_next_one() {
    for mut site in Site::both() {
        for script in [
            "echo '#!/bin/x' > tool/run.sh",
            "cp tool/run.sh x; printf '#!/bin/x\n' > tool/run.sh; touch -r x tool/run.sh; rm x",
            "cp -p tool/run.sh x; mv x tool/run.sh",
            "chmod 777 tool/run.sh",
            "echo b=2 > tool/config",
            "echo more > tool/data/deep/empty",
            "touch tool/extra",
            "mkdir tool/data/more",
            "rm tool/config",
            "mv tool/data tool/moved; cp -rp tool/moved tool/data; rm -r tool/moved",
            "mv tool moved; cp -rp moved tool",
            "echo output of another task > stdout",
            "echo __EXTRA__=1 >> task.info",
            "touch extra",
            "chmod 500 .",
        ] {
            let dir = site.first();
            site.put_aside(dir);
            let spare = site.spare();
            let changed = Command::new("sh").arg("-ec").arg(script).current_dir(&spare).status().unwrap();
            assert!(changed.success(), "{script}");
            let (next, reused) = site.task();
            assert!(!reused, "{script}");
            assert_eq!(found(next.path()), site.expected(), "{script}");
            site.put_aside(next);
            assert!(site.is_reused_after("echo output"), "{script}");
        }
    }
}

/// A tool runs as the same user as its agent, and can change the modes of the agent's own folders.
#[test]
fn folders_of_ours_are_made_accessible_again() {
    // Root is exempt from modes by these capabilities; they belong to the thread.
    let mut present = capabilities(None).unwrap();
    present.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    set_capabilities(None, present).unwrap();
    for script in ["chmod 000 ../..", "chmod -R 000 ../..", "chmod 000 ../../.trash ../../.spare ../../.spare/*"] {
        let mut site = Site::new();
        let work = site.folder.path().join("work");
        fs::set_permissions(&work, Permissions::from_mode(0o750)).unwrap();
        site.workspace = Arc::new(Workspace::open(&work).unwrap());
        site.dir_pool = DirPool::open(Arc::clone(&site.workspace), SPARES_MAX).unwrap();
        let (dir, _) = site.task();
        let shell = Command::new("sh").arg("-c").arg(script).current_dir(dir.path().join("tool")).status().unwrap();
        assert!(shell.success() || script.contains("-R"), "{script}");
        if let Some(useless) = site.dir_pool.put_aside(dir, &site.remover) {
            assert!(!matches!(site.workspace.remove(useless, REMOVALS_MAX), Removed::Left(_)), "{script}");
        }
        for _ in 0..2 {
            let (next, _) = site.task();
            assert_eq!(found(next.path()), site.expected(), "{script}");
            site.put_aside(next);
        }
        assert!(site.task().1, "{script}: folders are used again");
        assert_eq!(fs::metadata(&work).unwrap().mode() & 0o777, 0o750, "{script}");
    }
}

#[test]
fn what_a_run_has_mounted_stays_as_it_is() {
    in_own_mount_namespace(|| {
        for (way, mount) in ways_to_mount() {
            for folder in ["", "tool", "tool/data"] {
                let mut site = Site::new();
                // Only the files that a run leaves in a reused folder are inspected at once.
                let (dir, _) = site.task();
                site.put_aside(dir);
                let (dir, reused) = site.task();
                assert!(reused);
                let precious = Precious::default();
                mount(&dir.path().join(folder), &precious);
                let path = dir.path().to_owned();
                if let Some(useless) = site.dir_pool.put_aside(dir, &site.remover)
                    && let Removed::Rest(rest) = site.workspace.remove(useless, REMOVALS_MAX)
                {
                    site.remover.take(rest);
                }
                assert!(!path.exists(), "{way} in {folder:?}: the folder is out of the way");
                let (next, _) = site.task();
                assert_eq!(found(next.path()), site.expected(), "{way} in {folder:?}");
                site.put_aside(next);
                let Site { dir_pool, remover, folder: around, .. } = site;
                drop(dir_pool);
                remover.finish();
                assert_eq!(fs::read_dir(around.path().join("work/.trash")).unwrap().count(), 0, "{way} in {folder:?}");
                precious.is_untouched();
            }
        }
    });
}

#[test]
fn what_is_mounted_over_our_own_folders_is_no_trash() {
    in_own_mount_namespace(|| {
        for name in [".trash", SPARE] {
            let around = tempfile::tempdir().unwrap();
            drop(Workspace::open(around.path()).unwrap());
            let precious = Precious::default();
            let _ = fs::create_dir(around.path().join(name));
            // One of them can be unmounted only after another one.
            for place in ["", "a", ""] {
                bind(precious.path(), &around.path().join(name).join(place));
            }
            let workspace = Arc::new(Workspace::open(around.path()).unwrap());
            let dir_pool = DirPool::open(Arc::clone(&workspace), SPARES_MAX).unwrap();
            Remover::start(&workspace).unwrap().finish();
            drop(dir_pool);
            precious.is_untouched();
        }
    });
}

/// The case of an agent without the right to unmount: the error names the path and the command.
#[test]
fn what_stays_mounted_over_our_own_folders_is_named() {
    in_own_mount_namespace(|| {
        let (around, precious) = (tempfile::tempdir().unwrap(), Precious::default());
        let workspace = Arc::new(Workspace::open(around.path()).unwrap());
        for name in [".trash", SPARE] {
            let _ = fs::create_dir(around.path().join(name));
            bind(precious.path(), &around.path().join(name));
        }
        let mut present = capabilities(None).unwrap();
        present.effective.remove(CapabilitySet::SYS_ADMIN);
        set_capabilities(None, present).unwrap();
        let refused = [Workspace::open(around.path()).map(drop), DirPool::open(workspace, SPARES_MAX).map(drop)];
        for (name, refused) in [".trash", SPARE].into_iter().zip(refused) {
            let (said, place) = (refused.unwrap_err().to_string(), around.path().join(name));
            assert!(said.contains(&format!("something is mounted there; run `umount {}`", place.display())), "{said}");
            assert!(said.contains(&format!("{place:?}: ")), "{said}");
        }
        precious.is_untouched();
    });
}

/// A run may pass an open file to a process outside of its tree, which could write to it when another task uses the folder.
#[test]
fn a_file_that_somebody_has_open_is_not_given_to_the_next_task() {
    for mut site in Site::both() {
        for path in ["stdout", "task.json", "tool/run.sh", "tool/config"] {
            for write in [false, true] {
                let dir = site.first();
                let stranger = File::options().read(true).write(write).open(dir.path().join(path)).unwrap();
                site.put_aside(dir);
                let (next, reused) = site.task();
                assert!(!reused, "{path}");
                site.put_aside(next);
                drop(stranger);
                assert!(site.is_reused_after("true"), "{path}");
            }
        }
        // The same descriptor as run.sh had it.
        let dir = site.first();
        let handed_on = dir.open_output("stdout").unwrap();
        site.put_aside(dir);
        assert!(!site.task().1);
        drop(handed_on);
    }
}

#[test]
fn the_folder_of_another_run_of_the_name_is_left_alone() {
    let mut site = Site::new();
    let (dir, _) = site.task();
    let id = TaskId::new(Wall::from_micros(site.tasks), [0; 5]);
    let (mut next_round, leftover) = site.workspace.create(id).unwrap();
    assert!(leftover.is_some());
    next_round.write_file("mine", b"").unwrap();
    assert!(site.dir_pool.put_aside(dir, &site.remover).is_none());
    assert!(next_round.path().join("mine").exists());
}

#[test]
fn what_is_in_the_way_of_a_spare_goes_to_the_trash() {
    let mut site = Site::new();
    let (dir, _) = site.task();
    site.put_aside(dir);
    let id = TaskId::new(Wall::from_micros(99), [0; 5]);
    fs::create_dir_all(site.folder.path().join(format!("work/{id}/a/b"))).unwrap();
    let (dir, leftover) = site.dir_pool.take((&site.tool, false), id, &site.remover).unwrap();
    assert!(leftover.is_some() && !dir.path().join("a").exists() && dir.path().join("tool/run.sh").exists());
}

#[test]
fn another_version_of_the_tool_gets_its_own_folder_and_the_longest_unused_one_goes() {
    let mut site = Site::new();
    for n in 0..=SPARES_MAX {
        let name = ToolName::new(&format!("tool-{n}")).unwrap();
        let (mut dir, _) = site.workspace.create(TaskId::new(Wall::from_micros(n as u64), [0; 5])).unwrap();
        site.copy(name.as_str(), dir.path());
        let tool = ToolSnapshot::of_folder(&name, &dir.path().join(name.as_str())).unwrap().unwrap();
        dir.keep_for(&Arc::new(tool), false);
        site.put_aside(dir);
        assert_eq!(site.spares(), SPARES_MAX.min(n + 1));
    }
    assert!(!site.task().1);
    let kept: Vec<_> =
        site.dir_pool.kept.iter().map(|spare| spare.reusable.as_ref().unwrap().content().to_owned()).collect();
    assert_eq!((kept[0].as_str(), kept.len()), ("tool-1", SPARES_MAX));
}

#[test]
fn what_has_no_copy_of_a_small_tool_is_no_spare() {
    let mut site = Site::new();
    let (task, _) = site.workspace.create(TaskId::new(Wall::from_micros(7), [0; 5])).unwrap();
    assert!(site.dir_pool.put_aside(task, &site.remover).is_some());

    let template = site.folder.path().join("template");
    let tool = |folder: &Path| ToolSnapshot::of_folder(&ToolName::new("tool").unwrap(), folder).unwrap();
    std::os::unix::fs::symlink("run.sh", template.join("link")).unwrap();
    assert!(tool(&template).is_none(), "a link");
    fs::remove_file(template.join("link")).unwrap();
    fs::write(template.join("big"), vec![0; 65 * 1024]).unwrap();
    assert!(tool(&template).is_none(), "too large");
    fs::remove_file(template.join("big")).unwrap();
    assert!(tool(&template).is_some());
    (0..16).for_each(|n| fs::write(template.join(format!("{n}")), "").unwrap());
    assert!(tool(&template).is_none(), "too many");
}

#[test]
fn an_agent_leaves_nothing_and_what_a_killed_one_left_goes_to_the_trash() {
    let Site { dir_pool, remover, workspace, folder, .. } = Site::new();
    // The time of its first pass is not defined.
    remover.finish();
    let work = folder.path().join("work");
    let count = |name: &str| fs::read_dir(work.join(name)).unwrap().count();
    let (dead, _) = own_folder(&workspace).unwrap();
    drop(dead);
    discard_abandoned(workspace.folder.as_fd(), workspace.trash.as_fd()).unwrap();
    assert_eq!((count(SPARE), count(".trash")), (1, 1), "that of the living one stays");
    drop(dir_pool);
    assert!(!work.join(SPARE).exists());

    // The next agent's remover does this without a request.
    drop(own_folder(&workspace).unwrap());
    Remover::start(&workspace).unwrap().finish();
    assert_eq!((count(SPARE), count(".trash")), (0, 0));
}
