//! How a master starts, ends, and is hosted.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::prompt::sandbox::{Master as _, Said, Sandbox, Start as _, eventually, started};

#[test]
fn a_master_ends_when_all_is_worked_off_and_tells_what_was() {
    let sandbox = Sandbox::new(&["a", "b", "c"]);
    // An hour until its TIMER: it ends with the last result.
    let master = sandbox.master(&[("KEEP_ALIVE", "false")]);
    let mut peer = master.join("1");
    for number in 0..3 {
        peer.take();
        if number == 1 { peer.failed() } else { peer.done() }
    }
    assert_eq!(peer.until_closed().unwrap()["type"], "COMPLETED");
    drop(peer);
    let Said { code, out: text, .. } = master.said();
    assert_eq!(code, Some(1), "one has failed");
    assert!(text.contains("3 prompts: 2 succeeded, 1 failed, 0 left"), "{text}");
}

#[test]
fn a_master_that_was_restarted_has_not_forgotten_what_has_failed() {
    let sandbox = Sandbox::new(&["a", "b", "c"]);
    let mut master = sandbox.master(&[]);
    let mut peer = master.join("1");
    peer.take();
    peer.failed();
    peer.take();
    master.kill();
    // Nor has one that was stopped with prompts left told of all of them.
    let master = sandbox.master(&[]);
    let mut peer = master.join("1");
    peer.take();
    peer.failed();
    peer.take();
    master.signal(Signal::INT);
    peer.until_closed();
    drop(peer);
    let Said { code, out: text, .. } = master.said();
    assert_eq!(code, Some(1), "{text}");
    let last = |counts: &str, code| {
        let master = sandbox.master(&[("KEEP_ALIVE", "false")]);
        let mut peer = master.join("1");
        peer.take();
        peer.done();
        peer.until_closed();
        drop(peer);
        let Said { code: exit, out: text, .. } = master.said();
        assert!(exit == Some(code) && text.ends_with(&format!(" prompts: {counts}, 0 left\n")), "{text}");
    };
    last("1 succeeded, 2 failed", 1);
    // Messages at the end of all work do not concern the next run.
    sandbox.write("d", b"d");
    last("1 succeeded, 0 failed", 0);
}

#[test]
fn a_master_whose_prompts_are_all_done_has_succeeded() {
    let sandbox = Sandbox::new(&["a"]);
    fs::create_dir_all(sandbox.path("failed")).unwrap();
    fs::write(sandbox.path("failed/before"), "of an earlier master").unwrap();
    let master = sandbox.master(&[("KEEP_ALIVE", "false")]);
    let mut peer = master.join("1");
    peer.take();
    peer.done();
    peer.until_closed();
    drop(peer);
    assert_eq!(master.said().code, Some(0));
}

#[test]
fn the_log_names_every_prompt_with_its_worker_and_its_fate() {
    let sandbox = Sandbox::new(&["a", "b", "c"]);
    let mut command = sandbox.command(&["prompt", "master", "0"], &[("KEEP_ALIVE", "false"), ("SECRET", "open")]);
    let log = sandbox.path("log");
    command.env("LLTS_LOG_LEVEL", "info").stderr(fs::File::create(&log).unwrap());
    let master = started(&mut command);
    let mut stranger = master.connect();
    stranger.done();
    stranger.until_closed();
    let join = |id: &str| {
        let mut peer = master.connect();
        peer.say(&json!({ "type": "JOIN", "msg": id, "secret": "open", "splits": true }));
        assert_eq!(peer.next().unwrap()["type"], "JOIN_ACK");
        peer
    };
    let mut gone = join("gone");
    gone.take();
    gone.leave();
    let mut peer = join("box-1");
    peer.take();
    peer.done();
    peer.take();
    peer.say(&json!({ "type": "FAILED", "msg": "exit code 3" }));
    peer.take();
    peer.done();
    peer.until_closed();
    drop(peer);
    assert_eq!(master.said().code, Some(1));
    let text = fs::read_to_string(&log).unwrap();
    let tells = |words: &[&str]| {
        assert!(text.lines().any(|line| words.iter().all(|word| line.contains(word))), "{words:?} of:\n{text}");
    };
    tells(&["WARN", "127.0.0.1:", "is refused", "JOIN"]);
    tells(&["INFO", "worker gone (127.0.0.1:", "has joined"]);
    tells(&["INFO", "a is handed out to worker gone (127.0.0.1:"]);
    tells(&["INFO", "a waits again, from worker gone", "it leaves"]);
    tells(&["INFO", "a is handed out to worker box-1"]);
    tells(&["INFO", "a is done by worker box-1", " s"]);
    tells(&["INFO", "b has failed at worker box-1", "exit code 3"]);
    tells(&["INFO", "c is done by worker box-1"]);
}

#[test]
fn a_signal_gives_prompts_back_and_closes_connections() {
    for signal in [Signal::INT, Signal::TERM] {
        let sandbox = Sandbox::new(&["a", "b", "c"]);
        let master = sandbox.master(&[]);
        let (mut working, mut idle) = (master.join("1"), master.join("2"));
        working.take();
        idle.request();
        master.signal(signal);
        working.until_closed();
        idle.until_closed();
        drop((working, idle));
        let Said { code, out: text, .. } = master.said();
        assert_eq!((code, sandbox.counts()), (Some(0), [3, 0, 0, 0]));
        assert!(text.contains("3 left"), "{text}");
    }
}

#[test]
fn a_peer_that_never_closes_does_not_keep_a_master() {
    let sandbox = Sandbox::new(&[]);
    let master = sandbox.master(&[("SHUTDOWN_TIMEOUT", "200")]);
    let peer = master.join("1");
    master.signal(Signal::INT);
    assert_eq!(master.said().code, Some(0));
    drop(peer);
}

