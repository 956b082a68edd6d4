//! `--workdir git-worktree` and commands that do things to git: no work is lost, and nothing else is touched.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::prompt_worker::master::Master;
use crate::prompt_worker::sandbox::{Sandbox, eventually, names};
use crate::prompt_worker::workdir::{branches, git, repository, worktrees};

const OPTIONS: [&str; 2] = ["--workdir", "git-worktree"];

/// A repository with changes of its user that are not committed, which no run may touch.
fn with_changes() -> Sandbox {
    let sandbox = repository();
    git(&sandbox, &["config", "user.name", "test"]);
    git(&sandbox, &["config", "user.email", "test@localhost"]);
    fs::write(sandbox.path("below/notes"), "of the user\n").expect("a file of ours");
    sandbox
}

/// What a user sees of the own branch, without the folders of prompts.
fn own(sandbox: &Sandbox) -> [String; 4] {
    [
        git(sandbox, &["rev-parse", "HEAD", "refs/heads/main"]),
        git(sandbox, &["symbolic-ref", "HEAD"]),
        git(sandbox, &["status", "--porcelain", "--untracked-files=no"]),
        git(sandbox, &["diff"]),
    ]
}

fn json(sandbox: &Sandbox, name: &str) -> Value {
    serde_json::from_str(&sandbox.text(&format!(".tasks/{name}.json"))).expect("JSON")
}

/// The folder that a run has left.
#[track_caller]
fn kept(sandbox: &Sandbox, name: &str) -> PathBuf {
    let json = json(sandbox, name);
    PathBuf::from(json["workdir"].as_str().unwrap_or_else(|| panic!("{json}")))
}

#[test]
fn a_run_without_its_git_entry_changes_its_own_branch_only() {
    let (sandbox, master) = (with_changes(), Master::new());
    let before = own(&sandbox);
    let _worker = sandbox.worker(master.address(), &OPTIONS, "rm .git; cat > new");
    let mut peer = master.join();
    peer.request("a.txt", "work");
    peer.hears("DONE");
    assert_eq!(own(&sandbox), before);
    let [branch] = &branches(&sandbox)[..] else { panic!("{:?}", branches(&sandbox)) };
    assert_eq!(git(&sandbox, &["show", "--format=", "--name-only", branch]), "new\n");
    assert_eq!((json(&sandbox, "done/a.txt")["branch"].as_str(), worktrees(&sandbox)), (Some(branch.as_str()), 1));
}

#[test]
fn a_removed_folder_is_no_trouble() {
    let (sandbox, master) = (with_changes(), Master::new());
    let before = own(&sandbox);
    let _worker = sandbox.worker(master.address(), &OPTIONS, "rm -rf \"$PWD\"");
    let mut peer = master.join();
    for name in ["a.txt", "b.txt"] {
        peer.request(name, "x");
        peer.hears("DONE");
    }
    assert_eq!((own(&sandbox), branches(&sandbox).len(), worktrees(&sandbox)), (before, 0, 1));
}

