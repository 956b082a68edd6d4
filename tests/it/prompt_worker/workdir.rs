//! `--workdir`: each run in a folder of its own, and nothing of it left afterwards.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::prompt_worker::master::Master;
use crate::prompt_worker::sandbox::{Sandbox, Start as _, eventually, names, signal};

/// Runs git in the sandbox; its output.
#[track_caller]
pub(crate) fn git(sandbox: &Sandbox, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=test", "-c", "user.email=test@localhost"]).args(words);
    let output = command.current_dir(sandbox.path("")).output().expect("git");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// A sandbox that is a repository with one file, and a worker's folder below its top.
pub(crate) fn repository() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("below")).expect("a folder of ours");
    fs::write(sandbox.path("below/notes"), "first\n").expect("a file of ours");
    git(&sandbox, &["init", "--quiet", "--initial-branch", "main"]);
    git(&sandbox, &["add", "below"]);
    git(&sandbox, &["commit", "--quiet", "-m", "first"]);
    sandbox
}

pub(crate) fn branches(sandbox: &Sandbox) -> Vec<String> {
    let list = git(sandbox, &["branch", "--format", "%(refname:short)", "--list", "llts/*"]);
    list.lines().map(str::to_owned).collect()
}

/// As its folders tell: `git worktree list` fails while one is being made.
pub(crate) fn worktrees(sandbox: &Sandbox) -> usize {
    1 + fs::read_dir(sandbox.path(".git/worktrees")).map_or(0, Iterator::count)
}

#[test]
fn a_copy_is_fresh_for_each_run_and_is_removed() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    fs::write(sandbox.path("shared"), "first\n").unwrap();
    let script = "cat >> shared; cat shared; [ \"$PROMPT_NAME\" != b.txt ]";
    let _worker = sandbox.worker(master.address(), &["--workdir", "copy"], script);
    let mut peer = master.join();
    for (name, end) in [("a.txt", "DONE"), ("b.txt", "FAILED"), ("c.txt", "DONE")] {
        peer.request(name, name);
        peer.hears(end);
        peer.check();
    }
    assert_eq!(sandbox.text("shared"), "first\n");
    let outs =
        ["done/a.txt.out", "failed/b.txt.out", "done/c.txt.out"].map(|name| sandbox.text(&format!(".tasks/{name}")));
    assert_eq!(outs, ["first\na.txt", "first\nb.txt", "first\nc.txt"]);
    eventually("the end of the last run", || sandbox.commands().is_empty());
    let runs = sandbox.path(".tasks/.runs");
    let is_empty = || names(&runs).iter().all(|realm| names(&runs.join(realm)).is_empty());
    eventually("no folder of a run is left", is_empty);
    sandbox.is_clean();
}

#[test]
fn changes_of_a_run_are_left_on_a_branch_and_a_run_without_changes_leaves_none() {
    let (sandbox, master) = (repository(), Master::new());
    let script = "case $PROMPT_NAME in same.txt) cat notes;; *) cat >> notes; echo new > \"new file\";; esac";
    let options = ["--workdir", "git-worktree", "--root-dir", "below"];
    let worker = sandbox.worker(master.address(), &options, script);
    let mut peer = master.join();
    for name in ["same.txt", "a..b c.lock"] {
        peer.request(name, "second\n");
        peer.hears("DONE");
    }
    let [branch] = &branches(&sandbox)[..] else { panic!("{:?}", branches(&sandbox)) };
    assert!(branch.starts_with("llts/a.-b-c.lock-20"), "{branch}");
    assert_eq!(git(&sandbox, &["show", &format!("{branch}:below/notes")]), "first\nsecond\n");
    assert_eq!(git(&sandbox, &["show", &format!("{branch}:below/new file")]), "new\n");
    assert_eq!(git(&sandbox, &["log", "-1", "--format=%s", branch]), "a..b c.lock\n");
    assert_eq!((sandbox.text("below/notes").as_str(), worktrees(&sandbox)), ("first\n", 1));
    let json =
        |name: &str| serde_json::from_str::<Value>(&sandbox.text(&format!("below/.tasks/done/{name}.json"))).unwrap();
    assert_eq!(json("a..b c.lock")["branch"], branch.as_str());
    assert_eq!(json("same.txt")["branch"], Value::Null);
    peer.request("c.txt", "third\n");
    peer.hears("DONE");
    assert_eq!(branches(&sandbox).len(), 2);
    drop(worker);
    assert_eq!(worktrees(&sandbox), 1);
}

#[test]
fn commits_of_the_command_are_kept_wherever_it_makes_them() {
    let (sandbox, master) = (repository(), Master::new());
    let script = "git checkout --quiet --detach && cat >> below/notes && \
                  git -c user.name=x -c user.email=x commit --quiet -am detached; exit 75";
    let _worker = sandbox.worker(master.address(), &["--workdir", "git-worktree"], script);
    let mut peer = master.join();
    peer.request("a.txt", "second\n");
    peer.hears("USAGE_LIMITED");
    eventually("the removal of the worktree", || worktrees(&sandbox) == 1);
    eventually("one branch", || branches(&sandbox).len() == 1);
    assert_eq!(git(&sandbox, &["log", "-1", "--format=%s", &branches(&sandbox)[0]]), "detached\n");
}

