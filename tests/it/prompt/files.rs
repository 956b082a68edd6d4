//! Files that are no prompts, or whose names are taken; the folders themselves.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, symlink};

use crate::prompt::sandbox::{Master as _, Sandbox, eventually};

#[test]
fn what_is_no_prompt_goes_to_failed_with_a_reason_and_holds_nobody_up() {
    let sandbox = Sandbox::new(&["z"]);
    sandbox.write("latin1", b"caf\xe9");
    sandbox.write("long", &vec![b'x'; 5000]);
    sandbox.write("front", b"---\npriority: high\n---\n");
    fs::write(sandbox.path("secret"), "secret").unwrap();
    symlink(sandbox.path("secret"), sandbox.path("pending/link")).unwrap();
    symlink("/nonexistent", sandbox.path("pending/dangling")).unwrap();
    fs::create_dir(sandbox.path("pending/folder")).unwrap();
    nix::unistd::mkfifo(&sandbox.path("pending/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let master = sandbox.master(&[("PROMPT_BYTES_MAX", "4096")]);
    let mut peer = master.join("1");
    assert_eq!(peer.take(), "do z");
    assert_eq!(sandbox.names("failed"), ["dangling", "folder", "front", "latin1", "link", "long", "pipe"]);
    for (name, reason) in [
        ("latin1", "not UTF-8"),
        ("long", "5000 bytes"),
        ("front", "priority = \"high\""),
        ("link", "symbolic link"),
        ("dangling", "symbolic link"),
        ("folder", "not a regular file"),
        ("pipe", "not a regular file"),
    ] {
        let told = fs::read_to_string(sandbox.path(&format!("failed/{name}.reason"))).unwrap();
        assert!(told.contains(reason), "{name}: {told}");
    }
    assert!(fs::symlink_metadata(sandbox.path("failed/pipe")).unwrap().file_type().is_fifo());
    assert_eq!(fs::read_to_string(sandbox.path("secret")).unwrap(), "secret");
}

#[test]
fn a_prompt_that_does_not_fit_into_a_message_is_refused() {
    let sandbox = Sandbox::new(&["z"]);
    sandbox.write("control", &vec![1; 4 << 20]);
    sandbox.write("fits", &vec![b'\n'; 4 << 20]);
    let master = sandbox.master(&[]);
    let mut peer = master.join("1");
    assert_eq!(peer.take().len(), 4 << 20);
    peer.done();
    assert_eq!(peer.take(), "do z");
    assert_eq!(sandbox.names("failed"), ["control"]);
}

#[test]
fn hidden_and_temporary_files_stay_where_they_are() {
    let names = [".x", "a~", "b.tmp"];
    let sandbox = Sandbox::new(&names);
    let master = sandbox.master(&[("KEEP_ALIVE", "false"), ("TIMER_INTERVAL", "50")]);
    let _peer = master.join("1");
    assert_eq!(master.said().code, Some(0), "they are no work");
    assert_eq!(sandbox.names("pending"), names);
}

#[test]
fn a_name_that_is_taken_gets_a_number_and_nothing_is_replaced() {
    let sandbox = Sandbox::new(&["a.txt", "b"]);
    for folder in ["done", "failed"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    fs::write(sandbox.path("done/a.txt"), "before").unwrap();
    fs::write(sandbox.path("failed/a.2.txt"), "before").unwrap();
    let master = sandbox.master(&[]);
    let mut peer = master.join("1");
    let request = peer.request();
    assert_eq!(request["file"], "a.3.txt", "a worker knows under which name its prompt will be");
    peer.acknowledge(&request);
    peer.done();
    peer.take();
    // Another program puts a file of this name there meanwhile.
    fs::write(sandbox.path("done/b"), "other").unwrap();
    peer.done();
    eventually("both are done", || sandbox.names("done") == ["a.3.txt", "a.txt", "b", "b.2"]);
    assert_eq!(fs::read_to_string(sandbox.path("done/a.txt")).unwrap(), "before");
    assert_eq!(fs::read_to_string(sandbox.path("done/b")).unwrap(), "other");
    assert_eq!(fs::read_to_string(sandbox.path("done/b.2")).unwrap(), "do b");
}

#[test]
fn a_file_may_vanish_at_any_time() {
    let sandbox = Sandbox::new(&["a", "b", "c"]);
    let master = sandbox.master(&[]);
    fs::remove_file(sandbox.path("pending/a")).unwrap();
    let mut peer = master.join("1");
    assert_eq!(peer.take(), "do b");
    fs::remove_file(sandbox.path("working/b")).unwrap();
    peer.done();
    assert_eq!(peer.take(), "do c");
    assert_eq!(sandbox.counts(), [0, 1, 0, 0]);
}

#[test]
fn folders_that_are_cleared_are_made_again() {
    let sandbox = Sandbox::new(&["a"]);
    let master = sandbox.master(&[]);
    let mut peer = master.join("1");
    peer.take();
    for folder in ["pending", "working", "done"] {
        fs::remove_dir_all(sandbox.path(folder)).unwrap();
    }
    peer.done();
    eventually("the folder is there", || sandbox.path("pending").is_dir());
    sandbox.write("b", b"new");
    assert_eq!(peer.take(), "new");
    peer.done();
    eventually("it is done", || sandbox.names("done") == ["b"]);
}

#[test]
fn what_a_dead_master_has_left_waits_again_before_anybody_can_join() {
    let sandbox = Sandbox::new(&["a"]);
    fs::create_dir_all(sandbox.path("working")).unwrap();
    fs::write(sandbox.path("working/a"), "left").unwrap();
    fs::write(sandbox.path("working/b"), "left").unwrap();
    let master = sandbox.master(&[]);
    assert_eq!(sandbox.whereabouts().into_values().collect::<Vec<_>>(), [["pending"]; 3]);
    let mut peer = master.join("1");
    assert_eq!(peer.take(), "do a");
    peer.done();
    assert_eq!(peer.take(), "left");
    assert_eq!(sandbox.names("working"), ["a.2"]);
}

#[test]
fn a_reason_replaces_no_file() {
    let sandbox = Sandbox::new(&["z"]);
    sandbox.write("a", b"caf\xe9");
    fs::create_dir_all(sandbox.path("failed")).unwrap();
    fs::write(sandbox.path("failed/a.reason"), "a prompt that is called so").unwrap();
    let master = sandbox.master(&[]);
    assert_eq!(master.join("1").take(), "do z");
    assert_eq!(fs::read_to_string(sandbox.path("failed/a.reason")).unwrap(), "a prompt that is called so");
    assert!(fs::read_to_string(sandbox.path("failed/a.2.reason")).unwrap().contains("not UTF-8"));
}

/// Where the file system has no rename that replaces nothing, a move is a second name and the end of the first.
#[test]
fn a_move_that_a_dead_master_has_not_finished_leaves_one_file() {
    let sandbox = Sandbox::new(&["b"]);
    for folder in ["working", "done"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    fs::write(sandbox.path("done/a"), "do a").unwrap();
    fs::hard_link(sandbox.path("done/a"), sandbox.path("working/a")).unwrap();
    fs::hard_link(sandbox.path("pending/b"), sandbox.path("working/b")).unwrap();
    let master = sandbox.master(&[]);
    assert_eq!(master.join("1").take(), "do b");
    eventually("b is done with", || sandbox.counts() == [1, 0, 1, 0]);
}

#[test]
fn a_result_whose_file_cannot_be_moved_holds_under_the_next_master() {
    let sandbox = Sandbox::new(&["a", "b"]);
    let mut master = sandbox.master(&[]);
    let mut peer = master.join("1");
    assert_eq!(peer.take(), "do a");
    for folder in ["done", "failed"] {
        fs::remove_dir(sandbox.path(folder)).unwrap();
        fs::write(sandbox.path(folder), "no folder").unwrap();
    }
    peer.done();
    assert_eq!(peer.take(), "do b", "others go on");
    peer.failed();
    let notes = || fs::read_to_string(sandbox.path("master.notes")).unwrap();
    eventually("both ends are noted", || notes().contains("\"done\"") && notes().contains("\"failed\""));
    master.kill();
    ["done", "failed"].iter().for_each(|folder| fs::remove_file(sandbox.path(folder)).unwrap());
    let master = sandbox.master(&[("KEEP_ALIVE", "false")]);
    let said = master.said();
    assert!(said.out.contains("1 succeeded, 1 failed, 0 left"), "{said:?}");
    assert_eq!(sandbox.counts(), [0, 0, 1, 1]);
}