#[test]
fn work_that_git_cannot_keep_stays_in_its_folder_and_the_worker_goes_on() {
    let (sandbox, master) = (with_changes(), Master::new());
    let before = own(&sandbox);
    let script = "echo work > new; case $PROMPT_NAME in \
                  lock.txt) touch \"$(git rev-parse --git-dir)/index.lock\"; false;; \
                  empty.txt) git init -q sub; echo work > sub/new;; \
                  nested.txt) git init -q sub; cd sub; echo work > new; git add new; \
                      git -c user.name=x -c user.email=x commit -qm x; cd ..; git add sub 2>&1;; \
                  own.txt) rm .git; git init -q . ;; \
                  main.txt) git symbolic-ref HEAD refs/heads/main;; \
                  esac";
    let worker = sandbox.worker(master.address(), &OPTIONS, script);
    let mut peer = master.join();
    let mut folders = Vec::new();
    for (name, end) in [
        ("lock.txt", "FAILED"),
        ("empty.txt", "DONE"),
        ("nested.txt", "DONE"),
        ("own.txt", "DONE"),
        ("main.txt", "DONE"),
    ] {
        peer.request(name, "x");
        peer.hears(end);
        let folder = kept(&sandbox, &format!("{}/{name}", end.to_lowercase()));
        assert_eq!(fs::read_to_string(folder.join("new")).unwrap(), "work\n", "{name}");
        folders.push(folder);
        assert_eq!(own(&sandbox), before, "{name}");
    }
    assert_eq!(fs::read_to_string(folders[2].join("sub/new")).unwrap(), "work\n");
    peer.request("last.txt", "x");
    peer.hears("DONE");
    assert_eq!(json(&sandbox, "done/last.txt")["workdir"], Value::Null);
    drop(peer);
    worker.signal(rustix::process::Signal::TERM);
    let said = worker.said().err;
    for folder in &folders {
        assert!(said.contains(folder.to_str().unwrap()), "{folder:?} in {said}");
    }
    let next = Master::new();
    let _worker = sandbox.worker(next.address(), &OPTIONS, "true");
    let mut peer = next.join();
    peer.request("next.txt", "x");
    peer.hears("DONE");
    assert!(folders.iter().all(|folder| folder.join("new").exists()), "a later start keeps them");
    let clean = |options: &[&str]| {
        let said = sandbox.start(&[&["clean", "--output", "wire"], options].concat()).said();
        serde_json::from_str::<Value>(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    };
    let listed = clean(&[]);
    let mut named: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["folder"].as_str().unwrap(), one["prompt"].as_str().unwrap(), one["outcome"].as_str().unwrap()))
        .collect();
    named.sort_by_key(|(folder, ..)| folders.iter().position(|path| path.to_str() == Some(folder)));
    assert_eq!(named.len(), folders.len(), "{listed}");
    assert_eq!((named[0].1, named[0].2, named[4].1, named[4].2), ("lock.txt", "failed", "main.txt", "done"));
    assert_eq!(clean(&["--older-than", "1", "--remove"]), Value::Array(Vec::new()));
    assert!(folders.iter().all(|folder| folder.exists()), "they are too young");
    assert!(
        clean(&["--remove"])
            .as_array()
            .is_some_and(|all| all.len() == 5 && all.iter().all(|one| one["removed"] == true))
    );
    assert!(!folders.iter().any(|folder| folder.exists()));
    assert_eq!(own(&sandbox), before);
}

#[test]
fn changes_on_another_branch_are_committed_there_and_named() {
    let (sandbox, master) = (with_changes(), Master::new());
    git(&sandbox, &["branch", "old"]);
    let script = "case $PROMPT_NAME in look.txt) git checkout -q old;; *) git checkout -q -b topic; cat > new;; esac";
    let worker = sandbox.worker(master.address(), &OPTIONS, script);
    let mut peer = master.join();
    for name in ["look.txt", "a.txt"] {
        peer.request(name, "work");
        peer.hears("DONE");
    }
    assert_eq!(json(&sandbox, "done/look.txt")["branch"], Value::Null);
    assert_eq!(json(&sandbox, "done/a.txt")["branch"], "topic");
    assert_eq!(git(&sandbox, &["show", "topic:new"]), "work");
    assert_eq!((branches(&sandbox).len(), worktrees(&sandbox)), (0, 1));
    drop(peer);
    worker.signal(rustix::process::Signal::TERM);
    let said = worker.said().err;
    assert!(said.contains("the changes of a.txt are on the git branch topic"), "{said}");
}

#[test]
fn commits_on_the_branch_and_beside_it_are_both_kept() {
    let (sandbox, master) = (with_changes(), Master::new());
    let script =
        "git commit -q --allow-empty -m one; git checkout -q --detach HEAD~1; git commit -q --allow-empty -m two";
    let _worker = sandbox.worker(master.address(), &OPTIONS, script);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    peer.hears("DONE");
    let subjects: Vec<String> =
        branches(&sandbox).iter().map(|branch| git(&sandbox, &["log", "-1", "--format=%s", branch])).collect();
    assert_eq!(subjects, ["one\n", "two\n"]);
}

#[test]
fn workers_that_start_together_do_not_warn_of_branches_that_another_one_has_removed() {
    let (sandbox, master) = (repository(), Master::new());
    let lost = sandbox.path(".tasks/.runs/gone");
    for number in 0..8 {
        let (path, branch) = (lost.join(number.to_string()), format!("llts/lost-{number}"));
        git(&sandbox, &["worktree", "add", "--quiet", "-b", &branch, path.to_str().unwrap()]);
    }
    fs::remove_dir_all(&lost).unwrap();
    let worker = sandbox.worker(master.address(), &[&OPTIONS[..], &["--jobs", "3"]].concat(), "true");
    let peers = [master.accept(), master.accept(), master.accept()];
    eventually("the removal of the branches", || branches(&sandbox).is_empty());
    drop(peers);
    worker.signal(rustix::process::Signal::TERM);
    let said = worker.said().err;
    assert!(!said.contains(" stays"), "{said}");
    assert_eq!((worktrees(&sandbox), names(&sandbox.path(".tasks/.runs")).contains(&"gone".to_owned())), (1, false));
}