#[test]
fn a_killed_worker_leaves_no_worktree_after_the_next_start() {
    let (sandbox, master) = (repository(), Master::new());
    let running = sandbox.path("running");
    let script = format!("echo x >> below/notes; touch '{}'; sleep 1000", running.display());
    let options = ["--workdir", "git-worktree"];
    let worker = sandbox.worker(master.address(), &options, &script);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    // Not before: a git that makes a worktree outlives its worker.
    eventually("the command runs", || running.exists());
    assert_eq!(worktrees(&sandbox), 2);
    let guard = sandbox.guard_of(&worker);
    signal(guard, Signal::KILL);
    worker.signal(Signal::KILL);
    drop(worker);
    let _next = sandbox.worker(master.address(), &options, "true");
    drop(master.accept());
    assert_eq!((worktrees(&sandbox), branches(&sandbox)), (1, Vec::new()));
    assert_eq!(sandbox.commands(), []);
}

#[test]
fn a_folder_without_a_usable_repository_is_refused_in_one_sentence() {
    let (sandbox, address) = (Sandbox::new(), Master::gone());
    let refused = |sandbox: &Sandbox, environment: &[(&str, &str)]| {
        let [host, port] = [address.ip().to_string(), address.port().to_string()];
        let words = ["worker", &host, &port, "--patience", "0", "--workdir", "git-worktree", "--", "sh", "-c", "true"];
        let said = sandbox.start_with(environment, &words).said().ended(2);
        said.err
    };
    let said = refused(&sandbox, &[]);
    assert!(said.contains("not a git repository") && said.contains("--workdir copy"), "{said}");
    git(&sandbox, &["init", "--quiet"]);
    let said = refused(&sandbox, &[]);
    assert!(said.contains("has no commit"), "{said}");
    let programs = sandbox.path("programs");
    fs::create_dir(&programs).unwrap();
    symlink("/bin/sh", programs.join("sh")).unwrap();
    let said = refused(&sandbox, &[("PATH", programs.to_str().unwrap())]);
    assert!(said.contains("there is no program \"git\" in any folder of PATH"), "{said}");
    assert_eq!(names(&sandbox.path(".tasks")), [""; 0]);
}

#[test]
fn uncommitted_changes_are_a_warning_and_shared_jobs_are_told_of_folders_of_their_own() {
    let sandbox = repository();
    fs::write(sandbox.path("below/notes"), "changed\n").unwrap();
    let (address, none) = (Master::gone(), ["--patience", "0"]);
    let said = sandbox.worker(address, &[&none[..], &["--workdir", "git-worktree"]].concat(), "true").said();
    assert!(said.err.contains("uncommitted changes in ") && said.err.contains("(1) are seen by no run"), "{said:?}");
    let said = sandbox.worker(address, &[&none[..], &["--jobs", "2"]].concat(), "true").said();
    assert!(said.err.contains("--workdir copy or git-worktree"), "{said:?}");
    let said = sandbox.worker(address, &[&none[..], &["--jobs", "2", "--workdir", "copy"]].concat(), "true").said();
    assert!(!said.err.contains("--workdir"), "{said:?}");
}

#[test]
fn a_full_disk_gives_the_prompt_back_and_leaves_no_copy() {
    let Some(unshare) = crate::prompt_worker::sandbox::namespace("-m") else { return };
    let (sandbox, master) = (Sandbox::new(), Master::new());
    fs::create_dir(sandbox.path(".tasks")).unwrap();
    fs::write(sandbox.path("large"), vec![7; 2 << 20]).unwrap();
    let wrapper = [&unshare[..], &["sh", "-c", "mount -t tmpfs -o size=1m none .tasks && exec \"$@\"", "sh"]].concat();
    let [host, port] = [master.address().ip().to_string(), master.address().port().to_string()];
    let worker = sandbox.command(&["worker", &host, &port, "--workdir", "copy", "--", "cat"]).under(&wrapper).start();
    let mut peer = master.join();
    peer.request("a.txt", "x");
    let limited = peer.hears("USAGE_LIMITED");
    assert_eq!(limited["scope"], "worker", "{limited}");
    let reason = limited["msg"].as_str().unwrap();
    assert!(reason.contains("cannot copy") && reason.contains("large"), "{reason}");
    let tasks = format!("/proc/{}/root{}", worker.id(), sandbox.path(".tasks/.runs").display());
    let left = || {
        let realms = fs::read_dir(&tasks).unwrap().flatten().filter(|entry| entry.path().is_dir());
        realms.flat_map(|realm| names(&realm.path())).collect::<Vec<_>>()
    };
    eventually("nothing of it is left", || left().is_empty());
    worker.stop();
}
