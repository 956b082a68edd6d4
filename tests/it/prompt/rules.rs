//! The conversation of docs/sources/prompts.md, file by file.

use serde_json::json;

use crate::prompt::sandbox::{Master as _, Sandbox, eventually};

#[test]
fn prompts_are_handed_out_one_at_a_time_and_end_in_their_folders() {
    let sandbox = Sandbox::new(&["a.txt", "b.txt", "c.txt"]);
    let master = sandbox.master(&[]);
    let (mut first, mut second) = (master.join("1"), master.join("2"));
    assert_eq!((first.take(), second.take()), ("do a.txt".to_owned(), "do b.txt".to_owned()));
    assert_eq!(sandbox.counts(), [1, 2, 0, 0]);
    first.done();
    assert_eq!(first.take(), "do c.txt");
    second.failed();
    first.done();
    eventually("all is worked off", || sandbox.counts() == [0, 0, 2, 1]);
    assert_eq!(sandbox.names("failed"), ["b.txt"]);
    assert_eq!(std::fs::read_to_string(sandbox.path("done/a.txt")).unwrap(), "do a.txt");
}

#[test]
fn a_request_holds_what_the_document_says_and_the_name_of_the_file() {
    let sandbox = Sandbox::new(&[]);
    sandbox.write("a.txt", "いろは\n\"}{\\\t\u{1}".as_bytes());
    let master = sandbox.master(&[]);
    let request = master.join("1").request();
    assert_eq!((&request["msg"], &request["file"]), (&json!("いろは\n\"}{\\\t\u{1}"), &json!("a.txt")));
    assert!(request["req_id"].as_str().unwrap().len() >= 32, "{request}");
}

#[test]
fn messages_may_come_in_any_pieces() {
    let sandbox = Sandbox::new(&["a", "b"]);
    let master = sandbox.master(&[]);
    let mut peer = master.connect();
    for byte in b"\n {\"type\":\"JOIN\",\"msg\":\"w\"}" {
        peer.raw(&[*byte]);
    }
    assert_eq!(peer.next().unwrap()["type"], "JOIN_ACK");
    let request = peer.request();
    // No newline between them, and none behind.
    peer.raw(format!("{{\"type\":\"REQUEST_ACK\",\"req_id\":{}}}{{\"type\":\"DONE\"}}", request["req_id"]).as_bytes());
    assert_eq!(peer.take(), "do b");
    assert_eq!(sandbox.names("done"), ["a"]);
}

#[test]
fn a_new_file_is_noticed_at_once_when_it_is_whole() {
    use std::io::Write as _;
    let sandbox = Sandbox::new(&[]);
    let master = sandbox.master(&[]);
    let mut peer = master.join("1");
    let mut slow = std::fs::File::create(sandbox.path("pending/slow")).unwrap();
    slow.write_all(b"half of ").unwrap();
    std::fs::write(sandbox.path("moved.txt"), "moved").unwrap();
    std::fs::rename(sandbox.path("moved.txt"), sandbox.path("pending/moved.txt")).unwrap();
    assert_eq!(peer.take(), "moved");
    peer.done();
    sandbox.write("a.tmp", b"no prompt");
    sandbox.write(".hidden", b"no prompt");
    slow.write_all(b"it").unwrap();
    drop(slow);
    assert_eq!(peer.take(), "half of it");
    sandbox.write("next", b"next");
    peer.done();
    assert_eq!(peer.take(), "next");
}

#[test]
fn what_the_watch_does_not_tell_the_timer_finds() {
    let sandbox = Sandbox::new(&[]);
    let master = sandbox.master(&[("TIMER_INTERVAL", "100")]);
    let mut peer = master.join("1");
    // A link to a file is neither written nor moved.
    std::fs::write(sandbox.path("origin"), "linked").unwrap();
    std::fs::hard_link(sandbox.path("origin"), sandbox.path("pending/linked")).unwrap();
    assert_eq!(peer.take(), "linked");
}

#[test]
fn the_timer_does_not_take_a_file_that_is_still_open_for_writing() {
    use std::io::Write as _;
    let sandbox = Sandbox::new(&[]);
    let master = sandbox.master(&[("TIMER_INTERVAL", "100")]);
    let mut peer = master.join("1");
    let mut slow = std::fs::File::create(sandbox.path("pending/a")).unwrap();
    slow.write_all(b"half of ").unwrap();
    // Found by the timer only, which takes what has not changed for a second: this one after the other, if it took that.
    std::fs::write(sandbox.path("origin"), "linked").unwrap();
    std::fs::hard_link(sandbox.path("origin"), sandbox.path("pending/b")).unwrap();
    assert_eq!(peer.take(), "linked");
    slow.write_all(b"it").unwrap();
    drop(slow);
    peer.done();
    assert_eq!(peer.take(), "half of it");
}

