//! A master with keys, workers of another home, and a relay between them that listens in.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::prompt_worker::sandbox::{Program, Sandbox, Start as _, eventually};
use crate::support::LLTS;

const PORT: u16 = 34567;

fn at(port: u16) -> SocketAddr {
    (testkit::own_ip(), port).into()
}

/// Copies bytes between a worker and the master, and keeps those that it has seen.
struct Relay {
    seen: Arc<Mutex<Vec<u8>>>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    fn start() -> Self {
        let listener = TcpListener::bind(at(PORT + 1)).expect("a port of our own");
        let relay = Self { seen: Arc::default(), streams: Arc::default() };
        let (seen, streams) = (relay.seen.clone(), relay.streams.clone());
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let far = TcpStream::connect(at(PORT)).expect("the master");
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
                    let seen = seen.clone();
                    std::thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            seen.lock().expect("bytes").extend_from_slice(&bytes[..count]);
                            if to.write_all(&bytes[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                streams.lock().expect("sockets").extend([near, far]);
            }
        });
        relay
    }

    /// Breaks all connections.
    fn cut(&self) {
        for stream in self.streams.lock().expect("sockets").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn has_seen(&self, text: &str) -> bool {
        self.seen.lock().expect("bytes").windows(text.len()).any(|window| window == text.as_bytes())
    }
}

/// The home of a master that other machines may reach.
fn farm(sandbox: &Sandbox) -> PathBuf {
    let farm = sandbox.path("farm");
    llts(&["init", farm.to_str().expect("text"), "--listen", "0.0.0.0"]);
    farm
}

/// A home as `llts join` leaves it, with a key that the master of `farm` may know or not.
fn joined(sandbox: &Sandbox, name: &str, server_key: &Path) -> (PathBuf, PathBuf) {
    let home = sandbox.path(name);
    fs::create_dir(&home).expect("a folder of ours");
    llts(&["keys", "new", home.join("own.key").to_str().expect("text")]);
    fs::copy(server_key, home.join("server.key.pub")).expect("a key");
    let lines = "CURVE_SECRET_KEY_FILE = \"own.key\"\nCURVE_SERVER_PUBLIC_KEY_FILE = \"server.key.pub\"\n";
    fs::write(home.join("config.toml"), lines).expect("a file of ours");
    (home.clone(), home.join("own.key.pub"))
}

fn llts(words: &[&str]) {
    Command::new(LLTS).args(words).said().ok();
}

fn master(sandbox: &Sandbox, farm: &Path) -> Program {
    fs::create_dir_all(sandbox.path(".tasks/pending")).expect("a folder of ours");
    let home = farm.to_str().expect("text");
    let bind = testkit::own_ip().to_string();
    sandbox.start_with(&[("LLTS_HOME", home), ("LLTS_PROMPT_BIND", &bind)], &["master", &PORT.to_string()])
}

/// `llts prompt VERB` of a home, without the secret.
fn at_home(sandbox: &Sandbox, home: &Path, verb: &str, port: u16, rest: &[&str]) -> Program {
    let (host, port) = (testkit::own_ip().to_string(), port.to_string());
    let environment = [("LLTS_HOME", home.to_str().expect("text")), ("LLTS_PROMPT_SECRET", "")];
    sandbox.start_with(&environment, &[&[verb, &host, &port], rest].concat())
}

#[test]
fn a_worker_of_another_home_has_its_key_and_rejoins_after_a_cut() {
    let sandbox = Sandbox::new();
    let farm = farm(&sandbox);
    let (home, key) = joined(&sandbox, "other", &farm.join("keys/server.key.pub"));
    fs::copy(key, farm.join("keys/authorised/other")).expect("a key");
    let master = master(&sandbox, &farm);
    fs::write(sandbox.path(".tasks/pending/a.txt"), "a secret question").expect("a file of ours");
    eventually("the master", || TcpStream::connect(at(PORT)).is_ok());
    let relay = Relay::start();
    let script = "echo run >>../started; while ! test -e ../go; do sleep 0.05; done; cat";
    let worker = ["--root-dir", "other", "--", "sh", "-c", script];
    let worker = at_home(&sandbox, &home, "worker", PORT + 1, &worker);
    eventually("the run", || sandbox.path("started").exists());
    let status = || at_home(&sandbox, &home, "status", PORT, &["--output", "wire"]).said();
    // A request whose acknowledgement is cut off would be handed out again.
    eventually("the acknowledgement", || status().out.contains("\"state\":\"working\""));
    relay.cut();
    eventually("the worker again", || status().out.contains("\"state\":\"working\""));
    fs::write(sandbox.path("go"), "").expect("a file of ours");
    assert_eq!(worker.said().code, Some(0));
    assert_eq!(master.said().code, Some(0));
    assert_eq!(sandbox.text(".tasks/done/a.txt.out"), "a secret question");
    assert_eq!(sandbox.text("started"), "run\n", "it ran once");
    assert!(relay.has_seen("CURVE") && !relay.has_seen("secret question") && !relay.has_seen("JOIN"));
}

