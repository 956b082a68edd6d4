//! No result is replaced, and none is reported before it is safe.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::prompt_worker::master::Master;
use crate::prompt_worker::sandbox::{Sandbox, eventually, names, namespace};

/// The prompt is given back for a pause of this worker; the place of its output.
#[track_caller]
fn is_unkept(peer: &mut crate::prompt_worker::master::Peer) -> String {
    let limited = peer.hears("USAGE_LIMITED");
    assert_eq!(limited["scope"], "worker", "{limited}");
    assert!(limited["retry_after"].as_f64().is_some_and(|seconds| seconds > 0.0), "{limited}");
    let reason = limited["msg"].as_str().expect("a reason");
    let (_, rest) = reason.split_once("cannot store the results of a.txt: ").unwrap_or_else(|| panic!("{reason}"));
    let (_, left) = rest.split_once("its output is in ").unwrap_or_else(|| panic!("{reason}"));
    left.to_owned()
}

#[test]
fn a_second_batch_leaves_the_results_of_the_first() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], "cat");
    let mut peer = master.join();
    // The prompts themselves never come to this root.
    for text in ["one", "two", "three"] {
        peer.request("task_001_x.txt", text);
        peer.hears("DONE");
    }
    let outs = ["task_001_x.txt.out", "task_001_x.2.txt.out", "task_001_x.3.txt.out"];
    let texts = outs.map(|name| sandbox.text(&format!(".tasks/done/{name}")));
    assert_eq!(texts, ["three", "one", "two"]);
    assert_eq!(names(&sandbox.path(".tasks/done")).len(), 9);
    sandbox.is_clean();
}

#[test]
fn prompts_whose_master_names_them_alike_have_results_of_their_own() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let _worker = sandbox.worker(master.address(), &[], "cat");
    let mut peer = master.join();
    for text in ["one", "two"] {
        // A master of the document tells no file, and its numbers have four digits.
        peer.write(format!("{{\"type\":\"REQUEST\",\"msg\":\"{text}\",\"req_id\":\"task_1303\"}}\n").as_bytes());
        peer.hears("REQUEST_ACK");
        peer.hears("DONE");
    }
    let texts = ["task_task_1303.out", "task_task_1303.2.out"].map(|name| sandbox.text(&format!(".tasks/done/{name}")));
    assert_eq!(texts, ["two", "one"]);
}

#[test]
fn a_prompt_that_is_called_like_a_result_is_not_replaced() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    fs::create_dir_all(sandbox.path(".tasks/done")).unwrap();
    fs::write(sandbox.path(".tasks/done/a.out"), "a prompt").unwrap();
    let _worker = sandbox.worker(master.address(), &[], "cat");
    let mut peer = master.join();
    peer.request("a", "answer");
    peer.hears("DONE");
    assert_eq!(sandbox.text(".tasks/done/a.out"), "a prompt");
    assert_eq!(sandbox.text(".tasks/done/a.2.out"), "answer");
}

#[test]
fn results_go_to_a_folder_on_another_disk() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return println!("skipped: there is no /dev/shm") };
    let device = |path: &std::path::Path| path.metadata().unwrap().dev();
    if device(other.path()) == device(&sandbox.path("")) {
        return println!("skipped: /dev/shm is no other file system than the temporary folders");
    }
    fs::create_dir(sandbox.path(".tasks")).unwrap();
    std::os::unix::fs::symlink(other.path(), sandbox.path(".tasks/done")).unwrap();
    let _worker = sandbox.worker(master.address(), &[], "cat");
    let mut peer = master.join();
    peer.request("a.txt", "answer");
    peer.hears("DONE");
    assert_eq!(sandbox.text(".tasks/done/a.txt.out"), "answer");
    assert_eq!(names(other.path()), ["a.txt.err", "a.txt.json", "a.txt.out"]);
    sandbox.is_clean();
}

#[test]
fn results_that_cannot_be_kept_give_their_prompt_back_and_pause_the_worker() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    fs::create_dir(sandbox.path(".tasks")).unwrap();
    fs::write(sandbox.path(".tasks/done"), "no folder").unwrap();
    let _worker = sandbox.worker(master.address(), &[], "cat");
    let mut peer = master.join();
    peer.request("a.txt", "answer");
    let left = is_unkept(&mut peer);
    assert_eq!(fs::read_to_string(format!("{left}/out")).unwrap(), "answer");
    // Nor does the next worker remove it.
    let next = sandbox.worker(master.address(), &["--patience", "0"], "cat");
    drop(master.join());
    assert_eq!(next.said().code, Some(0));
    assert_eq!(fs::read_to_string(format!("{left}/out")).unwrap(), "answer");
}

#[test]
fn a_full_disk_ends_no_prompt() {
    let Some(unshare) = namespace("-m") else { return };
    let (sandbox, master) = (Sandbox::new(), Master::new());
    fs::create_dir(sandbox.path(".tasks")).unwrap();
    // Few commands look whether their output could be written.
    let script = "head -c 1000000 /dev/zero 2> /dev/null; true";
    let mount = "mount -t tmpfs -o size=512k none .tasks && exec \"$@\"";
    let wrapper = [&unshare[..], &["sh", "-c", mount, "sh"]].concat();
    let _worker = sandbox.worker_in(&wrapper, master.address(), script);
    let mut peer = master.join();
    peer.request("a.txt", "x");
    is_unkept(&mut peer);
    peer.check();
}

#[test]
fn a_worker_of_the_same_name_in_another_pid_namespace_leaves_a_run_alone() {
    let Some(unshare) = namespace("-pf") else { return };
    leaves_a_run_alone(&[&unshare[..], &["--mount-proc", "--"]].concat());
}

/// Two machines of the same name differ in their boot ids.
#[test]
fn a_worker_of_another_machine_of_the_same_name_leaves_a_run_alone() {
    let Some(unshare) = namespace("-m") else { return };
    let boot = "echo 01234567-89ab-cdef-0123-456789abcdef > boot && \
                mount --bind boot /proc/sys/kernel/random/boot_id && exec \"$@\"";
    leaves_a_run_alone(&[&unshare[..], &["sh", "-c", boot, "sh"]].concat());
}

/// A worker that is started in this way, on the same root as one that runs its command.
fn leaves_a_run_alone(wrapper: &[&str]) {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let script = "touch running; while [ ! -e go ]; do sleep 0.02; done; cat";
    let _worker = sandbox.worker(master.address(), &[], script);
    let mut peer = master.join();
    peer.request("a.txt", "answer");
    eventually("a running command", || sandbox.path("running").exists());
    let other = sandbox.worker_in(wrapper, master.address(), "cat");
    // It has looked through the runs before it joins.
    drop(master.join());
    assert_eq!(other.said().code, Some(0));
    fs::write(sandbox.path("go"), "").expect("a file of ours");
    peer.hears("DONE");
    assert_eq!(sandbox.text(".tasks/done/a.txt.out"), "answer");
}