#[test]
fn front_matter_says_order_time_and_repetition() {
    let sandbox = Sandbox::new(&["a"]);
    sandbox.write("b", b"---\npriority: 5\nmax_fails: 1\n---\nurgent\n");
    sandbox.write("c", b"+++\npriority = -1\ntimeout = 0.05\n+++\nshort\n");
    sandbox.write("d", b"---\nNo front matter.\n---\n");
    let master = sandbox.master(&[]);
    let mut peer = master.join("1");
    for text in ["urgent\n", "urgent\n", "do a", "---\nNo front matter.\n---\n"] {
        assert_eq!(peer.take(), text);
        peer.failed();
    }
    let request = peer.request();
    assert_eq!((&request["msg"], &request["timeout"]), (&json!("short\n"), &json!(0.05)));
    peer.acknowledge(&request);
    assert_eq!(peer.until_closed(), None);
    eventually("it has failed", || sandbox.names("failed") == ["a", "b", "c", "d"]);
    let reason = || std::fs::read_to_string(sandbox.path("failed/c.reason"));
    eventually("its reason is told", || reason().is_ok_and(|reason| reason.contains("0.05 s")));
}

#[test]
fn failures_are_counted_on_by_the_next_master() {
    let sandbox = Sandbox::new(&[]);
    sandbox.write("a", b"---\nmax_fails: 1\n---\na");
    let mut master = sandbox.master(&[]);
    let mut peer = master.join("1");
    peer.take();
    peer.failed();
    // Its failure is noted before any worker gets it again.
    peer.request();
    master.kill();
    let master = sandbox.master(&[]);
    let mut peer = master.join("1");
    peer.take();
    peer.failed();
    eventually("it is given up", || sandbox.counts() == [0, 0, 0, 1]);
}

#[test]
fn a_limited_worker_closes_the_gate_of_its_prompt_only() {
    let sandbox = Sandbox::new(&["z"]);
    sandbox.write("a", b"---\ngate: claude\n---\na");
    sandbox.write("b", b"---\ngate: [claude, web]\n---\nb");
    let master = sandbox.master(&[]);
    let mut peer = master.join("1");
    assert_eq!(peer.take(), "a");
    peer.say(&json!({ "type": "USAGE_LIMITED", "msg": "", "retry_after": 0.2 }));
    assert_eq!(peer.take(), "do z");
    peer.done();
    assert_eq!(peer.take(), "b");
    peer.say(&json!({ "type": "USAGE_LIMITED", "msg": "" }));
    peer.until_closed();
    eventually("both wait", || sandbox.counts() == [2, 0, 1, 0]);
}

#[test]
fn the_status_is_told_to_whoever_asks() {
    let sandbox = Sandbox::new(&["a", "b", "c"]);
    let master = sandbox.master(&[]);
    let mut worker = master.join("w1");
    worker.take();
    worker.done();
    worker.take();
    let mut peer = master.connect();
    // Its acknowledgement and our question come over two connections.
    eventually("it works on the second one", || peer.status()["workers"][0]["state"] == "working");
    for _ in 0..2 {
        let status = peer.status();
        assert_eq!(status["type"], "STATUS_ACK");
        let counts = ["pending", "working", "done", "failed"].map(|name| status[name].as_u64().unwrap());
        assert_eq!(counts, [1, 1, 1, 0], "{status}");
        let [one] = status["workers"].as_array().unwrap().as_slice() else { panic!("{status}") };
        assert_eq!((&one["id"], &one["state"], &one["file"]), (&json!("w1"), &json!("working"), &json!("b")));
    }
}

#[test]
fn a_worker_that_answers_its_checks_keeps_its_prompt() {
    let sandbox = Sandbox::new(&["a"]);
    let master = sandbox.master(&[("TIMER_INTERVAL", "20")]);
    let mut peer = master.join("1");
    peer.take();
    for _ in 0..20 {
        let check = peer.next().unwrap();
        assert_eq!(check["type"], "CHECK");
        peer.say(&json!({ "type": "CHECK_ACK", "msg": "", "req_id": check["req_id"] }));
    }
    assert_eq!(sandbox.counts(), [0, 1, 0, 0]);
}

#[test]
fn a_worker_that_is_silent_is_cut_and_its_prompt_goes_on() {
    let sandbox = Sandbox::new(&["a", "b"]);
    let master = sandbox.master(&[("TIMER_INTERVAL", "500"), ("REQUEST_TIMEOUT", "5000")]);
    let (mut silent, mut mute) = (master.join("1"), master.join("2"));
    silent.take();
    // This one does not even acknowledge.
    mute.request();
    silent.until_closed();
    mute.until_closed();
    let mut other = master.join("3");
    for name in ["a", "b"] {
        assert_eq!(other.take(), format!("do {name}"));
        other.done();
    }
    eventually("both are done", || sandbox.names("done") == ["a", "b"]);
}

#[test]
fn a_worker_that_ends_its_half_of_the_connection_has_gone() {
    let sandbox = Sandbox::new(&["a"]);
    let master = sandbox.master(&[]);
    let mut peer = master.join("1");
    peer.take();
    peer.finish();
    peer.until_closed();
    eventually("it waits again", || sandbox.counts() == [1, 0, 0, 0]);
}
