//! Messages of broken and hostile peers. Beside each of them a good worker works on, and nothing is lost.

use std::time::Duration;

use serde_json::json;

use crate::prompt::peer::Peer;
use crate::prompt::sandbox::{Master as _, Program, Sandbox, Start as _, eventually, started};

/// A master with a good worker that has a prompt.
struct Scene {
    sandbox: Sandbox,
    master: Program,
    good: Peer,
    done: usize,
}

impl Scene {
    fn new(keys: &[(&str, &str)]) -> Self {
        let sandbox = Sandbox::new(&[]);
        let master = sandbox.master(keys);
        let mut good = master.join("good");
        sandbox.write("good-0", b"good");
        good.take();
        Self { sandbox, master, good, done: 0 }
    }

    /// The good worker gets on.
    #[track_caller]
    fn is_well(&mut self) {
        self.done += 1;
        self.sandbox.write(&format!("good-{}", self.done), b"good");
        self.good.done();
        assert!(self.good.take() == "good", "it gets another prompt");
    }

    /// A worker that has a prompt.
    fn busy(&self, file: &str) -> Peer {
        let mut peer = self.master.join("bad");
        self.sandbox.write(file, b"bad");
        assert_eq!(peer.take(), "bad");
        peer
    }

    fn waits_again(&mut self, file: &str) {
        eventually("it waits again", || self.sandbox.names("pending") == [file]);
        std::fs::remove_file(self.sandbox.path("pending").join(file)).unwrap();
    }
}

#[test]
fn what_cannot_be_read_cuts_its_sender_and_its_prompt_waits_again() {
    let mut scene = Scene::new(&[]);
    let long = format!("{{\"type\":\"DONE\",\"msg\":\"{}\"}}", "x".repeat(70_000));
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\xff\xfe\x00",
        b"[1,2]",
        b"{\"type\":\"DONE\",}",
        b"{\"type\":5}",
        b"{\"type\":null,\"msg\":\"\"}",
        b"{}",
        b"{\"type\":\"REQUEST_ACK\",\"req_id\":{}}",
        b"{\"type\":\"CHECK_ACK\"}",
        b"{\"type\":\"DONE",
        b"{\"type\":\"DONE\"\n\"msg\n",
        long.as_bytes(),
    ] {
        let mut peer = scene.busy("bad");
        peer.raw(bytes);
        if bytes == b"{\"type\":\"DONE" {
            peer.finish();
            assert_eq!(peer.until_closed(), None);
        } else {
            assert_eq!(peer.until_closed().unwrap()["type"], "REFUSED", "{bytes:?}");
        }
        scene.waits_again("bad");
        scene.is_well();
    }
}

#[test]
fn messages_without_a_meaning_are_passed_over() {
    let mut scene = Scene::new(&[]);
    let mut peer = scene.master.join("idle");
    for message in [
        json!({ "type": "DONE", "msg": "x" }),
        json!({ "type": "FAILED", "msg": { "a": [1] } }),
        json!({ "type": "USAGE_LIMITED", "retry_after": 5 }),
        json!({ "type": "REQUEST_ACK", "req_id": "unknown" }),
        json!({ "type": "CHECK_ACK", "req_id": 7 }),
        json!({ "type": "PROGRESS", "msg": "half" }),
        json!({ "type": "EXIT" }),
    ] {
        peer.say(&message);
    }
    scene.sandbox.write("a", b"still welcome");
    let request = peer.request();
    // Done before it is acknowledged: that is the DONE of another prompt.
    peer.done();
    peer.acknowledge(&request);
    peer.acknowledge(&request);
    assert_eq!(scene.sandbox.names("done"), [""; 0]);
    peer.done();
    eventually("it is done", || scene.sandbox.names("done") == ["a"]);
    peer.leave();
    scene.is_well();
}

#[test]
fn a_second_join_and_an_id_that_is_taken_harm_nobody() {
    let mut scene = Scene::new(&[]);
    let mut peer = scene.busy("a");
    peer.join("another");
    let mut twin = scene.master.join("good");
    twin.leave();
    peer.done();
    eventually("it is done", || scene.sandbox.names("done") == ["a"]);
    peer.leave();
    scene.is_well();
}

