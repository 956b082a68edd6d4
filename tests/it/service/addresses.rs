//! Submitters who name addresses that are dead, silent, unknown, or never stop talking.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};

use serde_json::json;
use testkit::PATIENCE;

use crate::service::sandbox::{Client, Receiver, Sandbox};

/// Addresses of each sort that only wastes time, and of those that talk.
const EACH: usize = 64;
const TALKERS: usize = 8;

#[test]
fn two_hundred_bad_addresses_keep_nobody_from_an_answer() {
    // No agent runs anything: a task that is killed while it waits is pushed as FINISHED.
    let sandbox = Sandbox::start(0, &[]);
    let client = sandbox.client();
    let silent: Vec<TcpListener> = (0..EACH).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let dead = DeadPort::new();
    let (reached, talks) = mpsc::channel();
    let talkers: Vec<String> = (0..TALKERS).map(|_| start_talker(reached.clone())).collect();
    let silent = silent.iter().map(|listener| format!("tcp://{}", listener.local_addr().unwrap()));
    let refused = (1..=EACH).map(|number| format!("tcp://127.98.7.{number}:{}", dead.port));
    let unknown = (1..=EACH).map(|number| format!("tcp://nowhere-{number}.invalid:80"));
    for address in silent.chain(refused).chain(unknown).chain(talkers) {
        push_to(&client, &address);
    }
    for _ in 0..TALKERS {
        talks.recv_timeout(PATIENCE).expect("a talker gets its push");
    }
    for _ in 0..500 {
        assert_eq!(client.code("TASK/STATISTIC", json!({})), 0);
    }
    let receiver = Receiver::bind();
    let task = push_to(&client, &receiver.address);
    assert_eq!(receiver.next()["__TASK_ID__"], task);
}

fn push_to(client: &Client, address: &str) -> String {
    let task = client.submit("nothing", json!({ "__ADDRESS__": address }));
    assert_eq!(client.code("TASK/KILL", json!({ "__TASK_ID__": task })), 0);
    task
}

/// The address of a DEALER that takes one push, says so, and then sends the shortest frames there are until it is cut.
fn start_talker(reached: Sender<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut greeting = [0; 64];
        greeting[0] = 0xff;
        greeting[9] = 0x7f;
        greeting[10] = 3;
        greeting[12..16].copy_from_slice(b"NULL");
        stream.write_all(&greeting).unwrap();
        stream.write_all(b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER").unwrap();
        let mut heard = Vec::new();
        while !String::from_utf8_lossy(&heard).contains("FINISHED") {
            let mut chunk = [0; 4096];
            let count = stream.read(&mut chunk).unwrap();
            assert!(count > 0, "the controller does not understand the talker");
            heard.extend_from_slice(&chunk[..count]);
        }
        reached.send(()).unwrap();
        let talk = b"\0\x01x".repeat(50_000);
        while stream.write_all(&talk).is_ok() {}
    });
    address
}

/// A port without a listener: an accepted connection keeps it after its listener is closed.
struct DeadPort {
    _connection: [TcpStream; 2],
    port: u16,
}

impl DeadPort {
    fn new() -> Self {
        let listener = TcpListener::bind("127.98.7.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let client = TcpStream::connect(local).unwrap();
        let (server, _) = listener.accept().unwrap();
        Self { _connection: [client, server], port: local.port() }
    }
}