#[test]
fn a_wrong_key_is_refused_with_a_sentence_at_both_ends() {
    let sandbox = Sandbox::new();
    let farm = farm(&sandbox);
    let (stranger, _) = joined(&sandbox, "stranger", &farm.join("keys/server.key.pub"));
    let (lost, key) = joined(&sandbox, "lost", &stranger.join("own.key.pub"));
    fs::copy(key, farm.join("keys/authorised/lost")).expect("a key");
    let master = master(&sandbox, &farm);
    eventually("the master", || TcpStream::connect(at(PORT)).is_ok());
    let refused = |home: &Path| {
        let said = at_home(&sandbox, home, "worker", PORT, &["--", "cat"]).said().ended(4);
        said.err
    };
    let said = refused(&stranger);
    assert!(said.contains("refuses this worker: it does not authorise the public key"), "{said}");
    let said = refused(&lost);
    assert!(said.contains("refuses this worker: its key is not"), "{said}");
    drop(at_home(&sandbox, &farm, "drain", PORT, &[]).said());
    let said = master.said();
    assert!(said.err.contains("is refused: its public key") && said.err.contains("authorises it"), "{said:?}");
}

#[test]
fn a_worker_whose_key_is_removed_says_so_once_and_goes_on_when_it_is_put_back() {
    let sandbox = Sandbox::new();
    let farm = farm(&sandbox);
    let (home, key) = joined(&sandbox, "other", &farm.join("keys/server.key.pub"));
    let authorised = farm.join("keys/authorised/other");
    fs::copy(&key, &authorised).expect("a key");
    let master = master(&sandbox, &farm);
    eventually("the master", || TcpStream::connect(at(PORT)).is_ok());
    let mut worker = at_home(&sandbox, &home, "worker", PORT, &["--root-dir", "other", "--", "cat"]);
    let mut log = BufReader::new(worker.stderr.take().expect("a pipe"));
    let status = || at_home(&sandbox, &farm, "status", PORT, &["--output", "wire"]).said().out;
    eventually("the worker", || status().contains("\"state\":\"idle\""));
    fs::remove_file(&authorised).expect("a key");
    let (mut said, word) =
        (String::new(), "refuses this worker, which it has taken before: it does not authorise the public key");
    while !said.contains(word) {
        assert!(log.read_line(&mut said).expect("text") > 0, "{said}");
    }
    fs::write(sandbox.path(".tasks/pending/a.txt"), "question").expect("a file of ours");
    fs::copy(&key, &authorised).expect("a key");
    log.read_to_string(&mut said).expect("text");
    assert_eq!(worker.said().code, Some(0), "{said}");
    assert_eq!(said.matches(word).count(), 1, "{said}");
    assert_eq!((master.said().code, sandbox.text(".tasks/done/a.txt.out")), (Some(0), "question".to_owned()));
}

#[test]
fn a_worker_without_a_key_still_joins_on_this_machine() {
    let sandbox = Sandbox::new();
    let farm = farm(&sandbox);
    let master = master(&sandbox, &farm);
    fs::write(sandbox.path(".tasks/pending/a.txt"), "question").expect("a file of ours");
    eventually("the master", || TcpStream::connect(at(PORT)).is_ok());
    let (host, port) = (testkit::own_ip().to_string(), PORT.to_string());
    let worker = sandbox.start(&["worker", &host, &port, "--", "cat"]);
    assert_eq!(worker.said().code, Some(0));
    assert_eq!((master.said().code, sandbox.text(".tasks/done/a.txt.out")), (Some(0), "question".to_owned()));
}

#[test]
fn a_home_with_keys_reaches_a_master_without_any_on_this_machine() {
    let sandbox = Sandbox::new();
    let farm = farm(&sandbox);
    let (home, _) = joined(&sandbox, "other", &farm.join("keys/server.key.pub"));
    fs::create_dir_all(sandbox.path(".tasks/pending")).expect("a folder of ours");
    fs::write(sandbox.path(".tasks/pending/a.txt"), "question").expect("a file of ours");
    let bind = testkit::own_ip().to_string();
    let master = sandbox.start_with(&[("LLTS_PROMPT_BIND", &bind), ("LLTS_PROMPT_SECRET", "")], &["master", "34567"]);
    let worker = at_home(&sandbox, &home, "worker", PORT, &["--", "cat"]);
    assert_eq!((worker.said().code, master.said().code), (Some(0), Some(0)));
}
