//! The Rust client where it is not let in.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use llts::client::{Client, ClientError};

use crate::echo::PATIENCE;
use crate::raw::opening;

/// Without keys, at a controller that wants some: libzmq has given the connection up before the request is made.
#[test]
fn a_client_that_is_refused_hears_of_it_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let client = Client::connect(&endpoint, Duration::from_millis(100)).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut greeting = opening("ROUTER")[..64].to_vec();
    greeting[12..17].copy_from_slice(b"CURVE");
    stream.write_all(&greeting).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It closes when it has taken the connection away from the socket.
    while stream.read(&mut [0; 100]).is_ok_and(|count| count > 0) {}
    let (sender, answer) = mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..2 {
            sender.send(client.statistic()).unwrap();
        }
    });
    for _ in 0..2 {
        let answer = answer.recv_timeout(PATIENCE).expect("an answer in time");
        assert!(matches!(answer, Err(ClientError::NoController { .. })), "{answer:?}");
    }
}