#[test]
fn a_second_signal_ends_a_master_at_once() {
    let sandbox = Sandbox::new(&["a"]);
    let mut master = sandbox.master(&[("SHUTDOWN_TIMEOUT", "3600000")]);
    let mut peer = master.join("1");
    peer.take();
    master.signal(Signal::INT);
    peer.until_closed();
    assert!(master.is_running(), "it waits for its peer to close");
    master.signal(Signal::INT);
    let Said { code, out: text, .. } = master.said();
    assert_eq!((code, sandbox.counts()), (Some(130), [1, 0, 0, 0]));
    assert!(text.contains("1 left"), "{text}");
}

#[test]
fn a_root_has_one_master_and_a_port_one_listener() {
    let sandbox = Sandbox::new(&[]);
    let master = sandbox.master(&[]);
    let pid = format!("process {}", master.pid());
    sandbox.refuses(&["prompt", "master", "0"], &[], 1, &["already has", &pid]);
    let other = Sandbox::new(&[]);
    let port = master.port().to_string();
    other.refuses(&["prompt", "master", &port], &[], 1, &[&format!("127.0.0.1:{port}")]);
    sandbox.refuses(&["prompt", "master", "0", "--root-dir", "missing"], &[], 1, &["missing"]);
}

#[test]
fn the_root_is_the_folder_that_is_named_or_the_present_one() {
    let (sandbox, elsewhere) = (Sandbox::new(&["a"]), Sandbox::new(&[]));
    let root = sandbox.root();
    let mut named = elsewhere.command(&["prompt", "master", "0", "--root-dir", root.to_str().unwrap()], &[]);
    let master = started(&mut named);
    assert!(master.line.ends_with(root.canonicalize().unwrap().to_str().unwrap()), "{}", master.line);
    assert_eq!(master.join("1").take(), "do a");
}

#[test]
fn other_machines_are_let_in_only_with_a_secret_or_an_explicit_word() {
    let sandbox = Sandbox::new(&["a"]);
    sandbox.refuses(&["prompt", "master", "0"], &[("BIND", "0.0.0.0")], 2, &["prompt.SECRET"]);
    let keys = [("BIND", "0.0.0.0"), ("SECRET", "open sesame"), ("REFUSAL_PAUSE", "10")];
    let master = sandbox.master(&keys);
    for join in [json!({ "type": "JOIN", "msg": "1" }), json!({ "type": "JOIN", "msg": "1", "secret": "guess" })] {
        let mut peer = master.connect();
        peer.say(&join);
        let refused = peer.until_closed().unwrap();
        assert!(refused["type"] == "REFUSED" && refused["msg"].as_str().unwrap().contains("secret"), "{refused}");
    }
    let mut peer = master.connect();
    peer.say(&json!({ "type": "JOIN", "msg": "1", "secret": "open sesame" }));
    assert_eq!(peer.next().unwrap()["type"], "JOIN_ACK");
    assert_eq!(peer.take(), "do a");
}

#[test]
fn totals_are_one_json_value_for_programs() {
    let sandbox = Sandbox::new(&["a"]);
    let mut command = sandbox.command(&["prompt", "master", "0", "--output", "wire"], &[("KEEP_ALIVE", "false")]);
    command.env("LLTS_PROMPT_TIMER_INTERVAL", "50").env("LLTS_PROMPT_PORT", "0");
    std::fs::remove_file(sandbox.path("pending/a")).unwrap();
    let value = command.said().json();
    assert_eq!((&value["all"], &value["left"]), (&json!(0), &json!(0)));
    assert!(value["running_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_controller_hosts_a_master_that_stays_until_it_stops() {
    let sandbox = Sandbox::new(&["a"]);
    let keys = [
        ("HOSTED", "true"),
        ("PORT", "0"),
        ("KEEP_ALIVE", "false"),
        ("TIMER_INTERVAL", "20"),
        ("SHUTDOWN_TIMEOUT", "3600000"),
        ("DISCONNECT_TIMEOUT", "3600000"),
    ];
    let mut command = sandbox.command(&["controller"], &keys);
    command.env("LLTS_CONTROLLER_REP_PORT", "0").env("LLTS_CONTROLLER_PUB_PORT", "0");
    let master = started(&mut command);
    let mut peer = master.join("1");
    peer.take();
    peer.done();
    eventually("it is done", || sandbox.counts() == [0, 0, 1, 0]);
    sandbox.write("b", b"later");
    assert_eq!(peer.take(), "later");
    master.signal(Signal::TERM);
    peer.until_closed();
    // Its worker stays connected, which does not keep the controller.
    assert_eq!(master.said().code, Some(0));
    assert_eq!(sandbox.counts(), [1, 0, 1, 0]);
    drop(peer);
}

#[test]
fn a_prompt_that_fails_under_one_master_and_again_under_the_next_counts_once() {
    let sandbox = Sandbox::new(&["a", "b"]);
    let mut first = sandbox.master(&[]);
    let mut peer = first.join("1");
    assert_eq!(peer.take(), "do a");
    peer.failed();
    assert_eq!(peer.take(), "do b");
    first.kill();
    std::fs::rename(sandbox.path("failed/a"), sandbox.path("pending/a")).unwrap();
    let second = sandbox.master(&[("KEEP_ALIVE", "false")]);
    let mut peer = second.join("1");
    assert_eq!(peer.take(), "do a");
    peer.failed();
    assert_eq!(peer.take(), "do b");
    peer.done();
    assert_eq!(peer.until_closed().unwrap()["type"], "COMPLETED");
    drop(peer);
    let said = second.said();
    assert!(said.out.contains("2 prompts: 1 succeeded, 1 failed, 0 left"), "{said:?}");
}