#[test]
fn strangers_are_cut_in_time() {
    let mut scene = Scene::new(&[("JOIN_TIMEOUT", "3000"), ("DISCONNECT_TIMEOUT", "200")]);
    let mut silent = scene.master.connect();
    let mut early = scene.master.connect();
    early.done();
    assert_eq!(early.until_closed().unwrap()["type"], "REFUSED");
    // One byte now and then, and never a whole JOIN.
    let mut slow = scene.master.connect();
    for byte in b"{\"type\":\"JOIN\",\"msg\":\"".iter().chain(std::iter::repeat(&b'x')) {
        if slow.try_raw(&[*byte]).is_err() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert_eq!(silent.until_closed().unwrap()["type"], "REFUSED");
    scene.is_well();
}

#[test]
fn a_worker_that_sends_a_byte_at_a_time_is_cut_by_its_check() {
    let mut scene = Scene::new(&[("TIMER_INTERVAL", "200"), ("REQUEST_TIMEOUT", "5000")]);
    let mut slow = scene.busy("slow");
    slow.raw(b"{\"type\":\"DO");
    // The good one is served while the slow one is in the middle of its word.
    scene.is_well();
    scene.good.leave();
    assert_eq!(slow.until_closed().unwrap()["type"], "CHECK");
    eventually("both wait again", || scene.sandbox.names("pending") == ["good-1", "slow"]);
}

#[test]
fn a_worker_that_never_reads_stops_nobody() {
    let mut scene = Scene::new(&[("REQUEST_TIMEOUT", "3000"), ("DISCONNECT_TIMEOUT", "200")]);
    let mut deaf = scene.master.connect();
    deaf.raw(b"{\"type\":\"JOIN\",\"msg\":\"deaf\"}");
    let status = b"{\"type\":\"STATUS\"}".repeat(100);
    // More than the system holds of a connection.
    let large = vec![b'x'; 12 << 20];
    scene.sandbox.write("large", &large);
    eventually("it has the prompt", || scene.sandbox.path("working/large").exists());
    scene.is_well();
    // It asks and asks, and reads no answer.
    for _ in 0..1000 {
        if deaf.try_raw(&status).is_err() {
            break;
        }
    }
    let mut other = scene.master.join("other");
    assert_eq!(other.take().len(), large.len());
    other.done();
    eventually("it is done", || scene.sandbox.names("done").contains(&"large".to_owned()));
    scene.is_well();
}

#[test]
fn guesses_of_a_secret_keep_no_worker_of_their_address_out() {
    let sandbox = Sandbox::new(&["a"]);
    let hour = "3600000";
    let master =
        sandbox.master(&[("SECRET", "a long and secret word"), ("REFUSAL_PAUSE", hour), ("WORKERS_MAX", "10")]);
    a_worker_gets_in_beside_guessers(&master);
}

/// A right secret is taken beside more guesses than there are sandboxs for; none of those is answered.
fn a_worker_gets_in_beside_guessers(master: &Program) {
    let join = |secret: &str| {
        let mut peer = master.connect();
        // One that was dropped meanwhile cannot be written to.
        let _ = peer.try_raw(
            format!("{}\n", json!({ "type": "JOIN", "msg": "w", "secret": secret, "splits": true })).as_bytes(),
        );
        peer
    };
    let guessers: Vec<Peer> = (0..200).map(|number| join(&number.to_string())).collect();
    let mut worker = join("a long and secret word");
    assert_eq!(worker.next().expect("an answer")["type"], "JOIN_ACK");
    assert_eq!(worker.take(), "do a");
    drop(guessers);
}

#[test]
fn guesses_keep_no_worker_out_of_a_master_that_may_open_few_files() {
    let sandbox = Sandbox::new(&["a"]);
    let keys = [("SECRET", "a long and secret word"), ("REFUSAL_PAUSE", "3600000")];
    let llts = sandbox.command(&["prompt", "master", "0"], &keys);
    let master = started(&mut llts.under(&["sh", "-c", "ulimit -n 100 && exec \"$0\" \"$@\""]));
    a_worker_gets_in_beside_guessers(&master);
}

#[test]
fn a_crowd_of_strangers_is_bounded_and_passes() {
    let mut scene = Scene::new(&[("WORKERS_MAX", "10"), ("JOIN_TIMEOUT", "3000")]);
    let strangers: Vec<Peer> = (0..200).filter_map(|_| Peer::try_connect(scene.master.port()).ok()).collect();
    scene.is_well();
    for mut stranger in strangers {
        stranger.until_closed();
    }
    scene.sandbox.write("last", b"last");
    assert_eq!(scene.master.join("late").take(), "last");
}
