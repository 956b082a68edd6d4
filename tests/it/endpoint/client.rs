//! Clients whose keys do not fit: they are told at once, each what is wrong. And requests that are lost with their connection.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use proc::clock;
use zmtp::engine::{ClientKeys, KeyPair, Security, ServerKeys};
use zmtp::port::Denial;
use zmtp::sockets::{LinkSettings, Outcome, PortSettings, Requester};

use crate::endpoint::echo::{Echo, PATIENCE, settings};

fn pair(seed: u8) -> KeyPair {
    KeyPair::from_bytes([seed; 32])
}

fn client(seed: u8, server: u8) -> Security {
    Security::CurveClient(Arc::new(ClientKeys { pair: pair(seed), server: pair(server).public() }))
}

/// The outcome of a request.
fn ask(echo: &Echo, security: Security) -> Outcome {
    let settings =
        LinkSettings { limits: settings().limits, security, reconnect_interval_max: Duration::from_millis(100) };
    let mut requester = Requester::connect(&echo.requests, settings).unwrap();
    requester.exchange(b"x".to_vec(), clock::now().mono + PATIENCE, None)
}

/// The first connection ends with the request, as with a controller that is started anew. The wait for an answer goes on with the
/// next connection, and does not last until its deadline.
#[test]
fn a_request_that_may_be_repeated_is_sent_again_on_the_next_connection() {
    let echo = Echo::start(&settings());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let address = echo.address().to_owned();
    let relay = thread::spawn(move || {
        for is_last in [false, true] {
            let (near, far) = (listener.accept().unwrap().0, TcpStream::connect(&address).unwrap());
            let (mut answers, mut back) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            let backward = thread::spawn(move || io::copy(&mut answers, &mut back));
            pass_on(near, far, is_last);
            let _ = backward.join();
        }
    });
    let limits = settings().limits;
    let settings =
        LinkSettings { limits, security: Security::Null, reconnect_interval_max: Duration::from_millis(100) };
    let mut requester = Requester::connect(&endpoint, settings).unwrap();
    let outcome = requester.exchange_repeatable(MARK.to_vec(), clock::now().mono + PATIENCE, None);
    assert_eq!(outcome, Outcome::Answer(vec![MARK.to_vec()]));
    drop(requester);
    relay.join().unwrap();
}

/// The request.
const MARK: &[u8] = b"a request that is lost once";

/// Passes bytes on until the connection ends, or, unless it is the last one, until the request is there, which is lost.
fn pass_on(mut near: TcpStream, mut far: TcpStream, is_last: bool) {
    let (mut seen, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = near.read(&mut chunk).unwrap_or_default();
        seen.extend_from_slice(&chunk[..count]);
        let is_there = seen.windows(MARK.len()).any(|bytes| bytes == MARK);
        if count == 0 || is_there && !is_last || far.write_all(&chunk[..count]).is_err() {
            let _ = (near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both));
            return;
        }
    }
}

#[test]
fn each_mistake_with_keys_has_its_answer() {
    let plain = Echo::start(&settings());
    let authorised = [pair(2).public()].into_iter().collect();
    let keys = Arc::new(ServerKeys { pair: pair(1), authorised, commanders: [].into() });
    let secured = Echo::start(&PortSettings { security: Security::CurveServer(keys), ..settings() });
    let answer = Outcome::Answer(vec![b"x".to_vec()]);
    assert_eq!((ask(&plain, Security::Null), ask(&secured, client(2, 1))), (answer.clone(), answer));
    assert_eq!(ask(&secured, Security::Null), Outcome::Denied(Denial::KeyMissing));
    assert_eq!(ask(&plain, client(2, 1)), Outcome::Denied(Denial::KeyUnused));
    assert_eq!(ask(&secured, client(3, 1)), Outcome::Denied(Denial::KeyRefused(pair(3).public())));
    assert_eq!(ask(&secured, client(2, 4)), Outcome::Denied(Denial::OtherController(pair(4).public())));
}
